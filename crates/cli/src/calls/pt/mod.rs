//! Decodes an Intel PT recording on all cores and replays it into calls as it goes: neither branches nor steps
//! are kept, so memory is bounded by distinct paths, not by the length of the trace.
//!
//! [`pieces`] cuts the trace, [`decode`] decodes a piece, [`stream`] does so on all cores and hands out in the
//! order of time, [`threads`] turns branches into steps, [`indexed`] does so again for views of single calls. The
//! code comes from [`image`].

mod decode;
mod filter;
mod image;
mod indexed;
mod jit;
mod kernel;
mod kinds;
pub mod lines;
mod pieces;
mod stream;
mod threads;
mod walk;

use calls::model::{CallProfile, Gate, Replay};
use calls::pt::{Move, PtError, Sideband, Timing};
use intelpt::{Event, What};
use perfdata::PerfData;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use super::chosen::Chosen;
use super::names::Functions;
use crate::text::number;
use crate::{damage, load};
use decode::Decoder;
use filter::TraceFilter;
use image::Code;
pub use indexed::Indexed;
use stream::Tally;
use symbols::kernel_of;
use threads::{Odd, Takes, Threads};

/// What is to be counted of a trace.
#[derive(Debug)]
pub struct Wanted {
    /// Functions and calls of them.
    pub chosen: Chosen,
    /// Only these threads; all if empty.
    pub tids: Vec<u32>,
    /// So many of the slowest calls are kept.
    pub slowest: usize,
}

/// A trace summed up.
pub struct Summed {
    /// The calls.
    pub profile: CallProfile,
    /// Their functions.
    pub functions: Functions,
    /// When the first step was, ns of the recording's clock.
    pub start_ns: u64,
    /// The threads seen.
    pub tids: Vec<i32>,
    /// What decoding came across.
    pub outcome: Outcome,
}

/// A recording opened.
pub struct Trace<'a> {
    side: Sideband<'a>,
    code: Code,
    /// What is to be said of code made at run time.
    jit_notes: Vec<String>,
}

/// Why a recording can't be decoded; if damage may be the cause, that is named first.
fn without_trace(path: &Path, file: &PerfData<'_>, why: PtError) -> anyhow::Error {
    damage::tell_records(path, file);
    if matches!(why, PtError::NoTrace) && damage::is_named(path) {
        return damage::lacks(path, "no processor trace in it", "");
    }
    anyhow::Error::new(why).context(load::name_of(path))
}

/// What decoding came across.
#[derive(Debug, Default)]
pub struct Outcome {
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
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl Outcome {
    /// What is to be told of it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let (instructions, bytes) = (number::grouped(self.instructions), number::bytes(self.trace_bytes));
        let mut lines = vec![format!("decoded {instructions} instructions from {bytes} of trace")];
        let told = |(why, count): (&&str, &u64)| format!("  {} × {why}", number::grouped(*count));
        lines.extend(self.gaps.iter().map(told));
        lines.extend(self.missing.iter().map(|file| format!("  no code of {file}")));
        let odd = [
            (self.odd.unmatched, "returns that fit no call"),
            (self.odd.shared, "jumps into code that functions share: its time is that of the one called"),
            (self.odd.aborted, "transactions were undone: what they called is counted, and had no effect"),
        ];
        let told = |(count, what): (u64, &str)| format!("  {} {what}", number::grouped(count));
        lines.extend(odd.into_iter().filter(|(count, _)| *count > 0).map(told));
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines
    }
}

impl<'a> Trace<'a> {
    /// Reads the sideband and opens the code. A damaged recording is named on standard error.
    ///
    /// # Errors
    /// If the recording at `path` holds no Intel PT trace.
    pub fn open(path: &Path, file: &PerfData<'a>) -> anyhow::Result<Self> {
        let mut side = match Sideband::read(file) {
            Ok(side) => side,
            Err(why) => return Err(without_trace(path, file, why)),
        };
        damage::tell(path, side.problems());
        let jit_notes = jit::read_all(&mut side);
        let code = Code::open(&side, kernel_of(file));
        Ok(Self { side, code, jit_notes })
    }

    fn outcome(&self, tally: Tally, odd: Odd, unused: u64) -> Outcome {
        let mut gaps = BTreeMap::new();
        for (gap, count) in &tally.gaps {
            *gaps.entry(decode::reason(*gap)).or_default() += count;
        }
        let mut notes = self.jit_notes.clone();
        if unused > 0 {
            notes.push(format!("{} of trace in front of the first boundary packet", number::bytes(unused)));
        }
        notes.extend(other_builds(&tally));
        if !self.side.setup.joined && self.side.setup.timing != Timing::No {
            notes.push("the recording does not tell how its clocks relate: no time off the CPU".to_owned());
        }
        notes.push(self.resolution());
        let errata: Vec<&str> = self.side.setup.errata.iter().map(intelpt::Erratum::name).collect();
        if !errata.is_empty() {
            notes
                .push(format!("errata of the processor that recorded it, allowed for: {}", errata.join(" ")));
        }
        Outcome {
            instructions: tally.instructions,
            trace_bytes: self.side.buffers.iter().map(calls::pt::Buffer::len).sum(),
            gaps,
            missing: self.code.missing(),
            odd,
            notes,
        }
    }

    /// How exact the times are, in words.
    fn resolution(&self) -> String {
        let setup = &self.side.setup;
        let crystal_ns = setup.time.ticks_per_mtc().map_or(0, |ticks| setup.clock.ns_of(ticks));
        match setup.timing {
            Timing::Cycles => "times from cycle packets: exact to a packet, some six branches".to_owned(),
            Timing::Crystal => {
                format!("times from crystal clock packets, {} apart", number::duration_ns(crystal_ns))
            }
            Timing::Tsc => "times from boundary packets only: short calls show none".to_owned(),
            Timing::No => "recorded without times: durations mean nothing".to_owned(),
        }
    }

    /// Hands every thread's steps to who `make` says takes them.
    fn replay<T: Takes>(
        &self,
        make: impl FnMut(i32) -> Option<T> + Send,
        mut before_each: impl FnMut() + Send,
    ) -> (Vec<(i32, T)>, u64, Outcome) {
        let (pieces, unused) = pieces::cut(&self.side);
        let decoder: Decoder<'_, '_, Move> = Decoder::new(&self.code, &self.side);
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
    pub fn sum(self, wanted: &Wanted) -> anyhow::Result<Summed> {
        let filter = TraceFilter::new(&wanted.chosen, &self.code);
        let (replays, start_ns, outcome) = self.replay(
            |tid| {
                let chosen = wanted.tids.is_empty() || wanted.tids.contains(&(tid as u32));
                let asked = filter.is_any().then_some(&filter as &dyn calls::model::Filter);
                let gate = Gate::new(asked, filter.asked());
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
        let decoder: Decoder<'_, '_, Whole> = Decoder::new(&self.code, &self.side);
        let mut result = Ok(());
        stream::run(&decoder, &pieces, |stretches| {
            for stretch in stretches {
                result = stretch.events.iter().try_for_each(|Whole(event)| {
                    let ns = event.tsc.map_or(0, |tsc| self.side.setup.clock.ns_at(tsc));
                    write_branch(out, (stretch.tid, ns), event)
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
    pub fn write_lines(&self, out: &mut (impl Write + Send), wanted: &lines::Wanted) -> io::Result<()> {
        let (pieces, _) = pieces::cut(&self.side);
        let decoder: Decoder<'_, '_, Whole> = Decoder::new(&self.code, &self.side);
        let decoder = decoder.with_every_branch(wanted.kinds.every());
        let mut lines = lines::Lines::new(&self.code, &self.side, wanted);
        let mut result = Ok(());
        stream::run(&decoder, &pieces, |stretches| {
            for stretch in stretches {
                let place = (stretch.tid, stretch.buffer);
                result = stretch.events.iter().try_for_each(|Whole(event)| lines.write(out, place, event));
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
/// so many instructions, it is the code.
fn other_builds(tally: &Tally) -> Vec<String> {
    const INSTRUCTIONS: u64 = 50_000;
    const FEW: u64 = 5;
    let is_often = |count: &&u64| **count > FEW && **count * INSTRUCTIONS > tally.instructions;
    let often = tally.unfit.iter().filter(|(_, count)| is_often(count));
    let told = often.map(|(file, count)| {
        format!(
            "{file}: the trace does not fit its code ({count} times), and the recording has no build-id of it: it is \
             another build than the one that ran, or code was changed in place; calls within it may be wrong"
        )
    });
    told.collect()
}

/// An event kept as it is.
struct Whole(Event);

impl From<&Event> for Whole {
    fn from(event: &Event) -> Self {
        Self(*event)
    }
}

fn write_branch(out: &mut impl Write, (tid, ns): (i32, u64), event: &Event) -> io::Result<()> {
    let kind = match event.what {
        What::Call => "call",
        What::Return => "return",
        What::Begin => "begin",
        What::End => "end",
        What::EndAsync => "end-async",
        What::Gap(_) => "gap",
        _ => return Ok(()),
    };
    writeln!(out, "{tid} {ns} {kind} {:x} {:x}", event.from, event.to)
}
