//! Threads' steps decoded again whenever they are asked for: views of single calls hold a few pieces of the trace in
//! memory, whatever its length.

use crate::model::{FunctionId, Step};
use crate::pt::{Move, Sideband};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::decode::{DecodedPiece, PieceDecoder, locked};
use super::pieces::{self, Piece};
use super::threads::{Takes, Threads, TraceThread};
use super::{Trace, TraceOutcome, stream};
use crate::recording::functions::Functions;

/// Where a stretch of a thread's branches comes from.
#[derive(Clone, Copy, Debug)]
struct StretchOrigin {
    piece: u32,
    /// Number among the stretches that the piece decodes to.
    stretch: u32,
    /// First branch only continues the code before.
    joined: bool,
}

/// When the steps of a thread are, ns of the recording's clock; `None` without any.
#[derive(Clone, Copy, Debug, Default)]
struct Span(Option<(u64, u64)>);

impl Takes for Span {
    fn take(&mut self, time_ns: u64, _: Step) {
        let (first, _) = self.0.unwrap_or((time_ns, time_ns));
        self.0 = Some((first, time_ns));
    }
}

type Lately = VecDeque<(u32, Arc<DecodedPiece<Move>>)>;

/// A recording whose threads and functions are known.
pub struct Indexed<'t, 'a> {
    side: &'t Sideband<'a>,
    decoder: PieceDecoder<'t, 'a, Move>,
    pieces: Vec<Piece>,
    /// Each thread's way through the trace.
    ways: BTreeMap<i32, Vec<StretchOrigin>>,
    spans: BTreeMap<i32, Span>,
    /// The number by name of each function's number while decoding.
    order: Vec<FunctionId>,
    /// That of code of which nothing is known.
    unknown: FunctionId,
    /// Pieces decoded lately: threads that took turns on a CPU share them.
    lately: Mutex<Lately>,
}

/// Pieces held that were decoded lately.
const HELD_PIECES: usize = 32;

impl<'t, 'a> Indexed<'t, 'a> {
    /// Decodes everything once, and keeps where each thread ran and what functions there are.
    #[must_use]
    pub fn new(trace: &'t Trace<'a>) -> (Self, Functions, TraceOutcome) {
        let side = &trace.side;
        let (pieces, unused) = pieces::cut(side);
        let mut ways: BTreeMap<i32, Vec<StretchOrigin>> = BTreeMap::new();
        let decoder: PieceDecoder<'t, 'a, Move> = PieceDecoder::new(&trace.code, side);
        let mut threads = Threads::new(|_| Some(Span::default()));
        let tally = stream::run(&decoder, &pieces, |stretches| {
            for stretch in &stretches {
                let (piece, number) = stretch.place;
                let place = StretchOrigin { piece, stretch: number, joined: stretch.joined };
                ways.entry(stretch.tid).or_default().push(place);
            }
            threads.take(side, &stretches);
            stretches.into_iter().for_each(|stretch| decoder.recycle(stretch.events));
            Ok(())
        });
        let outcome = trace.outcome(tally, threads.odd(), unused);
        let spans = threads.finish().0.into_iter().collect();
        let unknown = trace.code.unknown() as usize;
        let (functions, order) = trace.code.functions_by_name();
        let (unknown, lately) = (order[unknown], Mutex::default());
        let indexed = Self { side, decoder, pieces, ways, spans, order, unknown, lately };
        (indexed, functions, outcome)
    }

    /// The threads' ids.
    pub fn tids(&self) -> impl Iterator<Item = i32> + '_ {
        self.ways.keys().copied()
    }

    /// The process of a thread, and the thread's last name if one was recorded.
    #[must_use]
    pub fn names(&self, tid: i32) -> (i32, Option<String>) {
        (self.side.process_of(tid), self.side.name_of(tid, u64::MAX).map(str::to_owned))
    }

    /// When a thread's first and last steps are, ns of the recording's clock; `None` if it took none.
    #[must_use]
    pub fn span_ns(&self, tid: i32) -> Option<(u64, u64)> {
        self.spans.get(&tid)?.0
    }

    /// A thread's steps with their times in ns.
    pub fn steps(&self, tid: i32) -> IndexedSteps<'_, 't, 'a> {
        let places = self.ways.get(&tid).map_or(&[][..], Vec::as_slice);
        IndexedSteps { indexed: self, tid, places, thread: TraceThread::new(Vec::new()), at: 0 }
    }

    /// The piece of the first of these places; those needed after it are decoded at the same time, on other cores.
    fn piece(&self, places: &[StretchOrigin]) -> Option<Arc<DecodedPiece<Move>>> {
        let held = |lately: &Lately, number: u32| {
            lately.iter().find(|(held, _)| *held == number).map(|(_, decoded)| Arc::clone(decoded))
        };
        let wanted = places.first()?.piece;
        if let Some(decoded) = held(&locked(&self.lately), wanted) {
            return Some(decoded);
        }
        let mut numbers: Vec<u32> = places.iter().take(HELD_PIECES).map(|place| place.piece).collect();
        numbers.dedup();
        numbers.truncate(rayon::current_num_threads());
        let decode = |number: &u32| (*number, Arc::new(self.decoder.decode(&self.pieces[*number as usize])));
        let new: Lately = numbers.par_iter().map(decode).collect();
        let decoded = held(&new, wanted);
        let mut lately = locked(&self.lately);
        lately.extend(new);
        let surplus = lately.len().saturating_sub(HELD_PIECES);
        lately.drain(..surplus).filter_map(|(_, decoded)| Arc::into_inner(decoded)).for_each(|decoded| {
            decoded.stretches.into_iter().for_each(|stretch| self.decoder.recycle(stretch.events));
        });
        decoded
    }

    /// With functions numbered by name. All were met when everything was decoded for the first time.
    fn renumbered(&self, step: Step) -> Step {
        let new = |FunctionId(old): FunctionId| self.order.get(old as usize).copied().unwrap_or(self.unknown);
        match step {
            Step::Enter(old) => Step::Enter(new(old)),
            Step::TailJump(old) => Step::TailJump(new(old)),
            other => other,
        }
    }
}

/// The steps of a thread.
pub struct IndexedSteps<'i, 't, 'a> {
    indexed: &'i Indexed<'t, 'a>,
    tid: i32,
    /// Where the next come from.
    places: &'i [StretchOrigin],
    thread: TraceThread<Vec<(u64, Step)>>,
    /// The first of the steps at hand that was not reported yet.
    at: usize,
}

impl Iterator for IndexedSteps<'_, '_, '_> {
    type Item = (u64, Step);

    fn next(&mut self) -> Option<(u64, Step)> {
        loop {
            if let Some((time_ns, step)) = self.thread.taker.get(self.at) {
                self.at += 1;
                return Some((*time_ns, self.indexed.renumbered(*step)));
            }
            self.thread.taker.clear();
            self.at = 0;
            let decoded = self.indexed.piece(self.places)?;
            let (place, rest) = self.places.split_first()?;
            self.places = rest;
            let stretch = decoded.stretches.get(place.stretch as usize)?;
            let events = stretch.events.get(usize::from(place.joined)..).unwrap_or_default();
            self.thread.take(self.indexed.side, self.tid, events);
        }
    }
}
