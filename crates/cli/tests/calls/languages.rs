//! Programs in Go and Rust that count their own calls.

use super::uprobes::record_by_uprobes;
use super::{counted, counts_of_program, counts_of_report, report_of, root, tally};
use std::path::PathBuf;
use std::process::Command;

/// Built by a command that the path goes to last but for the source; `None` (and reported) where that is not possible.
fn build(command: &mut Command, source: &str, name: &str) -> Option<PathBuf> {
    let dir = root().join("target/tmp/calls");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let program = dir.join(name);
    let built = command.arg("-o").arg(&program).arg(root().join("tests/programs").join(source)).output();
    let is_built = built.is_ok_and(|output| output.status.success());
    if !is_built {
        println!("skipped: no {} that builds {source}", command.get_program().display());
    }
    is_built.then_some(program)
}

fn record_goroutines(options: &[&str]) -> Option<String> {
    let program = build(Command::new("go").arg("build"), "goroutines.go", "goroutines")?;
    let folder = program.with_extension("calls");
    let notes = record_by_uprobes(&[options, &["-P", "main.*"]].concat(), &program, &folder)?;
    let text = report_of(&folder);
    let wanted = counts_of_program(&notes);
    let mut got = counts_of_report(&text);
    got.retain(|function, _| wanted.contains_key(function));
    assert_eq!(got, wanted, "{options:?}:\n{text}");
    assert!(!text.contains("not seen") && !text.contains("left by"), "{options:?}:\n{text}");
    Some(text)
}

/// Goroutines take turns in a thread, go on in others, and their stacks move: each call ends where it does.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn calls_of_goroutines_are_matched_whichever_thread_they_go_on_in() {
    for options in [["--counts"], ["--entries"]] {
        if record_goroutines(&options).is_none() {
            return;
        }
    }
    // All eight sleep at once in few threads: each is seen to have slept as long as it did.
    let Some(text) = record_goroutines(&[]) else { return };
    let nap = text.lines().find(|line| line.ends_with(" main.nap")).expect("it was called");
    let cells: Vec<&str> = nap.split_whitespace().collect();
    let min_ms: f64 = cells[7].parse().expect("the least");
    assert!(cells[8] == "ms" && (20.0..200.0).contains(&min_ms), "{text}");
}

/// rustc's own ways of instrumenting, with panics that are caught and some that end a thread.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn panics_through_traced_functions_of_rust_leave_all_counts_right() {
    for way in ["instrument-mcount", "instrument-xray=always"] {
        for level in ["0", "2"] {
            let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
            rustc.env("RUSTC_BOOTSTRAP", "1").args(["-g", "--edition", "2021", "-Z", way]);
            rustc.args(["-C", &format!("opt-level={level}")]);
            let Some(program) = build(&mut rustc, "panics.rs", &format!("panics-{way}-{level}")) else {
                continue;
            };
            let (folder, options) = (program.with_extension("calls"), ["--no-libcall", "-P", "panics::*"]);
            let mut command = tally();
            command.args(["calls", "record", "-o"]).arg(&folder).args(options).arg("--").arg(&program);
            let (wanted, mut got, text) = counted(&program, &mut command);
            got.retain(|function, _| wanted.contains_key(function));
            assert_eq!(got, wanted, "{way} {level}:\n{text}");
            assert!(text.contains("left by") && !text.contains("still open"), "{way} {level}:\n{text}");
        }
    }
}
