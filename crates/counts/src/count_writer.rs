//! Counts into a perf.data file, in the records perf writes them in.
//!
//! ```text
//!   attributes with an id for each place · EVENT_UPDATE (unit, factor) · THREAD_MAP · CPU_MAP · STAT_CONFIG
//!   then by round: STAT for each counter, its count since the start · STAT_ROUND
//! ```
//! An event that this machine lacks has no ids and no counts: that is how perf knows it.
//
// Source: linux v6.1 tools/perf/builtin-stat.c and util/synthetic-events.c write these records.

use std::fs::File;
use std::io;

use perfdata::abi::{PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_SAMPLE_IDENTIFIER};
use perfdata::record::{CpuMap, EventUpdate, Stat, StatRound, ThreadMapEntry, UpdateKind};
use perfdata::{Attr, Event, Features, Record, SampleId, Writer, WriterOpts};

use crate::frame::CountKey;
use crate::reading::{CountPlace, Reading, Support};
use crate::reread::AGGREGATIONS;
use crate::run::CountedRun;

/// CPU number for any.
const ANY_CPU: u16 = u16::MAX;

/// Events of a file of counts, and how they are counted.
#[derive(Clone, Debug, Default)]
pub struct CountFileOpts {
    /// By index in the runs: those in the file. Others (taken by the program itself) have no place in it.
    pub attrs: Vec<(usize, Attr)>,
    /// Length of an interval; 0 without any.
    pub interval_ms: u64,
    /// Counts of events that shared the PMU are kept as they were read.
    pub unscaled: bool,
}

/// A file of counts being written.
pub struct CountWriter {
    writer: Writer<'static>,
    /// As they are in the file.
    events: Vec<Event>,
    opts: CountFileOpts,
    places: Vec<CountPlace>,
    threads: Vec<u32>,
    /// Counts since the start, by event and place.
    sums: Vec<Vec<Option<Reading>>>,
}

impl CountWriter {
    /// Begins a file for counts like those of `first`.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn new(file: File, opts: CountFileOpts, first: &CountedRun) -> io::Result<Self> {
        let events: Vec<Event> = opts.attrs.iter().map(|(at, attr)| event(attr, first, *at)).collect();
        let writer_opts = WriterOpts { events: events.clone(), ..WriterOpts::default() };
        let writer = Writer::file(file, writer_opts)?;
        let mut threads: Vec<u32> = first.places.iter().filter_map(|place| place.tid).collect();
        threads.dedup();
        let sums = vec![vec![None; first.places.len()]; first.readings.len()];
        let mut this = Self { writer, events, opts, places: first.places.clone(), threads, sums };
        this.describe(first)?;
        Ok(this)
    }

    /// Indexes of the events in the file.
    fn indexes(&self) -> Vec<usize> {
        self.opts.attrs.iter().map(|(at, _)| *at).collect()
    }

    /// Writes the records before the first count.
    fn describe(&mut self, first: &CountedRun) -> io::Result<()> {
        self.put_units(first)?;
        self.put_threads(first)?;
        self.put_cpus()?;
        let by = first.grouping.by();
        let aggregation = AGGREGATIONS.iter().find(|(of, _)| *of == by).map_or(1, |(_, number)| *number);
        let is_scaled = u64::from(!self.opts.unscaled);
        self.put(Record::StatConfig(vec![(0, aggregation), (1, self.opts.interval_ms), (2, is_scaled)]))
    }

    fn put_units(&mut self, first: &CountedRun) -> io::Result<()> {
        for at in self.indexes() {
            let info = &first.infos[at];
            let id = self.id(at, 0);
            if !info.unit.is_empty() {
                let update = UpdateKind::Unit(info.unit.as_bytes());
                self.put(Record::EventUpdate(EventUpdate { id, update }))?;
            }
            if info.scale != 1.0 {
                self.put(Record::EventUpdate(EventUpdate { id, update: UpdateKind::Scale(info.scale) }))?;
            }
        }
        Ok(())
    }

    fn put_threads(&mut self, first: &CountedRun) -> io::Result<()> {
        let comm_of = |tid: u32| {
            first.grouping.keys().iter().find_map(|key| match key {
                CountKey::Thread(id, comm) if *id == tid => Some(comm.as_bytes()),
                _ => None,
            })
        };
        let thread = |&tid: &u32| ThreadMapEntry { tid: tid.into(), comm: comm_of(tid).unwrap_or_default() };
        let mut threads: Vec<ThreadMapEntry<'_>> = self.threads.iter().map(thread).collect();
        if threads.is_empty() {
            threads.push(ThreadMapEntry { tid: u64::MAX, comm: b"" });
        }
        self.put(Record::ThreadMap(threads))
    }

    fn put_cpus(&mut self) -> io::Result<()> {
        let mut cpus: Vec<u16> =
            self.places.iter().filter_map(|place| u16::try_from(place.cpu?).ok()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            cpus.push(ANY_CPU);
        }
        self.put(Record::CpuMap(CpuMap { cpus }))
    }

    fn put(&mut self, record: Record<'_>) -> io::Result<()> {
        self.writer.write_record(0, &record, &SampleId::default())
    }

    fn id(&self, event: usize, place: usize) -> u64 {
        id_of(event, place, self.places.len())
    }

    /// Adds what was counted since the last time, and the end of an interval or (`is_end`) of the run.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn push(&mut self, run: &CountedRun, is_end: bool) -> io::Result<()> {
        for event in self.indexes() {
            for (at, reading) in run.readings[event].places.iter().enumerate() {
                let Some(new) = reading else { continue };
                let sum = self.sums[event][at].get_or_insert_default();
                *sum = Reading {
                    value: sum.value.saturating_add(new.value),
                    enabled_ns: sum.enabled_ns.saturating_add(new.enabled_ns),
                    running_ns: sum.running_ns.saturating_add(new.running_ns),
                };
            }
            if matches!(run.readings[event].support, Support::None(_)) {
                continue;
            }
            for at in 0..self.places.len() {
                if let Some(sum) = self.sums[event][at] {
                    self.put(Record::Stat(self.stat(event, at, sum)))?;
                }
            }
        }
        let round = StatRound { kind: u64::from(is_end), time_ns: run.at_ns };
        self.put(Record::StatRound(round))
    }

    fn stat(&self, event: usize, at: usize, sum: Reading) -> Stat {
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

    /// Completes the file with what `of_machine` knows about the machine and these events.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn finish(self, of_machine: impl FnOnce(&[Event]) -> Features) -> io::Result<()> {
        let features = Features { is_stat: true, ..of_machine(&self.events) };
        self.writer.finish(&features, &[])
    }
}

fn id_of(event: usize, place: usize, places: usize) -> u64 {
    (event * places.max(1) + place) as u64 + 1
}

/// The event with its ids; without any if the machine lacks it.
fn event(attr: &Attr, first: &CountedRun, at: usize) -> Event {
    let mut attr = *attr;
    attr.sample_type = PERF_SAMPLE_IDENTIFIER;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    let places = first.places.len();
    let is_there = !matches!(first.readings[at].support, Support::None(_));
    let ids = if is_there { (0..places).map(|place| id_of(at, place, places)).collect() } else { Vec::new() };
    Event { attr, ids, name: first.infos[at].name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Aggregation, EventInfo};
    use crate::reading::CpuPlace;
    use crate::reread::reread;
    use crate::total::{EventReadings, Grouping, Topology};
    use perfdata::{PerfData, abi};

    /// One event on the CPUs 0 and 1 with these values.
    fn run(values: [u64; 2], at_ns: u64) -> CountedRun {
        let places = vec![CountPlace { cpu: Some(0), tid: None }, CountPlace { cpu: Some(1), tid: None }];
        let cpu_place = |_| CpuPlace::default();
        let topology = Topology { cpu_place: &cpu_place, comm: &|_| String::new() };
        let reading = |value| Some(Reading { value, enabled_ns: 10, running_ns: 5 });
        let attr = Attr { type_: abi::PERF_TYPE_HARDWARE, ..Attr::default() };
        CountedRun {
            readings: vec![EventReadings {
                support: Support::Full,
                places: values.map(reading).to_vec(),
                tool_ns: None,
            }],
            grouping: Grouping::new(Aggregation::Cpu, &places, topology),
            places,
            infos: vec![EventInfo::of_attr("cycles".to_owned(), &attr)],
            wall_ns: at_ns,
            at_ns,
        }
    }

    #[test]
    fn counts_of_two_intervals_are_read_back_as_they_were_written() {
        let path = std::env::temp_dir().join(format!("tally-counts-{}", std::process::id()));
        let file = File::create(&path).expect("a file of our own");
        let first = run([3, 4], 1_000_000);
        let attr = Attr { type_: abi::PERF_TYPE_HARDWARE, ..Attr::default() };
        let opts = CountFileOpts { attrs: vec![(0, attr)], interval_ms: 1, unscaled: false };
        let mut writer = CountWriter::new(file, opts, &first).expect("begun");
        writer.push(&first, false).expect("written");
        writer.push(&run([30, 40], 2_000_000), false).expect("written");
        writer.finish(|_| Features::default()).expect("complete");
        let bytes = std::fs::read(&path).expect("just written");
        std::fs::remove_file(&path).expect("ours");
        let counts = reread(&PerfData::open(&bytes).expect("a perf.data"), None);
        let values = |run: &CountedRun| {
            let places = run.readings[0].places.iter().flatten();
            places.map(|reading| (reading.value, reading.enabled_ns, reading.running_ns)).collect::<Vec<_>>()
        };
        assert!(counts.has_intervals && counts.problems.is_empty());
        let read: Vec<_> = counts.runs.iter().map(values).collect();
        assert_eq!(read, [[(3, 10, 5), (4, 10, 5)], [(30, 10, 5), (40, 10, 5)]]);
    }
}
