//! Twenty-five kinds of waits at once, against the clocks and counts of the program that waits.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use perfdata::off_cpu::{Payload, State};
use perfdata::{Order, PerfData, Record};

use super::{ONE, Rivals, TALLY, folder, has_bpf, output_of, program, wall_of};

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
    record_waits_of(name, &["2"])
}

fn record_waits_of(name: &str, args: &[&str]) -> Option<(PathBuf, BTreeMap<String, KindTruth>)> {
    let folder = folder(name);
    let waits = program("waits", &folder).filter(|_| has_bpf())?;
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.current_dir(&folder).args(["record", "-q", "--off-cpu", "-o"]).arg(&file).arg("--");
    let printed = output_of({
        record.arg(waits).args(args);
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

/// ns off the CPU in this function.
fn waited_in(wall: &BTreeMap<String, u64>, function: &str) -> u64 {
    let is_of = |stack: &str| {
        let mut frames = stack.split(';');
        frames.clone().next_back().is_some_and(|last| last.starts_with('['))
            && frames.any(|frame| frame == function)
    };
    wall.iter().filter(|(stack, _)| is_of(stack)).map(|(_, ns)| ns).sum()
}

/// Alone or beside busy processes, each kind's function has the time that the program measured.
fn check_times(name: &str, args: &[&str], rivals: usize) {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let _rivals = Rivals::start(rivals);
    let Some((file, kinds)) = record_waits_of(name, args) else { return };
    assert!(kinds.len() >= 20, "{kinds:?}");
    let wall = wall_of(&file);
    for (name, truth) in &kinds {
        let found = waited_in(&wall, &format!("wait_{name}"));
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
fn each_of_twenty_five_kinds_of_waits_has_the_time_that_it_measured_itself() {
    check_times("waits", &["2"], 0);
}

#[test]
#[ignore = "live: records on this machine"]
fn thousands_of_waits_a_second_of_each_kind_have_their_time_beside_rivals() {
    check_times("many-waits", &["2", "50000"], 2);
}

#[test]
#[ignore = "live: records on this machine"]
fn call_paths_to_one_place_have_their_own_time() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("paths");
    let Some(paths) = program("paths", &folder).filter(|_| has_bpf()) else { return };
    let file = folder.join("perf.data");
    let mut record = Command::new(TALLY);
    record.args(["record", "-q", "--off-cpu", "-o"]).arg(&file).arg("--").arg(paths).arg("3");
    let (printed, wall) = (output_of(record), wall_of(&file));
    for line in printed.lines() {
        let (function, ns) = line.split_once(' ').expect("a name and a number");
        let (truth, found) = (ns.parse::<u64>().expect("ns"), waited_in(&wall, function));
        // Until its stacks are known to be several, a place's time is shared among them by samples.
        assert!(found.abs_diff(truth) * 100 <= truth * 6, "{function}: {found} of {truth}");
    }
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
