//! Processes that began and ended while the recording went on.

use super::hot_stacks::most_first;
use crate::grow::Grow as _;
use crate::profile::{Profile, TaskId};
use crate::view::wall::{ThreadRow, Wall};
use std::collections::{BTreeMap, BTreeSet};

/// The target's processes that were not there when the recording began and lived shorter than a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortLived {
    /// How many there were.
    pub processes: usize,
    /// Running time of all their threads, ns.
    pub on_ns: u64,
    /// Active time of all their threads, ns.
    pub active_ns: u64,
    /// All their lives, each that of its first thread, ns.
    pub life_ns: u64,
    /// By name: how many, most first.
    pub names: Vec<(String, u64)>,
}

impl ShortLived {
    /// A process that lives longer isn't short-lived, whoever started it.
    const LONGEST_NS: u64 = 1_000_000_000;

    /// Them, and the tasks of all their threads.
    pub(super) fn of(profile: &Profile, wall: &Wall) -> (Self, BTreeSet<TaskId>) {
        let process = |row: &ThreadRow| row.tasks.first().map(|&task| profile.task(task).process);
        let mut lists: BTreeMap<u32, Vec<&ThreadRow>> = BTreeMap::new();
        for row in &wall.threads {
            if let Some(process) = process(row) {
                lists.entry(process).or_default().push(row);
            }
        }
        let (mut of, mut tasks) = (Self::default(), BTreeSet::new());
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        for threads in lists.values() {
            let came = |row: &&&ThreadRow| row.start_ns > wall.begin_ns && row.life_ns < Self::LONGEST_NS;
            let Some(first) = threads.iter().find(|row| row.tid == row.pid).filter(came) else { continue };
            of.processes += 1;
            of.life_ns.grow(first.life_ns);
            *names.entry(first.comm.clone()).or_default() += 1;
            for row in threads {
                of.on_ns.grow(row.times.on_ns);
                of.active_ns.grow(row.times.active_ns());
                tasks.extend(&row.tasks);
            }
        }
        of.names = most_first(names);
        (of, tasks)
    }
}
