use super::*;

fn reply(line: &str) -> Value {
    match handle(line.as_bytes(), RunRights::ReadOnly) {
        McpStep::Reply(text) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("no reply: {other:?}"),
    }
}

fn called(name: &str, arguments: Value, rights: RunRights) -> Result<ToolCall, arguments::BadParams> {
    let params = json!({ "name": name, "arguments": arguments });
    ToolCall::of_params(&params, rights)
}

#[test]
fn a_client_is_welcomed_with_its_version() {
    let hello =
        reply(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#);
    assert_eq!(hello["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(hello["result"]["serverInfo"]["name"], "tally");
    let newer = reply(
        r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2030-01-01"}}"#,
    );
    assert_eq!(
        (newer["id"].as_str(), newer["result"]["protocolVersion"].as_str()),
        (Some("a"), Some(VERSIONS[0]))
    );
    assert_eq!(reply(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)["result"], json!({}));
    let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(handle(note, RunRights::ReadOnly), McpStep::Silence);
}

#[test]
fn malformed_messages_get_typed_errors() {
    let code = |line: &str| reply(line)["error"]["code"].as_i64();
    assert_eq!(code("{"), Some(-32700));
    assert_eq!(code(""), Some(-32700));
    assert_eq!(code(&"[".repeat(10_000)), Some(-32700));
    assert_eq!(code("[]"), Some(-32600));
    assert_eq!(code(r#"{"id":1,"method":"ping"}"#), Some(-32600));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#), Some(-32600));
    assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#), Some(-32601));
    let unknown = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
    assert_eq!(code(unknown), Some(-32602));
}

#[test]
fn recording_is_offered_only_with_the_right_to_run() {
    let names = |rights| -> Vec<String> {
        tools::list(rights).iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(RunRights::MayRun).len(), 10);
    assert!(!names(RunRights::ReadOnly).contains(&"record".to_owned()));
    let command = json!({ "command": ["true"] });
    assert!(called("record", command.clone(), RunRights::ReadOnly).is_err());
    let call = called("record", command, RunRights::MayRun).expect("a call");
    assert_eq!(call.words, ["run", "--output=perf.data", "--", "true"]);
    assert_eq!((call.writes.as_deref(), call.reads.len(), call.seconds), (Some("perf.data"), 0, 10));
}

#[test]
fn wrong_arguments_are_refused_with_the_reason() {
    let why =
        |name: &str, arguments: Value| called(name, arguments, RunRights::MayRun).expect_err("refused").0;
    assert_eq!(why("annotate", json!({})), "function is needed");
    assert_eq!(why("why", json!({ "finding": 0 })), "finding must be a whole number from 1 to 100");
    assert_eq!(why("verdict", json!({ "file": "x" })), "no argument file: there are recording, max_tokens");
    assert_eq!(why("record", json!({ "command": ["a"], "pid": 1 })), "give either command or pid");
    assert_eq!(
        why("record", json!({ "command": ["a"], "recording": "main.rs" })),
        "the name of a new recording must end in .data"
    );
    assert_eq!(why("diff", json!({ "before": "a,b" })), "'a,b' is not the name of a recording");
}

#[test]
fn arguments_never_become_options() {
    let call = called(
        "annotate",
        json!({ "function": "--objdump=/bin/sh", "recording": "-x" }),
        RunRights::ReadOnly,
    );
    let words = call.expect("a call").words;
    assert_eq!(words[2..], ["--input=-x", "--symbol=--objdump=/bin/sh"]);
    let call = called("diff", json!({ "before": "--html=x" }), RunRights::ReadOnly).expect("a call");
    assert_eq!(call.words[call.words.len() - 3..], ["--", "--html=x", "perf.data"]);
}

#[test]
fn long_answers_name_the_lines_left_out() {
    let text = (0..1000).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let cut = cut_to_budget(&text, 100);
    assert!(cut.chars().count() <= 400, "{}", cut.len());
    assert!(cut.ends_with("of 1000 lines left out; max_tokens: 200 shows more]"), "{cut}");
    assert_eq!(cut_to_budget("short", 100), "short");
}

#[test]
fn trees_and_callers_are_drawn_in_percent() {
    let folded = "app;main;parse;hash 60\napp;main;parse 10\napp;main;print;hash 20\napp;main;print 10\n";
    let output = CommandOutput { stdout: folded.to_owned(), status: Some(0), ..CommandOutput::default() };
    let text = |name: &str, arguments: Value| {
        let call = called(name, arguments, RunRights::ReadOnly).expect("a call");
        match answer(&call, &output) {
            ToolResult::Answer(text) => text,
            ToolResult::Failed(why) => panic!("{why}"),
        }
    };
    let tree = text("tree", json!({}));
    let expected = "total    own  function\n100.0    0.0  app > main\n 70.0   10.0    parse\n 60.0   60.0      hash\n\
                    \x2030.0   10.0    print\n 20.0   20.0      hash\n\
                    next: annotate {\"function\":\"hash\"} (the lines or instructions that take the time)";
    assert_eq!(tree, expected);
    let callers = text("callers", json!({ "function": "hash" }));
    assert!(callers.starts_with("hash: 80.0 % of all\n"), "{callers}");
    assert!(callers.contains("\n 75.0   75.0    parse > main\n"), "{callers}");
}

#[test]
fn functions_whose_time_is_in_the_kernel_are_asked_for_their_callers() {
    let folded = "app;main;copy;write;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_write_[k] 90\n\
                  app;main;copy;write;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];fget_[k] 4\n\
                  app;main;sum 6\n";
    let output = CommandOutput { stdout: folded.to_owned(), status: Some(0), ..CommandOutput::default() };
    let call = called("tree", json!({}), RunRights::ReadOnly).expect("a call");
    let ToolResult::Answer(tree) = answer(&call, &output) else { panic!("failed") };
    let expected = "total    own  function\n100.0    0.0  app > main\n 94.0    0.0    copy > write\n\
                    \x2090.0   90.0      ksys_write\n  6.0    6.0    sum\n\
                    next: callers {\"function\":\"write\"} (who makes these system calls)";
    assert_eq!(tree, expected);
}

#[test]
fn the_wall_clock_is_shortened_by_section_without_the_frames_that_begin_stacks() {
    let rows = (0..9).map(|n| format!("  {n} ms  app {n}\n")).collect::<String>();
    let text = format!(
        "WALL CLOCK   1 s\n  on CPU 3 %\n\nTHREADS      shares\n    total  thread\n{rows}\n\
         RUN QUEUE    how long\n  2 ms\n\n\
         LONGEST WAITS\n  5 ms  read < main < __libc_start_call_main < __libc_start_main < _start  for x\n"
    );
    let output = CommandOutput { stdout: text, status: Some(0), ..CommandOutput::default() };
    let call = called("waits", json!({}), RunRights::ReadOnly).expect("a call");
    let ToolResult::Answer(text) = answer(&call, &output) else { panic!("failed") };
    assert!(
        text.contains("app 5\n    [3 more]\n\nLONGEST WAITS\n  5 ms  read < main  for x\nnext:"),
        "{text}"
    );
    assert!(!text.contains("RUN QUEUE"), "{text}");
}

#[test]
fn findings_come_with_stack_and_next_call() {
    let json = r#"{"command":"./app","findings":[{"claim":"CPU bound in fill()","detail":"98 % running","fix":"",
        "stacks":[{"stack":"fill < main","share":0.98,"of":"running time"}]}],"no_verdict":null}"#;
    let output = CommandOutput { stdout: json.to_owned(), status: Some(0), ..CommandOutput::default() };
    let call = called("verdict", json!({ "recording": "a.data" }), RunRights::ReadOnly).expect("a call");
    let ToolResult::Answer(text) = answer(&call, &output) else { panic!("failed") };
    assert_eq!(
        text,
        "./app\n1. CPU bound in fill()\n   98 % running\n   98 % of running time: fill < main\n\
         next: why {\"finding\":1,\"recording\":\"a.data\"} (evidence of the first finding)"
    );
    let failed = CommandOutput {
        stderr: "tally: can't open\n".to_owned(),
        status: Some(1),
        ..CommandOutput::default()
    };
    assert_eq!(answer(&call, &failed), ToolResult::Failed("tally: can't open".to_owned()));
}
