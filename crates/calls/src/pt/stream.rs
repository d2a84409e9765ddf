//! Pieces decoded on all cores, and handed out in the order of time as soon as those before them were.
//!
//! ```text
//!   decoding (any core)      12   13   14        ← not further ahead than the window
//!   decoded, waiting its turn   11
//!   being taken (one core)    8 9 10             ← in order; what was decoded meanwhile is taken along
//! ```
//! No core waits for another: who has decoded a piece whose turn it is takes it, unless somebody is taking.

use intelpt::{FlowEvent, Gap};
use rayon::ScopeFifo;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use super::decode::{DecodedPiece, PieceDecoder, Stretch, locked};
use super::pieces::Piece;

/// Pieces that may be decoded ahead: enough to keep all cores at work, not more, for all they yield is held in memory.
const PIECES_PER_CORE: usize = 3;

/// Counts and problems from decoding.
#[derive(Debug, Default)]
pub struct Tally {
    /// Instructions executed.
    pub instructions: u64,
    /// Why the flow was lost, how often.
    pub gaps: BTreeMap<Gap, u64>,
    /// Files whose code the packets did not fit, how often.
    pub unfit: BTreeMap<String, u64>,
}

/// How far all is.
struct Progress<E> {
    /// The piece to be decoded next.
    next: usize,
    /// The first piece not taken yet.
    turn: usize,
    /// Pieces decoded, from number `turn` on.
    decoded: VecDeque<Option<DecodedPiece<E>>>,
    /// Somebody is taking.
    taking: bool,
    /// Taking failed: there is no more to be done.
    failed: bool,
}

/// Decoded steps whose turn has come, and the part of them not handed out yet.
struct Order<'p, E> {
    pieces: &'p [Piece],
    waiting: Vec<Stretch<E>>,
    /// Where execution was at the end of each buffer's last piece.
    ends: FxHashMap<usize, Option<u64>>,
    tally: Tally,
}

/// All that the cores share.
struct Work<'w, 'd, 'p, E, T> {
    decoder: &'w PieceDecoder<'d, 'd, E>,
    pieces: &'p [Piece],
    progress: Mutex<Progress<E>>,
    /// State of the consumer.
    taker: Mutex<(Order<'p, E>, T)>,
}

/// Decodes all pieces; the threads' stretches go to `take` in the order of their times, until it fails.
pub fn run<E: for<'e> From<&'e FlowEvent> + Send>(
    decoder: &PieceDecoder<'_, '_, E>,
    pieces: &[Piece],
    take: impl FnMut(Vec<Stretch<E>>) -> Result<(), ()> + Send,
) -> Tally {
    let decoded = VecDeque::new();
    let progress = Progress { next: 0, turn: 0, decoded, taking: false, failed: false };
    let order = Order { pieces, waiting: Vec::new(), ends: FxHashMap::default(), tally: Tally::default() };
    let work = Work { decoder, pieces, progress: Mutex::new(progress), taker: Mutex::new((order, take)) };
    rayon::scope_fifo(|scope| work.start(scope, &mut locked(&work.progress)));
    let (order, _) = work.taker.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    order.tally
}

impl<E, T> Work<'_, '_, '_, E, T>
where
    E: for<'e> From<&'e FlowEvent> + Send,
    T: FnMut(Vec<Stretch<E>>) -> Result<(), ()> + Send,
{
    /// Has pieces decoded as far ahead as is allowed.
    fn start<'s>(&'s self, scope: &ScopeFifo<'s>, progress: &mut Progress<E>) {
        let ahead = progress.turn + rayon::current_num_threads() * PIECES_PER_CORE;
        while progress.next < self.pieces.len().min(ahead) && !progress.failed {
            let number = progress.next;
            progress.next += 1;
            progress.decoded.push_back(None);
            scope.spawn_fifo(move |scope| self.piece(scope, number));
        }
    }

    fn piece<'s>(&'s self, scope: &ScopeFifo<'s>, number: usize) {
        let decoded = self.decoder.decode(&self.pieces[number]);
        let mut progress = locked(&self.progress);
        let place = number - progress.turn;
        progress.decoded[place] = Some(decoded);
        if !progress.taking {
            progress.taking = true;
            self.take(scope, progress);
        }
    }

    /// Takes all whose turn has come, and what is decoded in the meantime.
    fn take<'s>(&'s self, scope: &ScopeFifo<'s>, mut progress: MutexGuard<'s, Progress<E>>) {
        loop {
            let count = progress.decoded.iter().take_while(|decoded| decoded.is_some()).count();
            let ready: Vec<_> = progress.decoded.drain(..count).flatten().collect();
            if ready.is_empty() || progress.failed {
                progress.taking = false;
                return;
            }
            let first = progress.turn;
            progress.turn += ready.len();
            self.start(scope, &mut progress);
            drop(progress);
            let (order, take) = &mut *locked(&self.taker);
            let taken = take(order.put(first, ready));
            progress = locked(&self.progress);
            progress.failed |= taken.is_err();
        }
    }
}

impl<E> Order<'_, E> {
    /// The pieces from number `first` on were decoded: what can be handed out now.
    fn put(&mut self, first: usize, decoded: Vec<DecodedPiece<E>>) -> Vec<Stretch<E>> {
        let mut ready = Vec::new();
        for (number, decoded) in (first..).zip(decoded) {
            self.add(number, decoded);
            self.before(number + 1, &mut ready);
        }
        ready
    }

    fn add(&mut self, number: usize, mut decoded: DecodedPiece<E>) {
        self.join_ends(&self.pieces[number], &mut decoded);
        decoded.stretches.iter_mut().for_each(|stretch| stretch.place.0 = number as u32);
        self.tally.instructions += decoded.instructions;
        for (gap, count) in decoded.gaps {
            *self.tally.gaps.entry(gap).or_default() += count;
        }
        for (file, count) in decoded.unfit {
            *self.tally.unfit.entry(file).or_default() += count;
        }
        self.waiting.append(&mut decoded.stretches);
    }

    /// A piece that goes on where the one before it ended does not begin again.
    fn join_ends(&mut self, piece: &Piece, decoded: &mut DecodedPiece<E>) {
        let before = self.ends.insert(piece.buffer, decoded.at_end).flatten();
        if before.is_some()
            && before == decoded.begins_at
            && let Some(first) = decoded.stretches.first_mut()
        {
            first.events.remove(0);
            first.joined = true;
        }
    }

    /// Moves to `ready` what no piece from number `next` on can precede, in the order of time.
    fn before(&mut self, next: usize, ready: &mut Vec<Stretch<E>>) {
        self.waiting.sort_by_key(|stretch| stretch.start_ns);
        let later = match self.pieces.get(next) {
            Some(piece) => self.waiting.partition_point(|stretch| stretch.start_ns < piece.time_ns),
            None => self.waiting.len(),
        };
        ready.extend(self.waiting.drain(..later));
    }
}
