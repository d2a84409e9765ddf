//! Code whose file differs from what ran: made at run time and listed in a jitdump, or rewritten in place. What
//! is described is decoded and named, the rest is a gap with its reason; no list of calls holds what did not happen.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Stepped {
    data: PathBuf,
    /// Calls and returns as they happened, all of one thread.
    truth: Vec<String>,
    printed: String,
}

/// Builds a program of tests/programs and steps it, in a folder of this name; `None`, with a note, where that is impossible.
fn stepped(folder: &str, name: &str, args: &[&str]) -> Option<Stepped> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf();
    let dir = root.join("target/tmp/pt-code").join(folder);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("target is writable");
    let (program, data) = (dir.join(name), dir.join("perf.data"));
    let source = root.join("tests/programs").join(name).with_extension("c");
    let built = Command::new("gcc").args(["-O2", "-g", "-o"]).arg(&program).arg(source).output();
    if !built.is_ok_and(|built| built.status.success()) {
        println!("skipped: gcc can't build {name}.c");
        return None;
    }
    let stepper = Path::new(env!("CARGO_BIN_EXE_tally")).with_file_name("examples").join("pt_step");
    let truth = dir.join("truth");
    let mut command = Command::new(stepper);
    command.args(["--psb", "256", "-o"]).arg(&data).arg("--truth").arg(&truth).arg("--").arg(&program);
    let output = command.args(args).current_dir(&dir).output().ok().filter(|output| output.status.success());
    let Some(output) = output else {
        println!(
            "skipped: the stepper is not built (cargo build -p record --example pt_step), or can't step here"
        );
        return None;
    };
    let truth = calls_and_returns(&std::fs::read_to_string(truth).expect("the stepper wrote it"));
    Some(Stepped { data, truth, printed: String::from_utf8_lossy(&output.stdout).into_owned() })
}

fn calls_and_returns(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [_, _, kind @ ("call" | "return"), from, to] => Some(format!("{kind} {from} {to}")),
        _ => None,
    });
    lines.collect()
}

fn tally(what: &str, data: &Path) -> String {
    let mut tally = Command::new(env!("CARGO_BIN_EXE_tally"));
    let output: Output = tally.args(["calls", what, "-i"]).arg(data).output().expect("tally starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether the table counts what the program counted itself.
fn assert_counts(table: &str, printed: &str) {
    for (name, count) in printed.lines().filter_map(|line| line.split_once(' ')) {
        let row = table.lines().find(|line| line.split_whitespace().last() == Some(name));
        let row = row.unwrap_or_else(|| panic!("no row of {name}:\n{table}"));
        assert!(row.split_whitespace().any(|word| word == count), "{name} was called {count} times: {row}");
    }
}

#[test]
#[ignore = "live: records on this machine"]
fn code_that_a_jitdump_tells_of_is_decoded_and_named_also_where_it_took_others_place() {
    let Some(run) = stepped("told", "jit", &["50"]) else { return };
    assert!(run.truth.len() > 500);
    assert!(calls_and_returns(&tally("branches", &run.data)) == run.truth);
    let table = tally("report", &run.data);
    assert_counts(&table, &run.printed);
    assert!(!table.contains("holes"), "{table}");
}

#[test]
#[ignore = "live: records on this machine"]
fn code_made_at_run_time_that_nothing_tells_of_is_a_gap() {
    let Some(run) = stepped("untold", "jit", &["50"]) else { return };
    std::fs::remove_dir_all(run.data.with_extension("jit")).expect("the stepper's copy of the dump");
    let got = calls_and_returns(&tally("branches", &run.data));
    let mut happened = run.truth.iter();
    assert!(got.iter().all(|entry| happened.any(|one| one == entry)), "something did not happen");
    assert!(got.len() * 2 > run.truth.len(), "{} of {}", got.len(), run.truth.len());
    let table = tally("report", &run.data);
    assert!(table.contains("code made at run time, missing in every jitdump"), "{table}");
    assert!(table.contains(".dump"), "which file is missing: {table}");
}

#[test]
#[ignore = "live: records on this machine"]
fn code_that_the_program_may_have_rewritten_is_a_gap_and_the_rest_is_decoded() {
    let Some(run) = stepped("rewrites", "rewrites", &["50"]) else { return };
    let got = calls_and_returns(&tally("branches", &run.data));
    let mut happened = run.truth.iter();
    assert!(got.iter().all(|entry| happened.any(|one| one == entry)), "something did not happen");
    assert!(got.len() * 2 > run.truth.len(), "{} of {}", got.len(), run.truth.len());
    let table = tally("report", &run.data);
    assert!(table.contains("code that the program may have rewritten"), "{table}");
}
