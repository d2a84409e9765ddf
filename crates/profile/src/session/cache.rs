//! Recently used frames: most addresses of a chain were resolved a moment ago.
//!
//! A table with one place per hash, which grows with the addresses it is given: the frames of a small recording take
//! little memory, and those of a compiler's stacks fit. The version of the mappings is part of the key: an entry never
//! outlives the state it was made in.

use crate::machine::LookupAddr;
use crate::table::FrameId;

/// Places at the start, and at most: powers of two.
const FIRST_BITS: u32 = 13;
const MOST_BITS: u32 = 18;

/// The resolved frame of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub frame: FrameId,
    /// No mapping held it.
    pub unmapped: bool,
}

/// 16 bytes, so that four of them are one line of the CPU's cache.
#[derive(Clone, Copy)]
struct Entry {
    avma: u64,
    version: ShortVersion,
    /// The frame's number, and [`UNMAPPED`]; [`NO_FRAME`] in a place without an entry.
    frame: u32,
}

const UNMAPPED: u32 = 1 << 31;
const NO_FRAME: u32 = u32::MAX;
const EMPTY: Entry = Entry { avma: 0, version: ShortVersion(0), frame: NO_FRAME };

/// The version of the mappings, and whether the address is one that a call returns to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShortVersion(u32);

impl ShortVersion {
    /// `None` for versions that are too large: they are not kept.
    fn of(version: u64, is_return: bool) -> Option<Self> {
        let (is_kernel, number) = (version >> 63, version & !(1 << 63));
        let number = u32::try_from(number).ok().filter(|number| number >> 30 == 0)?;
        Some(Self(number << 2 | (is_kernel as u32) << 1 | u32::from(is_return)))
    }
}

/// Addresses to frames.
pub(super) struct ResolveCache {
    entries: Vec<Entry>,
    bits: u32,
    /// Entries kept since the table has its size.
    kept: usize,
}

impl Default for ResolveCache {
    fn default() -> Self {
        Self { entries: vec![EMPTY; 1 << FIRST_BITS], bits: FIRST_BITS, kept: 0 }
    }
}

impl ResolveCache {
    /// The frame of `addr` in the mappings of `version`, if it was used recently.
    pub fn find(&self, version: u64, addr: LookupAddr) -> Option<Known> {
        let version = ShortVersion::of(version, addr.is_return)?;
        let entry = &self.entries[place(addr.avma, version, self.bits)];
        let is_same = entry.avma == addr.avma && entry.version == version && entry.frame != NO_FRAME;
        is_same.then_some(Known {
            frame: FrameId(entry.frame & !UNMAPPED),
            unmapped: entry.frame & UNMAPPED != 0,
        })
    }

    /// Keeps what was found, in the place of another.
    pub fn keep(&mut self, version: u64, addr: LookupAddr, known: Known) {
        let Some(version) = ShortVersion::of(version, addr.is_return) else { return };
        if known.frame.0 >= NO_FRAME & !UNMAPPED {
            return;
        }
        self.kept += 1;
        if self.kept > self.entries.len() && self.bits < MOST_BITS {
            self.grow();
        }
        let frame = known.frame.0 | if known.unmapped { UNMAPPED } else { 0 };
        self.entries[place(addr.avma, version, self.bits)] = Entry { avma: addr.avma, version, frame };
    }

    fn grow(&mut self) {
        let bits = self.bits + 1;
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; 1 << bits]);
        for entry in old.into_iter().filter(|entry| entry.frame != NO_FRAME) {
            self.entries[place(entry.avma, entry.version, bits)] = entry;
        }
        (self.bits, self.kept) = (bits, 0);
    }
}

fn place(avma: u64, version: ShortVersion, bits: u32) -> usize {
    let mixed = (avma ^ u64::from(version.0).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - bits)) as usize
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
        assert_eq!(cache.find(7 | 1 << 63, LookupAddr::return_to(0x1000)), None);
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn versions_and_frames_that_are_too_large_are_not_kept() {
        let mut cache = ResolveCache::default();
        let addr = LookupAddr::exact(0x1000);
        cache.keep(1 << 30, addr, Known { frame: FrameId(3), unmapped: false });
        assert_eq!((cache.find(1 << 30, addr), cache.find(0, addr)), (None, None));
        cache.keep(1, addr, Known { frame: FrameId(u32::MAX >> 1), unmapped: true });
        assert_eq!(cache.find(1, addr), None);
    }

    #[test]
    fn a_growing_table_keeps_its_entries() {
        let mut cache = ResolveCache::default();
        let addr = |n: u32| LookupAddr::exact(u64::from(n) * 7);
        let known = |n: u32| Known { frame: FrameId(n), unmapped: n.is_multiple_of(2) };
        for n in 0..(1 << FIRST_BITS) + 1 {
            cache.keep(1, addr(n), known(n));
        }
        assert_eq!(cache.entries.len(), 2 << FIRST_BITS);
        let found: Vec<u32> = (0..1 << FIRST_BITS).filter(|&n| cache.find(1, addr(n)).is_some()).collect();
        assert!(found.len() > 1 << (FIRST_BITS - 1));
        assert!(found.iter().all(|&n| cache.find(1, addr(n)) == Some(known(n))));
    }
}
