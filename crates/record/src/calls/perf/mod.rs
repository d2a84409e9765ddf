//! Probes on functions as plain perf events, where BPF is denied: every entry and exit is a sample in a ring.
//!
//! More expensive than BPF: it needs a descriptor for each place and CPU, and slows other processes that run the same
//! file. All calls come out of the kernel, also when only sums or slow calls are requested. Those are made here
//! ([`super::stack_matcher`]).

mod probe_places;
mod records;

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::layout::{self, CallEvent, CallEventKind, CallMode, FunctionSums};
use super::plan::{Exits, Leave, ProbeOptions, ProbedFunction, ProbedObject, WatchedCounts};
use super::stack_matcher::StackMatcher;
use super::{CallSource, Error};
use crate::sys::bpf::ProbeSide;
use crate::sys::time::Clock;
use crate::sys::{Counter, Ring};
use probe_places::{ProbePlaces, ProbeRefusal};
pub use probe_places::{UprobeSite, open_uprobe, uprobe_type};
use records::{CallRecords, ProbeRole};

/// Bytes of all rings together, at most.
const RINGS_BYTES: usize = 32 << 20;
/// Fewer lose calls at once; less is refused.
const LEAST_RING_BYTES: usize = 64 << 10;
/// How old a record is before all that came before it on other CPUs is known to be there.
const SETTLED: Duration = Duration::from_millis(1);

/// Attached probes.
pub struct PerfEngine {
    objects: Vec<ProbedObject>,
    functions: Vec<ProbedFunction>,
    options: ProbeOptions,
    uprobe_type: u32,
    places: Option<ProbePlaces>,
    processes: Vec<u32>,
    rings: Vec<Ring>,
    /// By function; empty if it is not attached.
    counters: Vec<Vec<Counter>>,
    kernel: Vec<Counter>,
    records: CallRecords,
    tracked: StackMatcher,
    entries: Vec<u64>,
    refused: Vec<u32>,
    missing: Vec<String>,
}

impl PerfEngine {
    /// Looks whether plain probes are allowed; nothing is attached yet.
    ///
    /// # Errors
    /// If the kernel has no uprobe events, or denies them.
    pub fn open(
        objects: Vec<ProbedObject>,
        functions: Vec<ProbedFunction>,
        options: ProbeOptions,
    ) -> Result<Self, Error> {
        let uprobe_type = uprobe_type()?;
        if let Some((object, function)) = objects.first().zip(functions.first()) {
            probe_places::allowed(uprobe_type, &object.path, function.offset)?;
        }
        let count = functions.len();
        let any_goroutine = functions.iter().any(|function| function.by_goroutine);
        let missing = any_goroutine.then(|| {
            "which goroutine calls (only with BPF): calls that end in another thread get wrong ends"
                .to_owned()
        });
        let tracked = StackMatcher::new(options.mode, options.counted.clone(), count);
        Ok(Self {
            objects,
            functions,
            options,
            uprobe_type,
            places: None,
            processes: Vec::new(),
            rings: Vec::new(),
            counters: std::iter::repeat_with(Vec::new).take(count).collect(),
            kernel: Vec::new(),
            records: CallRecords::new(),
            tracked,
            entries: vec![0; count],
            refused: Vec::new(),
            missing: missing.into_iter().collect(),
        })
    }

    /// The events that carry forks, execs and switches, with a ring for each CPU.
    fn open_rings(&mut self, places: &mut ProbePlaces) -> Result<(), Error> {
        let mut bytes = RINGS_BYTES / places.cpus().len().max(1);
        bytes = (1 << bytes.max(LEAST_RING_BYTES).ilog2()).min(self.options.ring_bytes as usize);
        loop {
            match places.map_rings(self.options.kernel.switches, bytes) {
                Ok(rings) => {
                    self.rings = rings;
                    return Ok(());
                }
                Err(error) if bytes <= LEAST_RING_BYTES => {
                    return Err(Error::Perf { what: format!("a ring of {} KiB", bytes >> 10), error });
                }
                Err(_) => bytes /= 2,
            }
        }
    }

    /// Opens the probes of one function: exits first, so that of an entry that is seen, the exit is.
    fn attach_one(&mut self, places: &ProbePlaces, number: u32) -> Result<(), ProbeRefusal> {
        let function = &self.functions[number as usize];
        let path = &self.objects[function.object].path;
        let enter = [(Leave::always(function.offset), ProbeSide::Entry, CallEventKind::Enter)];
        let exits: Vec<(Leave, ProbeSide, CallEventKind)> = match self.options.exits {
            Exits::Return => {
                vec![(Leave::always(function.offset), ProbeSide::Return, CallEventKind::Exit)]
            }
            Exits::Sites => {
                function.leaves.iter().map(|leave| (*leave, ProbeSide::Entry, CallEventKind::Exit)).collect()
            }
            Exits::None => Vec::new(),
        };
        let mut opened = Vec::new();
        for (Leave { offset, condition, maybe }, side, kind) in exits.into_iter().chain(enter) {
            let place = ProbeRole { function: number, kind, loops: function.loops, side, condition, maybe };
            for counter in places.open_probe(self.uprobe_type, UprobeSite { path, offset, side })? {
                let id = counter.id().map_err(ProbeRefusal::Us)?;
                self.records.add_probe(id, place);
                opened.push(counter);
            }
        }
        self.counters[number as usize] = opened;
        Ok(())
    }

    fn attach_kernel(&mut self, places: &ProbePlaces) {
        let parts = self.options.kernel;
        let wanted = [
            (parts.system_calls, "raw_syscalls/sys_enter", CallEventKind::System),
            (parts.system_calls, "raw_syscalls/sys_exit", CallEventKind::SystemEnd),
            (parts.faults, "exceptions/page_fault_user", CallEventKind::Fault),
        ];
        for (_, name, kind) in wanted.into_iter().filter(|(wanted, _, _)| *wanted) {
            match places.open_tracepoint(name) {
                Ok(counters) => {
                    let ids = counters.iter().filter_map(|counter| counter.id().ok());
                    ids.for_each(|id| self.records.add_tracepoint(id, kind));
                    self.kernel.extend(counters);
                }
                Err(error) => self.missing.push(format!("{name}: {error}")),
            }
        }
        if parts.blocks {
            self.missing.push("block requests: only with BPF".to_owned());
        }
    }

    fn drain(&mut self) {
        for ring in &mut self.rings {
            ring.read(|span| self.records.take(&span));
        }
    }

    fn emit(&mut self, before_ns: u64, sink: &mut dyn FnMut(CallEvent)) {
        let jumps = |functions: &[ProbedFunction], at: u32| {
            functions.get(at as usize).is_some_and(|function| function.jumps_out)
        };
        for event in self.records.emit(before_ns) {
            if event.kind == CallEventKind::Enter {
                self.entries[event.function as usize] += 1;
            }
            if self.options.mode == CallMode::Events {
                sink(event);
            } else if self.options.exits != Exits::None {
                self.tracked.take(&event, jumps(&self.functions, event.function), sink);
            }
        }
    }
}

impl CallSource for PerfEngine {
    fn add_process(&mut self, pid: u32) -> Result<(), Error> {
        self.processes.push(pid);
        self.records.add_process(pid);
        Ok(())
    }

    fn attach(&mut self) -> Result<(), Error> {
        let probes = self.functions.iter().map(|function| self.options.exits.places(function)).sum();
        let mut places = ProbePlaces::new(&self.processes, probes)?;
        self.open_rings(&mut places)?;
        self.attach_kernel(&places);
        let mut last = None;
        for number in 0..self.functions.len() as u32 {
            match self.attach_one(&places, number) {
                Ok(()) => {}
                Err(ProbeRefusal::Code(error)) => {
                    self.refused.push(number);
                    last = Some(error);
                }
                Err(ProbeRefusal::Us(error)) => {
                    let what = format!("{probes} uprobes as perf events");
                    return Err(Error::Perf { what, error });
                }
            }
        }
        self.places = Some(places);
        self.tracked.ready_ns.start = Clock::Monotonic.now_ns();
        match last {
            Some(error) if self.refused.len() == self.functions.len() => {
                Err(Error::Perf { what: "uprobes".to_owned(), error })
            }
            _ => Ok(()),
        }
    }

    fn detach(&mut self, functions: &[u32]) -> Result<(), Error> {
        functions.iter().for_each(|number| self.counters[*number as usize].clear());
        Ok(())
    }

    fn stop(&mut self) {
        self.tracked.ready_ns.end = Clock::Monotonic.now_ns();
        self.counters.iter_mut().for_each(Vec::clear);
        self.kernel.clear();
        self.drain();
        self.places = None;
        self.records.stopped = true;
    }

    fn poll(&mut self, sink: &mut dyn FnMut(CallEvent)) {
        // Records written before this moment are read below, so the events are complete up to here.
        let settled = Clock::Monotonic.now_ns().saturating_sub(SETTLED.as_nanos() as u64);
        self.drain();
        let before_ns = if self.records.stopped { u64::MAX } else { settled };
        self.emit(before_ns, sink);
    }

    fn probes(&self) -> usize {
        let on = self.functions.iter().zip(&self.counters).filter(|(_, counters)| !counters.is_empty());
        on.map(|(function, _)| self.options.exits.places(function)).sum()
    }

    fn entries(&self) -> Vec<WatchedCounts> {
        let on = (0u32..).zip(&self.counters).filter(|(_, counters)| !counters.is_empty());
        on.map(|(function, _)| WatchedCounts { function, entries: self.entries[function as usize] }).collect()
    }

    fn all_entries(&self) -> u64 {
        self.entries.iter().sum()
    }

    fn sums(&self) -> Vec<(u32, FunctionSums)> {
        match self.options.exits {
            Exits::None => FunctionSums::of_entries(&self.entries),
            _ => self.tracked.sums(),
        }
    }

    fn losses(&self) -> Vec<(u64, &'static str)> {
        vec![
            (self.records.lost, "entries and exits lost: the ring was full"),
            (self.records.damaged, "records that could not be read"),
            (self.tracked.strays, layout::STRAYS),
        ]
    }

    fn refused(&self) -> &[u32] {
        &self.refused
    }

    fn missing(&self) -> Vec<String> {
        self.missing.clone()
    }

    fn name(&self) -> &'static str {
        "uprobes (perf events)"
    }
}

/// Numbers by event id.
type ById<T> = FxHashMap<u64, T>;
