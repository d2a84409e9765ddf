//! One piece of trace becomes the branches of the threads that ran.

use intelpt::{BlockCache, Flow, FlowEvent, FlowKind, Gap, MissingCode};
use perfdata::PidTid;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::image::{RunningImage, TraceCode};
use super::pieces::Piece;
use crate::pt::Sideband;

/// Branches of one thread in a row.
pub struct Stretch<E> {
    /// The thread; −1 when it is unknown.
    pub tid: i32,
    /// The buffer it comes from.
    pub buffer: usize,
    /// The numbers of the piece it comes from and of the stretch within that.
    pub place: (u32, u32),
    /// A first event was taken away that only continues the piece before.
    pub joined: bool,
    /// When the first was, ns.
    pub start_ns: u64,
    /// They.
    pub events: Vec<E>,
}

/// Result of decoding a piece.
pub struct DecodedPiece<E> {
    /// In order.
    pub stretches: Vec<Stretch<E>>,
    /// Executed.
    pub instructions: u64,
    /// Why the flow was lost, how often.
    pub gaps: BTreeMap<Gap, u64>,
    /// Files whose code the packets did not fit, how often.
    pub unfit: BTreeMap<String, u64>,
    /// Address where execution was at its end, if in sight.
    pub at_end: Option<u64>,
    /// The first event only continues the piece before if that was at this address.
    pub begins_at: Option<u64>,
}

/// Decodes pieces, any number at a time.
pub struct PieceDecoder<'t, 'a, E> {
    code: &'t TraceCode,
    side: &'t Sideband<'a>,
    caches: Mutex<Vec<BlockCache>>,
    /// Vectors used before: memory already at hand.
    used: Mutex<Vec<Vec<E>>>,
    /// Jumps within their function are reported, too.
    every: bool,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'t, 'a, E: for<'e> From<&'e FlowEvent>> PieceDecoder<'t, 'a, E> {
    /// Decoder of a recording.
    pub fn new(code: &'t TraceCode, side: &'t Sideband<'a>) -> Self {
        Self { code, side, caches: Mutex::default(), used: Mutex::default(), every: false }
    }

    /// Reports jumps within their function, too.
    pub fn with_every_branch(mut self, every: bool) -> Self {
        self.every = every;
        self
    }

    /// The events of a stretch were taken: their memory may be used again.
    pub fn recycle(&self, mut events: Vec<E>) {
        const KEPT: usize = 256;
        events.clear();
        let mut used = locked(&self.used);
        if used.len() < KEPT {
            used.push(events);
        }
    }

    /// Decodes one piece.
    pub fn decode(&self, piece: &Piece) -> DecodedPiece<E> {
        let bytes = self.side.buffers[piece.buffer].bytes(piece.start..piece.end);
        let mut cache = locked(&self.caches).pop().unwrap_or_default();
        let image = RunningImage::new(self.code, self.side, piece.buffer);
        let mut decoded = DecodedPiece {
            stretches: Vec::new(),
            instructions: 0,
            gaps: BTreeMap::new(),
            unfit: BTreeMap::new(),
            at_end: None,
            begins_at: None,
        };
        let setup = &self.side.setup;
        let mut flow = Flow::new(&bytes, 0, setup.time, &mut cache).with_errata(setup.errata);
        flow = flow.with_every_branch(self.every);
        flow.run(&image, bytes.len(), &mut |event| self.take(&image, event, &mut decoded));
        decoded.instructions = flow.instructions();
        decoded.at_end = flow.standing_at();
        if piece.behind_hole {
            self.add_hole(&image, &mut decoded);
        }
        locked(&self.caches).push(cache);
        decoded
    }

    /// Adds an event to its thread's stretch.
    #[inline(always)]
    fn take(&self, image: &RunningImage<'_>, event: &FlowEvent, decoded: &mut DecodedPiece<E>) {
        match decoded.stretches.last_mut() {
            Some(stretch) if !matches!(event.what, FlowKind::Begin | FlowKind::Gap(_)) => {
                stretch.events.push(event.into());
            }
            _ => self.take_first(image, event, decoded),
        }
    }

    /// Adds one before which the thread may have changed, or that is to be counted.
    #[cold]
    fn take_first(&self, image: &RunningImage<'_>, event: &FlowEvent, decoded: &mut DecodedPiece<E>) {
        if let FlowKind::Gap(gap) = event.what {
            *decoded.gaps.entry(gap).or_default() += 1;
            if matches!(gap, Gap::Mismatch | Gap::Loop | Gap::Code(MissingCode::BadCode))
                && let Some(file) = image.file_at(event.from)
            {
                *decoded.unfit.entry(file.to_owned()).or_default() += 1;
            }
        }
        let tid = image.task().map_or(-1, PidTid::signed_tid);
        if decoded.stretches.is_empty() && event.what == FlowKind::Begin {
            decoded.begins_at = Some(event.to);
        }
        if decoded.stretches.last().is_none_or(|last| last.tid != tid) {
            let events = locked(&self.used).pop().unwrap_or_default();
            let start_ns = self.side.setup.clock.ns_at(event.tsc.unwrap_or(0));
            let (buffer, place) = (image.buffer(), (0, decoded.stretches.len() as u32));
            decoded.stretches.push(Stretch { tid, buffer, place, joined: false, start_ns, events });
        }
        if let Some(stretch) = decoded.stretches.last_mut() {
            stretch.events.push(event.into());
        }
    }

    /// Trace before this piece was not saved.
    fn add_hole(&self, image: &RunningImage<'_>, decoded: &mut DecodedPiece<E>) {
        let what = FlowKind::Gap(Gap::NotSaved);
        let hole = FlowEvent { tsc: None, what, from: 0, next: 0, to: 0, unit: 0, at_start: false, bits: 64 };
        if let Some(first) = decoded.stretches.first_mut() {
            first.events.insert(0, (&hole).into());
            *decoded.gaps.entry(Gap::NotSaved).or_default() += 1;
        } else {
            self.take_first(image, &hole, decoded);
        }
        decoded.begins_at = None;
    }
}

/// A gap's reason in words.
pub fn reason(gap: Gap) -> &'static str {
    match gap {
        Gap::Overflow => "the processor lost packets",
        Gap::NotSaved => "trace that was not saved: the buffer was full",
        Gap::Code(MissingCode::NotMapped) => "code without a record of its mapping",
        Gap::Code(MissingCode::NoFile) => "code of a file that can't be read",
        Gap::Code(MissingCode::WrongFile) => "code of a file that changed since",
        Gap::Code(MissingCode::MadeAtRunTime) => "code made at run time, missing in every jitdump",
        Gap::Code(MissingCode::Rewritten) => "code that the program may have rewritten",
        Gap::Code(_) => "bytes that are not an instruction",
        Gap::Packet => "damaged packets",
        Gap::Mismatch => "packets that do not fit the code",
        Gap::Loop => "a loop without branches",
        _ => "other",
    }
}
