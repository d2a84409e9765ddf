//! Events of the scheduler in a recording, for `tally sched`.

use crate::reading::tracepoints::{Hit, HitSink, NeededTracepoint, TracepointReader};
use dso::MappedFile;
use perfdata::PerfData;
use profile::profile::Profile;
use profile::session::Session;
use profile::table::FrameId;
use profile::tracepoints::sched_events::{SchedDecoder, SchedEvent};
use std::path::Path;

/// A recording's events of the scheduler.
pub struct SchedReader<'f> {
    tracepoints: TracepointReader<'f>,
    decoder: SchedDecoder,
}

/// One event with who saw it.
pub struct SeenEvent {
    /// The event.
    pub event: SchedEvent,
    /// The thread on whose CPU time it was recorded.
    pub tid: i32,
    /// The call chain, leaf first; empty if none was asked for or recorded.
    pub frames: Vec<FrameId>,
}

/// Receiver of the events.
pub trait Watcher {
    /// The next event, in time order. The session knows the names of threads at that moment.
    ///
    /// # Errors
    /// If it can't be printed.
    fn seen(&mut self, seen: SeenEvent, session: &mut Session) -> anyhow::Result<()>;

    /// A thread began: its parent.
    fn forked(&mut self, _tid: i32, _parent: i32) {}

    /// Every frame of the events so far has its name.
    ///
    /// # Errors
    /// If they can't be printed.
    fn named(&mut self, _profile: &Profile) -> anyhow::Result<()> {
        Ok(())
    }
}

impl<'f> SchedReader<'f> {
    /// The events of `file`, which was found at `path`.
    ///
    /// # Errors
    /// If it has no switches, or not their formats.
    pub fn new(path: &'f Path, file: &'f PerfData<'f>) -> anyhow::Result<Self> {
        let needed = NeededTracepoint { name: "sched:sched_switch", record: "tally sched record" };
        let tracepoints = TracepointReader::new(path, file, needed)?;
        let decoder = SchedDecoder::new(&tracepoints.names().collect::<Vec<_>>());
        Ok(Self { tracepoints, decoder })
    }

    /// Whether switches have call chains.
    #[must_use]
    pub fn has_chains(&self) -> bool {
        self.decoder.switches().any(|at| self.tracepoints.has_chains(at))
    }

    /// Shows every event to `watcher`, with up to `frames` of its call chain.
    ///
    /// # Errors
    /// Those of the watcher.
    pub fn read(&self, map: &MappedFile, frames: usize, watcher: &mut impl Watcher) -> anyhow::Result<()> {
        let mut events = Events { decoder: self.decoder.clone(), watcher };
        self.tracepoints.read(map, frames, &mut events)
    }
}

/// Turns samples into events.
struct Events<'r, W> {
    decoder: SchedDecoder,
    watcher: &'r mut W,
}

impl<W: Watcher> HitSink for Events<'_, W> {
    fn hit(&mut self, hit: Hit<'_>, session: &mut Session) -> anyhow::Result<()> {
        let Some(action) = self.decoder.decode(hit.event, hit.format, hit.raw) else { return Ok(()) };
        let event = SchedEvent { time_ns: hit.time_ns, cpu: hit.sample.cpu.unwrap_or(0), action };
        self.watcher.seen(SeenEvent { event, tid: hit.tid, frames: hit.frames }, session)
    }

    fn forked(&mut self, tid: i32, parent: i32) {
        self.watcher.forked(tid, parent);
    }

    fn named(&mut self, profile: &Profile) -> anyhow::Result<()> {
        self.watcher.named(profile)
    }
}
