//! Overhead of recording: reported before and after, and true.

use super::{build, tally};
use std::path::Path;
use std::process::{Command, Output};

const CALLS: &str = "1000000";
const ROUNDS: f64 = 5.0;

/// The number before `words` in the first line that has them.
fn number_before(text: &str, words: &str) -> Option<f64> {
    let before = text.lines().find_map(|line| line.split_once(words))?.0;
    before.split_whitespace().last()?.replace(',', "").parse().ok()
}

fn record(program: &Path, option: Option<&str>) -> Output {
    let mut command = tally();
    command.args(["calls", "record", "--no-libcall", "-o"]).arg(program.with_extension("calls")).args(option);
    command.arg(program).arg(CALLS).output().expect("tally starts")
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn what_a_call_costs_is_told_before_and_after_and_is_what_the_program_finds() {
    for (way, flag) in [("pg", "-pg"), ("patchable", "-fpatchable-function-entry=5")] {
        let Some(program) = build("call-cost.c", &format!("price-{way}"), "gcc", &["-O2", flag]) else {
            return;
        };
        let alone = Command::new(&program).arg(CALLS).output().expect("it starts");
        let ran = record(&program, None);
        let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
        let (before, after) = notes.split_once(" calls in ").unwrap_or_else(|| panic!("{notes}"));
        let ns = |output: &Output| number_before(&String::from_utf8_lossy(&output.stdout), " ns per call");
        let took = ns(&ran).expect("a time") - ns(&alone).expect("a time");
        for messages in [number_before(before, " ns and 8 bytes"), number_before(after, " ns are ")] {
            let messages = messages.unwrap_or_else(|| panic!("no cost in {notes}"));
            // The machine may be busy, and is not always equally fast.
            assert!(
                messages > took / 3.0 && messages < took * 3.0,
                "{way}: {messages} messages, {took} ns taken:\n{notes}"
            );
        }
        let calls = number_before(after, " calls at about").unwrap_or_default();
        assert!((calls - CALLS.parse::<f64>().unwrap_or(0.0) * ROUNDS).abs() < 10.0, "{notes}");
        let info = tally().args(["calls", "info", "-i"]).arg(program.with_extension("calls")).output();
        assert!(String::from_utf8_lossy(&info.expect("tally starts").stdout).contains("\ncost       "));
        assert_eq!(String::from_utf8_lossy(&record(&program, Some("-q")).stderr), "", "-q prints nothing");
    }
}
