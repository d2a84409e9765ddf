//! Counters over the target's whole life, beside the samples: what the summary shows first.

use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use crate::open::{Places, Start};
use crate::summary::CounterValue;
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

/// Opened counters.
#[derive(Debug, Default)]
pub struct Totals {
    counters: Vec<(&'static str, Counter)>,
}

impl Totals {
    /// Opens what can be had; a counter that is not there is left out.
    #[must_use]
    pub fn open(places: &Places, start: Start, kernel: bool) -> Self {
        let mut totals = Self::default();
        for (name, type_, config) in COUNTED {
            if !kernel && KERNEL_ONLY.contains(&name) {
                continue;
            }
            totals
                .counters
                .extend(open_everywhere(type_, config, places, start, kernel).into_iter().map(|c| (name, c)));
        }
        totals
    }

    /// Starts all.
    pub fn enable(&self) {
        for (_, counter) in &self.counters {
            // One that fails reads as it is.
            let _ = counter.enable();
        }
    }

    /// Their values now.
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

fn open_everywhere(type_: u32, config: u64, places: &Places, start: Start, kernel: bool) -> Vec<Counter> {
    let mut flags = AttrFlags::DISABLED | AttrFlags::INHERIT;
    flags.set(AttrFlags::ENABLE_ON_EXEC, start == Start::OnExec);
    flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, !kernel);
    let read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    let attr = Attr { type_, config, read_format, flags, ..Attr::default() }.to_bytes();
    let tids = || places.tids.iter().filter_map(|&t| i32::try_from(t).ok());
    let spots: Vec<(i32, Cpu)> = if places.tids.is_empty() {
        places.cpus.iter().map(|&c| (-1, Cpu::One(c))).collect()
    } else {
        tids().map(|t| (t, Cpu::Any)).collect()
    };
    spots
        .into_iter()
        .filter_map(|(tid, cpu)| {
            Counter::open(&attr, CounterPlace { tid, cpu, leader: None, cgroup: None }).ok()
        })
        .collect()
}
