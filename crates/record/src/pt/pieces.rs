//! The trace on its way from the AUX areas to the file: AUXTRACE records, each followed by its bytes.
//!
//! A piece is one buffer that begins with an `AUXTRACE` record's header, so that it can wait in the same queue as
//! the records do.

use perfdata::record::Auxtrace;

use crate::sys::Ring;
use crate::sys::aux_area::TraceBytes;
use crate::sys::time;

/// Owner of the area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A CPU's.
    Cpu(u32),
    /// A thread's.
    Thread(u32),
}

/// Takes what is new in a full-trace area, as one piece: pieces must end with whole packets, as the area's head does,
/// for perf loses its way in packets that two records share.
pub fn take(ring: &mut Ring, idx: u32, owner: Owner) -> Option<Vec<u8>> {
    ring.read_aux(|traced| piece(traced, idx, owner))
}

/// Takes what a stopped snapshot area holds since the last time, as one piece.
pub fn take_snapshot(ring: &mut Ring, idx: u32, owner: Owner) -> Option<Vec<u8>> {
    ring.read_aux_snapshot(|traced| piece(traced, idx, owner))
}

fn piece(traced: TraceBytes<'_>, idx: u32, owner: Owner) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let (tid, cpu) = match owner {
        Owner::Cpu(cpu) => (NOBODY, cpu),
        Owner::Thread(tid) => (tid, NOBODY),
    };
    // A time near that of the trace: decoders take from it what the trace's own times lack.
    let reference = time::ticks_and_ns().map_or(0, |(ticks, _)| ticks);
    let size = traced.span.len().next_multiple_of(8) as u64;
    let head = Auxtrace { offset: traced.offset, reference, idx, tid, cpu, size, data: &[] };
    let mut bytes = head.head_bytes();
    bytes.reserve_exact(traced.span.len());
    traced.span.copy_to(0, traced.span.len(), &mut bytes);
    bytes
}
