//! Targets of threads' waits over time.

use super::Column;
use crate::grow::Grow as _;
use crate::off_cpu::{Wait, WaitReason};
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use crate::view::spans::target_words;
use crate::view::wall::Part;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Time that a thread waited for one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineTarget {
    /// Kind of the wait.
    pub part: Part,
    /// A file, a socket with its peer, a lock, the thread that ran instead.
    pub name: String,
    /// ns in the time shown.
    pub ns: u64,
}

/// The calls that a futex's name depends on: where it waits, for which address, and who woke it from where.
type FutexKey = (Option<CallsiteId>, [u64; 3], Option<CallsiteId>);

/// Names of what is waited for, each once.
pub(super) struct TargetNames<'p> {
    pub profile: &'p Profile,
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    futexes: FxHashMap<FutexKey, Option<u32>>,
}

impl<'p> TargetNames<'p> {
    pub fn new(profile: &'p Profile) -> Self {
        Self { profile, names: Vec::new(), numbers: FxHashMap::default(), futexes: FxHashMap::default() }
    }

    /// Number of the name of what a wait is for; `None` if it has none.
    pub fn target(&mut self, wait: &Wait, part: Part) -> Option<u32> {
        let key = (wait.callsite, wait.args, wait.other.and_then(|other| other.callsite));
        let is_futex = matches!(part, Part::Blocked(WaitReason::Futex | WaitReason::Gil));
        if let Some(&known) = self.futexes.get(&key).filter(|_| is_futex) {
            return known;
        }
        let number = target_words(self.profile, wait, part).map(|name| self.number(name));
        if is_futex {
            self.futexes.insert(key, number);
        }
        number
    }

    fn number(&mut self, name: String) -> u32 {
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// Targets of the waits of a thread with these columns, most time first.
pub(super) fn targets_of(columns: &[Column], names: &TargetNames<'_>) -> Vec<TimelineTarget> {
    let mut sums: BTreeMap<(Part, u32), u64> = BTreeMap::new();
    for &(of, ns) in columns.iter().flat_map(Column::targets) {
        sums.entry(of).or_default().grow(ns);
    }
    let name = |number: u32| names.names.get(number as usize).cloned().unwrap_or_default();
    let target = |((part, number), ns)| TimelineTarget { part, name: name(number), ns };
    let mut targets: Vec<TimelineTarget> = sums.into_iter().map(target).collect();
    targets.rank_by(|a, b| (Reverse(a.ns), &a.name).cmp(&(Reverse(b.ns), &b.name)));
    targets
}
