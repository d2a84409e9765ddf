//! Decodes an Intel PT recording on all cores and replays it into calls.
//!
//! A buffer is cut at PSBs into pieces of about a megabyte, which are decoded independently: at a PSB all of a
//! decoder's state starts anew. Each piece is decoded up to the end of the next one's PSB+, so that nothing
//! falls between. Pieces are cut the same whatever the number of cores, so the result is the same too.

use intelpt::{BlockCache, Event, Flow, Gap, What, find_psb};
use perfdata::PerfData;
use profile::calls::Step;
use profile::pt::{FlowReplay, Sideband};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Mutex;

use super::names::Functions;
use super::pt_image::{Code, RunningImage};
use crate::text::number;

/// Bytes of trace decoded in one piece, about.
const PIECE_BYTES: usize = 1 << 20;

/// Steps with their times in ns, by thread id.
pub type StepsByThread = BTreeMap<i32, Vec<(u64, Step)>>;

/// A piece of a buffer's trace.
#[derive(Clone, Copy)]
struct Piece {
    buffer: usize,
    start: usize,
    /// The next piece's PSB, or the buffer's end.
    end: usize,
    /// Time of its PSB, ns; 0 when it has none.
    time_ns: u64,
}

/// Events of one thread in a row.
struct Stretch {
    tid: i32,
    start_ns: u64,
    events: Vec<Event>,
}

/// What a piece decoded to.
struct Decoded {
    stretches: Vec<Stretch>,
    instructions: u64,
    gaps: BTreeMap<String, u64>,
    /// Address where execution stood at its end, if in sight.
    at_end: Option<u64>,
    /// The first event only continues the piece before if that stood at this address.
    begins_at: Option<u64>,
}

/// A recording opened.
pub struct Trace<'a> {
    side: Sideband<'a>,
    bytes: Vec<Cow<'a, [u8]>>,
    code: Code,
    caches: Mutex<Vec<BlockCache>>,
}

/// What decoding came across.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Instructions executed.
    pub instructions: u64,
    /// Bytes of trace.
    pub trace_bytes: u64,
    /// Pieces missing, by reason.
    pub gaps: BTreeMap<String, u64>,
    /// Files whose code was missing.
    pub missing: BTreeMap<String, u64>,
    /// Jumps and returns that fit nothing.
    pub unmatched: u64,
}

impl Outcome {
    /// What is to be told of it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let (instructions, bytes) = (number::grouped(self.instructions), number::bytes(self.trace_bytes));
        let mut lines = vec![format!("decoded {instructions} instructions from {bytes} of trace")];
        let told = |(why, count): (&String, &u64)| format!("  {} × {why}", number::grouped(*count));
        lines.extend(self.gaps.iter().map(told));
        lines.extend(self.missing.iter().map(told));
        if self.unmatched > 0 {
            lines.push(format!("  {} jumps or returns that fit no call", number::grouped(self.unmatched)));
        }
        lines
    }
}

impl<'a> Trace<'a> {
    /// Reads the sideband and opens the code.
    ///
    /// # Errors
    /// If the recording holds no Intel PT trace.
    pub fn open(file: &PerfData<'a>) -> anyhow::Result<Self> {
        let side = Sideband::read(file)?;
        let bytes = side.buffers.iter().map(profile::pt::Buffer::bytes).collect();
        let code = Code::open(&side);
        Ok(Self { side, bytes, code, caches: Mutex::default() })
    }

    /// All pieces in the order of their times.
    fn pieces(&self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (buffer, bytes) in self.bytes.iter().enumerate() {
            let mut start = find_psb(bytes, 0);
            while let Some(at) = start {
                let next = find_psb(bytes, at + PIECE_BYTES);
                let end = next.unwrap_or(bytes.len());
                pieces.push(Piece { buffer, start: at, end, time_ns: self.time_at(bytes, at) });
                start = next;
            }
        }
        pieces.sort_by_key(|piece| (piece.time_ns, piece.buffer, piece.start));
        pieces
    }

    /// The time of the first TSC packet behind a PSB, ns.
    fn time_at(&self, bytes: &[u8], at: usize) -> u64 {
        const LOOK: usize = 64;
        let packets = intelpt::Packets::new(bytes, at).take(LOOK);
        let tsc = packets.flatten().find_map(|(_, packet)| match packet {
            intelpt::Packet::Tsc(tsc) => Some(tsc),
            _ => None,
        });
        tsc.map_or(0, |tsc| self.side.clock.ns_at(tsc))
    }

    fn decode(&self, piece: &Piece) -> Decoded {
        let bytes = &self.bytes[piece.buffer];
        let lock = || self.caches.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut cache = lock().pop().unwrap_or_default();
        let image = RunningImage::new(&self.code, &self.side, piece.buffer);
        let mut decoded = Decoded {
            stretches: Vec::new(),
            instructions: 0,
            gaps: BTreeMap::new(),
            at_end: None,
            begins_at: None,
        };
        let mut flow = Flow::new(bytes, piece.start, self.side.time, &mut cache);
        // The PSB of the next piece is decoded too, up to its PSBEND.
        let end = psb_end(bytes, piece.end);
        flow.run(&image, end, &mut |event| self.take(&image, event, &mut decoded));
        decoded.instructions = flow.instructions();
        decoded.at_end = flow.standing_at();
        lock().push(cache);
        decoded
    }

    /// Adds an event to its thread's stretch.
    fn take(&self, image: &RunningImage<'_>, event: &Event, decoded: &mut Decoded) {
        if let What::Gap(gap) = event.what {
            *decoded.gaps.entry(reason(gap)).or_default() += 1;
        }
        let tid = image.task().map_or(-1, |(_, tid)| tid);
        if decoded.stretches.is_empty() && event.what == What::Begin {
            decoded.begins_at = Some(event.to);
        }
        match decoded.stretches.last_mut() {
            Some(stretch) if stretch.tid == tid => stretch.events.push(*event),
            _ => {
                let start_ns = self.side.clock.ns_at(event.tsc.unwrap_or(0));
                decoded.stretches.push(Stretch { tid, start_ns, events: vec![*event] });
            }
        }
    }

    /// Decodes everything into the threads' steps.
    #[must_use]
    pub fn decode_all(self) -> (StepsByThread, Functions, Outcome) {
        let mut threads = Threads::default();
        let mut outcome = self.each_stretch(|stretches| {
            threads.take(&self.side, stretches);
            Ok(())
        });
        outcome.unmatched = threads.0.values().map(|thread| thread.replay.unmatched).sum();
        let (functions, missing) = self.code.into_functions();
        outcome.missing = missing;
        (threads.0.into_iter().map(|(tid, thread)| (tid, thread.steps)).collect(), functions, outcome)
    }

    /// Writes every call and return as `TID NS call|return FROM TO`, addresses in hex.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_branches(&self, out: &mut (impl Write + Send)) -> io::Result<()> {
        let mut result = Ok(());
        self.each_stretch(|stretches| {
            for stretch in stretches {
                for event in &stretch.events {
                    let kind = match event.what {
                        What::Call => "call",
                        What::Return => "return",
                        What::Begin => "begin",
                        What::End => "end",
                        What::EndAsync => "end-async",
                        What::Gap(_) => "gap",
                        _ => continue,
                    };
                    let ns = event.tsc.map_or(0, |tsc| self.side.clock.ns_at(tsc));
                    let (tid, from, to) = (stretch.tid, event.from, event.to);
                    result = writeln!(out, "{tid} {ns} {kind} {from:x} {to:x}");
                    if result.is_err() {
                        return Err(());
                    }
                }
            }
            Ok(())
        });
        result
    }

    /// Decodes on all cores and hands out the threads' stretches in the order of their times.
    fn each_stretch(&self, mut take: impl FnMut(Vec<Stretch>) -> Result<(), ()> + Send) -> Outcome {
        let pieces = self.pieces();
        let trace_bytes = self.bytes.iter().map(|bytes| bytes.len() as u64).sum();
        let mut outcome = Outcome { trace_bytes, ..Outcome::default() };
        let wave = rayon::current_num_threads() * 2;
        let mut ends: FxHashMap<usize, Option<u64>> = FxHashMap::default();
        let mut waiting: Vec<Stretch> = Vec::new();
        let mut ready: Vec<Stretch> = Vec::new();
        for (at, chunk) in pieces.chunks(wave).enumerate() {
            // Handing out what is ready and decoding what comes next go side by side.
            let work = std::mem::take(&mut ready);
            let (decoded, taken) = rayon::join(
                || chunk.par_iter().map(|piece| self.decode(piece)).collect::<Vec<_>>(),
                || take(work),
            );
            if taken.is_err() {
                return outcome;
            }
            for (piece, mut decoded) in chunk.iter().zip(decoded) {
                join_ends(&mut ends, piece, &mut decoded);
                outcome.instructions += decoded.instructions;
                for (why, count) in decoded.gaps {
                    *outcome.gaps.entry(why).or_default() += count;
                }
                waiting.append(&mut decoded.stretches);
            }
            let horizon = pieces.get((at + 1) * wave).map_or(u64::MAX, |next| next.time_ns);
            waiting.sort_by_key(|stretch| stretch.start_ns);
            let later = waiting.partition_point(|stretch| stretch.start_ns < horizon);
            ready = waiting.drain(..later).collect();
        }
        ready.append(&mut waiting);
        let _ = take(ready);
        outcome
    }
}

/// A piece that goes on where the one before it ended does not begin anew.
fn join_ends(ends: &mut FxHashMap<usize, Option<u64>>, piece: &Piece, decoded: &mut Decoded) {
    let before = ends.insert(piece.buffer, decoded.at_end).flatten();
    if before.is_some()
        && before == decoded.begins_at
        && let Some(first) = decoded.stretches.first_mut()
    {
        first.events.remove(0);
    }
}

/// Offset behind the PSBEND of the PSB at `psb`.
fn psb_end(bytes: &[u8], psb: usize) -> usize {
    const LOOK: usize = 64;
    let mut packets = intelpt::Packets::new(bytes, psb);
    for _ in 0..LOOK {
        match packets.next() {
            Some(Ok((_, intelpt::Packet::PsbEnd))) => return packets.offset(),
            Some(Ok(_)) => {}
            _ => break,
        }
    }
    psb
}

fn reason(gap: Gap) -> String {
    match gap {
        Gap::Overflow => "the processor lost packets".to_owned(),
        Gap::Code(missing) => match missing {
            intelpt::Missing::NotMapped => "code that no record told of".to_owned(),
            intelpt::Missing::NoFile => "code of a file that can't be read".to_owned(),
            intelpt::Missing::WrongFile => "code of a file that changed since".to_owned(),
            _ => "bytes that are no instruction".to_owned(),
        },
        Gap::Packet => "damaged packets".to_owned(),
        Gap::Mismatch => "packets that do not fit the code".to_owned(),
        Gap::Loop => "a loop without branches".to_owned(),
        _ => "other".to_owned(),
    }
}

/// One thread's way through the trace so far.
#[derive(Default)]
struct ThreadSteps {
    replay: FlowReplay,
    steps: Vec<(u64, Step)>,
    last_ns: u64,
}

/// All threads by id.
#[derive(Default)]
struct Threads(BTreeMap<i32, ThreadSteps>);

impl Threads {
    /// Turns stretches, in the order of their times, into steps.
    fn take(&mut self, side: &Sideband<'_>, stretches: Vec<Stretch>) {
        for stretch in stretches {
            let ThreadSteps { replay, steps, last_ns } = self.0.entry(stretch.tid).or_default();
            for event in &stretch.events {
                let time_ns = event.tsc.map_or(*last_ns, |tsc| side.clock.ns_at(tsc)).max(*last_ns);
                if matches!(event.what, What::Begin) && *last_ns > 0 {
                    let off_ns = side.off_cpu_ns(stretch.tid, *last_ns, time_ns);
                    if off_ns > 0 {
                        steps.push((time_ns, Step::OffCpu(off_ns)));
                    }
                }
                *last_ns = time_ns;
                replay.event(event, &mut |step| steps.push((time_ns, step)));
            }
        }
    }
}
