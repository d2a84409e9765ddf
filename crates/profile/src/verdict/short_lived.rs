//! Processes that began and ended while the recording went on.

use crate::view::wall::{ThreadRow, Wall};
use std::collections::BTreeMap;

/// The target's processes that were not there when the recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortLived {
    /// How many there were.
    pub processes: usize,
    /// Running time of their first threads, ns.
    pub on_ns: u64,
    /// Active time of their first threads, ns.
    pub active_ns: u64,
    /// All lives of their first threads, ns.
    pub life_ns: u64,
    /// By name: how many, most first.
    pub names: Vec<(String, u64)>,
}

impl ShortLived {
    /// One that lives longer is no short process, whoever started it.
    const LONGEST_NS: u64 = 1_000_000_000;

    pub(super) fn of(wall: &Wall) -> Self {
        let is_first = |row: &&ThreadRow| row.tid == row.pid;
        let came = |row: &&ThreadRow| row.start_ns > wall.begin_ns && row.life_ns < Self::LONGEST_NS;
        let mut of = Self::default();
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        for row in wall.threads.iter().filter(is_first).filter(came) {
            of.processes += 1;
            of.on_ns += row.times.on_ns;
            of.active_ns += row.times.active_ns();
            of.life_ns += row.life_ns;
            *names.entry(row.comm.clone()).or_default() += 1;
        }
        of.names = super::facts::most_first(names);
        of
    }
}
