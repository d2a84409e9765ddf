//! `tally stat record`: counts into a perf.data file, in the records perf writes them in.
//!
//! ```text
//!   attributes with an id for each place · EVENT_UPDATE (unit, factor) · THREAD_MAP · CPU_MAP · STAT_CONFIG
//!   then by round: STAT for each counter, its count since the start · STAT_ROUND
//! ```
//! An event that this machine lacks has no ids and no counts: that is how perf knows it.
//
// Source: linux v6.1 tools/perf/builtin-stat.c and util/synthetic-events.c write these records.

use std::path::Path;

use anyhow::Context;
use counts::{AGGREGATIONS, Key, Place, Reading, Support};
use perfdata::abi::{PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_SAMPLE_IDENTIFIER};
use perfdata::record::{CpuMap, EventUpdate, Stat, StatRound, ThreadMapEntry, UpdateKind};
use perfdata::{Event, Features, Record, SampleId, Writer, WriterOpts};
use record::features;
use record::opts::RecordOpts;
use record::output_file;

use super::run::{Outcome, RunOpts};

/// CPU number for any.
const ANY_CPU: u16 = u16::MAX;

/// A file of counts being written.
pub struct Recorder {
    writer: Writer<'static>,
    features: Features,
    /// Indexes of the events that are in the file: those tally takes itself are not.
    events: Vec<usize>,
    places: Vec<Place>,
    threads: Vec<u32>,
    /// Counts since the start, by event and place.
    sums: Vec<Vec<Option<Reading>>>,
}

impl Recorder {
    /// Begins a file for counts like those of `first`; an existing one becomes FILE.old.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn create(path: &Path, opts: &RunOpts, first: &Outcome) -> anyhow::Result<Self> {
        let file = output_file::create_recording(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let indexes: Vec<usize> =
            (0..opts.events.len()).filter(|&at| opts.events[at].tool.is_none()).collect();
        let events: Vec<Event> = indexes.iter().map(|&at| event(opts, first, at)).collect();
        let command_line = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let about = RecordOpts { command_line, ..RecordOpts::default() };
        let features = Features { is_stat: true, ..features::of_machine(&about, &events) };
        let writer = Writer::file(file, WriterOpts { events, ..WriterOpts::default() })?;
        let mut threads: Vec<u32> = first.run.places.iter().filter_map(|place| place.tid).collect();
        threads.dedup();
        let sums = vec![vec![None; first.run.places.len()]; opts.events.len()];
        let places = first.run.places.clone();
        let mut this = Self { writer, features, events: indexes, places, threads, sums };
        this.describe(opts, first)?;
        Ok(this)
    }

    /// What is before the first count.
    fn describe(&mut self, opts: &RunOpts, first: &Outcome) -> anyhow::Result<()> {
        for at in self.events.clone() {
            let info = &first.run.infos[at];
            let id = self.id(at, 0);
            if !info.unit.is_empty() {
                self.put(Record::EventUpdate(EventUpdate {
                    id,
                    update: UpdateKind::Unit(info.unit.as_bytes()),
                }))?;
            }
            if info.scale != 1.0 {
                self.put(Record::EventUpdate(EventUpdate { id, update: UpdateKind::Scale(info.scale) }))?;
            }
        }
        let comm_of = |tid: u32| {
            first.run.grouping.keys().iter().find_map(|key| match key {
                Key::Thread(id, comm) if *id == tid => Some(comm.as_bytes()),
                _ => None,
            })
        };
        let thread = |&tid: &u32| ThreadMapEntry { tid: tid.into(), comm: comm_of(tid).unwrap_or_default() };
        let mut threads: Vec<ThreadMapEntry<'_>> = self.threads.iter().map(thread).collect();
        if threads.is_empty() {
            threads.push(ThreadMapEntry { tid: u64::MAX, comm: b"" });
        }
        self.put(Record::ThreadMap(threads))?;
        let mut cpus: Vec<u16> =
            self.places.iter().filter_map(|place| u16::try_from(place.cpu?).ok()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            cpus.push(ANY_CPU);
        }
        self.put(Record::CpuMap(CpuMap { cpus }))?;
        let by = first.run.grouping.by();
        let aggregation = AGGREGATIONS.iter().find(|(of, _)| *of == by).map_or(1, |(_, number)| *number);
        let interval_ms = opts.interval.map_or(0, |interval| interval.as_millis() as u64);
        self.put(Record::StatConfig(vec![(0, aggregation), (1, interval_ms), (2, u64::from(!opts.unscaled))]))
    }

    fn put(&mut self, record: Record<'_>) -> anyhow::Result<()> {
        Ok(self.writer.write_record(0, &record, &SampleId::default())?)
    }

    fn id(&self, event: usize, place: usize) -> u64 {
        id_of(event, place, self.places.len())
    }

    /// Adds what was counted since the last time, and the end of an interval or (`is_end`) of the run.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn push(&mut self, outcome: &Outcome, is_end: bool) -> anyhow::Result<()> {
        for event in self.events.clone() {
            for (at, reading) in outcome.run.readings[event].places.iter().enumerate() {
                let Some(new) = reading else { continue };
                let sum = self.sums[event][at].get_or_insert_default();
                *sum = Reading {
                    value: sum.value.saturating_add(new.value),
                    enabled_ns: sum.enabled_ns.saturating_add(new.enabled_ns),
                    running_ns: sum.running_ns.saturating_add(new.running_ns),
                };
            }
            if matches!(outcome.run.readings[event].support, Support::None(_)) {
                continue;
            }
            for at in 0..self.places.len() {
                if let Some(sum) = self.sums[event][at] {
                    self.put(Record::Stat(self.stat((event, at), sum)))?;
                }
            }
        }
        let round = StatRound { kind: u64::from(is_end), time_ns: outcome.run.at_ns };
        self.put(Record::StatRound(round))
    }

    fn stat(&self, (event, at): (usize, usize), sum: Reading) -> Stat {
        let place = self.places[at];
        let thread = self.threads.iter().position(|tid| Some(*tid) == place.tid).unwrap_or(0);
        Stat {
            id: self.id(event, at),
            cpu: place.cpu.unwrap_or(u32::MAX),
            thread: thread as u32,
            value: sum.value,
            enabled_ns: sum.enabled_ns,
            running_ns: sum.running_ns,
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn finish(self) -> anyhow::Result<()> {
        Ok(self.writer.finish(&self.features, &[])?)
    }
}

fn id_of(event: usize, place: usize, places: usize) -> u64 {
    (event * places.max(1) + place) as u64 + 1
}

/// The event with its ids; without any if the machine lacks it.
fn event(opts: &RunOpts, first: &Outcome, at: usize) -> Event {
    let mut attr = opts.events[at].attr;
    attr.sample_type = PERF_SAMPLE_IDENTIFIER;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    let places = first.run.places.len();
    let is_there = !matches!(first.run.readings[at].support, Support::None(_));
    let ids = if is_there { (0..places).map(|place| id_of(at, place, places)).collect() } else { Vec::new() };
    Event { attr, ids, name: first.run.infos[at].name.clone() }
}
