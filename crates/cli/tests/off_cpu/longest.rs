//! The longest wait of each kind, and of a lock, against what the program knows: it measures each call, and subtracts
//! the time on the CPU and the time for which it waited for one.

use std::path::Path;
use std::process::Command;

use super::waits::{KindTruth, counted, record_waits};
use super::{ONE, TALLY, output_of};

/// Kinds of waits that must be known.
const LEAST_KINDS: usize = 15;

/// `max 20.22 ms` in the line of waits below the line of this lock.
fn shown_longest_ns(locks: &str, lock: &str) -> Option<u64> {
    let (_, row) = locks.split_once(lock)?;
    let mut words = row.lines().nth(1)?.split_once("max ")?.1.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?;
    let (_, factor) = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)].into_iter().find(|(name, _)| *name == unit)?;
    Some((number * factor) as u64)
}

/// At least the longest call with one wait, at most the longest call: that has waits for a CPU in it, or several waits.
/// The clocks are read one after the other, and the text of `locks` has four digits.
fn fits(found_ns: u64, truth: &KindTruth) -> bool {
    let room = |ns: u64| ns / 500 + 100_000;
    found_ns + room(found_ns) >= truth.single_ns && found_ns <= truth.longest_ns + room(truth.longest_ns)
}

/// Differences in one recording; `None` where too little is known.
fn misses(name: &str) -> Option<Vec<String>> {
    let (file, kinds) = record_waits(name)?;
    let known = kinds.iter().filter(|(_, truth)| truth.single_ns > 0);
    if known.clone().count() < LEAST_KINDS {
        println!("skipped: this kernel doesn't count how long threads wait for a CPU: {kinds:?}");
        return None;
    }
    let threads = counted(&file);
    let mut misses = Vec::new();
    for (kind, truth) in known {
        // Threads that a kind starts inherit its name and wait once each.
        let thread = threads.iter().filter(|thread| thread.comm == *kind).max_by_key(|thread| thread.count);
        let found_ns = thread.map_or(0, |thread| thread.longest_ns);
        if !fits(found_ns, truth) {
            misses.push(format!("{kind}: {found_ns}, {truth:?}"));
        }
    }
    if let Some(truth) = kinds.get("mutex") {
        misses.extend(lock_miss(&file, truth));
    }
    Some(misses)
}

fn lock_miss(file: &Path, truth: &KindTruth) -> Option<String> {
    let mut locks = Command::new(TALLY);
    locks.args(["locks", "--thread", "mutex", "-i"]).arg(file);
    let text = output_of(locks);
    let shown = shown_longest_ns(&text, "mutex in waits");
    (!shown.is_some_and(|shown_ns| fits(shown_ns, truth))).then(|| format!("{shown:?}, {truth:?}: {text}"))
}

#[test]
#[ignore = "live: records on this machine"]
fn the_longest_wait_of_each_kind_and_lock_is_the_programs() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let mut last = Vec::new();
    // A hypervisor that stops the machine between two clocks, or hides a switch, spoils one run: not each.
    for _ in 0..3 {
        let Some(found) = misses("longest") else { return };
        if found.is_empty() {
            return;
        }
        last = found;
    }
    panic!("{last:#?}");
}
