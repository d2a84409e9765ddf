//! Readings of many places summed up by CPU, core, socket, thread; runs averaged.

use std::collections::BTreeMap;

use super::frame::{Aggregation, Block, Cell, Count, CountKey};
use super::series::Series;
use crate::reading::{CountPlace, CpuPlace, Reading, Support};

/// Readings of one event.
#[derive(Debug, Clone)]
pub struct EventReadings {
    /// Whether the machine has it.
    pub support: Support,
    /// One per place; `None`: not opened there.
    pub places: Vec<Option<Reading>>,
    /// The value of a tool event (`places` is empty then), in ns.
    pub tool_ns: Option<u64>,
}

/// Groups of places, in order.
#[derive(Debug, Clone)]
pub struct Grouping {
    by: Aggregation,
    /// The group of each place.
    keys: Vec<CountKey>,
    /// The places that count one task on one CPU each, by task.
    spread: Vec<Vec<usize>>,
    /// Groups without any count are left out, the biggest come first.
    only_counted: bool,
    /// Counts stay as they were read, also of events that shared the PMU.
    unscaled: bool,
}

impl Grouping {
    /// Finds the group of each place.
    pub fn new(by: Aggregation, places: &[CountPlace], of: Topology<'_>) -> Self {
        let mut spread: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, place) in places.iter().enumerate().filter(|(_, p)| p.cpu.is_some()) {
            if let Some(tid) = place.tid {
                spread.entry(tid).or_default().push(index);
            }
        }
        let keys = places.iter().map(|p| key_of(by, *p, of)).collect();
        Self { by, keys, spread: spread.into_values().collect(), only_counted: false, unscaled: false }
    }

    /// True if groups without any count are left out, the others in falling order of their first event.
    pub fn only_counted(mut self, only: bool) -> Self {
        self.only_counted = only;
        self
    }

    /// True if counts stay as they were read (`--no-scale`).
    pub fn unscaled(mut self, unscaled: bool) -> Self {
        self.unscaled = unscaled;
        self
    }

    /// A task's counter on one CPU is enabled whenever the task runs anywhere, but can only run on its CPU. What it
    /// missed because the PMU was shared shows only in the sum over CPUs; each gets its part of that.
    fn share_out(&self, readings: &[Option<Reading>]) -> Vec<Option<Reading>> {
        let mut shared = readings.to_vec();
        for places in &self.spread {
            let of_task = || places.iter().filter_map(|&p| readings.get(p).copied().flatten());
            let running = of_task().fold(0, |sum: u64, r| sum.saturating_add(r.running_ns));
            let enabled = of_task().map(|r| r.enabled_ns).max().unwrap_or(0).max(running);
            for &place in places {
                if let Some(Some(reading)) = shared.get_mut(place) {
                    let part = if running == 0 { 0.0 } else { reading.running_ns as f64 / running as f64 };
                    reading.enabled_ns = (enabled as f64 * part).round() as u64;
                }
            }
        }
        shared
    }

    /// The group of each place.
    pub fn keys(&self) -> &[CountKey] {
        &self.keys
    }

    /// How it groups.
    pub fn by(&self) -> Aggregation {
        self.by
    }

    /// Sums readings up by group.
    pub fn blocks(&self, events: &[EventReadings]) -> Vec<Block> {
        let mut places: BTreeMap<&CountKey, usize> = BTreeMap::new();
        for key in &self.keys {
            *places.entry(key).or_default() += 1;
        }
        if places.is_empty() {
            places.insert(&CountKey::Global, 1);
        }
        let block = |(key, count): (&CountKey, usize)| Block {
            key: key.clone(),
            places: count,
            cells: events.iter().map(|e| self.cell(e, key)).collect(),
        };
        let mut blocks: Vec<Block> = places.into_iter().map(block).collect();
        if self.only_counted {
            blocks.retain(|block| block.cells.iter().any(|cell| cell.value().is_some_and(|v| v > 0.0)));
            let first = |block: &Block| block.cells.first().and_then(Cell::value).unwrap_or(0.0);
            blocks.sort_by(|a, b| first(b).total_cmp(&first(a)));
        }
        blocks
    }

    fn cell(&self, event: &EventReadings, key: &CountKey) -> Cell {
        if let Support::None(_) = event.support {
            return Cell::NotSupported;
        }
        if let Some(ns) = event.tool_ns {
            let ns = ns as f64;
            return Cell::Counted(Count { value: ns, enabled_ns: ns, running_ns: ns, series: None });
        }
        let mut sum = Count { value: 0.0, enabled_ns: 0.0, running_ns: 0.0, series: None };
        for (reading, _) in self.share_out(&event.places).iter().zip(&self.keys).filter(|(_, k)| *k == key) {
            let Some(reading) = reading else { continue };
            sum.value += if self.unscaled { reading.value as f64 } else { scaled(reading) };
            sum.enabled_ns += reading.enabled_ns as f64;
            sum.running_ns += reading.running_ns as f64;
        }
        if sum.running_ns == 0.0 {
            Cell::NotCounted { enabled_ns: sum.enabled_ns }
        } else {
            Cell::Counted(sum)
        }
    }
}

/// The count as if the event had been on the PMU all the time, rounded as perf does.
fn scaled(reading: &Reading) -> f64 {
    if reading.running_ns == 0 {
        return 0.0;
    }
    if reading.running_ns >= reading.enabled_ns {
        return reading.value as f64;
    }
    (reading.value as f64 * reading.enabled_ns as f64 / reading.running_ns as f64).round()
}

/// Where the CPUs of a machine sit, and how its threads are named.
#[derive(Clone, Copy)]
pub struct Topology<'m> {
    /// The place of a CPU.
    pub cpu_place: &'m dyn Fn(u32) -> CpuPlace,
    /// The name of a thread.
    pub comm: &'m dyn Fn(u32) -> String,
}

fn key_of(by: Aggregation, place: CountPlace, of: Topology<'_>) -> CountKey {
    let cpu = place.cpu.unwrap_or(0);
    let at = || (of.cpu_place)(cpu);
    match by {
        Aggregation::Global => CountKey::Global,
        Aggregation::Cpu => CountKey::Cpu(cpu),
        Aggregation::Core => CountKey::Core(at().socket, at().die, at().core),
        Aggregation::Die => CountKey::Die(at().socket, at().die),
        Aggregation::Socket => CountKey::Socket(at().socket),
        Aggregation::Node => CountKey::Node(at().node),
        Aggregation::Thread => {
            let tid = place.tid.unwrap_or(0);
            CountKey::Thread(tid, (of.comm)(tid).trim_end().to_owned())
        }
    }
}

/// Blocks of several runs, averaged.
#[derive(Debug, Default)]
pub struct Average {
    runs: f64,
    blocks: Vec<Block>,
    series: Vec<Vec<Series>>,
}

impl Average {
    /// Takes the blocks of one run in; their keys are those of the first run.
    pub fn push(&mut self, blocks: Vec<Block>) {
        self.runs += 1.0;
        if self.blocks.is_empty() {
            self.series = blocks.iter().map(|b| vec![Series::default(); b.cells.len()]).collect();
            self.blocks = blocks;
            for (block, series) in self.blocks.iter().zip(&mut self.series) {
                push_values(block, series);
            }
            return;
        }
        for ((sum, series), new) in self.blocks.iter_mut().zip(&mut self.series).zip(&blocks) {
            push_values(new, series);
            sum.cells.iter_mut().zip(&new.cells).for_each(|(s, n)| add(s, n));
        }
    }

    /// The means, each with its series.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = self.blocks.clone();
        for (block, series) in blocks.iter_mut().zip(&self.series) {
            for (cell, series) in block.cells.iter_mut().zip(series) {
                if let Cell::Counted(count) = cell {
                    count.value = series.mean();
                    count.enabled_ns /= self.runs;
                    count.running_ns /= self.runs;
                    count.series = (self.runs > 1.0).then_some(*series);
                }
            }
        }
        blocks
    }
}

fn push_values(block: &Block, series: &mut [Series]) {
    for (cell, series) in block.cells.iter().zip(series) {
        if let Some(value) = cell.value() {
            series.push(value);
        }
    }
}

/// Times are summed; a cell that was counted in any run counts as counted.
fn add(sum: &mut Cell, new: &Cell) {
    match (&mut *sum, new) {
        (Cell::Counted(sum), Cell::Counted(new)) => {
            sum.enabled_ns += new.enabled_ns;
            sum.running_ns += new.running_ns;
        }
        (Cell::NotCounted { .. }, Cell::Counted(new)) => *sum = Cell::Counted(*new),
        _ => {}
    }
}
