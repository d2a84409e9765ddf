//! Places of waiting and running threads (user functions, leaf first) with ns, the source of the findings' stacks.

use super::locks::is_for_lock;
use super::running::place_of;
use crate::grow::{Grow as _, GrownSum as _};
use crate::off_cpu::WaitReason;
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use crate::view::wall::{
    Part, PlacedWait, Wall, is_of_kernel, kernel_frames, name_of, other_name, running_by_task,
};
use std::collections::{BTreeMap, BTreeSet};

/// Places with ns, most first.
pub type PlaceList = Vec<(String, u64)>;

/// All places but those of running threads by what brought them there, which are in [`super::Running`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotStacks {
    /// Places of blocked threads, by reason.
    pub blocked: BTreeMap<WaitReason, PlaceList>,
    /// Places of idle waits.
    pub idle: PlaceList,
    /// Places of waits for locks in user space, conditions and joins left out.
    pub locks: PlaceList,
    /// Places of threads that wait for a CPU, woken or preempted: where they continue once they have one.
    pub queued: PlaceList,
    /// Places of preempted threads.
    pub preempted: PlaceList,
    /// `thread: place` of what ran while threads waited for a CPU, as far as it was recorded; of others the name alone.
    pub instead: PlaceList,
    /// Places of running threads inside the kernel's functions that spin for locks.
    pub spinning: PlaceList,
    /// Places of the thread that runs most.
    pub busiest: PlaceList,
    /// Places of running threads of short-lived processes.
    pub short_lived: PlaceList,
}

/// Name of the recorder among those that had a CPU.
pub(super) const OURSELVES: &str = "tally (itself)";

/// Text after the name of a thread that ran instead without being recorded.
pub(super) const NOT_RECORDED: &str = " (outside the recording)";

/// Kernel functions that spin for a lock, by how their names begin.
pub(super) const SPINNING: &[&str] = &[
    "queued_spin_lock_slowpath",
    "native_queued_spin_lock",
    "osq_lock",
    "rwsem_spin",
    "mutex_spin",
    "rwsem_optimistic",
];

impl HotStacks {
    /// `short_lived`: tasks of processes that came and went.
    pub(super) fn of(
        profile: &Profile,
        wall: &Wall,
        waits: &[PlacedWait],
        short_lived: &BTreeSet<TaskId>,
    ) -> Self {
        let mut sums = Sums::default();
        for wait in waits {
            sums.add_wait(profile, wait);
        }
        let running = running_by_task(profile, wall);
        let busiest = wall.threads.iter().max_by_key(|row| row.times.on_ns);
        for &(task, callsite, ns) in &running {
            let mut lists = Vec::new();
            if busiest.is_some_and(|row| row.tasks.contains(&task)) {
                lists.push(&mut sums.busiest);
            }
            if short_lived.contains(&task) {
                lists.push(&mut sums.short_lived);
            }
            if spins(profile, callsite) {
                lists.push(&mut sums.spinning);
            }
            for list in lists {
                list.entry(place_of(profile, callsite)).or_default().grow(ns);
            }
        }
        let mut places = sums.finish();
        places.instead = instead(profile, waits, &running);
        places
    }
}

#[derive(Default)]
struct Sums {
    blocked: BTreeMap<WaitReason, BTreeMap<String, u64>>,
    idle: BTreeMap<String, u64>,
    locks: BTreeMap<String, u64>,
    queued: BTreeMap<String, u64>,
    preempted: BTreeMap<String, u64>,
    spinning: BTreeMap<String, u64>,
    busiest: BTreeMap<String, u64>,
    short_lived: BTreeMap<String, u64>,
}

impl Sums {
    fn add_wait(&mut self, profile: &Profile, wait: &PlacedWait) {
        let place = place_of(profile, wait.callsite);
        if is_for_lock(profile, wait) {
            self.locks.entry(place.clone()).or_default().grow(wait.ns);
        }
        if wait.part == Part::Preempted {
            self.preempted.entry(place.clone()).or_default().grow(wait.ns);
        }
        let list = match wait.part {
            Part::Blocked(reason) => self.blocked.entry(reason).or_default(),
            Part::Idle => &mut self.idle,
            Part::Runnable | Part::Preempted => &mut self.queued,
            Part::On => return,
        };
        list.entry(place).or_default().grow(wait.ns);
    }

    fn finish(self) -> HotStacks {
        let blocked = self.blocked.into_iter().map(|(reason, places)| (reason, most_first(places)));
        HotStacks {
            blocked: blocked.collect(),
            idle: most_first(self.idle),
            locks: most_first(self.locks),
            queued: most_first(self.queued),
            preempted: most_first(self.preempted),
            instead: Vec::new(),
            spinning: most_first(self.spinning),
            busiest: most_first(self.busiest),
            short_lived: most_first(self.short_lived),
        }
    }
}

fn spins(profile: &Profile, callsite: CallsiteId) -> bool {
    let mut names = kernel_frames(profile, callsite).filter_map(|frame| name_of(profile, frame));
    names.any(|name| SPINNING.iter().any(|begin| name.starts_with(begin)))
}

/// Places of the threads that ran while others waited for a CPU, each in proportion to all of its samples: the exact time
/// of single samples isn't kept.
fn instead(profile: &Profile, waits: &[PlacedWait], running: &[(TaskId, CallsiteId, u64)]) -> PlaceList {
    let mut of_thread: BTreeMap<u32, (u64, BTreeMap<CallsiteId, u64>)> = BTreeMap::new();
    for &(task, callsite, ns) in running {
        let tid = profile.task(task).tid.cast_unsigned();
        let (whole, paths) = of_thread.entry(tid).or_default();
        whole.grow(ns);
        paths.entry(callsite).or_default().grow(ns);
    }
    let mut others: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.is_instead) {
        let Some(other) = wait.other.filter(|other| other.tid != 0) else { continue };
        let name = match other_name(profile, other) {
            name if name.is_empty() => format!("thread {}", other.tid),
            name => name,
        };
        others.entry((other.tid, name)).or_default().grow(wait.ns);
    }
    let (mut places, mut outside) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    for ((tid, name), waited_ns) in others {
        match of_thread.get(&tid).filter(|(whole, _)| *whole > 0) {
            Some((whole, paths)) => {
                for (&callsite, &ns) in paths {
                    let part = u128::from(waited_ns) * u128::from(ns) / u128::from(*whole);
                    let place = format!("{name}: {}", place_of(profile, callsite));
                    places.entry(place).or_default().grow(u64::try_from(part).unwrap_or(u64::MAX));
                }
            }
            None => outside.entry(name).or_default().grow(waited_ns),
        }
    }
    // Next to one function of the target, all other programs are one row: twenty small ones would look like none.
    if !outside.is_empty() {
        places.insert(outside_words(&outside), outside.values().copied().grown_sum());
    }
    most_first(places)
}

/// Programs outside the recording as one name: `rustc, 18 others and tally itself (outside the recording)`.
fn outside_words(outside: &BTreeMap<String, u64>) -> String {
    let others = || outside.iter().filter(|(name, _)| *name != OURSELVES);
    // A reader can do something about a program.
    let most =
        others().max_by_key(|(name, ns)| (!is_of_kernel(name), **ns)).map(|(name, _)| match name.as_str() {
            "tally" => "another tally",
            name => name,
        });
    let more = match others().count() {
        0 | 1 => String::new(),
        2 => ", 1 other".to_owned(),
        count => format!(", {} others", count - 1),
    };
    let tally = match (most, outside.contains_key(OURSELVES)) {
        (_, false) => "",
        (None, true) => "tally itself",
        (Some(_), true) => " and tally itself",
    };
    format!("{}{more}{tally}{NOT_RECORDED}", most.unwrap_or_default())
}

pub(super) fn most_first(by_name: BTreeMap<String, u64>) -> PlaceList {
    let mut list: PlaceList = by_name.into_iter().collect();
    list.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_outside_a_recording_are_one_row_by_the_largest_with_the_recorder_last() {
        let of = |names: &[(&str, u64)]| {
            outside_words(&names.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect())
        };
        let rows = [("make", 5), ("rustc", 9), ("sh", 1), (OURSELVES, 20)];
        assert_eq!(of(&rows), "rustc, 2 others and tally itself (outside the recording)");
        assert_eq!(of(&rows[..2]), "rustc, 1 other (outside the recording)");
        assert_eq!(of(&[("rcu_preempt", 9), ("sh", 1)]), "sh, 1 other (outside the recording)");
        assert_eq!(of(&[("rcu_preempt", 9)]), "rcu_preempt (outside the recording)");
        assert_eq!(of(&rows[..1]), "make (outside the recording)");
        assert_eq!(of(&rows[3..]), "tally itself (outside the recording)");
        assert_eq!(
            of(&[("tally", 3), (OURSELVES, 1)]),
            "another tally and tally itself (outside the recording)"
        );
    }
}
