//! Events of the scheduler in a recording, for `tally sched`.

use crate::reading::tracepoints::{Hit, HitSink, TracepointReader};
use dso::MappedFile;
use perfdata::PerfData;
use perfdata::tracepoint::TracepointField;
use profile::profile::Profile;
use profile::sched_events::{SchedAction, SchedEvent, TaskState};
use profile::session::Session;
use profile::table::FrameId;
use rustc_hash::FxHashMap;
use std::path::Path;

/// A recording's events of the scheduler.
pub struct SchedReader<'f> {
    tracepoints: TracepointReader<'f>,
    /// What each event of the file is.
    kinds: Vec<Option<Kind>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Switch,
    Wake,
    Ran,
    Migrate,
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

/// What takes the events.
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
        let tracepoints = TracepointReader::new((path, file), ("sched:sched_switch", "tally sched record"))?;
        // Both report the same wake-up; the earlier one is where the wait for a CPU begins.
        let has_waking = tracepoints.names().any(|name| name == Some("sched_waking"));
        let kind = |name: &str| match name {
            "sched_switch" => Some(Kind::Switch),
            "sched_wakeup" if has_waking => None,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Some(Kind::Wake),
            "sched_stat_runtime" => Some(Kind::Ran),
            "sched_migrate_task" => Some(Kind::Migrate),
            _ => None,
        };
        let kinds = tracepoints.names().map(|name| name.and_then(kind)).collect();
        Ok(Self { tracepoints, kinds })
    }

    /// Whether switches have call chains.
    #[must_use]
    pub fn has_chains(&self) -> bool {
        let switches = self.kinds.iter().enumerate().filter(|(_, kind)| **kind == Some(Kind::Switch));
        switches.into_iter().any(|(at, _)| self.tracepoints.has_chains(at))
    }

    /// Shows every event to `watcher`, with up to `frames` of its call chain.
    ///
    /// # Errors
    /// Those of the watcher.
    pub fn read(&self, map: &MappedFile, frames: usize, watcher: &mut impl Watcher) -> anyhow::Result<()> {
        let mut events = Events { kinds: &self.kinds, letters: FxHashMap::default(), watcher };
        self.tracepoints.read(map, frames, &mut events)
    }
}

/// Turns samples into events.
struct Events<'r, W> {
    kinds: &'r [Option<Kind>],
    /// Letters of the states seen, by the number in the payload.
    letters: FxHashMap<(usize, u64), char>,
    watcher: &'r mut W,
}

impl<W: Watcher> HitSink for Events<'_, W> {
    fn hit(&mut self, hit: Hit<'_>, session: &mut Session) -> anyhow::Result<()> {
        let Some(action) = self.action(&hit) else { return Ok(()) };
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

impl<W> Events<'_, W> {
    /// What a sample means; `None` for other events and incomplete payloads.
    fn action(&mut self, hit: &Hit<'_>) -> Option<SchedAction> {
        let kind = (*self.kinds.get(hit.event)?)?;
        let thread = |name: &str| i32::try_from(hit.number(name)?.cast_signed()).ok();
        Some(match kind {
            Kind::Switch => {
                let field = hit.format.field("prev_state")?;
                let value = hit.format.number(field, hit.raw);
                let letter = self.letters.entry((hit.event, value));
                let state = TaskState(*letter.or_insert_with(|| letter_of(hit, (field, value))));
                SchedAction::Switch { prev: thread("prev_pid")?, state, next: thread("next_pid")? }
            }
            Kind::Wake => SchedAction::Wake { tid: thread("pid")? },
            Kind::Ran => SchedAction::Ran { tid: thread("pid")?, ns: hit.number("runtime")? },
            Kind::Migrate => SchedAction::Migrate { tid: thread("pid")? },
        })
    }
}

/// A state's letter as the kernel prints it: kernels number states in different ways.
fn letter_of(hit: &Hit<'_>, (field, value): (&TracepointField, u64)) -> char {
    let mut text = String::new();
    hit.format.print(hit.raw, &mut text);
    let printed = text.split(' ').find_map(|word| word.strip_prefix(field.name.as_str())?.strip_prefix('='));
    let letter = printed.and_then(|state| state.chars().next()).filter(char::is_ascii_alphabetic);
    letter.unwrap_or(if value == 0 { 'R' } else { '?' })
}
