//! Recently used frames: most addresses of a chain were resolved a moment ago.
//!
//! A table with one place per hash: the frames of a compiler's stacks fit into it, and it fits into the CPU's last
//! cache. The version of the mappings is part of
//! the key: an entry never outlives the state it was made in.

use crate::machine::LookupAddr;
use crate::table::FrameId;

/// Places; a power of two.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 16;

/// The resolved frame of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub frame: FrameId,
    /// No mapping held it.
    pub unmapped: bool,
}

/// 24 bytes, so that the table fits.
#[derive(Clone, Copy)]
struct Entry {
    version: u64,
    avma: u64,
    frame: FrameId,
    is_return: bool,
    unmapped: bool,
    /// False in a place without an entry.
    is_used: bool,
}

/// Addresses to frames.
pub(super) struct ResolveCache {
    entries: Vec<Entry>,
}

impl Default for ResolveCache {
    fn default() -> Self {
        let empty = Entry {
            version: 0,
            avma: 0,
            frame: FrameId(0),
            is_return: false,
            unmapped: false,
            is_used: false,
        };
        Self { entries: vec![empty; PLACES] }
    }
}

impl ResolveCache {
    /// The frame of `addr` in the mappings of `version`, if it was used recently.
    pub fn find(&self, version: u64, addr: LookupAddr) -> Option<Known> {
        let entry = &self.entries[place(version, addr)];
        let is_same =
            entry.version == version && entry.avma == addr.avma && entry.is_return == addr.is_return;
        (is_same && entry.is_used).then_some(Known { frame: entry.frame, unmapped: entry.unmapped })
    }

    /// Keeps what was found, in the place of another.
    pub fn keep(&mut self, version: u64, addr: LookupAddr, known: Known) {
        let LookupAddr { avma, is_return } = addr;
        let Known { frame, unmapped } = known;
        self.entries[place(version, addr)] =
            Entry { version, avma, frame, is_return, unmapped, is_used: true };
    }
}

fn place(version: u64, addr: LookupAddr) -> usize {
    let mixed = (addr.avma ^ version.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - PLACE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_known_in_its_own_mappings_and_by_its_own_kind_of_address() {
        let mut cache = ResolveCache::default();
        assert_eq!(cache.find(0, LookupAddr::exact(0)), None);
        let known = Known { frame: FrameId(3), unmapped: true };
        cache.keep(7, LookupAddr::return_to(0x1000), known);
        assert_eq!(cache.find(7, LookupAddr::return_to(0x1000)), Some(known));
        assert_eq!(cache.find(7, LookupAddr::exact(0x1000)), None);
        assert_eq!(cache.find(8, LookupAddr::return_to(0x1000)), None);
        assert_eq!(size_of::<Entry>(), 24);
    }
}
