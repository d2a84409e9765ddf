//! `tally calls` on programs that count their own calls: every way of instrumenting gives exactly their counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name and flags of every way gcc instruments, at two levels of optimization.
const BUILDS: &[(&str, &[&str])] = &[
    ("pg", &["-pg"]),
    ("fentry", &["-pg", "-mfentry"]),
    ("instrument", &["-finstrument-functions"]),
    ("patchable", &["-fpatchable-function-entry=5"]),
    ("nop_mcount", &["-pg", "-mfentry", "-mnop-mcount", "-fno-pie", "-no-pie"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the program; `None` (and said) where that is not possible.
fn build(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let dir = root().join("target/tmp/calls");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let program = dir.join(name);
    let built = Command::new("gcc")
        .args(["-g", "-o"])
        .arg(&program)
        .args(flags)
        .arg(root().join("tests/programs").join(source))
        .arg("-lpthread")
        .output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("skipped: gcc can't build {name}: {}", why.lines().next().unwrap_or_default());
            None
        }
        Err(error) => {
            println!("skipped: no gcc: {error}");
            None
        }
    }
}

fn tally() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tally"))
}

/// Lines `name count` or, from the report, the function's row.
fn counts_of_program(text: &str) -> BTreeMap<String, u64> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
}

/// Calls by function from the report's table.
fn counts_of_report(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
    rows.filter_map(|row| {
        let name = row.rsplit("  ").next()?.to_owned();
        // Numbers come with a unit, the count without: it is the word before the fifth last duration.
        let words: Vec<&str> = row.split_whitespace().collect();
        let count = words.iter().position(|word| word.chars().all(|c| c.is_ascii_digit() || c == ','));
        let counted = words.get(4).or_else(|| words.get(count?))?.replace(',', "");
        Some((name, counted.parse().ok()?))
    })
    .collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_way_of_instrumenting_counts_what_the_program_counts() {
    for level in ["-O0", "-O2"] {
        for (name, flags) in BUILDS {
            let name = format!("{name}{level}");
            let all: Vec<&str> = flags.iter().copied().chain([level]).collect();
            let Some(program) = build("calls.c", &name, &all) else { continue };
            let folder = program.with_extension("calls");
            let ran = tally().args(["calls", "record", "-o"]).arg(&folder).arg("--").arg(&program).output();
            let ran = ran.expect("tally starts");
            assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
            let wanted = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
            let report = tally().args(["calls", "report", "-i"]).arg(&folder).output().expect("tally starts");
            let text = String::from_utf8_lossy(&report.stdout).into_owned();
            let mut got = counts_of_report(&text);
            // Patchable entries know no exception: there main is recorded too.
            got.remove("main");
            assert_eq!(got, wanted, "{name}:\n{text}");
            assert!(text.contains("8 left by longjmp or exception"), "{name}:\n{text}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_exit_code_is_the_programs_and_uninstrumented_programs_are_told() {
    let folder = root().join("target/tmp/calls/none.calls");
    let _ = std::fs::remove_dir_all(&folder);
    let ran =
        tally().args(["calls", "record", "-o"]).arg(&folder).args(["--", "sh", "-c", "exit 5"]).output();
    let ran = ran.expect("tally starts");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(5), "{said}");
    assert!(said.contains("not instrumented") && said.contains("-pg"), "{said}");
}
