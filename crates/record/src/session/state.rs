//! The parts of a running recording: how far it is, whose events it takes, and the rings it waits for.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use crate::machine::hotplug::CpuWatch;
use crate::open::OpenedEvents;
use crate::pipeline::ring_reader::Layouts;
use crate::sys::{ExitKind, Poller};

/// How far a recording is.
#[derive(Default)]
pub(super) struct RecordingPhase {
    /// The plan's steps of snapshot sizes.
    pub step: usize,
    /// Sampling has begun.
    pub has_enabled: bool,
    /// It is switched off for now.
    pub is_paused: bool,
    /// The end was requested by --control.
    pub is_stop_requested: bool,
    /// The last pass over the rings found records, which go out once another pass has found none older.
    pub has_waiting: bool,
    /// Bytes that the last pass found.
    pub pass_bytes: usize,
    /// The command has ended.
    pub ending: Option<ExitKind>,
}

impl RecordingPhase {
    /// The step of snapshot sizes for events that are opened now; `None` while they are off.
    pub fn step_if_on(&self) -> Option<usize> {
        (self.has_enabled && !self.is_paused).then_some(self.step)
    }
}

/// Processes that ran already when recording began.
#[derive(Clone, Copy, Default)]
pub(super) struct AttachedCounts {
    /// Those attached to.
    pub processes: usize,
    /// Children of these that are not recorded.
    pub children_left_out: usize,
}

/// Target whose events are recorded.
pub(super) struct RecordedTasks {
    /// Threads to which we attached by events of whole CPUs. Those events don't show when the threads have ended.
    pub roots: Vec<u32>,
    pub attached: AttachedCounts,
    /// The CPUs of events of whole CPUs.
    pub cpus: CpuWatch,
    pub cgroup: Option<File>,
    /// Samples of whole CPUs are chosen by the off-CPU engine.
    pub is_filtered: bool,
}

/// The rings as they are waited for and read.
pub(super) struct RingWatch {
    pub poller: Poller,
    pub layouts: Layouts,
    /// The counter of each ring whose end is watched; `None` when all its tasks have ended.
    pub watched: Vec<Option<usize>>,
}

impl RingWatch {
    /// Nothing is watched yet.
    pub fn new(layouts: Layouts) -> io::Result<Self> {
        Ok(Self { poller: Poller::new()?, layouts, watched: Vec::new() })
    }

    /// Watches each ring.
    pub fn watch_all(&mut self, opened: &OpenedEvents) {
        self.watched = vec![None; opened.rings.len()];
        (0..self.watched.len()).for_each(|ring| self.watch_next(opened, ring, 0));
    }

    /// A ring was opened again. Its former event's descriptor left the poller with it.
    pub fn watch_again(&mut self, opened: &OpenedEvents, ring: usize) {
        self.watched.resize(opened.rings.len(), None);
        self.watch_next(opened, ring, 0);
    }

    /// The tasks of the counter that a ring is watched by have ended.
    pub fn hung_up(&mut self, opened: &OpenedEvents, ring: usize) {
        let Some(at) = self.watched.get(ring).copied().flatten() else { return };
        let _ = self.poller.remove(opened.counters[at].counter.as_fd());
        self.watch_next(opened, ring, at + 1);
    }

    /// Watches the first counter of a ring from index `from` on: wake-ups, and the end of its task.
    fn watch_next(&mut self, opened: &OpenedEvents, ring: usize, from: usize) {
        let counters = &opened.counters;
        let next = (from..counters.len()).find(|&i| {
            counters[i].ring == ring && self.poller.add(counters[i].counter.as_fd(), ring as u64).is_ok()
        });
        self.watched[ring] = next;
    }
}
