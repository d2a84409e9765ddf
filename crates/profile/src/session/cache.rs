//! Recently used frames: most addresses of a chain were resolved a moment ago.
//!
//! A table with one place per hash: the frames of a compiler's stacks fit into it, and it fits into the CPU's last
//! cache. The version of the mappings is part of
//! the key: an entry never outlives the state it was made in.

use crate::machine::LookupAddr;
use crate::table::FrameId;

/// Places; a power of two.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 15;

/// The resolved frame of an address.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub frame: FrameId,
    /// No mapping held it.
    pub unmapped: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    version: u64,
    addr: LookupAddr,
    known: Known,
}

/// Addresses to frames.
pub(super) struct ResolveCache {
    entries: Vec<Option<Entry>>,
}

impl Default for ResolveCache {
    fn default() -> Self {
        Self { entries: vec![None; PLACES] }
    }
}

impl ResolveCache {
    /// The frame of `addr` in the mappings of `version`, if it was used recently.
    pub fn find(&self, version: u64, addr: LookupAddr) -> Option<Known> {
        let entry = self.entries[place(version, addr)]?;
        (entry.version == version && entry.addr == addr).then_some(entry.known)
    }

    /// Keeps what was found, in the place of another.
    pub fn keep(&mut self, version: u64, addr: LookupAddr, known: Known) {
        self.entries[place(version, addr)] = Some(Entry { version, addr, known });
    }
}

fn place(version: u64, addr: LookupAddr) -> usize {
    let mixed = (addr.avma ^ version.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - PLACE_BITS)) as usize
}
