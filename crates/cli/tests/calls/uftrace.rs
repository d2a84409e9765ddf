//! uftrace's own recordings, replayed by uftrace and by tally: the same calls, line by line.
//!
//! What differs by design is made alike first: units and digits of times, arguments and results (not read), events (not
//! read), `fork` in a child that is open from before, and a call told in two lines because an event stood in it.

use super::{build, tally};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A line of a replay: how deep, which function, what of it (a call, its begin, its end), and its time in µs, if told.
type Line = (usize, String, char, Option<f64>);

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
    Some((tid.trim().parse().ok()?, (depth, name.to_owned(), kind, micros(took))))
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
        if whole {
            lines.pop();
        }
        lines.push(if whole { (line.0, line.1, ';', line.3) } else { line });
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
            let alike = (their.0, &their.1, their.2) == (our.0, &our.1, our.2);
            assert!(alike && off <= 0.002 + time(their) * 0.001, "{filters:?} {tid}: {their:?} {our:?}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_uftrace_recorded_is_replayed_line_by_line_as_uftrace_replays_it() {
    for (source, flags, options, filters) in [
        (
            "calls.c",
            &["-pg", "-pthread"][..],
            &["--no-libcall"][..],
            &[&[][..], &["-F", "fib"], &["-N", "fib"], &["-D", "2"], &["-t", "10us"]][..],
        ),
        ("values.c", &["-pg", "-O1"], &["-a"], &[&[]]),
        ("forks.c", &["-pg", "-pthread"], &[], &[&[]]),
        ("tails.c", &["-pg"], &["-E", "linux:schedule"], &[&[], &["-D", "3"]]),
    ] {
        let Some(program) = build(source, &format!("{source}-uftrace"), "gcc", flags) else { continue };
        let folder = program.with_extension("uftrace");
        // What uftrace keeps of a recording before is in its way.
        let _ = std::fs::remove_dir_all(&folder);
        let mut record = Command::new("uftrace");
        record.args(["record", "--no-pager", "-d"]).arg(&folder).args(options).arg(&program).arg("5");
        if record.output().is_err() {
            println!("skipped: no uftrace");
            return;
        }
        filters.iter().for_each(|filter| assert_alike(&folder, filter));
    }
}
