//! Activity of other threads while one waits for a lock: the lock's holders compute, sleep or wait themselves.

use super::cause::activity_words;
use super::locks::is_for_thread_lock;
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::blame::{BlameEnd, blame, end_function};
use crate::view::wall::{PlacedWait, WallOpts, placed_waits};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// The most frequent activity of the threads that a thread waits for at its locks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockHolders {
    /// In words: `sleeps in handle() (th.py:9)`.
    pub activity: String,
    /// Share of that thread's waits for locks, 0 to 1.
    pub share: f64,
}

impl LockHolders {
    /// For the thread that waits longest for locks; `None` if it has none, or their holders do many things.
    #[must_use]
    pub fn of(profile: &Profile) -> Option<Self> {
        const LEAST: f64 = 0.4;
        let waits = placed_waits(profile, &WallOpts::default());
        let for_locks: Vec<&PlacedWait> =
            waits.iter().filter(|wait| is_for_thread_lock(profile, wait)).collect();
        let mut by_task: BTreeMap<TaskId, u64> = BTreeMap::new();
        for wait in &for_locks {
            by_task.entry(wait.task).or_default().grow(wait.ns);
        }
        let (waiter, _) = by_task.into_iter().max_by_key(|(_, ns)| *ns)?;
        let places: FxHashSet<CallsiteId> = for_locks.iter().map(|wait| wait.callsite).collect();
        let activities = activities(profile, waiter, &places);
        let all_ns = activities.values().copied().grown_sum();
        let (activity, ns) = activities.into_iter().max_by_key(|(_, ns)| *ns)?;
        let share = ns as f64 / all_ns.max(1) as f64;
        (share >= LEAST).then_some(())?;
        Some(Self { activity: activity?, share })
    }
}

/// Time of this thread at these places, by the activity of whom it waited for, ns; `None`: not known in words.
fn activities(
    profile: &Profile,
    waiter: TaskId,
    places: &FxHashSet<CallsiteId>,
) -> BTreeMap<Option<String>, u64> {
    let blame = blame(profile, Some(&profile.task(waiter).tid.to_string()));
    let mut sums: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for path in &blame.paths {
        let first = blame.links(path).first().and_then(|link| link.sleeper);
        if !first.is_some_and(|sleeper| places.contains(&sleeper)) {
            continue;
        }
        let known = Some(&path.end).filter(|end| !end.lacks_evidence());
        let words = known.and_then(|end: &BlameEnd| {
            let (function, line) = end_function(profile, path.callsite, end);
            activity_words(end, &function, line.as_deref())
        });
        sums.entry(words).or_default().grow(path.ns);
    }
    sums
}
