//! Reads the tracepoints of a recording one by one, with the names of threads at that moment and call chains.

use crate::script::own_name;
use crate::{
    reading::{damage, load},
    terminal::out,
};
use anyhow::bail;
use display::number::count_of;
use dso::MappedFile;
use perfdata::abi::{PERF_SAMPLE_TIME, PERF_TYPE_TRACEPOINT};
use perfdata::tracepoint::{Format, TracepointFormats};
use perfdata::{Event, Item, Order, PerfData, Record, Sample};
use profile::profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::source::Want;
use profile::table::FrameId;
use profile::tracepoints::sched_events::IDLE;
use std::ops::ControlFlow;
use std::path::Path;
use symbols::{NameOpts, ObjectFiles, UnnamedCode, name_unnamed, session_of, symbolize_from};

/// Records whose functions are named at once.
const BATCH: usize = 4096;

/// A tracepoint that a recording must have.
#[derive(Clone, Copy, Debug)]
pub struct NeededTracepoint {
    /// `system:name`.
    pub name: &'static str,
    /// The command that records it.
    pub record: &'static str,
}

/// A recording with the formats of its tracepoints.
pub struct TracepointReader<'f> {
    path: &'f Path,
    file: &'f PerfData<'f>,
    formats: TracepointFormats,
    unnamed: UnnamedCode,
}

/// One sample of a tracepoint.
pub struct Hit<'a> {
    /// Index of the event in the file.
    pub event: usize,
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// Time in ns of the recording's clock.
    pub time_ns: u64,
    /// The thread on whose CPU time it was recorded.
    pub tid: i32,
    /// The call chain, leaf first; empty if none was asked for or recorded.
    pub frames: Vec<FrameId>,
    /// The layout of the payload.
    pub format: &'a Format,
    /// The payload.
    pub raw: &'a [u8],
}

impl Hit<'_> {
    /// A field that is a number; `None` if the tracepoint has no such field.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        Some(self.format.number(self.format.field(name)?, self.raw))
    }
}

/// Receiver of the samples.
pub trait HitSink {
    /// The next sample, in time order. The session knows the names of threads at that moment.
    ///
    /// # Errors
    /// Those of the sink; they end the reading.
    fn hit(&mut self, hit: Hit<'_>, session: &mut Session) -> anyhow::Result<()>;

    /// A thread began: its parent.
    fn forked(&mut self, _tid: i32, _parent: i32) {}

    /// Every frame of the samples so far has its name.
    ///
    /// # Errors
    /// Those of the sink; they end the reading.
    fn named(&mut self, _profile: &Profile) -> anyhow::Result<()> {
        Ok(())
    }
}

impl<'f> TracepointReader<'f> {
    /// The tracepoints of `file`, which was found at `path`.
    ///
    /// # Errors
    /// If it lacks that tracepoint, formats, or times.
    pub fn new(path: &'f Path, file: &'f PerfData<'f>, needed: NeededTracepoint) -> anyhow::Result<Self> {
        let NeededTracepoint { name: needed, record } = needed;
        let lacks = || damage::lacks(path, &format!("no {needed} in it"), &format!("record with {record}"));
        let formats = file.features().tracing_data.as_ref().map(TracepointFormats::new).ok_or_else(lacks)?;
        let tracepoints = Self { path, file, formats, unnamed: UnnamedCode::Addresses };
        if !tracepoints.names().any(|name| name.is_some_and(|name| needed.ends_with(name))) {
            return Err(lacks());
        }
        if file.events().iter().any(|event| !event.attr.samples(PERF_SAMPLE_TIME)) {
            bail!("{}: its events have no times: record with {record}", load::name_of(path));
        }
        Ok(tracepoints)
    }

    /// The same, with this form of names for code without a symbol.
    #[must_use]
    pub fn with_unnamed(mut self, unnamed: UnnamedCode) -> Self {
        self.unnamed = unnamed;
        self
    }

    /// Names of the tracepoints without their system, by event; `None` for other events.
    pub fn names(&self) -> impl Iterator<Item = Option<&str>> {
        self.file.events().iter().map(|event| self.format(event).map(|format| format.name.as_str()))
    }

    /// Whether the event at this index has call chains.
    #[must_use]
    pub fn has_chains(&self, event: usize) -> bool {
        self.file.events().get(event).is_some_and(Event::has_callchain)
    }

    fn format(&self, event: &Event) -> Option<&Format> {
        self.formats.of(event.attr.config).filter(|_| event.attr.type_ == PERF_TYPE_TRACEPOINT)
    }

    /// Shows every sample to `sink`, with up to `frames` of its call chain.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn read(&self, map: &MappedFile, frames: usize, sink: &mut impl HitSink) -> anyhow::Result<()> {
        let opts = SessionOpts { callchains: frames > 0, max_frames: frames, ..SessionOpts::default() };
        let mut session = session_of(self.file, opts);
        let files = (frames > 0).then(|| ObjectFiles::of_recording(self.file, &NameOpts::from_env()));
        let mut progress = load::Progress::on_stderr(self.path, map);
        let (mut named, mut failed) = (0, None);
        let mut batch = |items: &[Item<'_>]| -> anyhow::Result<()> {
            items.iter().try_for_each(|item| self.take(item, &mut session, sink))?;
            if let Some(files) = &files {
                symbolize_from(session.profile_mut(), named, files, Want::Names);
                named = session.profile().frames.len();
                if self.unnamed == UnnamedCode::Functions {
                    name_unnamed(session.profile_mut(), files);
                }
            }
            sink.named(session.profile())
        };
        let diagnostics = self.file.visit_batches(Order::Time, BATCH, |items| {
            failed = batch(items).err();
            let at = items.last().map_or(0, |item| item.offset);
            if failed.is_some() { ControlFlow::Break(()) } else { progress.at(at) }
        });
        progress.end();
        damage::warn(self.path, &diagnostics.problems);
        let lost = diagnostics.lost_total();
        let lost = lost.records + lost.samples;
        if lost > 0 {
            let lost = count_of(lost, "event was", "events were");
            out::note(&format!(
                "{lost} lost while recording: times around them are wrong; record with -m 4096"
            ));
        }
        failed.map_or(Ok(()), Err)
    }

    fn take(&self, item: &Item<'_>, session: &mut Session, sink: &mut impl HitSink) -> anyhow::Result<()> {
        let Record::Sample(sample) = &item.record else {
            if let Record::Fork(fork) = &item.record {
                let parent = if fork.pid == fork.ppid { fork.pid } else { fork.ptid };
                sink.forked(fork.tid.cast_signed(), parent.cast_signed());
            }
            session.push(item);
            return Ok(());
        };
        let format = item.event.and_then(|at| self.format(self.file.events().get(at)?));
        let (Some(event), Some(format), Some(raw), Some(time_ns)) =
            (item.event, format, sample.raw, sample.time_ns)
        else {
            return Ok(());
        };
        let tid = sample.pid_tid.map_or(IDLE, |(_, tid)| tid.cast_signed());
        let frames = session.resolve_single(item.event, sample).frames;
        sink.hit(Hit { event, sample, time_ns, tid, frames, format, raw }, session)
    }
}

/// A thread's name at this moment, and its process if that is known.
pub fn name_and_pid(session: &mut Session, tid: i32) -> (String, Option<i32>) {
    let pid = session.machine().pid_of(tid);
    let name = session.comm_of_thread(pid.unwrap_or(tid), tid);
    (session.profile().strings.of(name).to_owned(), pid)
}

/// The function of the symbol table that a frame is in.
pub fn function(profile: &Profile, frame: FrameId) -> &str {
    own_name(profile, frame)
        .map_or("[unknown]", |name| profile.strings.of(profile.symbols.of(name.symbol).name))
}
