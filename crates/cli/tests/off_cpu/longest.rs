//! The longest wait of each kind, and of a lock, against the scheduler's own events, which perf records of the same run.
//!
//! A program can't measure how long it was blocked: its clock runs on until it gets a CPU again.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::waits::counted;
use super::{ONE, TALLY, folder, has_bpf, output_of, program};

/// What the events show of one thread, ns.
#[derive(Debug, Default)]
struct Thread {
    name: String,
    left_ns: Option<u64>,
    woken_ns: Option<u64>,
    /// Address of the futex whose system call it is in.
    futex: Option<u64>,
    waits: u64,
    longest_ns: u64,
    /// The longest wait by futex.
    of_futex: BTreeMap<u64, u64>,
}

impl Thread {
    fn leaves(&mut self, ns: u64, name: &str, state: &str) {
        name.clone_into(&mut self.name);
        self.left_ns = (state == "S" || state == "D").then_some(ns);
        self.woken_ns = None;
    }

    fn comes(&mut self, ns: u64) {
        let Some(left_ns) = self.left_ns.take() else { return };
        let length_ns = self.woken_ns.take().unwrap_or(ns).saturating_sub(left_ns);
        self.waits += 1;
        self.longest_ns = self.longest_ns.max(length_ns);
        if let Some(futex) = self.futex {
            let longest = self.of_futex.entry(futex).or_default();
            *longest = length_ns.max(*longest);
        }
    }
}

/// `what=VALUE` of an event's text, up to the next blank.
fn value<'t>(text: &'t str, what: &str) -> Option<&'t str> {
    text.split_once(what)?.1.split([' ', ',']).next()
}

fn number(text: &str, what: &str) -> Option<u32> {
    value(text, what)?.parse().ok()
}

/// `TID SECONDS.NANOSECONDS: EVENT: TEXT`
fn take_event(threads: &mut BTreeMap<u32, Thread>, line: &str) -> Option<()> {
    let (head, text) = line.split_once(": ")?;
    let mut words = head.split_whitespace();
    // A thread that has ended has number -1 at its last switch.
    let tid = words.next()?.parse().unwrap_or(u32::MAX);
    let (seconds, ns) = words.next()?.split_once('.')?;
    let ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
    let (event, text) = text.trim_start().split_once(": ")?;
    match event {
        "sched:sched_switch" => {
            let (name, state) = (value(text, "prev_comm=")?, value(text, "prev_state=")?);
            threads.entry(number(text, "prev_pid=")?).or_default().leaves(ns, name, state);
            threads.entry(number(text, "next_pid=")?).or_default().comes(ns);
        }
        "sched:sched_waking" => {
            threads.entry(number(text, " pid=")?).or_default().woken_ns.get_or_insert(ns);
        }
        "syscalls:sys_enter_futex" => {
            let address = value(text, "uaddr: 0x")?;
            threads.entry(tid).or_default().futex = u64::from_str_radix(address, 16).ok();
        }
        _ => threads.entry(tid).or_default().futex = None,
    }
    Some(())
}

/// Records the program with tally, and all of it with perf; `None` where perf can't.
fn record_both(folder: &Path, waits: &Path) -> Option<BTreeMap<u32, Thread>> {
    let events = folder.join("sched.data");
    let mut perf = Command::new("perf");
    perf.current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        // Rings that hold all of it: perf's reader gets too little of two CPUs that a thousand threads want.
        .args(["record", "-q", "-a", "-m", "8192", "-o"])
        .arg(&events);
    perf.args(["-e", "sched:sched_switch,sched:sched_waking"]);
    for event in ["syscalls:sys_enter_futex", "syscalls:sys_exit_futex"] {
        perf.args(["-e", event, "--filter", "comm == \"mutex\""]);
    }
    perf.args(["--", TALLY, "record", "-q", "--off-cpu", "-o", "perf.data", "--"]).arg(waits).arg("2");
    if !perf.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: perf can't record the scheduler's events here");
        return None;
    }
    // perf 6.1's own script often fails on the records of BPF programs that come and go.
    let mut script = Command::new(TALLY);
    script.env("LC_ALL", "C.UTF-8").args(["script", "--ns", "-F", "tid,time,event,trace", "-i"]).arg(&events);
    let mut threads = BTreeMap::new();
    for line in output_of(script).lines() {
        take_event(&mut threads, line);
    }
    Some(threads)
}

/// `longest 20.22 ms` in the line of waits of the lock at this address.
fn shown_longest_ns(locks: &str, address: u64) -> Option<u64> {
    let (_, row) = locks.split_once(&format!("({address:#x}, "))?;
    let mut words = row.lines().nth(1)?.split_once("longest ")?.1.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)]
        .into_iter()
        .find(|(unit, _)| words.clone().next() == Some(unit))?;
    Some((number * unit.1) as u64)
}

/// The two look at a switch one after the other, and the text of `locks` has four digits.
fn is_equal(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a / 500 + 50_000
}

/// What differs; `None` where too few threads can be compared.
fn misses(folder: &Path, events: &BTreeMap<u32, Thread>) -> Option<Vec<String>> {
    let mut misses = Vec::new();
    let found = counted(&folder.join("perf.data"));
    let mut compared = 0;
    for (name, tid, longest_ns, count) in found.iter().map(|of| (&of.comm, of.tid, of.longest_ns, of.count)) {
        // Where one of the two lost sight of a switch, nothing can be said.
        let Some(truth) = events.get(&tid).filter(|thread| thread.waits.abs_diff(count) <= 1 && count > 100)
        else {
            continue;
        };
        compared += 1;
        if !is_equal(truth.longest_ns, longest_ns) {
            misses.push(format!("{name} {tid}: {longest_ns} by {count} waits, {truth:?}"));
        }
    }
    if compared < 15 {
        return None;
    }
    let mut locks = Command::new(TALLY);
    locks.args(["locks", "--thread", "mutex", "-i"]).arg(folder.join("perf.data"));
    let text = output_of(locks);
    let lock = events.values().flat_map(|thread| &thread.of_futex).max_by_key(|(_, longest_ns)| **longest_ns);
    let (&address, &longest_ns) = lock.expect("a thread waits for its mutex");
    if !shown_longest_ns(&text, address).is_some_and(|shown| is_equal(longest_ns, shown)) {
        misses.push(format!("{address:#x}: {longest_ns} in {text}"));
    }
    Some(misses)
}

#[test]
#[ignore = "needs a quiet machine, on which perf sees every switch"]
fn the_longest_wait_of_each_kind_and_lock_is_the_schedulers() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("longest");
    let Some(waits) = program("waits", &folder).filter(|_| has_bpf()) else { return };
    let mut last = None;
    // A machine that stops between the two looks at one switch makes them differ: not twice.
    for _ in 0..3 {
        let Some(events) = record_both(&folder, &waits) else { return };
        last = misses(&folder, &events).or(last);
        if last.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
    }
    let Some(last) = last else {
        println!("skipped: the events of perf have other numbers of waits for most threads");
        return;
    };
    panic!("{last:#?}");
}
