//! `tally mcp`, asked by a scripted client.

use super::TALLY;
use record::scratch::ScratchFolder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Calls that an assistant needs at most to find a culprit, and tokens of all answers.
const MOST_CALLS: usize = 4;
const MOST_TOKENS: usize = 6000;

/// A client with its server.
struct Client {
    server: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    tokens: usize,
}

impl Client {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(TALLY);
        command.arg("mcp").args(flags).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("tally runs");
        let (to, from) = (server.stdin.take(), server.stdout.take().expect("its output"));
        Self { server, to, from: BufReader::new(from), tokens: 0 }
    }

    /// The reply to a line.
    fn line(&mut self, line: &str) -> Value {
        let to = self.to.as_mut().expect("its input");
        writeln!(to, "{line}").expect("it reads");
        let mut reply = String::new();
        self.from.read_line(&mut reply).expect("it answers");
        serde_json::from_str(&reply).expect("JSON")
    }

    /// The text that a tool answers, and whether it failed.
    fn call(&mut self, name: &str, arguments: &Value) -> (String, bool) {
        let params = json!({ "name": name, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let reply = self.line(&request.to_string());
        let result = &reply["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no answer: {reply}"));
        self.tokens += text.chars().count() / 4;
        (text.to_owned(), result["isError"] == true)
    }

    fn end(mut self) -> Option<i32> {
        self.to = None;
        self.server.wait().expect("it ends").code()
    }
}

/// The call that an answer ends with.
fn next_of(answer: &str) -> Option<(String, Value)> {
    let next = answer.lines().last()?.strip_prefix("next: ")?;
    let (name, rest) = next.split_once(' ')?;
    let arguments = rest.rsplit_once(" (")?.0;
    Some((name.to_owned(), serde_json::from_str(arguments).ok()?))
}

#[test]
fn a_client_lists_tools_asks_and_is_told_what_is_wrong() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut client = Client::start(&folder, &[]);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    assert_eq!(client.line(hello)["result"]["serverInfo"]["name"], "tally");
    assert_eq!(client.line("{nonsense")["error"]["code"], -32700);
    let tools = client.line(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(9));
    let (tree, failed) = client.call("tree", &json!({ "recording": "chains.data" }));
    assert!(!failed && tree.starts_with("total    own  function\n"), "{tree}");
    assert!(next_of(&tree).is_some(), "{tree}");
    let (short, _) = client.call("waits", &json!({ "recording": "switches.data", "max_tokens": 100 }));
    assert!(short.chars().count() <= 400, "{short}");
    let (why, failed) = client.call("verdict", &json!({ "recording": "none.data" }));
    assert!(failed && why.contains("can't open none.data"), "{why}");
    let (why, failed) = client.call("verdict", &json!({ "recording": "../golden/timeline/wait.data" }));
    assert!(failed && why.contains("--allow-any-path"), "{why}");
    assert_eq!(client.end(), Some(0));
}

/// A test program with its options for the compiler, its arguments, and a word that names the culprit.
type Culprit = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// Programs of one thread, or of threads that compute.
const RUNNING: [Culprit; 9] = [
    ("knapsack.c", &["-DOLD"], &["200"], "fill"),
    ("faults.c", &[], &["20"], "touch"),
    ("disk.c", &[], &[], "pread"),
    ("forks.c", &[], &["500"], "short_life"),
    ("mmaps.c", &[], &[], "map_and_sum"),
    ("rand.c", &[], &["4"], "rand ← draw"),
    ("list.c", &[], &[], "walk"),
    ("storms.cpp", &["-fno-inline"], &["20000000"], "middle"),
    ("strands.cpp", &[], &["5000"], "thrower"),
];

/// Programs that wait.
const WAITING: [Culprit; 14] = [
    ("convoy.c", &[], &["4", "200"], "taken in work"),
    ("chain.c", &[], &[], "crunch"),
    ("split.c", &[], &["1"], "wait_for_lock"),
    ("pool.c", &[], &[], "job"),
    ("loops.c", &[], &["both"], "← fetch"),
    ("requests.c", &[], &["20"], "compute() (requests.c:"),
    ("requests.c", &[], &["40", "l"], "← hold ←"),
    ("requests.c", &[], &["40", "p"], "← answers"),
    ("file_lock.c", &[], &["one.lock"], "waits for the lock of "),
    ("lock_table.c", &[], &["16", "1000", "2"], "lock_wait"),
    ("waits.c", &[], &["1"], "helper_nap"),
    ("server.c", &[], &[], "epoll_wait ← serve"),
    ("spans.c", &[], &[], "nap"),
    ("nagle.c", &[], &["60"], "send_message"),
];

/// Python programs that poll, and the function that does.
const SCRIPTS: [(&str, &str, &str); 2] = [
    (
        "poll_until_done.py",
        "import time\ndef poll_until_done():\n    n = 0\n    while n < 150:\n        n += 1\n        time.sleep(0.01)\n\
         poll_until_done()\n",
        "poll_until_done (",
    ),
    (
        "wait_for_job.py",
        "import threading, time\ndone = []\ndef job():\n    time.sleep(2)\n    done.append(1)\n\
         def wait_for_job():\n    while not done:\n        time.sleep(0.001)\n\
         threading.Thread(target=job).start()\nwait_for_job()\n",
        "wait_for_job (",
    ),
];

/// Follows next calls until the culprit is named; false if nothing can be recorded here.
fn finds(folder: &Path, command: &[String], culprit: &str) -> bool {
    let mut client = Client::start(folder, &["--allow-run"]);
    let mut call = ("record".to_owned(), json!({ "command": command, "seconds": 20 }));
    let mut read = String::new();
    let mut calls = 0;
    while calls < MOST_CALLS && !read.contains(culprit) {
        let (answer, failed) = client.call(&call.0, &call.1);
        if failed && calls == 0 {
            println!("skipped: can't record: {answer}");
            return false;
        }
        assert!(!failed, "{command:?}: {call:?}: {answer}");
        (calls, read) = (calls + 1, read + &answer + "\n");
        call = next_of(&answer).unwrap_or_else(|| panic!("{command:?}: no next call: {answer}"));
    }
    assert!(read.contains(culprit), "{command:?}: no {culprit} in {calls} calls:\n{read}");
    println!("{command:?}: {calls} calls, {} tokens", client.tokens);
    assert!(client.tokens <= MOST_TOKENS, "{command:?}: {} tokens", client.tokens);
    assert_eq!(client.end(), Some(0));
    true
}

#[test]
#[ignore = "live: records on this machine"]
fn a_client_finds_the_function_that_polls_in_python() {
    let folder = ScratchFolder::private("mcp-python").expect("a folder");
    let folder = folder.path();
    for (name, text, culprit) in SCRIPTS {
        std::fs::write(folder.join(name), text).expect("is written");
        // The interpreter itself: pyenv's `python3` is a script that starts forty other programs first.
        let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let python = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
        let Ok(python) = python else { return println!("skipped: no python3") };
        if !finds(folder, &[python, name.to_owned()], culprit) {
            return println!("skipped: nothing recorded");
        }
    }
}

/// Compiles a test program; `None` where that isn't possible.
fn built(folder: &Path, source: &str, flags: &[&str]) -> Option<String> {
    let (name, kind) = source.split_once('.')?;
    let compiler = if kind == "cpp" { "g++" } else { "gcc" };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut command = Command::new(compiler);
    command.args(["-g", "-O2", "-pthread", "-o", name]).args(flags).arg(source).current_dir(folder);
    let works = command.status().is_ok_and(|status| status.success());
    if !works {
        println!("skipped: no working {compiler}");
    }
    works.then(|| format!("./{name}"))
}

fn finds_all(programs: &[Culprit]) {
    let folder = ScratchFolder::private("mcp").expect("a folder");
    let folder = folder.path();
    for (source, flags, words, culprit) in programs {
        let Some(program) = built(folder, source, flags) else { continue };
        let words = words.iter().map(|word| (*word).to_owned());
        let command: Vec<String> = std::iter::once(program).chain(words).collect();
        if !finds(folder, &command, culprit) {
            return;
        }
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn a_client_that_follows_next_calls_finds_the_culprit_of_programs_that_run() {
    finds_all(&RUNNING);
}

#[test]
#[ignore = "live: records on this machine"]
fn a_client_that_follows_next_calls_finds_the_culprit_of_programs_that_wait() {
    finds_all(&WAITING);
}

#[test]
#[ignore = "live: records on this machine"]
fn a_client_finds_the_mutex_that_goroutines_wait_for() {
    let folder = ScratchFolder::private("mcp-go").expect("a folder");
    let folder = folder.path();
    if !super::go::builds_waits(folder, "") {
        return;
    }
    finds(folder, &["./waits", "6", "40"].map(str::to_owned), "main.locked (waits.go:");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_client_finds_the_server_that_its_program_waits_for() {
    let folder = ScratchFolder::private("mcp-peer").expect("a folder");
    let folder = folder.path();
    let Some(loops) = built(folder, "loops.c", &[]) else { return };
    let mut server = Command::new(&loops);
    let server = server.args(["serve", "one.sock"]).current_dir(folder).stdout(Stdio::null()).spawn();
    let mut server = server.expect("it starts");
    while !folder.join("one.sock").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let command = [loops, "ask".to_owned(), "one.sock".to_owned()];
    let was_found = finds(folder, &command, &format!("loops {}", server.id()));
    // It ends with its client.
    if !was_found {
        server.kill().expect("it is ended");
    }
    server.wait().expect("it ends");
}
