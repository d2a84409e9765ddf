//! An Intel PT recording opened, summed up, or written branch by branch.

use super::decode::{self, PieceDecoder};
use super::filter::TraceFilter;
use super::image::TraceCode;
use super::stream::{self, Tally};
use super::threads::{Odd, Takes, Threads};
use super::{Move, PtError, Sideband, Timing, jit, lines, pieces};
use crate::model::{CallProfile, Replay, ReplayGate};
use intelpt::{FlowEvent, FlowKind};
use perfdata::PerfData;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::recording::functions::Functions;
use crate::selection::view_filter::ViewFilter;
use symbols::kernel_of;

/// Counts wanted from a trace.
#[derive(Debug)]
pub struct TraceSelection {
    /// Functions and calls of them.
    pub chosen: ViewFilter,
    /// Only these threads; all if empty.
    pub tids: Vec<u32>,
    /// This many of the slowest calls are kept.
    pub slowest: usize,
}

/// A trace summed up.
pub struct Summed {
    /// The calls.
    pub profile: CallProfile,
    /// Functions.
    pub functions: Functions,
    /// When the first step was, ns of the recording's clock.
    pub start_ns: u64,
    /// The threads seen.
    pub tids: Vec<i32>,
    /// Counts and problems from decoding.
    pub outcome: TraceOutcome,
}

/// A recording opened.
pub struct Trace<'a> {
    pub(super) side: Sideband<'a>,
    pub(super) code: TraceCode,
    /// Notes about code made at run time.
    jit_notes: Vec<String>,
}

/// Counts and problems from decoding.
#[derive(Debug, Default)]
pub struct TraceOutcome {
    /// Instructions executed.
    pub instructions: u64,
    /// Bytes of trace.
    pub trace_bytes: u64,
    /// Pieces missing, by reason.
    pub gaps: BTreeMap<&'static str, u64>,
    /// Files whose code was missing.
    pub missing: BTreeSet<String>,
    /// Branches that are no plain calls and returns.
    pub odd: Odd,
    /// Further notes, in the order to be shown.
    pub notes: Vec<Note>,
}

/// A fact about a trace that explains its numbers.
#[derive(Debug)]
pub enum Note {
    /// About code made at run time.
    Jit(String),
    /// Bytes in front of the first boundary packet, which can't be decoded.
    Unused(u64),
    /// A file that doesn't fit the trace: another build than recorded, or code changed in place.
    OtherBuild {
        /// Name.
        file: String,
        /// How often the trace didn't fit.
        times: u64,
    },
    /// The recording doesn't relate the trace's clock to its own.
    NoCommonClock,
    /// How exact times are.
    Times(Resolution),
    /// Errata of the processor that recorded it, which decoding allows for.
    Errata(Vec<&'static str>),
}

/// How exact the times of a trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Cycle packets: exact to a packet.
    Cycles,
    /// Crystal clock packets, this many ns from each other.
    Crystal {
        /// Time between two of them.
        apart_ns: u64,
    },
    /// Boundary packets only: short calls show no time.
    Boundaries,
    /// No times.
    None,
}

impl<'a> Trace<'a> {
    /// Reads the sideband and opens the code.
    ///
    /// # Errors
    /// If the recording holds no Intel PT trace.
    pub fn open(file: &PerfData<'a>) -> Result<Self, PtError> {
        let mut side = Sideband::read(file)?;
        let jit_notes = jit::read_all(&mut side);
        let code = TraceCode::open(&side, kernel_of(file));
        Ok(Self { side, code, jit_notes })
    }

    /// Damage of the recording, as far as it was met.
    #[must_use]
    pub fn problems(&self) -> &[perfdata::Error] {
        self.side.problems()
    }

    pub(super) fn outcome(&self, tally: Tally, odd: Odd, unused: u64) -> TraceOutcome {
        let mut gaps = BTreeMap::new();
        for (gap, count) in &tally.gaps {
            *gaps.entry(decode::reason(*gap)).or_default() += count;
        }
        let mut notes: Vec<Note> = self.jit_notes.iter().cloned().map(Note::Jit).collect();
        if unused > 0 {
            notes.push(Note::Unused(unused));
        }
        notes.extend(other_builds(&tally));
        if !self.side.setup.joined && self.side.setup.timing != Timing::No {
            notes.push(Note::NoCommonClock);
        }
        notes.push(Note::Times(self.resolution()));
        let errata: Vec<&str> = self.side.setup.errata.iter().map(intelpt::Erratum::name).collect();
        if !errata.is_empty() {
            notes.push(Note::Errata(errata));
        }
        TraceOutcome {
            instructions: tally.instructions,
            trace_bytes: self.side.buffers.iter().map(crate::pt::Buffer::len).sum(),
            gaps,
            missing: self.code.missing(),
            odd,
            notes,
        }
    }

    fn resolution(&self) -> Resolution {
        let setup = &self.side.setup;
        match setup.timing {
            Timing::Cycles => Resolution::Cycles,
            Timing::Crystal => {
                let ticks = setup.time.ticks_per_mtc();
                Resolution::Crystal { apart_ns: ticks.map_or(0, |ticks| setup.clock.ns_of(ticks)) }
            }
            Timing::Tsc => Resolution::Boundaries,
            Timing::No => Resolution::None,
        }
    }

    /// Hands every thread's steps to the consumer from `make`.
    fn replay<T: Takes>(
        &self,
        make: impl FnMut(i32) -> Option<T> + Send,
        mut before_each: impl FnMut() + Send,
    ) -> (Vec<(i32, T)>, u64, TraceOutcome) {
        let (pieces, unused) = pieces::cut(&self.side);
        let decoder: PieceDecoder<'_, '_, Move> = PieceDecoder::new(&self.code, &self.side);
        let mut threads = Threads::new(make);
        let tally = stream::run(&decoder, &pieces, |stretches| {
            before_each();
            threads.take(&self.side, &stretches);
            stretches.into_iter().for_each(|stretch| decoder.recycle(stretch.events));
            Ok(())
        });
        let outcome = self.outcome(tally, threads.odd(), unused);
        let (takers, start_ns) = threads.finish();
        (takers, start_ns, outcome)
    }

    /// Decodes everything into the sums of its calls. The same whatever the number of cores.
    ///
    /// # Errors
    /// If a filter means no function.
    pub fn sum(self, wanted: &TraceSelection) -> crate::Result<Summed> {
        let filter = TraceFilter::new(&wanted.chosen, &self.code);
        let (replays, start_ns, outcome) = self.replay(
            |tid| {
                let chosen = wanted.tids.is_empty() || wanted.tids.contains(&(tid as u32));
                let asked = filter.is_any().then_some(&filter as &dyn crate::model::Filter);
                let gate = ReplayGate::new(asked, filter.asked());
                let profile = CallProfile::new(tid as u32, wanted.slowest);
                chosen.then(|| Replay::new(profile, gate))
            },
            || filter.learn(),
        );
        filter.check()?;
        let tids = replays.iter().map(|(tid, _)| *tid).collect();
        let mut sums = replays.into_iter().map(|(_, replay)| replay.finish(&mut |_| {}));
        let mut profile = sums.next().unwrap_or_default();
        sums.for_each(|sum| profile.merge(&sum));
        let (functions, order) = self.code.functions_by_name();
        profile.renumber(&order);
        Ok(Summed { profile, functions, start_ns, tids, outcome })
    }

    /// Writes every call and return as `TID NS call|return FROM TO`, addresses in hex.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_branches(&self, out: &mut (impl Write + Send)) -> io::Result<()> {
        let (pieces, _) = pieces::cut(&self.side);
        let decoder: PieceDecoder<'_, '_, Whole> = PieceDecoder::new(&self.code, &self.side);
        let mut result = Ok(());
        stream::run(&decoder, &pieces, |stretches| {
            for stretch in stretches {
                result = stretch.events.iter().try_for_each(|Whole(event)| {
                    let ns = event.tsc.map_or(0, |tsc| self.side.setup.clock.ns_at(tsc));
                    write_branch(out, stretch.tid, ns, event)
                });
                if result.is_err() {
                    return Err(());
                }
                decoder.recycle(stretch.events);
            }
            Ok(())
        });
        result
    }
}

impl Trace<'_> {
    /// Writes branches as `perf script --itrace` does.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_lines(
        &self,
        out: &mut (impl Write + Send),
        wanted: &lines::LineSelection,
    ) -> io::Result<()> {
        let (pieces, _) = pieces::cut(&self.side);
        let decoder: PieceDecoder<'_, '_, Whole> = PieceDecoder::new(&self.code, &self.side);
        let decoder = decoder.with_every_branch(wanted.kinds.every());
        let mut lines = lines::Lines::new(&self.code, &self.side, wanted);
        let mut result = Ok(());
        stream::run(&decoder, &pieces, |stretches| {
            for stretch in stretches {
                let (tid, buffer) = (stretch.tid, stretch.buffer);
                let mut write = |Whole(event): &Whole| lines.write(out, tid, buffer, event);
                result = stretch.events.iter().try_for_each(&mut write);
                if result.is_err() {
                    return Err(());
                }
                decoder.recycle(stretch.events);
            }
            Ok(())
        });
        result
    }
}

/// Files that may be other builds than those recorded. Damage and errata make a few packets unfit; where it is one in
/// this many instructions, it is the code.
fn other_builds(tally: &Tally) -> impl Iterator<Item = Note> + '_ {
    const INSTRUCTIONS: u64 = 50_000;
    const FEW: u64 = 5;
    let is_often = |count: u64| count > FEW && count * INSTRUCTIONS > tally.instructions;
    let often = tally.unfit.iter().filter(move |(_, count)| is_often(**count));
    often.map(|(file, count)| Note::OtherBuild { file: file.clone(), times: *count })
}

/// An event kept as it is.
struct Whole(FlowEvent);

impl From<&FlowEvent> for Whole {
    fn from(event: &FlowEvent) -> Self {
        Self(*event)
    }
}

fn write_branch(out: &mut impl Write, tid: i32, ns: u64, event: &FlowEvent) -> io::Result<()> {
    let kind = match event.what {
        FlowKind::Call => "call",
        FlowKind::Return => "return",
        FlowKind::Begin => "begin",
        FlowKind::End => "end",
        FlowKind::EndAsync => "end-async",
        FlowKind::Gap(_) => "gap",
        _ => return Ok(()),
    };
    writeln!(out, "{tid} {ns} {kind} {:x} {:x}", event.from, event.to)
}
