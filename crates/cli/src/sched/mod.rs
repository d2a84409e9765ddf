//! Reads the scheduler's tracepoints of a recording, for `tally sched`.

use crate::text::number::count_of;
use crate::{damage, load, out};
use anyhow::bail;
use perfdata::abi::PERF_TYPE_TRACEPOINT;
use perfdata::tracepoint::{Field, Format, Formats};
use perfdata::{Order, PerfData, Record, Sample};
use profile::profile::Profile;
use profile::sched_events::{IDLE, SchedAction, SchedEvent, TaskState};
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use profile::table::FrameId;
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;
use std::path::Path;
use symbols::{ObjectFiles, symbolize_from};

/// Records whose functions are named at once.
const BATCH: usize = 4096;

/// A recording's events of the scheduler.
pub struct SchedReader<'f> {
    file: &'f PerfData<'f>,
    formats: Formats,
    /// What each event of the file is.
    kinds: Vec<Option<Kind>>,
    /// Letters of the states seen, by the number in the payload.
    letters: FxHashMap<(usize, u64), char>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Switch,
    Wake,
    Ran,
    Migrate,
}

/// One event with who saw it.
pub struct Seen {
    /// The event.
    pub event: SchedEvent,
    /// The thread on whose CPU time it was recorded.
    pub tid: i32,
    /// The call chain, leaf first; empty if none was asked for or recorded.
    pub frames: Vec<FrameId>,
}

/// What happens while a recording is read.
pub trait Watcher {
    /// The next event, in time order. The session knows the names of threads at that moment.
    fn seen(&mut self, seen: Seen, session: &mut Session) -> anyhow::Result<()>;

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
    pub fn new(path: &Path, file: &'f PerfData<'f>) -> anyhow::Result<Self> {
        let Some(formats) = file.features().tracing_data.as_ref().map(Formats::new) else {
            return Err(damage::lacks(path, "no tracepoints in it", "record with tally sched record"));
        };
        let format = |event: &perfdata::Event| {
            formats.of(event.attr.config).filter(|_| event.attr.type_ == PERF_TYPE_TRACEPOINT)
        };
        let named = |name: &str| file.events().iter().filter_map(format).any(|format| format.name == name);
        if !named("sched_switch") {
            return Err(damage::lacks(path, "no sched:sched_switch in it", "record with tally sched record"));
        }
        if file.events().iter().any(|event| !event.attr.samples(perfdata::abi::PERF_SAMPLE_TIME)) {
            bail!("{}: its events have no times: record with -T or tally sched record", load::name_of(path));
        }
        // Both report the same wake-up; the earlier one is where the wait for a CPU begins.
        let has_waking = named("sched_waking");
        let kinds = file.events().iter().map(|event| match format(event)?.name.as_str() {
            "sched_switch" => Some(Kind::Switch),
            "sched_wakeup" if has_waking => None,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Some(Kind::Wake),
            "sched_stat_runtime" => Some(Kind::Ran),
            "sched_migrate_task" => Some(Kind::Migrate),
            _ => None,
        });
        let kinds = kinds.collect();
        Ok(Self { file, formats, kinds, letters: FxHashMap::default() })
    }

    /// Whether switches have call chains.
    #[must_use]
    pub fn has_chains(&self) -> bool {
        let mut events = self.file.events().iter().zip(&self.kinds);
        events.any(|(event, kind)| *kind == Some(Kind::Switch) && event.has_callchain())
    }

    /// Shows every event to `watcher`, with up to `frames` of its call chain.
    ///
    /// # Errors
    /// Those of the watcher.
    pub fn read(
        mut self,
        (path, map): (&Path, &dso::Mmap),
        (files, frames): (&ObjectFiles, usize),
        watcher: &mut impl Watcher,
    ) -> anyhow::Result<()> {
        let opts = SessionOpts { callchains: frames > 0, max_frames: frames, ..SessionOpts::default() };
        let file = self.file;
        let mut session = Session::new(file.events(), file.endian(), opts);
        session.set_input_bytes(file.bytes().len());
        let mut progress = load::Progress::on_stderr(path, map);
        let (mut named, mut result) = (0, Ok(()));
        let diagnostics = file.visit_batches(Order::Time, BATCH, |items| {
            result = items.iter().try_for_each(|item| self.take(item, &mut session, watcher));
            if frames > 0 {
                symbolize_from(session.profile_mut(), named, files, Want::Names);
                named = session.profile().frames.len();
            }
            result = std::mem::replace(&mut result, Ok(())).and_then(|()| watcher.named(session.profile()));
            match result {
                Ok(()) => progress.at(items.last().map_or(0, |item| item.offset)),
                Err(_) => ControlFlow::Break(()),
            }
        });
        progress.end();
        damage::tell(path, &diagnostics.problems);
        let lost = diagnostics.lost_total();
        let lost = lost.records + lost.samples;
        if lost > 0 {
            let lost = count_of(lost, "event was", "events were");
            out::note(&format!(
                "tally sched: {lost} lost while recording: times around them are too long; record with -m 4096"
            ));
        }
        result
    }

    fn take(
        &mut self,
        item: &perfdata::Item<'_>,
        session: &mut Session,
        watcher: &mut impl Watcher,
    ) -> anyhow::Result<()> {
        let Record::Sample(sample) = &item.record else {
            if let Record::Fork(fork) = &item.record {
                let parent = if fork.pid == fork.ppid { fork.pid } else { fork.ptid };
                watcher.forked(fork.tid.cast_signed(), parent.cast_signed());
            }
            session.push(item);
            return Ok(());
        };
        let Some(event) = item.event.and_then(|at| self.event(at, sample)) else { return Ok(()) };
        let tid = sample.pid_tid.map_or(IDLE, |(_, tid)| tid.cast_signed());
        let frames = session.resolve_single(item.event, sample).frames;
        watcher.seen(Seen { event, tid, frames }, session)
    }

    /// What a sample of the event at this index means; `None` for other events and incomplete payloads.
    fn event(&mut self, at: usize, sample: &Sample<'_>) -> Option<SchedEvent> {
        let (kind, raw) = ((*self.kinds.get(at)?)?, sample.raw?);
        let format = self.formats.of(self.file.events().get(at)?.attr.config)?;
        let number = |name: &str| Some(format.number(format.field(name)?, raw));
        let thread = |name: &str| i32::try_from(number(name)?.cast_signed()).ok();
        let action = match kind {
            Kind::Switch => {
                let (field, value) = (format.field("prev_state")?, number("prev_state")?);
                let letter = self.letters.entry((at, value));
                let state = TaskState(*letter.or_insert_with(|| letter_of(format, (field, value), raw)));
                SchedAction::Switch { prev: thread("prev_pid")?, state, next: thread("next_pid")? }
            }
            Kind::Wake => SchedAction::Wake { tid: thread("pid")? },
            Kind::Ran => SchedAction::Ran { tid: thread("pid")?, ns: number("runtime")? },
            Kind::Migrate => SchedAction::Migrate { tid: thread("pid")? },
        };
        Some(SchedEvent { time_ns: sample.time_ns?, cpu: sample.cpu.unwrap_or(0), action })
    }
}

/// A state's letter as the kernel prints it: kernels number states in different ways.
fn letter_of(format: &Format, (field, value): (&Field, u64), raw: &[u8]) -> char {
    let mut text = String::new();
    format.print(raw, &mut text);
    let printed = text.split(' ').find_map(|word| word.strip_prefix(field.name.as_str())?.strip_prefix('='));
    let letter = printed.and_then(|state| state.chars().next()).filter(char::is_ascii_alphabetic);
    letter.unwrap_or(if value == 0 { 'R' } else { '?' })
}

/// A thread's name at this moment, and its process if that is known.
pub fn name_and_pid(session: &mut Session, tid: i32) -> (String, Option<i32>) {
    let pid = session.machine().pid_of(tid);
    let name = session.comm_of_thread(pid.unwrap_or(tid), tid);
    (session.profile().strings.of(name).to_owned(), pid)
}
