//! `tally calls` on programs that count their own calls: every way of instrumenting gives exactly their counts.

#[path = "calls/aarch64.rs"]
mod aarch64;
#[path = "calls/compilers.rs"]
mod compilers;
#[path = "calls/endings.rs"]
mod endings;
#[path = "calls/export.rs"]
mod export;
#[path = "calls/imports.rs"]
mod imports;
#[path = "calls/languages.rs"]
mod languages;
#[path = "calls/live.rs"]
mod live;
#[path = "calls/names.rs"]
mod names;
#[path = "calls/overhead.rs"]
mod overhead;
#[path = "calls/return_probes.rs"]
mod return_probes;
#[path = "calls/uftrace.rs"]
mod uftrace;
#[path = "calls/uprobe_filters.rs"]
mod uprobe_filters;
#[path = "calls/uprobes.rs"]
mod uprobes;
#[path = "calls/values.rs"]
mod values;

use compilers::{XRAY, clang, dialect, first_error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls by function.
type Counts = BTreeMap<String, u64>;

/// Name and flags of every way gcc instruments, at two levels of optimization.
const BUILDS: &[(&str, &[&str])] = &[
    ("pg", &["-pg"]),
    ("fentry", &["-pg", "-mfentry"]),
    ("instrument", &["-finstrument-functions"]),
    ("patchable", &["-fpatchable-function-entry=5"]),
    ("patchable_before", &["-fpatchable-function-entry=16,8"]),
    ("nop_mcount", &["-pg", "-mfentry", "-mnop-mcount", "-fno-pie", "-no-pie"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Every way at both levels: name, compiler and its flags, for C or C++.
fn builds(cpp: bool) -> Vec<(String, &'static str, Vec<&'static str>)> {
    let (gnu, clang) = (if cpp { "g++" } else { "gcc" }, clang(cpp));
    let ways = BUILDS.iter().map(|(name, flags)| (*name, gnu, *flags)).chain([("xray", clang, XRAY)]);
    let mut all = Vec::new();
    for (name, compiler, flags) in ways {
        for level in ["-O0", "-O2"] {
            all.push((format!("{name}{level}"), compiler, [flags, &[level]].concat()));
        }
    }
    all
}

/// Every way at one of the levels, by turns.
fn each_build(cpp: bool) -> Vec<(String, &'static str, Vec<&'static str>)> {
    builds(cpp).chunks(2).enumerate().map(|(nth, levels)| levels[nth % 2].clone()).collect()
}

/// Builds the program; `None` (and reported) where that is not possible.
fn build(source: &str, name: &str, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let dir = root().join("target/tmp/calls");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let program = dir.join(name);
    let built = Command::new(compiler)
        .args(["-g", "-o"])
        .arg(&program)
        .args(dialect(compiler))
        .args(flags)
        .arg(root().join("tests/programs").join(source))
        .arg("-lpthread")
        .output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            println!("skipped: {compiler} can't build {name}: {}", first_error(&output.stderr));
            None
        }
        Err(error) => {
            println!("skipped: no {compiler}: {error}");
            None
        }
    }
}

/// Builds the library that the program opens into a folder; false (and reported) where that is not possible.
fn build_plugin(compiler: &str, sleds: &str, folder: &Path) -> bool {
    build_library(compiler, &[sleds], "plugin.c", &folder.join("libplugin.so"))
}

/// Builds a library; false (and reported) where that is not possible.
fn build_library(compiler: &str, flags: &[&str], source: &str, to: &Path) -> bool {
    std::fs::create_dir_all(to.parent().expect("it is in a folder")).expect("target is writable");
    let built = Command::new(compiler)
        .args(["-O2", "-g", "-shared", "-fPIC", "-DLIBRARY"])
        .args(dialect(compiler))
        .args(flags)
        .arg("-o")
        .arg(to)
        .arg(root().join("tests/programs").join(source))
        .output();
    let why = match built {
        Ok(output) if output.status.success() => return true,
        Ok(output) => first_error(&output.stderr),
        Err(error) => error.to_string(),
    };
    println!("skipped: {compiler} can't build {source} as a library: {why}");
    false
}

/// Runs where the programs are: those built with -pg leave a file.
fn tally() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.current_dir(root().join("target/tmp"));
    command
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
        // Times are numbers with a unit after them; the count is the number without one.
        let words: Vec<&str> = row.split_whitespace().collect();
        let is_count = |pair: &&[&str]| {
            pair[0].chars().all(|c| c.is_ascii_digit() || c == ',')
                && !["s", "ms", "µs", "ns"].contains(&pair[1])
        };
        let counted = words.windows(2).find(is_count)?[0].replace(',', "");
        Some((name, counted.parse().ok()?))
    })
    .collect()
}

/// Records the program; what it counted itself, what the report counts, and the report.
fn record(program: &Path, options: &[&str]) -> (Counts, Counts, String) {
    let folder = program.with_extension("calls");
    let mut command = tally();
    command.args(["calls", "record", "-o"]).arg(&folder).args(options);
    if !options.contains(&"--libcall") {
        command.arg("--no-libcall");
    }
    counted(program, command.arg("--").arg(program))
}

/// Has the program recorded so, into the folder next to it: what it counted itself, what the report counts, and the
/// report.
fn counted(program: &Path, recording: &mut Command) -> (Counts, Counts, String) {
    let ran = recording.output().expect("tally starts");
    assert!(ran.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&ran.stderr));
    let folder = program.with_extension("calls");
    let wanted = counts_of_program(&String::from_utf8_lossy(&ran.stdout));
    let report = tally().args(["calls", "report", "-i"]).arg(&folder).output().expect("tally starts");
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    let mut got = counts_of_report(&text);
    // Patchable entries know no exception: there main is recorded too.
    got.remove("main");
    (wanted, got, text)
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn every_way_of_instrumenting_counts_what_the_program_counts() {
    for (name, compiler, flags) in builds(false) {
        let Some(program) = build("calls.c", &name, compiler, &flags) else { continue };
        let (wanted, got, text) = record(&program, &[]);
        assert_eq!(got, wanted, "{name}:\n{text}");
        assert!(text.contains("8 left by longjmp or exception"), "{name}:\n{text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn signals_exceptions_tail_calls_and_coroutines_are_counted_right() {
    for (name, compiler, flags) in each_build(true) {
        let Some(program) = build("storms.cpp", &format!("storms-{name}"), compiler, &flags) else {
            continue;
        };
        assert_storms(&name, record(&program, &[]));
    }
}

/// Counts of the program storms: they are its own, but for calls of a signal's handler that were lost, and counted.
fn assert_storms(name: &str, (wanted, mut got, text): (Counts, Counts, String)) {
    got.retain(|function, _| wanted.contains_key(function));
    let number = |part: &str| part.trim_end().strip_suffix(" lost")?.replace(',', "").parse().ok();
    let lost: u64 = text.split("; ").find_map(number).unwrap_or_default();
    // A signal may arrive within the tracer: what its handler calls is lost then.
    let by_handler = |name: &String| ["handler", "inner"].contains(&name.as_str());
    for (function, count) in &wanted {
        let seen = got.get(function).copied().unwrap_or_default();
        assert!(seen == *count || by_handler(function) && seen < *count, "{name}: {function}\n{text}");
    }
    assert!(!text.contains("backwards"), "{name}\n{text}");
    let sum = |counts: &Counts| counts.values().sum::<u64>();
    assert!(sum(&got) + lost >= sum(&wanted), "{name}: {wanted:?}\n{text}");
}

/// Stacks of coroutines one after the other, used again and unmapped, with exceptions and jumps between.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn calls_that_wait_on_other_stacks_are_counted_and_return() {
    for (name, compiler, flags) in each_build(true) {
        let Some(program) = build("strands.cpp", &format!("strands-{name}"), compiler, &flags) else {
            continue;
        };
        let (wanted, mut got, text) = record(&program, &[]);
        got.retain(|function, _| wanted.contains_key(function));
        assert_eq!(got, wanted, "{name}:\n{text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn functions_that_are_not_chosen_are_not_recorded_and_those_chosen_are_exact() {
    for (name, compiler, flags) in each_build(false) {
        let Some(program) = build("calls.c", &format!("some-{name}"), compiler, &flags) else { continue };
        let (mut wanted, got, text) = record(&program, &["-P", "fib", "-P", "comp*"]);
        wanted.retain(|function, _| ["fib", "compare"].contains(&function.as_str()));
        assert_eq!(got, wanted, "{name}:\n{text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn filters_while_recording_leave_out_what_they_say() {
    for (name, compiler, flags) in each_build(false) {
        if let Some(program) = build("calls.c", &format!("filtered-{name}"), compiler, &flags) {
            assert_filters(&program);
        }
    }
}

/// Rules of functions, given to the recording or to a view of all calls.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn filters_when_looking_leave_out_the_same_as_while_recording() {
    let Some(program) = build("calls.c", "looked-at", "gcc", &["-O1", "-pg", "-pthread"]) else { return };
    let (_, all, _) = record(&program, &[]);
    let calls = |counts: &Counts| counts.values().sum::<u64>();
    let whole = program.with_extension("calls.all");
    let _ = std::fs::remove_dir_all(&whole);
    std::fs::rename(program.with_extension("calls"), &whole).expect("a recording");
    for filters in [
        &["-F", "jumper", "-D", "3"][..],
        &["-N", "fib"],
        &["-C", "leaf"],
        &["-C", "compare", "-C", "leaf", "-N", "fib"],
        &["-T", "jumper@trace_on", "--disable"],
        &["-T", "jumper@trace_off"],
        &["-T", "work@depth=1"],
        &["-T", "fib@depth=3,filter"],
        &["-T", "fib@notrace", "-T", "sink@caller"],
    ] {
        let (_, mut recorded, text) = record(&program, filters);
        let mut looked_at = tally();
        looked_at.args(["calls", "report", "-i"]).arg(&whole).args(filters);
        let seen = String::from_utf8_lossy(&looked_at.output().expect("tally starts").stdout).into_owned();
        let mut counts = counts_of_report(&seen);
        counts.remove("main");
        if filters[1].contains("@trace_o") {
            // A forked process goes on as its parent did while recording; afterwards each thread begins by itself.
            counts.remove("leaf");
            recorded.remove("leaf");
        }
        assert!(!counts.is_empty(), "{filters:?}: all was left out of\n{seen}");
        assert!(calls(&counts) < calls(&all), "{filters:?}: nothing was left out of\n{seen}");
        assert_eq!(counts, recorded, "{filters:?}: as recorded\n{text}\nas looked at\n{seen}");
    }
}

fn assert_filters(program: &Path) {
    let record = |options: &[&str]| record(program, options);
    let (wanted, got, text) = record(&["-N", "fib"]);
    let without_fib: u64 = wanted["leaf"] - wanted["fib"].div_ceil(2);
    assert_eq!((got.get("fib"), got["leaf"]), (None, without_fib), "{text}");
    let (_, got, text) = record(&["-F", "jumper"]);
    assert_eq!(got, BTreeMap::from([("jumper".to_owned(), 8)]), "{text}");
    let (_, got, text) = record(&["-F", "jumper", "-D", "3"]);
    assert_eq!(got, BTreeMap::from([("jumper".to_owned(), 3)]), "{text}");
    let (_, got, text) = record(&["-F", "jumper", "-D", "3", "-T", "jumper@backtrace"]);
    assert_eq!(got, BTreeMap::from([("jumper".to_owned(), 3)]), "{text}");
    let (_, got, text) = record(&["-A", "sink@arg1"]);
    assert!(got["sink"] == wanted["sink"] && text.contains("; 8 left by"), "{text}");
    let (_, got, text) = record(&["-T", "jumper@trace_on", "--disable"]);
    assert!(!got.contains_key("fib") && got["compare"] == wanted["compare"], "{text}");
    let (_, got, text) = record(&["-T", "jumper@trace_off"]);
    assert!(got["fib"] == wanted["fib"] && !got.contains_key("compare"), "{text}");
    // No call is shorter than the shortest kept, and what holds long calls is there.
    for values in [&[][..], &["-A", "fib", "-A", "leaf", "-R", "leaf"]] {
        let (_, got, text) = record(&[&["-t", "5us"], values].concat());
        assert!(got["fib"] > 0 && got["fib"] < wanted["fib"] / 4, "{values:?} {text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn a_flight_recorder_keeps_the_last_calls_in_the_space_given() {
    let Some(program) = build("storms.cpp", "flight", "g++", &["-O0", "-fpatchable-function-entry=5"]) else {
        return;
    };
    let (wanted, got, text) = record(&program, &["--max-bytes", "512k"]);
    // The last calls are there, all of them; of the first ones most are gone.
    assert_eq!(got["co"], wanted["co"], "{text}");
    assert!(got["middle"] >= 51 && got["middle"] < wanted["middle"] / 4, "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn time_asleep_is_off_the_cpu_and_time_awake_on_it() {
    let Some(program) = build("split.c", "split", "gcc", &["-O1", "-finstrument-functions"]) else { return };
    let folder = program.with_extension("calls");
    let ran =
        tally().args(["calls", "record", "--no-libcall", "-o"]).arg(&folder).arg("--").arg(&program).output();
    assert!(ran.expect("tally starts").status.success());
    if !folder.join("switches.data").is_file() {
        return println!("skipped: context switches can't be recorded here");
    }
    let folded =
        tally().args(["calls", "flame", "--folded", "-i"]).arg(&folder).output().expect("tally starts");
    let text = String::from_utf8_lossy(&folded.stdout).into_owned();
    let ns = |end: &str| -> u64 {
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .filter(|(path, _)| path.ends_with(end))
            .map(|(_, ns)| ns.parse::<u64>().expect("a number"))
            .sum()
    };
    // A second of sleep is all but whole off the CPU, a second of work on the thread's clock is on it.
    let (napped, awake, worked) = (ns("sleep_for;[off CPU]"), ns("sleep_for"), ns("now"));
    assert!(napped > 1_900_000_000 && napped > 20 * awake, "{text}");
    let busy = ns("busy") + worked;
    assert!((0.95..1.2).contains(&(busy as f64 / 1e9)), "{busy} ns busy:\n{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn the_exit_code_is_the_programs_and_uninstrumented_programs_are_told() {
    let folder = root().join("target/tmp/calls/none.calls");
    let _ = std::fs::remove_dir_all(&folder);
    let ran =
        tally().args(["calls", "record", "-o"]).arg(&folder).args(["--", "sh", "-c", "exit 5"]).output();
    let ran = ran.expect("tally starts");
    let notes = String::from_utf8_lossy(&ran.stderr).into_owned();
    if uprobes::no_uprobes(&notes) {
        return;
    }
    assert_eq!(ran.status.code(), Some(5), "{notes}");
    assert!(notes.contains("not instrumented") && notes.contains("uprobes"), "{notes}");
}

/// Functions of a library are not the program's own, which alone record themselves.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn functions_of_a_library_are_recorded_by_uprobes_also_of_an_instrumented_program() {
    let Some(program) = build("calls.c", "of-library", "gcc", &["-O1", "-pg", "-pthread"]) else { return };
    let folder = program.with_extension("calls");
    let mut ran = tally();
    ran.args(["calls", "record", "-P", "malloc@libc", "-o"]).arg(&folder).arg("--").arg(&program);
    let notes = String::from_utf8_lossy(&ran.output().expect("tally starts").stderr).into_owned();
    if uprobes::no_uprobes(&notes) {
        return;
    }
    assert!(notes.contains("-P malloc@libc names a library's function: "), "{notes}");
    let counts = counts_of_report(&report_of(&folder));
    assert!(counts.len() == 1 && counts.contains_key("malloc"), "{counts:?}");
}

fn report_of(folder: &Path) -> String {
    let report = tally().args(["calls", "report", "-i"]).arg(folder).output().expect("tally starts");
    String::from_utf8_lossy(&report.stdout).into_owned()
}
