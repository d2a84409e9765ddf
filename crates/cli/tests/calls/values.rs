//! Arguments and results: what the program prints of its own calls.

use super::compilers::{XRAY, clang};
use super::{build, root, tally};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lines of calls in a replay, without times and nesting: a call that holds others is one line, as it ends.
fn calls_of(replay: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let mut calls = Vec::new();
    for line in replay.lines().filter_map(|line| line.split_once(" | ").map(|(_, call)| call.trim())) {
        if let Some(begin) = line.strip_suffix(" {") {
            open.push(begin.to_owned());
        } else if let Some(end) = line.strip_prefix('}') {
            let begin = open.pop().unwrap_or_default();
            let (result, rest) = end.split_once(" /*").unwrap_or((end, ""));
            let left = if rest.contains("left without") { "; /* left without returning */" } else { "" };
            let result = if left.is_empty() && !result.ends_with(';') {
                format!("{result};")
            } else {
                result.to_owned()
            };
            calls.push(format!("{begin}{result}{left}"));
        } else {
            calls.push(line.to_owned());
        }
    }
    calls
}

/// Whether a recorded call is the one printed, but for values that its code had used up and not kept when it reported itself.
fn is_but_for_gone(call: &str, line: &str) -> bool {
    let mut rest = line;
    for (at, part) in call.split("<unreadable>").enumerate() {
        match rest.find(part) {
            Some(0) => rest = &rest[part.len()..],
            Some(found) if at > 0 => rest = &rest[found + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Every line that the program printed is among the recorded calls, in order. Of at most this many calls (`gone`) an
/// argument may be missing.
fn check(program: &Path, options: &[&str], strip: &str, mut gone: usize) {
    let folder = program.with_extension("calls");
    let record = tally()
        .args(["calls", "record", "-q", "--no-libcall", "-o"])
        .arg(&folder)
        .args(options)
        .arg(program)
        .output();
    let record = record.expect("tally starts");
    let notes = String::from_utf8_lossy(&record.stderr);
    assert!(record.status.success(), "{}: {notes}", program.display());
    let replay = tally().args(["calls", "replay", "-i"]).arg(&folder).output().expect("tally starts");
    let replay = String::from_utf8_lossy(&replay.stdout).replace(strip, "");
    let mut calls = calls_of(&replay).into_iter();
    let printed = String::from_utf8_lossy(&record.stdout).into_owned();
    assert!(printed.lines().count() > 5, "{printed}");
    for line in printed.lines() {
        let mut is_it = |call: String| {
            let is_partly = gone > 0 && call != line && is_but_for_gone(&call, line);
            gone -= usize::from(is_partly);
            is_partly || call == line
        };
        assert!(calls.any(&mut is_it), "{}: {line} is not in\n{replay}", program.display());
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn arguments_and_results_of_c_and_cpp_are_those_the_program_prints() {
    let ways: [(&str, &str, &[&str]); 6] = [
        ("patchable", "gcc", &["-fpatchable-function-entry=5"]),
        ("pg", "gcc", &["-pg"]),
        ("fentry", "gcc", &["-pg", "-mfentry"]),
        ("xray", clang(false), XRAY),
        ("instrument", "gcc", &["-finstrument-functions"]),
        ("instrument-clang", clang(false), &["-finstrument-functions"]),
    ];
    for (way, compiler, flags) in ways {
        for level in ["-O0", "-O2"] {
            let flags = [flags, &[level]].concat();
            if let Some(program) = build("values.c", &format!("values-{way}{level}"), compiler, &flags) {
                check(&program, &["-a"], "\0", if way == "instrument" && *level == *"-O2" { 2 } else { 0 });
            }
            let cpp = if compiler == "gcc" { "g++" } else { clang(true) };
            if way == "fentry" {
                continue;
            }
            if let Some(program) = build("values.cpp", &format!("values-cpp-{way}{level}"), cpp, &flags) {
                check(&program, &["-a"], "\0", 0);
            }
        }
    }
}

fn build_rust(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = root().join("target/tmp/calls").join(name);
    let mut command = Command::new("rustc");
    command.env("RUSTC_BOOTSTRAP", "1").args(["-g", "--edition", "2024", "-o"]).arg(&program);
    command.args(flags).arg(root().join("tests/programs/values.rs"));
    let built = command.output().is_ok_and(|output| output.status.success());
    if !built {
        println!("skipped: rustc can't build {name}");
    }
    built.then_some(program)
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn arguments_and_results_of_rust_and_panics_are_those_the_program_prints() {
    for (way, flag) in [("xray", "instrument-xray=always"), ("patchable", "patchable-function-entry=5")] {
        for level in ["0", "2"] {
            let opt = format!("opt-level={level}");
            let Some(program) = build_rust(&format!("values-rs-{way}-{level}"), &["-C", &opt, "-Z", flag])
            else {
                continue;
            };
            check(&program, &["-A", "values::*", "-R", "values::*"], "values::", 0);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn arguments_named_on_the_command_line_need_no_debug_information() {
    let Some(program) = build("values.c", "values-stripped", "gcc", &["-O2", "-fpatchable-function-entry=5"])
    else {
        return;
    };
    let stripped = program.with_extension("nodebug");
    let objcopy = Command::new("objcopy").arg("-g").args([&program, &stripped]).status();
    if !objcopy.is_ok_and(|status| status.success()) {
        return println!("skipped: no objcopy");
    }
    let folder = stripped.with_extension("calls");
    let ran = tally()
        .args(["calls", "record", "-q", "-o"])
        .arg(&folder)
        .args([
            "-A",
            "add@arg1/i32,arg2",
            "-R",
            "add@retval/i32",
            "-A",
            "pick@arg1/s,arg2/u8",
            "-A",
            "strlen@arg1/s",
        ])
        .args(["-A", "scale@fparg1,fparg2/f32,arg1/i32", "-R", "scale@retval/f", "-A", "many@arg8/i16"])
        .arg(&stripped)
        .output();
    assert!(ran.expect("tally starts").status.success());
    let replay = tally().args(["calls", "replay", "-i"]).arg(&folder).output().expect("tally starts");
    let replay = String::from_utf8_lossy(&replay.stdout).into_owned();
    for call in [
        "add(-3, 9000000000) = 410065405;",
        "pick(\"abc\\n\", 1);",
        "scale(1.5, 0.25, 7) = 7.375;",
        "many(-8);",
        "strlen(\"five\");",
    ] {
        assert!(replay.contains(call), "{call}\n{replay}");
    }
}
