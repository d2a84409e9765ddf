//! uftrace's own recordings, replayed by uftrace and by tally: the same calls, line by line.
//!
//! What differs by design is made alike first: units and digits of times, how numbers and text are written, events (not
//! read), `fork` in a child that is open from before, and a call reported in two lines because an event was in it.

use super::{build, tally};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A line of a replay: how deep, which function, what of it (a call, its begin, its end), its time in µs, if printed,
/// and its values: arguments, a result.
type Line = (usize, String, char, Option<f64>, Vec<String>);

fn micros(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let factor = match unit {
        "ns" => 1e-3,
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        _ => 1e6,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

fn line_of(text: &str) -> Option<(u32, Line)> {
    let (head, what) = text.split_once("] |")?;
    let (took, tid) = head.split_once('[')?;
    let depth = (what.len() - what.trim_start().len()) / 2;
    let what = what.trim();
    let (name, kind) = match what.rsplit_once("/* ").filter(|_| what.starts_with('}')) {
        Some((_, name)) => (name.trim_end_matches(" */").trim_end_matches("()"), '}'),
        None if what.starts_with("/*") => return None,
        None => (what.split('(').next()?, if what.ends_with('{') { '{' } else { ';' }),
    };
    Some((tid.trim().parse().ok()?, (depth, name.to_owned(), kind, micros(took), values_of(what))))
}

/// Text between a call's parentheses and after its `=`.
fn values_of(what: &str) -> Vec<String> {
    let (call, result) = what.split_once(" = ").map_or((what, None), |(call, result)| (call, Some(result)));
    let inner = call.split_once('(').and_then(|(_, rest)| Some(rest.rsplit_once(')')?.0));
    let inner = inner.filter(|inner| !inner.is_empty() && !call.starts_with('}'));
    let mut values: Vec<String> =
        inner.into_iter().flat_map(|inner| inner.split(", ")).map(str::to_owned).collect();
    let result = result.and_then(|result| result.split_once(';'));
    values.extend(result.map(|(result, _)| format!("= {result}")));
    values
}

/// A number, decimal, hexadecimal or with a fraction; the same for all that represent the same eight bytes.
fn number_of(text: &str) -> Option<f64> {
    let hex = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    match hex {
        Some(bits) => Some(bits.ok()?.cast_signed() as f64),
        None => text.parse().ok(),
    }
}

/// Text as uftrace writes it: quotes within are not marked, a null pointer is quoted, what was cut short ends with
/// dots.
fn is_same_value(their: &str, our: &str) -> bool {
    // Text that uftrace cut short has dots of its own, which are not known from the program's.
    let our = our.replace("...\"...", "...\"");
    let (their, our) = (their.trim_start_matches("= "), our.trim_start_matches("= "));
    match (number_of(their), number_of(our)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-5 * a.abs().max(1.0),
        _ if their.starts_with('&') => our.starts_with("0x"),
        // Bits beyond those named.
        _ if their.contains("+0x") => number_of(our).is_some(),
        _ if their.contains('|') => {
            let parts = |text: &str| -> BTreeSet<String> { text.split('|').map(str::to_owned).collect() };
            parts(their) == parts(our)
        }
        _ if our == "NULL" => their == "\"NULL\"",
        _ => {
            their.trim_end_matches("...")
                == our.replace("\\\"", "\"").replace("\\\\", "\\").trim_end_matches("...")
        }
    }
}

/// Lines by thread.
fn replay(command: &mut Command) -> BTreeMap<u32, Vec<Line>> {
    let ran = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let mut threads: BTreeMap<u32, Vec<Line>> = BTreeMap::new();
    for (tid, line) in text.lines().filter_map(line_of) {
        let lines = threads.entry(tid).or_default();
        let whole = lines
            .last()
            .is_some_and(|last| line.2 == '}' && (last.0, &last.1, last.2) == (line.0, &line.1, '{'));
        let line = match lines.pop_if(|_| whole) {
            Some(begin) => (line.0, line.1, ';', line.3, [begin.4, line.4].concat()),
            None => line,
        };
        lines.push(line);
    }
    for lines in threads.values_mut() {
        if lines.first().is_some_and(|first| first.2 == '}') {
            let below = lines.remove(0).0;
            lines.iter_mut().for_each(|line| line.0 -= below);
        }
    }
    threads
}

fn assert_alike(folder: &Path, filters: &[&str]) {
    let theirs = replay(
        Command::new("uftrace").args(["replay", "--no-pager", "--no-event", "-d"]).arg(folder).args(filters),
    );
    let ours = replay(tally().args(["calls", "replay", "-i"]).arg(folder).args(filters));
    assert!(!theirs.is_empty());
    assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>(), "{filters:?}");
    for (tid, theirs) in theirs {
        let ours = &ours[&tid];
        assert_eq!(theirs.len(), ours.len(), "{filters:?} {tid}");
        for (their, our) in theirs.iter().zip(ours) {
            let time = |line: &Line| line.3.unwrap_or(0.0);
            let off = (time(their) - time(our)).abs();
            let same_values = their.4.len() == our.4.len()
                && their.4.iter().zip(&our.4).all(|(their, our)| is_same_value(their, our));
            let alike = (their.0, &their.1, their.2) == (our.0, &our.1, our.2) && same_values;
            assert!(alike && off <= 0.002 + time(their) * 0.001, "{filters:?} {tid}: {their:?} {our:?}");
        }
    }
}

/// Arguments and results asked for by name and by pattern, in another order than they have, with widths.
const VALUES: &[&str] = &[
    "-A",
    "add@arg2/x64,arg1/i32",
    "-A",
    "^ma@arg1/u,arg7,arg8/i16",
    "-A",
    "scale@fparg1/64,fparg2/32,arg1/i32",
    "-R",
    "scale@retval/f64",
    "-A",
    "pick@arg1/s,arg2/u8",
    "-R",
    "pick@retval/s",
];

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: records on this machine"]
fn what_uftrace_recorded_is_replayed_line_by_line_as_uftrace_replays_it() {
    for (source, flags, options, filters) in [
        (
            "calls.c",
            &["-pg", "-pthread"][..],
            &["--no-libcall"][..],
            &[&[][..], &["-F", "fib"], &["-N", "fib"], &["-D", "2"], &["-t", "10us"]][..],
        ),
        ("values.c", &["-pg", "-O1"], &["-a"], &[&[]]),
        ("values.c", &["-pg", "-O1"], VALUES, &[&[]]),
        ("forks.c", &["-pg", "-pthread"], &[], &[&[]]),
        ("tails.c", &["-pg"], &["-E", "linux:schedule"], &[&[], &["-D", "3"]]),
    ] {
        let Some(program) = build(source, &format!("{source}-uftrace"), "gcc", flags) else { continue };
        let folder = program.with_extension("uftrace");
        // An older recording is in uftrace's way.
        let _ = std::fs::remove_dir_all(&folder);
        let mut record = Command::new("uftrace");
        record.args(["record", "--no-pager", "-d"]).arg(&folder).args(options).arg(&program).arg("5");
        if record.output().is_err() {
            println!("skipped: no uftrace");
            return;
        }
        filters.iter().for_each(|filter| assert_alike(&folder, filter));
        let info = tally().args(["calls", "info", "-i"]).arg(&folder).output().expect("tally starts");
        let info = String::from_utf8_lossy(&info.stdout).into_owned();
        assert!(info.contains("recorded by  uftrace\n"), "{info}");
    }
}
