//! Frames of unwound stacks, found by the cores that unwind them.
//!
//! The session alone gives ids, in the order of the samples. Other cores find ids that it gave before: which of them
//! they find has no effect but on the time that the session takes for the rest.

use super::frames::{Shared, unwound_addr};
use super::recent_stack::RecentStacks;
use super::{UnwindJob, UnwoundStack};
use crate::machine::{LookupAddr, Mappings};
use crate::table::{DsoId, FrameId, FrameTable};
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher as _;

/// Frames by their place, as far as the session had them some time ago.
#[derive(Default)]
pub struct KnownFrames {
    frames: HashTable<KnownFrame>,
    /// Frames of the session's table that were taken over.
    taken: usize,
}

#[derive(Clone, Copy)]
struct KnownFrame {
    addr: u64,
    dso: DsoId,
    id: FrameId,
}

impl KnownFrames {
    /// Whether so many frames have come since [`Self::follow`] that it is worth it.
    #[must_use]
    pub fn is_behind(&self, table: &FrameTable) -> bool {
        const FEWEST: usize = 256;
        table.len() - self.taken > self.taken / 16 + FEWEST
    }

    /// Takes over the frames that came to the session's `table` since.
    pub fn follow(&mut self, table: &FrameTable) {
        for (at, frame) in table.entries().iter().enumerate().skip(self.taken) {
            // Addresses of unwound stacks are looked up as they are.
            if frame.addr == frame.lookup {
                let known = KnownFrame { addr: frame.addr, dso: frame.dso, id: FrameId::from_index(at) };
                self.frames.insert_unique(hash_of(known.dso, known.addr), known, |f| hash_of(f.dso, f.addr));
            }
        }
        self.taken = table.len();
    }

    /// The frame of `addr`; `None` if it isn't known or nothing is mapped there.
    fn find(&self, maps: &Mappings, addr: LookupAddr) -> Option<FrameId> {
        let place = addr.frame_in(maps.find(addr.lookup())?);
        let is_same = |known: &KnownFrame| known.addr == place.addr && known.dso == place.dso;
        self.frames.find(hash_of(place.dso, place.addr), is_same).map(|known| known.id)
    }
}

fn hash_of(dso: DsoId, addr: u64) -> u64 {
    FxBuildHasher.hash_one((dso, addr))
}

/// Looks up the addresses of one stack after the other. For one recording.
#[derive(Default)]
pub struct FrameFinder {
    recent: RecentStacks,
}

impl FrameFinder {
    /// Appends the frames of `stack`, which `job` asked for: one for each address, `None` where `known` has none.
    pub fn find(
        &mut self,
        known: &KnownFrames,
        job: &UnwindJob<'_>,
        stack: &UnwoundStack<'_>,
        frames: &mut Vec<Option<FrameId>>,
    ) {
        let (thread, begin) = (job.ticket.task.0, frames.len());
        let first_caller = stack.exact.last().map_or(1, |at| at + 1);
        let callers = || stack.addrs.iter().skip(first_caller).rev().copied();
        let shared = Shared::from(self.recent.shared(thread, job.map_version, callers()));
        let new = stack.addrs[..stack.addrs.len() - shared.len()].iter().enumerate();
        frames.extend(new.map(|(at, &avma)| known.find(&job.maps, unwound_addr(stack.exact, at, avma))));
        let found = callers().skip(shared.len()).zip(frames[begin..].iter().rev());
        self.recent.keep(thread, shared.len(), found.map_while(|(caller, frame)| Some((caller, (*frame)?))));
        frames.extend(shared.iter().rev().copied().map(Some));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Mapping;
    use crate::table::Frame;

    #[test]
    fn only_frames_taken_over_are_found_and_only_where_something_is_mapped() {
        let mut table = FrameTable::default();
        let frame = |addr, lookup| Frame { dso: DsoId(3), addr, lookup, first_avma: 0 };
        table.intern(frame(0x10, 0xf));
        let own = table.intern(frame(0x10, 0x10));
        let mut maps = Mappings::default();
        maps.insert(Mapping { start: 0x1000, end: 0x2000, base: 0, dso: DsoId(3) });
        let mut known = KnownFrames::default();
        let at = |known: &KnownFrames, avma| known.find(&maps, LookupAddr::exact(avma));
        assert_eq!(at(&known, 0x1010), None);
        known.follow(&table);
        assert_eq!(at(&known, 0x1010), Some(own));
        let later = table.intern(frame(0x20, 0x20));
        assert_eq!((at(&known, 0x1020), at(&known, 0x10)), (None, None));
        assert!(!known.is_behind(&table), "one frame alone is not worth it");
        known.follow(&table);
        assert_eq!((at(&known, 0x1020), at(&known, 0x1010)), (Some(later), Some(own)));
    }
}
