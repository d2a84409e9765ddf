//! Counts out of a perf.data file, perf's or our own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use perfdata::file::features::CpuTopology;
use perfdata::record::UpdateKind;
use perfdata::{Order, PerfData, Record};

use crate::cpu_list::parse_cpu_list;
use crate::frame::{Aggregation, EventInfo};
use crate::reading::{CountPlace, CpuPlace, Reading, Support};
use crate::run::CountedRun;
use crate::total::{EventReadings, Grouping, Topology};

/// `enum aggr_mode` of perf 6.1.
pub const AGGREGATIONS: [(Aggregation, u64); 7] = [
    (Aggregation::Cpu, 0),
    (Aggregation::Global, 1),
    (Aggregation::Socket, 2),
    (Aggregation::Die, 3),
    (Aggregation::Core, 4),
    (Aggregation::Thread, 5),
    (Aggregation::Node, 7),
];

/// The counts of a file.
pub struct Reread {
    /// One for each interval, or the whole run.
    pub runs: Vec<CountedRun>,
    /// They are intervals.
    pub has_intervals: bool,
    /// Damaged parts of the file.
    pub problems: Vec<perfdata::Error>,
}

/// Where a count is from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CpuThread {
    /// All ones: any.
    cpu: u32,
    /// An index into the file's threads; all ones: all.
    thread: u32,
}

/// Counts since the start, by event.
type Sums = BTreeMap<(usize, CpuThread), Reading>;

/// Content of a file, as far as it was read.
struct File<'f> {
    file: &'f PerfData<'f>,
    infos: Vec<EventInfo>,
    threads: Vec<(u64, String)>,
    by: Aggregation,
    interval_ms: u64,
    sums: Sums,
    /// (time, is the end, counts) of each round.
    rounds: Vec<(u64, bool, Sums)>,
}

/// Reads the counts; `by` sums up otherwise than was recorded.
#[must_use]
pub fn reread(file: &PerfData<'_>, by: Option<Aggregation>) -> Reread {
    let infos =
        file.events().iter().map(|event| EventInfo::of_attr(event.name.clone(), &event.attr)).collect();
    let by_recorded = Aggregation::Global;
    let mut reading = File {
        file,
        infos,
        threads: Vec::new(),
        by: by_recorded,
        interval_ms: 0,
        sums: Sums::new(),
        rounds: Vec::new(),
    };
    let found = file.visit(Order::File, |item| {
        reading.take(&item.record);
        ControlFlow::Continue(())
    });
    reading.by = by.unwrap_or(reading.by);
    Reread { problems: found.problems, ..reading.runs() }
}

impl File<'_> {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::EventUpdate(update) => {
                let Some(info) = self.file.event_of_id(update.id).and_then(|at| self.infos.get_mut(at))
                else {
                    return;
                };
                match &update.update {
                    UpdateKind::Unit(unit) => info.unit = String::from_utf8_lossy(unit).into_owned(),
                    UpdateKind::Scale(scale) => info.scale = *scale,
                    UpdateKind::Name(name) => info.name = String::from_utf8_lossy(name).into_owned(),
                    UpdateKind::Cpus(_) | UpdateKind::Other(..) => {}
                }
            }
            Record::ThreadMap(threads) => {
                let thread = |t: &perfdata::record::ThreadMapEntry<'_>| {
                    (t.tid, String::from_utf8_lossy(t.comm).into_owned())
                };
                self.threads = threads.iter().map(thread).collect();
            }
            Record::StatConfig(settings) => {
                let of = |tag: u64| settings.iter().find(|(of, _)| *of == tag).map(|(_, value)| *value);
                self.by = aggregation_of(of(0).unwrap_or(1), self.file.features().version.as_deref());
                self.interval_ms = of(1).unwrap_or(0);
            }
            Record::Stat(stat) => {
                let Some(event) = self.file.event_of_id(stat.id) else { return };
                let reading =
                    Reading { value: stat.value, enabled_ns: stat.enabled_ns, running_ns: stat.running_ns };
                self.sums.insert((event, CpuThread { cpu: stat.cpu, thread: stat.thread }), reading);
            }
            Record::StatRound(round) => {
                self.rounds.push((round.time_ns, round.kind == 1, self.sums.clone()));
            }
            _ => {}
        }
    }

    fn runs(self) -> Reread {
        let mut at: Vec<CpuThread> =
            self.rounds.iter().flat_map(|(_, _, sums)| sums.keys().map(|(_, at)| *at)).collect();
        at.sort_unstable();
        at.dedup();
        let places: Vec<CountPlace> = at.iter().map(|at| self.place(*at)).collect();
        let topology = self.file.features().cpu_topology.as_ref();
        let nodes = &self.file.features().numa_topology;
        let node_of = |cpu: u32| {
            let has = |list: &str| parse_cpu_list(list).is_some_and(|cpus| cpus.contains(&cpu));
            nodes.iter().find(|node| has(&node.cpus)).map_or(0, |node| node.node)
        };
        let cpu_place = |cpu: u32| CpuPlace { node: node_of(cpu), ..cpu_place(topology, cpu) };
        let comm = |tid: u32| {
            let named = self.threads.iter().find(|(id, _)| *id == u64::from(tid));
            named.map(|(_, comm)| comm.clone()).unwrap_or_default()
        };
        let grouping = Grouping::new(self.by, &places, Topology { cpu_place: &cpu_place, comm: &comm });
        let none = (0, Sums::new());
        let has_intervals = self.interval_ms > 0;
        let mut before = &none;
        let rounds: Vec<(u64, Sums)> =
            self.rounds.iter().map(|(time, _, sums)| (*time, sums.clone())).collect();
        let mut runs = Vec::new();
        for round in &rounds {
            let readings =
                (0..self.infos.len()).map(|event| self.readings(event, &at, &before.1, &round.1)).collect();
            runs.push(CountedRun {
                readings,
                grouping: grouping.clone(),
                places: places.clone(),
                infos: self.infos.clone(),
                wall_ns: round.0.saturating_sub(before.0),
                at_ns: round.0,
            });
            if has_intervals {
                before = round;
            }
        }
        Reread { runs, has_intervals, problems: Vec::new() }
    }

    fn place(&self, at: CpuThread) -> CountPlace {
        let tid = self.threads.get(at.thread as usize).and_then(|(tid, _)| u32::try_from(*tid).ok());
        CountPlace { cpu: (at.cpu != u32::MAX).then_some(at.cpu), tid }
    }

    fn readings(&self, event: usize, at: &[CpuThread], before: &Sums, now: &Sums) -> EventReadings {
        let is_there = self.file.events().get(event).is_some_and(|event| !event.ids.is_empty());
        let reading = |&at: &CpuThread| {
            let key = (event, at);
            now.get(&key).map(|reading| reading.since(&before.get(&key).copied().unwrap_or_default()))
        };
        EventReadings {
            support: if is_there { Support::Full } else { Support::None(0) },
            places: at.iter().map(reading).collect(),
            tool_ns: None,
        }
    }
}

fn cpu_place(topology: Option<&CpuTopology>, cpu: u32) -> CpuPlace {
    let of = topology.and_then(|topology| topology.cpus.get(cpu as usize));
    of.map_or(CpuPlace { socket: 0, die: 0, core: 0, node: 0 }, |of| CpuPlace {
        socket: of.socket_id,
        die: of.die_id.unwrap_or(0),
        core: of.core_id,
        node: 0,
    })
}

/// Meaning of perf's number of an aggregation in files of version `version`: 6.5 put "cache" between die and core.
#[must_use]
pub fn aggregation_of(number: u64, version: Option<&str>) -> Aggregation {
    let part = |part: Option<&str>| part.and_then(|text| text.parse::<u32>().ok());
    let has_caches = version.is_some_and(|text| {
        let mut parts = text.split(['.', '-']);
        let release = (part(parts.next()), part(parts.next()));
        matches!(release, (Some(major), Some(minor)) if (major, minor) >= (6, 5))
    });
    let number = if has_caches && number > 4 { number - 1 } else { number };
    AGGREGATIONS.iter().find(|(_, of)| *of == number).map_or(Aggregation::Global, |(by, _)| *by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_aggregations_number_means_depends_on_perfs_version() {
        assert_eq!(aggregation_of(4, Some("6.1.192")), Aggregation::Core);
        assert_eq!(aggregation_of(5, Some("6.5.13")), Aggregation::Core);
        assert_eq!(aggregation_of(5, Some("tally 0.1.0")), Aggregation::Thread);
        assert_eq!(aggregation_of(99, None), Aggregation::Global);
    }
}
