//! A buffer's trace cut at PSBs: at a PSB all of a decoder's state starts again, so pieces are decoded separately.

use crate::pt::{Buffer, Sideband};
use intelpt::{Packet, Packets};

/// Bytes of trace in one piece, about: what it yields should still be in the cache when it is taken. The same whatever
/// the number of cores, and so is the result.
const PIECE_BYTES: u64 = 16 << 10;
/// Bytes after a PSB among which its PSBEND is looked for.
const PSB_LOOK_BYTES: u64 = 1 << 10;

/// A piece of a buffer's trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the buffer.
    pub buffer: usize,
    /// Offset of its PSB.
    pub start: u64,
    /// Where decoding ends: after the next piece's PSB+, so that nothing falls between.
    pub end: u64,
    /// Bytes are missing in front of it.
    pub behind_hole: bool,
    /// Time of its PSB, ns; 0 when it has none.
    pub time_ns: u64,
}

/// All pieces in the order of their times; and bytes that belong to none, for want of a PSB.
pub fn cut(side: &Sideband<'_>) -> (Vec<Piece>, u64) {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut unused = 0;
    for (number, buffer) in side.buffers.iter().enumerate() {
        for run in buffer.runs() {
            let mut next = buffer.find_psb(run.clone());
            unused += next.unwrap_or(run.end) - run.start;
            let mut behind_hole = run.start > 0;
            while let Some(start) = next {
                next = buffer.find_psb((start + PIECE_BYTES).min(run.end)..run.end);
                let end = next.map_or(run.end, |psb| psb_end(buffer, psb));
                let time_ns = time_at(side, buffer, start);
                pieces.push(Piece { buffer: number, start, end, behind_hole, time_ns });
                behind_hole = false;
            }
        }
    }
    pieces.sort_by_key(|piece| (piece.time_ns, piece.buffer, piece.start));
    (pieces, unused)
}

/// The time of the first TSC packet after a PSB, ns.
fn time_at(side: &Sideband<'_>, buffer: &Buffer<'_>, psb: u64) -> u64 {
    let bytes = buffer.bytes(psb..psb + PSB_LOOK_BYTES);
    let tsc = Packets::new(&bytes, 0).map_while(Result::ok).find_map(|(_, packet)| match packet {
        Packet::Tsc(tsc) => Some(tsc),
        _ => None,
    });
    tsc.map_or(0, |tsc| side.setup.clock.ns_at(tsc))
}

/// Offset after the PSBEND of the PSB at `psb`.
fn psb_end(buffer: &Buffer<'_>, psb: u64) -> u64 {
    let bytes = buffer.bytes(psb..psb + PSB_LOOK_BYTES);
    let mut packets = Packets::new(&bytes, 0);
    let found = packets.by_ref().map_while(Result::ok).any(|(_, packet)| packet == Packet::PsbEnd);
    if found { psb + packets.offset() as u64 } else { psb }
}
