use super::*;
use crate::export::folded::to_text;
use std::path::PathBuf;

fn fold(text: &str, opts: &CollapseOpts) -> String {
    to_text(&read(text.as_bytes(), opts).tree)
}

/// The folder of recorded profiles, if it is there.
fn fixtures() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = std::env::var_os("TALLY_FIXTURES").map_or(beside, PathBuf::from).join("folded");
    folder.is_dir().then_some(folder)
}

/// Older collapsers kept the `L` before Java classes in two modes; either form is right.
fn without_java_l(folded: &str) -> Vec<String> {
    let mut lines: Vec<String> = folded.lines().map(|line| line.replace(";L", ";")).collect();
    lines.sort();
    lines
}

#[test]
fn every_sample_text_folds_to_its_published_result_in_every_mode() {
    let Some(folder) = fixtures() else { return eprintln!("skipped: no fixtures folder") };
    let expected = std::fs::read_to_string(folder.join("expected.json")).expect("expected.json");
    let expected: serde_json::Value = serde_json::from_str(&expected).expect("JSON");
    let mut compared = 0;
    for (input, entry) in expected["inputs"].as_object().expect("inputs") {
        let text = std::fs::read(folder.join(format!("{input}.txt"))).expect("input");
        for (mode, result) in entry["results"].as_object().expect("results") {
            let stacks = read(&text, &mode_opts(mode));
            let want =
                std::fs::read_to_string(folder.join(result["file"].as_str().expect("file"))).expect("result");
            let got = to_text(&stacks.tree);
            if result["reproduced_by_script_of_same_commit"] == true {
                assert_eq!(got, want, "{input} {mode}");
            } else {
                assert_eq!(without_java_l(&got), without_java_l(&want), "{input} {mode}");
            }
            let sum: u64 = stacks.tree.totals()[0].0;
            assert_eq!(Some(sum), result["sum_of_counts"].as_u64(), "{input} {mode}");
            compared += 1;
        }
    }
    assert_eq!(compared, 36);
}

fn mode_opts(mode: &str) -> CollapseOpts {
    let is = |name: &str| mode == name || (mode == "all" && matches!(name, "kernel" | "jit"));
    CollapseOpts {
        pid: is("pid"),
        tid: is("tid"),
        kernel: is("kernel"),
        jit: is("jit"),
        addrs: is("addrs"),
        event: None,
    }
}

#[test]
fn headers_of_all_ages_are_understood() {
    let parts = |line| parse_header(line).map(|h| (h.comm, h.id, h.thread, h.period, h.event));
    assert_eq!(
        parts("V8 WorkerThread 24636/25607 [000] 94564.109216: 100 cycles:u: "),
        Some(("V8 WorkerThread", "24636", Some("25607"), Some(100), Some("cycles:u")))
    );
    assert_eq!(parts("a 12 3.5: x: "), Some(("a", "12", None, None, Some("x"))));
    assert_eq!(parts("app 7 cpu-clock:"), Some(("app", "7", None, None, Some("cpu-clock"))));
    assert_eq!(parts("no number here"), None);
}

#[test]
fn a_sample_without_callchain_is_one_frame() {
    let text = "  ls  9 [000] 1.5:  250 cpu-clock:pppH:  ffff81 halt+0xe ([kernel.kallsyms])\n";
    assert_eq!(fold(text, &CollapseOpts { kernel: true, ..Default::default() }), "ls;halt_[k] 250\n");
}

#[test]
fn a_stack_without_its_empty_line_is_left_out_and_told() {
    let text = "a 1 1.0: c:\n\t1 f (/b)\n\na 1 1.1: c:\n\t2 g (/b)\n";
    let stacks = read(text.as_bytes(), &CollapseOpts::default());
    assert_eq!(to_text(&stacks.tree), "a;f 1\n");
    assert!(stacks.notes.cut_off);
}

#[test]
fn other_events_are_counted_and_can_be_chosen() {
    let text = "a 1 1.0: x:\n\t1 f (/b)\n\na 1 1.1: y:\n\t2 g (/b)\n\n";
    let stacks = read(text.as_bytes(), &CollapseOpts::default());
    assert_eq!(stacks.notes.other_events, [("y".to_owned(), 1)]);
    assert_eq!(fold(text, &CollapseOpts { event: Some("y".to_owned()), ..Default::default() }), "a;g 1\n");
}

#[test]
fn parameters_go_and_go_receivers_stay() {
    let name = |function| Reader::new(&CollapseOpts::default()).tidy(function);
    assert_eq!(name("ns::(anonymous namespace)::f(int, char)"), "ns::(anonymous namespace)::f");
    assert_eq!(name("net/http.(*Client).Do"), "net/http.(*Client).Do");
}
