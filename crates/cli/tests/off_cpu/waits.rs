//! Twenty-five kinds of waits at once, against the clocks and counts of the program that waits.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use perfdata::off_cpu::{Payload, State};
use perfdata::{Order, PerfData, Record};

use super::{ONE, TALLY, folder, has_bpf, output_of, program, wall_of};

/// The program's own numbers of one kind.
#[derive(Debug)]
pub(super) struct KindTruth {
    count: u64,
    ns: u64,
    /// Longest call, blocked or waiting for a CPU.
    pub(super) longest_ns: u64,
    /// Longest blocked time of a call that waited once; 0 = not known.
    pub(super) single_ns: u64,
    /// Voluntary switches of the whole thread.
    thread_switches: u64,
}

/// Waits of one thread by the recording.
#[derive(Debug, Default)]
pub(super) struct ThreadWaits {
    pub(super) tid: u32,
    pub(super) comm: String,
    /// Blocked.
    pub(super) count: u64,
    /// The same, added up from the waits by length.
    by_length: u64,
    pub(super) longest_ns: u64,
}

/// The recording, and what the program printed by kind; `None` where it can't be made.
pub(super) fn record_waits(name: &str) -> Option<(PathBuf, BTreeMap<String, KindTruth>)> {
    let folder = folder(name);
    let waits = program("waits", &folder).filter(|_| has_bpf())?;
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.current_dir(&folder).args(["record", "-q", "--off-cpu", "-o"]).arg(&file).arg("--");
    let printed = output_of({
        record.arg(waits).arg("2");
        record
    });
    let kind = |line: &str| {
        let (name, numbers) = line.split_once(' ')?;
        let numbers: Vec<u64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
        let &[count, ns, longest_ns, thread_switches, single_ns] = numbers.as_slice() else { return None };
        Some((name.to_owned(), KindTruth { count, ns, longest_ns, single_ns, thread_switches }))
    };
    Some((file, printed.lines().filter_map(kind).collect()))
}

/// The program's threads: what their samples of blocked time count.
pub(super) fn counted(file: &Path) -> Vec<ThreadWaits> {
    let bytes = fs::read(file).expect("the file is there");
    let file = PerfData::open(&bytes).expect("our own file");
    let mut threads = BTreeMap::<u32, ThreadWaits>::new();
    let diagnostics = file.visit(Order::File, |item| {
        let Record::Sample(sample) = &item.record else { return ControlFlow::Continue(()) };
        let Some((_, tid)) = sample.pid_tid else { return ControlFlow::Continue(()) };
        let thread = threads.entry(tid).or_default();
        thread.tid = tid;
        match sample.raw.and_then(Payload::parse) {
            Some(Payload::Totals(totals)) => thread.comm = totals.comm,
            Some(Payload::Interval(of)) if matches!(of.state, State::Sleep | State::Disk) => {
                let Some(sums) = of.sums else { return ControlFlow::Continue(()) };
                thread.count += u64::from(sums.count);
                thread.by_length += sums.lengths.iter().map(|&many| u64::from(many)).sum::<u64>();
                thread.longest_ns = thread.longest_ns.max(sums.longest_ns);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    drop(diagnostics);
    threads.into_values().collect()
}

/// ns off the CPU by the kind's own function.
fn waited_in(wall: &BTreeMap<String, u64>, kind: &str) -> u64 {
    let function = format!("wait_{kind}");
    let is_of = |stack: &str| {
        let mut frames = stack.split(';');
        frames.clone().next_back().is_some_and(|last| last.starts_with('['))
            && frames.any(|frame| frame == function)
    };
    wall.iter().filter(|(stack, _)| is_of(stack)).map(|(_, ns)| ns).sum()
}

#[test]
#[ignore = "live: records on this machine"]
fn each_of_twenty_five_kinds_of_waits_has_the_time_that_it_measured_itself() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((file, kinds)) = record_waits("waits") else { return };
    assert!(kinds.len() >= 20, "{kinds:?}");
    let wall = wall_of(&file);
    for (name, truth) in &kinds {
        let found = waited_in(&wall, name);
        // A kernel that hides a switch hides one wait; all waits are longer on a busy machine.
        let room = truth.ns * 3 / 100 + truth.longest_ns;
        assert!(found.abs_diff(truth.ns) <= room, "{name}: {found} of {truth:?}");
    }
    let all: u64 = wall.values().sum();
    let short: u64 = wall.iter().filter(|(stack, _)| stack.contains("[short waits]")).map(|(_, ns)| ns).sum();
    assert!(short * 100 <= all, "{short} of {all} without a name");
}

#[test]
#[ignore = "live: records on this machine"]
fn each_of_twenty_five_kinds_of_waits_is_counted_as_often_as_it_happened() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let Some((file, kinds)) = record_waits("counts") else { return };
    let threads = counted(&file);
    for (name, truth) in &kinds {
        // Threads that a kind starts inherit its name and wait once each.
        let thread = threads.iter().filter(|thread| thread.comm == *name).max_by_key(|thread| thread.count);
        let thread = thread.unwrap_or_else(|| panic!("no thread {name}: {threads:?}"));
        // Switches that the kernel hides, and those of the thread's end.
        let room = truth.thread_switches / 100 + 3;
        assert!(thread.count.abs_diff(truth.thread_switches) <= room, "{name}: {thread:?}, {truth:?}");
        assert!(thread.by_length.abs_diff(thread.count) <= 3, "{name}: {thread:?}");
        assert!(thread.longest_ns * 2 >= truth.ns / truth.count.max(1), "{name}: {thread:?}, {truth:?}");
    }
    for (name, lock) in [("mutex", "mutex in waits"), ("flock", "file lock of "), ("fcntl", "file lock of ")]
    {
        kinds.get(name).into_iter().for_each(|truth| check_lock(&file, name, lock, truth));
    }
}

/// `tally locks` of the kind's thread: the lock's name, and as many waits as there were.
fn check_lock(file: &Path, kind: &str, lock: &str, truth: &KindTruth) {
    let mut locks = Command::new(TALLY);
    locks.args(["locks", "--thread", kind, "-i"]).arg(file);
    let text = output_of(locks);
    assert!(text.contains(lock), "{text}");
    let counts = text.lines().filter_map(|line| {
        let (many, _) = line.trim().split_once(" waits of 1 thread")?;
        many.replace(',', "").parse::<u64>().ok()
    });
    let most = counts.max().unwrap_or(0);
    let room = truth.count / 20 + 3;
    assert!(most.abs_diff(truth.count) <= room, "{truth:?}: {text}");
}
