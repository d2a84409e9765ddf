//! How regular and how even running is: work by a timer, preemption by others, the spread over threads.

use crate::view::ranking::RankRows as _;
use std::collections::{BTreeMap, BTreeSet};

use perfdata::off_cpu::State;

use super::OthersRan;
use crate::grow::Grow as _;
use crate::grow::GrownSum as _;
use crate::grow::ratio;
use crate::off_cpu::{WaitReason, is_for_cpu};
use crate::profile::Profile;
use crate::verdict::hot_stacks::OURSELVES;
use crate::view::wall::{Wall, other_name};

/// Samples of the event that has most of them, off-CPU ones left out.
#[must_use]
pub fn running_samples(profile: &Profile) -> u64 {
    let runs = |event: &usize| !crate::off_cpu::is_off_cpu(&profile.events[*event].name);
    let events = (0..profile.events.len()).filter(runs);
    events.map(|event| profile.total(event).count).max().unwrap_or(0)
}

/// Lengths of waits in timer system calls.
pub(super) fn timers(profile: &Profile) -> Option<(f64, f64, u64)> {
    let is_timer = |nr| WaitReason::of_syscall(nr, profile.off_cpu.numbering) == Some(WaitReason::Timer);
    // Woken from it, a thread still is in the call.
    let waits = profile.off_cpu.waits.iter().filter(|wait| wait.state == State::Sleep && wait.length_ns > 0);
    let waits = waits.filter(|wait| wait.syscall.is_some_and(is_timer));
    spread(&waits.map(|wait| wait.length_ns as f64).collect::<Vec<f64>>())
}

/// The other programs that ran while threads of the target waited for a CPU, as far as that is known.
pub(super) fn others_ran(profile: &Profile, wall: &Wall) -> Option<OthersRan> {
    let own: BTreeSet<u32> = wall.threads.iter().map(|row| row.pid.cast_unsigned()).collect();
    let (mut known_ns, mut others) = (0u64, BTreeMap::<String, u64>::new());
    for wait in profile.off_cpu.waits.iter().filter(|wait| is_for_cpu(wait)) {
        // An idle CPU has no thread.
        let Some(other) = wait.other.filter(|other| other.tid != 0) else { continue };
        let name = other_name(profile, other);
        // The recorder runs for moments: coming last before a woken thread, it hides who had the CPU until then.
        if wait.state == State::Runnable && name == OURSELVES {
            continue;
        }
        known_ns.grow(wait.weight_ns);
        if !own.contains(&other.pid) {
            others.entry(name).or_default().grow(wait.weight_ns);
        }
    }
    let share = ratio(others.values().copied().grown_sum(), known_ns);
    let (most, ns) = others.into_iter().max_by_key(|(_, ns)| *ns).unwrap_or_default();
    (known_ns > 0).then(|| OthersRan { known_ns, share, most, share_of_most: ratio(ns, known_ns) })
}

/// Median, variation and count; `None` without values. Fewer than 20 values can't show regularity: their variation is
/// infinite. A busy machine ends some waits late; those don't count.
pub(super) fn spread(values: &[f64]) -> Option<(f64, f64, u64)> {
    const FEW: usize = 20;
    if values.is_empty() {
        return None;
    }
    const QUARTILES_APART: f64 = 1.349;
    let mut sorted = values.to_vec();
    sorted.rank_by(f64::total_cmp);
    let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
    let variation = match values.len() {
        ..FEW => f64::INFINITY,
        _ => (at(3) - at(1)) / QUARTILES_APART / at(2).max(1e-9),
    };
    let typical = if variation < REGULAR { at(2) } else { half_of_time(&sorted) };
    Some((typical, variation, values.len() as u64))
}

/// Waits that vary less than this have one length.
pub(in crate::verdict) const REGULAR: f64 = 0.1;

/// The length with half of the time of all waits, sorted, above it.
fn half_of_time(sorted: &[f64]) -> f64 {
    let half = sorted.iter().sum::<f64>() / 2.0;
    let mut above = 0.0;
    let reaches = |length: &&f64| {
        above += **length;
        above >= half
    };
    sorted.iter().rev().find(reaches).copied().unwrap_or(0.0)
}
