//! The stacks of a finding: up to three, each with its share of the time that the finding is about.

use super::facts::Facts;
use super::hot_stacks::PlaceList;
use super::running::EntryReason;
use crate::grow::ratio;
use crate::grow::{Grow as _, GrownSum as _};
use crate::off_cpu::WaitReason;
use std::collections::BTreeMap;

/// Most stacks of a finding.
pub const MOST: usize = 3;

/// Which time a stack's share is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareBase {
    /// Active time of all threads.
    #[default]
    Active,
    /// All running time.
    Running,
    /// Time that threads waited for a CPU.
    Queued,
    /// Time that threads were preempted.
    Preempted,
    /// Running time of the thread that runs most.
    Busiest,
    /// All time of all threads, idle or not.
    All,
}

impl ShareBase {
    /// `thread time`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "thread time",
            Self::Running => "running time",
            Self::Queued => "the time waiting for a CPU",
            Self::Preempted => "the time preempted",
            Self::Busiest => "that thread's running time",
            Self::All => "all thread time, idle included",
        }
    }

    fn ns(self, facts: &Facts) -> u64 {
        match self {
            Self::Active => facts.times.active_ns(),
            Self::Running => facts.times.on_ns,
            Self::Queued => facts.times.runnable_ns.saturating_add(facts.times.preempted_ns),
            Self::Preempted => facts.times.preempted_ns,
            Self::Busiest => facts.places.busiest.iter().map(|(_, ns)| *ns).grown_sum(),
            Self::All => facts.times.total_ns(),
        }
    }
}

/// Stacks of a finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopStacks {
    /// Description: `where threads wait for the disk`.
    pub what: &'static str,
    /// Base of the shares.
    pub of: ShareBase,
    /// Shares, 0 to 1, and user functions, innermost first; most first. [`Self::missing`] if there are none.
    pub top: Vec<(f64, String)>,
    /// Why there is none.
    pub missing: &'static str,
}

impl TopStacks {
    /// The first of these places, and the next ones as far as they matter.
    pub(super) fn of(facts: &Facts, what: &'static str, of: ShareBase, places: &PlaceList) -> Self {
        const LEAST: f64 = 0.005;
        let whole = of.ns(facts);
        let shares = places.iter().map(|(place, ns)| (ratio(*ns, whole), place.clone()));
        let top =
            shares.enumerate().filter(|(at, (share, _))| *share >= if *at == 0 { 0.0005 } else { LEAST });
        let top = top.map(|(_, stack)| stack).take(MOST).collect();
        Self { what, of, top, missing: "" }
    }

    /// Stacks of waits for these reasons.
    pub(super) fn blocked(facts: &Facts, what: &'static str, reasons: &[WaitReason]) -> Self {
        let lists = reasons.iter().filter_map(|reason| facts.places.blocked.get(reason));
        Self::of(facts, what, ShareBase::Active, &merged(lists))
            .or_missing("its waits are too short: none was sampled with a stack")
    }

    /// Stacks of running threads that entered the code in one of these ways.
    pub(super) fn running(facts: &Facts, what: &'static str, entries: &[EntryReason]) -> Self {
        let lists = entries.iter().filter_map(|entry| facts.running.places.get(entry));
        Self::of(facts, what, ShareBase::Running, &merged(lists))
            .or_missing("no sample of the target's threads is in that time")
    }

    /// These, or if there are none those.
    pub(super) fn or(self, others: impl FnOnce() -> Self) -> Self {
        if self.top.is_empty() { others() } else { self }
    }

    /// Why, if there are none.
    pub(super) fn or_missing(self, missing: &'static str) -> Self {
        if self.top.is_empty() { Self { missing, ..self } } else { self }
    }
}

/// Merges several lists: a place in more than one of them becomes one place.
fn merged<'a>(lists: impl Iterator<Item = &'a PlaceList>) -> PlaceList {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (place, ns) in lists.flatten() {
        sums.entry(place.clone()).or_default().grow(*ns);
    }
    super::hot_stacks::most_first(sums)
}
