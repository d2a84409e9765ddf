//! Calls of spans against programs that know their own: lengths, states, and calls that don't return.

use super::{ONE, TALLY, folder, has_bpf, output_of, outputs_of, program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The calls of one function in a recording.
fn calls_of(file: &Path, function: &str) -> Value {
    let mut report = Command::new(TALLY);
    report.args(["report", "--json", "--span", function, "-i"]).arg(file);
    let text = output_of(report);
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["functions"][0].clone()
}

/// Records `requests` of these kinds; what it printed, and the calls of its `handle`.
fn recorded(name: &str, args: [&str; 2]) -> Option<(BTreeMap<char, Vec<u64>>, Value)> {
    let folder = folder(name);
    let requests = program("requests", &folder).filter(|_| has_bpf())?;
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.args(["record", "--span", "handle", "-o"]).arg(&file).arg("--").arg(requests).args(args);
    let (printed, _) = outputs_of(record);
    let kind = |line: &str| {
        let (kind, numbers) = line.split_at(1);
        let numbers = numbers.split_whitespace().map(|number| number.parse().expect("a number"));
        (kind.chars().next().expect("a letter"), numbers.collect())
    };
    Some((printed.lines().map(kind).collect(), calls_of(&file, "handle")))
}

fn ns_of(calls: &Value, is: impl Fn(&Value) -> bool) -> u64 {
    let rows = calls["states"]["rows"].as_array().expect("rows").iter();
    rows.filter(|row| is(row)).map(|row| row["ns"].as_u64().expect("ns")).sum()
}

fn not_counted(calls: &Value) -> [u64; 4] {
    ["without_begin", "open", "left", "nested"]
        .map(|name| calls["not_counted"][name].as_u64().expect("a count"))
}

#[test]
#[ignore = "live: records with BPF"]
fn states_of_requests_are_those_that_the_program_measured() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((own, calls)) = recorded("spans-truth", ["40", "cslp"]) else { return };
    let total = calls["total_ns"].as_u64().expect("ns");
    assert_eq!((calls["calls"].as_u64(), not_counted(&calls)), (Some(160), [0; 4]));
    assert_eq!(ns_of(&calls, |_| true), total);
    let own_total: u64 = own.values().map(|numbers| numbers[1]).sum();
    let begins = |row: &Value, begin: &str| row["target"].as_str().is_some_and(|of| of.starts_with(begin));
    let terms = [
        ("all", own_total, total),
        ("on CPU", own.values().map(|of| of[2]).sum(), ns_of(&calls, |row| row["state"] == "on CPU")),
        ("lock", own[&'l'][3], ns_of(&calls, |row| begins(row, "lock in fetch"))),
        ("sleep", own[&'s'][3], ns_of(&calls, |row| row["state"] == "timer")),
        ("another process", own[&'p'][3], ns_of(&calls, |row| begins(row, "pipe with requests"))),
    ];
    for (what, own, found) in terms {
        let apart = (found as f64 - own as f64).abs() * 100.0 / total as f64;
        println!("{what}: measured {own} ns, found {found} ns, {apart:.2} points apart");
        assert!(apart < 3.0, "{what}: measured {own}, found {found} of {total}: {calls:#}");
    }
}

#[test]
#[ignore = "live: records with BPF"]
fn jumps_ended_threads_and_recursion_are_counted_under_their_names() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((own, calls)) = recorded("spans-left", ["20", "crjet"]) else { return };
    // c, r and t return; r has two inside; j and e are left. Nothing comes after the last j that shows it.
    assert_eq!((calls["calls"].as_u64(), not_counted(&calls)), (Some(60), [0, 1, 39, 40]));
    let own_total: u64 = own.values().map(|numbers| numbers[1]).sum();
    let total = calls["total_ns"].as_u64().expect("ns");
    assert!(total.abs_diff(own_total) * 100 < own_total * 3, "{total} of {own_total}");
    assert_eq!(calls["threads"].as_u64(), Some(21));
}

#[test]
#[ignore = "live: records with BPF"]
fn calls_left_by_exceptions_are_in_no_sum() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("spans-throw");
    let (source, built) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/throw.cpp"), folder.join("throw"));
    let compiled = Command::new("g++").args(["-O1", "-g", "-o"]).arg(&built).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) || !has_bpf() {
        println!("skipped: no C++ compiler");
        return;
    }
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.args(["record", "--span", "descend", "-o"]).arg(&file).arg("--").arg(built).arg("1");
    let (printed, _) = outputs_of(record);
    // The program's own count of frames that were unwound. Nothing comes after the last round's nine that shows it.
    let unwound: u64 =
        printed.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a count");
    let calls = calls_of(&file, "descend");
    let others = not_counted(&calls);
    assert_eq!((calls["calls"].as_u64(), others.iter().sum::<u64>()), (Some(0), unwound), "{others:?}");
    assert!(others[2] + 9 >= unwound && others[0] == 0, "{others:?}");
}

#[test]
#[ignore = "live: records with BPF"]
fn calls_of_a_running_process_are_cut_where_the_recording_begins_and_ends() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("spans-attach");
    let Some(requests) = program("requests", &folder).filter(|_| has_bpf()) else { return };
    let mut target =
        Command::new(requests).args(["100000", "s"]).stdout(Stdio::null()).spawn().expect("it starts");
    let (file, pid) = (folder.join("perf.data"), target.id().to_string());
    let mut record = Command::new(TALLY);
    record.args(["record", "--span", "handle", "-p", &pid, "-o"]).arg(&file).args(["--", "sleep", "1"]);
    let recorded = record.output().expect("tally starts");
    target.kill().expect("it runs");
    target.wait().expect("it ends");
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let calls = calls_of(&file, "handle");
    let [without_begin, open, left, nested] = not_counted(&calls);
    assert!(without_begin <= 1 && open <= 1 && left == 0 && nested == 0, "{calls:#}");
    assert!(calls["calls"].as_u64() > Some(20) && calls["p50_ns"].as_u64() >= Some(8_000_000), "{calls:#}");
    assert_eq!(ns_of(&calls, |_| true), calls["total_ns"].as_u64().expect("ns"));
}

#[test]
#[ignore = "live: records with BPF"]
fn the_first_screen_begins_with_the_calls() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("spans-run");
    let Some(requests) = program("requests", &folder).filter(|_| has_bpf()) else { return };
    let mut run = Command::new(TALLY);
    run.args(["run", "--span", "handle", "--span", "compute", "-o"]).arg(folder.join("perf.data")).arg("--");
    run.arg(requests).args(["20", "cslp"]);
    let (_, screen) = outputs_of(run);
    let from = screen.find("  handle: 80 calls, p50 ").unwrap_or_else(|| panic!("{screen}"));
    assert!(screen.contains("  compute: 60 calls, p50 "), "{screen}");
    assert!(screen[from..].lines().count() < 28, "{screen}");
}
