//! Counters over the target's whole life, in addition to the samples. The summary shows them first.

use perfdata::abi::*;
use perfdata::record::TaskRecord;
use perfdata::{Attr, AttrFlags};
use rustc_hash::FxHashMap;

use crate::accounting::summary::CounterValue;
use crate::open::{Places, Start};
use crate::sys::time::Clock;
use crate::sys::{Counter, CounterPlace, Cpu};

/// The events counted, in the order they are shown.
const COUNTED: [(&str, u32, u64); 7] = [
    ("task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK),
    ("context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES),
    ("cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS),
    ("minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN),
    ("major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    ("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS),
];

/// Software events that happen in the kernel: without permission to count there, they would read 0.
const KERNEL_ONLY: [&str; 2] = ["context-switches", "cpu-migrations"];

/// Which counters to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// All.
    All,
    /// The hardware counters: the off-CPU engine reports the others, and every counter of a task makes each of its
    /// switches slower.
    Hardware,
}

/// Opened counters.
#[derive(Debug)]
pub struct Totals {
    counters: Vec<(&'static str, Counter)>,
    start: Start,
    kernel: bool,
    clock: Clock,
    counted: Counted,
    /// The moment from which on each thread's children inherit the counters, in ns.
    covered: FxHashMap<u32, u64>,
}

impl Totals {
    /// None at all.
    #[must_use]
    pub fn none() -> Self {
        Self::of(Start::ByHand, false, Clock::Monotonic, Counted::All)
    }

    fn of(start: Start, kernel: bool, clock: Clock, counted: Counted) -> Self {
        Self { counters: Vec::new(), start, kernel, clock, counted, covered: FxHashMap::default() }
    }

    /// Opens the available counters; the others are left out.
    #[must_use]
    pub fn open(places: &Places, start: Start, kernel: bool, clock: Clock, counted: Counted) -> Self {
        let mut totals = Self::of(start, kernel, clock, counted);
        if places.tids.is_empty() {
            places.cpus.iter().for_each(|&c| totals.open_at(-1, Cpu::One(c)));
        }
        places.tids.iter().for_each(|&tid| totals.cover(tid));
        totals
    }

    /// Opens them also for threads that began before their parents had them. True if there were such.
    pub fn adopt(&mut self, forks: &[TaskRecord]) -> bool {
        let before = self.counters.len();
        for fork in forks {
            if self.covered.contains_key(&fork.tid) {
                continue;
            }
            match self.covered.get(&fork.ptid) {
                Some(&since_ns) if since_ns <= fork.time_ns => {
                    self.covered.insert(fork.tid, fork.time_ns);
                }
                _ => self.cover(fork.tid),
            }
        }
        self.counters.len() > before
    }

    fn cover(&mut self, tid: u32) {
        self.open_at(i32::try_from(tid).unwrap_or(i32::MAX), Cpu::Any);
        self.covered.insert(tid, self.clock.now_ns());
    }

    fn open_at(&mut self, tid: i32, cpu: Cpu) {
        for (name, type_, config) in COUNTED {
            // A CPU's task clock runs while it idles: the time of the threads is more useful.
            let is_idle_too = tid < 0 && config == PERF_COUNT_SW_TASK_CLOCK && type_ == PERF_TYPE_SOFTWARE;
            let is_told = self.counted == Counted::Hardware && type_ != PERF_TYPE_HARDWARE;
            if is_told || is_idle_too || (!self.kernel && KERNEL_ONLY.contains(&name)) {
                continue;
            }
            let place = CounterPlace { tid, cpu, leader: None, cgroup: None };
            let counter = Counter::open(&self.attr(type_, config).to_bytes(), place);
            self.counters.extend(counter.ok().map(|c| (name, c)));
        }
    }

    fn attr(&self, type_: u32, config: u64) -> Attr {
        let mut flags = AttrFlags::DISABLED | AttrFlags::INHERIT;
        flags.set(AttrFlags::ENABLE_ON_EXEC, self.start == Start::OnExec);
        flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, !self.kernel);
        let read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        Attr { type_, config, read_format, flags, ..Attr::default() }
    }

    /// Starts all.
    pub fn enable(&self) {
        for (_, counter) in &self.counters {
            // One that fails reads as it is.
            let _ = counter.enable();
        }
    }

    /// Values now.
    #[must_use]
    pub fn read(&self) -> Vec<CounterValue> {
        COUNTED.iter().filter_map(|(name, ..)| self.sum(name)).collect()
    }

    fn sum(&self, name: &str) -> Option<CounterValue> {
        let (mut value, mut enabled, mut running) = (0.0, 0u64, 0u64);
        let mut found = false;
        for (_, counter) in self.counters.iter().filter(|(n, _)| *n == name) {
            let mut words = [0u64; 3];
            if counter.read(&mut words).ok() != Some(3) {
                continue;
            }
            found = true;
            let scale = if words[2] == 0 { 0.0 } else { words[1] as f64 / words[2] as f64 };
            value += words[0] as f64 * scale;
            enabled += words[1];
            running += words[2];
        }
        let running_pct = if enabled == 0 { 0.0 } else { running as f64 * 100.0 / enabled as f64 };
        (found && running > 0).then(|| CounterValue {
            name: name.to_owned(),
            value: value as u64,
            running_pct,
        })
    }
}
