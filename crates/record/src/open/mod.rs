//! Opens a plan's events on all their places and maps the rings.
//!
//! One ring per CPU (or per thread, without CPUs): the first event opened there owns it, the others write into it.

pub mod again;
mod counters;
pub mod event_fallback;
pub mod plan;
pub mod spans;
pub mod target;

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use perfdata::AttrFlags;

use crate::machine::proc;
use crate::open::plan::{OpenedEvent, Plan};
use crate::pt::pieces::Owner;
use crate::sys::{AuxMode, Counter, CounterPlace, Cpu, Ring};
pub use counters::Dropped;

/// Where the events of a recording are opened.
#[derive(Debug)]
pub struct Places {
    /// Threads; empty means every task of the CPUs.
    pub tids: Vec<u32>,
    /// CPUs; empty means wherever the threads run (one ring per thread).
    pub cpus: Vec<u32>,
    /// Only tasks of this cgroup.
    pub cgroup: Option<File>,
    /// Threads that, in addition to the events of all tasks, have their own events which are
    /// [`OpenedEvent::of_tasks`].
    pub beside: Vec<u32>,
}

/// How events start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// By the command's exec.
    OnExec,
    /// By [`OpenedEvents::enable`].
    ByHand,
}

/// One opened event in one place.
#[derive(Debug)]
pub struct OpenCounter {
    /// Descriptor.
    pub counter: Counter,
    /// Index of the plan's opened event.
    pub event: usize,
    /// Index of the ring it writes to.
    pub ring: usize,
    /// The id that the file knows it by: the kernel's, but of events opened again.
    pub id: u64,
    /// It is of all tasks of a CPU, and ends with it.
    pub of_cpu: bool,
}

/// All descriptors and rings of a recording.
#[derive(Debug)]
pub struct OpenedEvents {
    /// Every event in every place.
    pub counters: Vec<OpenCounter>,
    /// The rings, in the order of the places.
    pub rings: Vec<Ring>,
    /// The ring of each CPU, or of each thread without CPUs, and the counter that owns it.
    ring_of: HashMap<(i32, Option<u32>), (usize, usize)>,
    /// Owner of each ring, in the order of the rings.
    pub owners: Vec<Owner>,
    /// Data pages of each ring.
    pages: usize,
    /// Ids and opened events of samples that the kernel does not make.
    pub made: Vec<(u64, usize)>,
    /// Records dropped by counters that the kernel has closed.
    dropped_before: Vec<Dropped>,
}

/// An event that the kernel refused, and where.
#[derive(Debug)]
pub struct RefusedEvent {
    /// Index of the plan's opened event; `None` if it was the mapping of a ring.
    pub event: Option<usize>,
    /// " on CPU 3", " for thread 77".
    pub place: String,
    /// The kernel's error.
    pub source: io::Error,
}

/// A thread and a CPU where events are opened.
#[derive(Debug, Clone, Copy)]
struct OpenAt {
    /// −1: every task.
    tid: i32,
    cpu: Cpu,
    events: EventsThere,
}

/// The events that are opened in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventsThere {
    All,
    /// Those that are [`OpenedEvent::of_tasks`].
    OfTasks,
    /// All but those.
    Others,
    /// Probes.
    Probes,
}

impl EventsThere {
    fn has(self, event: &OpenedEvent) -> bool {
        match self {
            Self::All => true,
            Self::OfTasks => event.of_tasks,
            Self::Others => !event.of_tasks,
            Self::Probes => event.probe.is_some(),
        }
    }
}

impl OpenAt {
    /// Probes are opened for whole CPUs only.
    fn has(self, event: &OpenedEvent) -> bool {
        self.events.has(event) && (event.probe.is_none() || self.tid == -1)
    }
}

impl Places {
    fn list(&self, events: EventsThere) -> Vec<OpenAt> {
        let at = |tid, cpu| OpenAt { tid, cpu, events };
        let tids = || self.tids.iter().map(|&t| i32::try_from(t).unwrap_or(i32::MAX));
        match (self.tids.is_empty(), self.cpus.is_empty()) {
            (true, _) => self.cpus.iter().map(|&c| at(-1, Cpu::One(c))).collect(),
            (false, true) => tids().map(|t| at(t, Cpu::Any)).collect(),
            // Thread by thread: one that forks has its events on all CPUs or on none, but for a moment.
            (false, false) => {
                tids().flat_map(|t| self.cpus.iter().map(move |&c| at(t, Cpu::One(c)))).collect()
            }
        }
    }

    /// All places.
    fn list_all(&self) -> Vec<OpenAt> {
        if self.beside.is_empty() {
            let probes = OpenAt { tid: -1, cpu: Cpu::Any, events: EventsThere::Probes };
            let own_cpus = if self.cpus.is_empty() { proc::online_cpus() } else { self.cpus.clone() };
            let cpus = own_cpus.into_iter().filter(|_| !self.tids.is_empty());
            let for_probes = cpus.map(|cpu| OpenAt { cpu: Cpu::One(cpu), ..probes });
            return self.list(EventsThere::All).into_iter().chain(for_probes).collect();
        }
        let own =
            Self { tids: self.beside.clone(), cpus: self.cpus.clone(), cgroup: None, beside: Vec::new() };
        [self.list(EventsThere::Others), own.list(EventsThere::OfTasks)].concat()
    }
}

impl OpenedEvents {
    /// No event of the kernel's: records come from elsewhere, with these ids of the plan's opened events.
    #[must_use]
    pub fn without_events(made: Vec<(u64, usize)>) -> Self {
        Self {
            counters: Vec::new(),
            rings: Vec::new(),
            ring_of: HashMap::new(),
            owners: Vec::new(),
            pages: 0,
            made,
            dropped_before: Vec::new(),
        }
    }

    /// Opens all, maps rings of `pages` data pages each. Threads that have ended meanwhile are left out, CPUs that
    /// went offline as well, unless nothing remains.
    pub fn open(plan: &Plan, places: &Places, start: Start, pages: usize) -> Result<Self, RefusedEvent> {
        let mut opened = Self {
            counters: Vec::new(),
            rings: Vec::new(),
            ring_of: HashMap::new(),
            owners: Vec::new(),
            pages,
            made: Vec::new(),
            dropped_before: Vec::new(),
        };
        let gone = opened.add(plan, places, start)?;
        match gone {
            Some(refusal) if opened.counters.is_empty() => Err(refusal),
            _ => Ok(opened),
        }
    }

    /// Opens all in more places. Returns an event that was refused because its task is gone, if there was one.
    pub fn add(
        &mut self,
        plan: &Plan,
        places: &Places,
        start: Start,
    ) -> Result<Option<RefusedEvent>, RefusedEvent> {
        let mut gone = None;
        let ring_bytes = self.pages * crate::sys::mem::page_bytes();
        let paths: Vec<Option<CString>> = plan.opened.iter().map(path_of).collect();
        let attr = |(event, path): (&OpenedEvent, &Option<CString>)| {
            let mut attr = attr_to_open(event, start, ring_bytes);
            // Source: include/uapi/linux/perf_event.h, uprobe_path.
            attr.config1 = path.as_ref().map_or(attr.config1, |path| path.as_ptr() as u64);
            attr.to_bytes()
        };
        let attrs: Vec<Vec<u8>> = plan.opened.iter().zip(&paths).map(attr).collect();
        for at in places.list_all() {
            let first = self.counters.len();
            if let Err((index, error)) = self.open_at(plan, &attrs, at, places.cgroup.as_ref()) {
                let is_gone = is_gone(&error, at.cpu);
                let refusal = refused(Some(index), at, error);
                self.counters.truncate(first);
                if !is_gone {
                    return Err(refusal);
                }
                gone = Some(refusal);
            }
            self.attach_ring(plan, first, at).map_err(|e| refused(None, at, e))?;
            if start == Start::ByHand {
                self.track_from(first, plan).map_err(|e| refused(plan.tracking(), at, e))?;
            }
        }
        Ok(gone)
    }

    fn open_at(
        &mut self,
        plan: &Plan,
        attrs: &[Vec<u8>],
        at: OpenAt,
        cgroup: Option<&File>,
    ) -> Result<(), (usize, io::Error)> {
        let first = self.counters.len();
        for (index, event) in plan.opened.iter().enumerate() {
            if !at.has(event) {
                continue;
            }
            let leader = event.leader.and_then(|l| self.counters.get(first + l)).map(|c| &c.counter);
            let place = CounterPlace { tid: at.tid, cpu: at.cpu, leader, cgroup: cgroup.map(AsFd::as_fd) };
            let counter = Counter::open(&attrs[index], place).map_err(|e| (index, e))?;
            let id = counter.id().map_err(|e| (index, e))?;
            self.counters.push(OpenCounter { counter, event: index, ring: 0, id, of_cpu: at.tid == -1 });
        }
        Ok(())
    }

    /// Starts the event that only reports processes, if there is a separate one. From then on no fork is missed.
    fn track_from(&self, first: usize, plan: &Plan) -> io::Result<()> {
        let tracking = plan.tracking();
        self.counters[first..]
            .iter()
            .filter(|c| Some(c.event) == tracking)
            .try_for_each(|c| c.counter.enable())
    }

    /// Gives the counters from `first` on their ring: maps one for the first of a CPU, redirects the others.
    /// An event with an AUX area must own its ring.
    fn attach_ring(&mut self, plan: &Plan, first: usize, place: OpenAt) -> io::Result<()> {
        if first == self.counters.len() {
            return Ok(());
        }
        let OpenAt { tid, cpu, .. } = place;
        let key = match cpu {
            Cpu::One(n) => (-1, Some(n)),
            Cpu::Any => (tid, None),
        };
        let (ring, owner) = match self.ring_of.get(&key) {
            Some(&known) => known,
            None => {
                let traces =
                    (first..self.counters.len()).find(|at| plan.opened[self.counters[*at].event].aux);
                let owner = traces.unwrap_or(first);
                self.rings.push(Ring::map(&self.counters[owner].counter, self.pages)?);
                self.owners.push(match cpu {
                    Cpu::One(n) => Owner::Cpu(n),
                    Cpu::Any => Owner::Thread(tid.cast_unsigned()),
                });
                self.ring_of.insert(key, (self.rings.len() - 1, owner));
                (self.rings.len() - 1, owner)
            }
        };
        for at in first..self.counters.len() {
            self.counters[at].ring = ring;
            if at != owner {
                self.counters[at].counter.set_output(&self.counters[owner].counter)?;
            }
        }
        Ok(())
    }

    /// Maps an AUX area of at most `bytes` for each ring whose owner writes a trace; all of the same size, which is
    /// returned. Smaller ones are tried where there is no room for larger ones.
    pub fn map_areas(&mut self, plan: &Plan, bytes: usize, mode: AuxMode) -> io::Result<usize> {
        const SMALLEST: usize = 64 << 10;
        let mut bytes = bytes;
        let mut owners: Vec<(usize, usize)> = self.ring_of.values().copied().collect();
        owners.retain(|(_, owner)| plan.opened[self.counters[*owner].event].aux);
        loop {
            let mapped = owners.iter().try_for_each(|(ring, owner)| {
                self.rings[*ring].map_aux(self.counters[*owner].counter.as_fd(), bytes, mode)
            });
            let Err(error) = mapped else { return Ok(bytes) };
            if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) || bytes <= SMALLEST {
                return Err(error);
            }
            self.rings.iter_mut().for_each(Ring::unmap_aux);
            bytes /= 2;
        }
    }
}

fn attr_to_open(event: &OpenedEvent, start: Start, ring_bytes: usize) -> perfdata::Attr {
    let mut attr = event.attr;
    // Group members follow their leader. No exec starts the events of a CPU, and others' hits are left out later.
    let leads = event.leader.is_none() && (event.probe.is_none() || start == Start::ByHand);
    attr.flags.set(AttrFlags::DISABLED, leads);
    attr.flags
        .set(AttrFlags::ENABLE_ON_EXEC, leads && start == Start::OnExec && event.step.unwrap_or(0) == 0);
    attr.flags.set(AttrFlags::WATERMARK, true);
    attr.wakeup = u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX);
    attr
}

/// The file of a probe, for the kernel.
fn path_of(event: &OpenedEvent) -> Option<CString> {
    CString::new(event.probe.as_ref()?.path.as_os_str().as_bytes()).ok()
}

/// The thread has ended, or the CPU went offline, since the places were listed.
fn is_gone(error: &io::Error, cpu: Cpu) -> bool {
    match error.raw_os_error() {
        Some(libc::ESRCH) => true,
        Some(libc::ENODEV) => match cpu {
            Cpu::One(n) => !proc::online_cpus().contains(&n),
            Cpu::Any => false,
        },
        _ => false,
    }
}

fn refused(event: Option<usize>, at: OpenAt, source: io::Error) -> RefusedEvent {
    let place = match (at.tid, at.cpu) {
        (-1, Cpu::One(n)) => format!(" on CPU {n}"),
        (-1 | 0, _) => String::new(),
        (tid, _) => format!(" for thread {tid}"),
    };
    RefusedEvent { event, place, source }
}
