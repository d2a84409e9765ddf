//! Waves of pieces: decoded on all cores while what the wave before yielded is taken in the order of time.

use intelpt::{Event, Gap};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

use super::decode::{Decoded, Decoder, Stretch};
use super::pieces::Piece;

/// Pieces of a wave: enough to keep all cores at work, not more, for all they yield is held in memory.
const MOST_PIECES: usize = 32;
const PIECES_PER_CORE: usize = 8;

/// What decoding came across.
#[derive(Debug, Default)]
pub struct Tally {
    /// Instructions executed.
    pub instructions: u64,
    /// Why the flow was lost, how often.
    pub gaps: BTreeMap<Gap, u64>,
}

/// Pieces decoded so far, and what of it is not handed out yet.
struct Stream<'p, E> {
    pieces: &'p [Piece],
    waiting: Vec<Stretch<E>>,
    /// Where execution stood at the end of each buffer's last piece.
    ends: FxHashMap<usize, Option<u64>>,
    tally: Tally,
}

/// Decodes all pieces; the threads' stretches go to `take` in the order of their times, until it fails.
pub fn run<E: for<'e> From<&'e Event> + Send>(
    decoder: &Decoder<'_, '_, E>,
    pieces: &[Piece],
    mut take: impl FnMut(Vec<Stretch<E>>) -> Result<(), ()> + Send,
) -> Tally {
    let wave = (rayon::current_num_threads() * PIECES_PER_CORE).min(MOST_PIECES);
    let (waiting, ends) = (Vec::new(), FxHashMap::default());
    let mut stream = Stream { pieces, waiting, ends, tally: Tally::default() };
    let mut ready = Vec::new();
    for (at, chunk) in pieces.chunks(wave).enumerate() {
        let work = std::mem::take(&mut ready);
        let (decoded, taken) = rayon::join(
            || chunk.par_iter().with_max_len(1).map(|piece| decoder.decode(piece)).collect::<Vec<_>>(),
            || take(work),
        );
        if taken.is_err() {
            return stream.tally;
        }
        chunk.iter().zip(decoded).for_each(|(piece, decoded)| stream.add(piece, decoded));
        ready = stream.before((at + 1) * wave);
    }
    // Failing at the very end changes nothing any more; whoever takes keeps why.
    let _ = take(ready);
    stream.tally
}

impl<E> Stream<'_, E> {
    fn add(&mut self, piece: &Piece, mut decoded: Decoded<E>) {
        self.join_ends(piece, &mut decoded);
        self.tally.instructions += decoded.instructions;
        for (gap, count) in decoded.gaps {
            *self.tally.gaps.entry(gap).or_default() += count;
        }
        self.waiting.append(&mut decoded.stretches);
    }

    /// A piece that goes on where the one before it ended does not begin anew.
    fn join_ends(&mut self, piece: &Piece, decoded: &mut Decoded<E>) {
        let before = self.ends.insert(piece.buffer, decoded.at_end).flatten();
        if before.is_some()
            && before == decoded.begins_at
            && let Some(first) = decoded.stretches.first_mut()
        {
            first.events.remove(0);
        }
    }

    /// What no piece from number `next` on can precede, in the order of time.
    fn before(&mut self, next: usize) -> Vec<Stretch<E>> {
        let horizon = self.pieces.get(next).map_or(u64::MAX, |piece| piece.time_ns);
        self.waiting.sort_by_key(|stretch| stretch.start_ns);
        let later = match self.pieces.get(next) {
            Some(_) => self.waiting.partition_point(|stretch| stretch.start_ns < horizon),
            None => self.waiting.len(),
        };
        self.waiting.drain(..later).collect()
    }
}
