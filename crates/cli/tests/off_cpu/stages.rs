//! Parts of a run, and the number of threads that run, against a program whose stages have known lengths.

use super::{ONE, TALLY, folder, has_bpf, output_of, outputs_of, program, truth};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's own measurement, and its recording; `None` where it can't run.
fn recorded(mode: &str, options: &[&str]) -> Option<(BTreeMap<String, u64>, PathBuf)> {
    let folder = folder("stages");
    let stages = program("stages", &folder).filter(|_| has_bpf())?;
    if Command::new(&stages).args([mode, "1", "1"]).status().is_ok_and(|status| status.code() == Some(77)) {
        println!("skipped: no priorities here");
        return None;
    }
    let file = folder.join(format!("{mode}.data"));
    let mut record = Command::new(TALLY);
    record.arg("record").args(options).arg("-o").arg(&file).arg("--").arg(stages).arg(mode);
    Some((truth(&outputs_of(record).0), file))
}

fn path(file: &Path, ends: &[&str]) -> Value {
    let mut report = Command::new(TALLY);
    report.args(["report", "--critical-path", "--json", "--rows", "100000"]).args(ends).arg("-i").arg(file);
    serde_json::from_str(&output_of(report)).expect("JSON")
}

/// Length of the path, and of a function of a thread on it, ns.
fn on_path(path: &Value, thread: &str, function: &str) -> u64 {
    let rows = path["functions"].as_array().expect("functions").iter();
    let mut found = rows.filter(|row| row["thread"] == thread && row["function"] == function);
    found.next().map_or(0, |row| row["ns"].as_u64().expect("ns"))
}

#[track_caller]
fn check(what: &str, found: u64, measured: u64, whole: u64) {
    assert!(found.abs_diff(measured) * 100 <= whole * 3, "{what}: {found}, measured {measured}, of {whole}");
}

#[test]
#[ignore = "live: records on this machine"]
fn a_path_from_one_function_to_another_has_the_time_between_them() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((own, file)) = recorded("path", &["--off-cpu"]) else { return };
    let serve = path(&file, &["--from", "serve", "--to", "serve"]);
    let whole = own["serve"];
    check("serve", serve["total_ns"].as_u64().expect("ns"), whole, whole);
    check("mix", on_path(&serve, "cook", "mix"), own["mix"], whole);
    check("settle", on_path(&serve, "cook", "settle"), own["settle"], whole);
    // The path begins at a moment that is known to some ns.
    let outside = ["prepare", "finish"].map(|function| on_path(&serve, "stages", function));
    assert!(outside.iter().all(|&ns| ns < 1_000), "{outside:?}");
    let pieces = serve["pieces"].as_array().expect("pieces").iter();
    let end = pieces.fold(0, |now, piece| {
        assert_eq!(piece["from_ns"], now);
        piece["to_ns"].as_u64().expect("ns")
    });
    assert_eq!(end, serve["total_ns"]);
    let until = path(&file, &["--to", "settle"]);
    let before = own["prepare"] + whole;
    check("until settle", until["total_ns"].as_u64().expect("ns"), before, before);
    let after = path(&file, &["--from", "settle"]);
    let rest = own["settle"] + own["finish"];
    check("from settle", after["total_ns"].as_u64().expect("ns"), rest, rest);
}

/// Percent by the first column of a report's rows, by their last word.
fn percents(file: &Path, options: &[&str]) -> BTreeMap<String, f64> {
    let mut report = Command::new(TALLY);
    report.args(["report", "--stdio", "--no-children", "-g", "none"]).args(options).arg("-i").arg(file);
    let text = output_of(report);
    let row = |line: &str| {
        let (percent, name) = (line.split_whitespace().next()?, line.split_whitespace().next_back()?);
        Some((name.to_owned(), percent.strip_suffix('%')?.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

#[test]
#[ignore = "live: records on this machine"]
fn samples_of_two_threads_at_a_time_count_half_for_the_wall_clock() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((own, file)) = recorded("together", &["--switch-events"]) else { return };
    let (alone, together) = (own["alone"] as f64, own["together"] as f64);
    let rows = percents(&file, &["--sort", "parallelism"]);
    let two = together * 2.0 / (alone + together * 2.0) * 100.0;
    assert!((rows["2"] - two).abs() <= 3.0, "{rows:?}, {own:?}");
    let rows = percents(&file, &["--latency", "--sort", "symbol"]);
    let one = alone / (alone + together) * 100.0;
    assert!((rows["alone"] - one).abs() <= 3.0, "{rows:?}, {own:?}");
    let rows = percents(&file, &["--parallelism", "1", "--sort", "symbol"]);
    assert!(rows["alone"] >= 90.0, "{rows:?}");
}
