//! Mappings of one address space, and the one place where an Avma becomes (DSO, address).
//!
//! A later mapping replaces what it overlaps, piece by piece, as the kernel (and perf) does:
//! ```text
//!   before   [------ libfoo ------)
//!   map             [-- bar --)
//!   after    [ foo )[-- bar --)[ foo )      the right piece of foo keeps its file position
//! ```

use crate::table::{DsoId, Frame};

/// A range of addresses and the DSO mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Counterpart of `start` in the DSO's space: the file offset for files, `start` itself for memory without a file
    /// and for the kernel.
    pub base: u64,
    /// The DSO mapped.
    pub dso: DsoId,
}

impl Mapping {
    /// The address in the DSO's own space.
    #[must_use]
    pub fn to_dso(&self, avma: u64) -> u64 {
        avma.wrapping_sub(self.start).wrapping_add(self.base)
    }
}

/// Disjoint mappings, sorted by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    sorted: Vec<Mapping>,
}

impl Mappings {
    /// Adds a mapping over whatever was there. An empty range changes nothing.
    pub fn insert(&mut self, new: Mapping) {
        if new.start >= new.end {
            return;
        }
        let from = self.sorted.partition_point(|m| m.end <= new.start);
        let to = self.sorted.partition_point(|m| m.start < new.end).max(from);
        let mut pieces = smallvec::SmallVec::<[Mapping; 3]>::new();
        if let Some(first) = self.sorted[from..to].first().filter(|m| m.start < new.start) {
            pieces.push(Mapping { end: new.start, ..*first });
        }
        pieces.push(new);
        if let Some(last) = self.sorted[from..to].last().filter(|m| m.end > new.end) {
            pieces.push(Mapping { start: new.end, base: last.to_dso(new.end), ..*last });
        }
        self.sorted.splice(from..to, pieces);
    }

    /// Adds a mapping only where there is none yet (kernel code announced by two records).
    pub fn insert_below(&mut self, new: Mapping) {
        let above: Vec<Mapping> = self.overlapping(new.start, new.end).to_vec();
        self.insert(new);
        for mapping in above {
            self.insert(mapping);
        }
    }

    /// Removes the mapping that starts at `start`, if there is one.
    pub fn remove_at(&mut self, start: u64) {
        if let Ok(index) = self.sorted.binary_search_by_key(&start, |m| m.start) {
            self.sorted.remove(index);
        }
    }

    /// The mapping that holds `avma`.
    #[must_use]
    pub fn find(&self, avma: u64) -> Option<&Mapping> {
        let after = self.sorted.partition_point(|m| m.start <= avma);
        self.sorted[..after].last().filter(|m| avma < m.end)
    }

    /// All mappings that share an address with `[start, end)`, sorted.
    #[must_use]
    pub fn overlapping(&self, start: u64, end: u64) -> &[Mapping] {
        let from = self.sorted.partition_point(|m| m.end <= start);
        let to = self.sorted.partition_point(|m| m.start < end).max(from);
        &self.sorted[from..to]
    }

    /// All mappings, sorted by start, disjoint.
    #[must_use]
    pub fn as_slice(&self) -> &[Mapping] {
        &self.sorted
    }
}

/// An address with the address to look it up by: itself for the leaf, one less for a return
/// address, so that a call at the very end of a function is not taken for the next function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupAddr {
    /// The address as recorded.
    pub avma: u64,
    /// True when `avma` is where a call returns to.
    pub is_return: bool,
}

impl LookupAddr {
    /// The address of an instruction that was hit.
    #[must_use]
    pub fn exact(avma: u64) -> Self {
        Self { avma, is_return: false }
    }

    /// The address a call returns to.
    #[must_use]
    pub fn return_to(avma: u64) -> Self {
        Self { avma, is_return: true }
    }

    /// The address to find mapping and symbol by.
    #[must_use]
    pub fn lookup(self) -> u64 {
        self.avma.wrapping_sub(u64::from(self.is_return))
    }

    /// The frame in `mapping`, which holds [`Self::lookup`].
    #[must_use]
    pub fn frame_in(self, mapping: &Mapping) -> Frame {
        Frame {
            dso: mapping.dso,
            addr: mapping.to_dso(self.avma),
            lookup: mapping.to_dso(self.lookup()),
            first_avma: self.avma,
        }
    }

    /// The frame in a DSO for addresses without a mapping. They are the process's own.
    #[must_use]
    pub fn frame_unmapped(self, dso: DsoId) -> Frame {
        Frame { dso, addr: self.avma, lookup: self.lookup(), first_avma: self.avma }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64, base: u64, dso: u32) -> Mapping {
        Mapping { start, end, base, dso: DsoId(dso) }
    }

    #[test]
    fn a_later_mapping_splits_the_one_below() {
        let mut maps = Mappings::default();
        maps.insert(map(0x1000, 0x9000, 0, 1));
        maps.insert(map(0x3000, 0x4000, 0x100, 2));
        assert_eq!(
            maps.as_slice(),
            [map(0x1000, 0x3000, 0, 1), map(0x3000, 0x4000, 0x100, 2), map(0x4000, 0x9000, 0x3000, 1)]
        );
        maps.insert(map(0, 0x10000, 0, 3));
        assert_eq!(maps.as_slice(), [map(0, 0x10000, 0, 3)]);
    }

    #[test]
    fn find_takes_the_start_and_leaves_the_end() {
        let mut maps = Mappings::default();
        maps.insert(map(0x1000, 0x2000, 0, 1));
        maps.insert(map(0x2000, 0x3000, 0, 2));
        assert_eq!(maps.find(0x2000).map(|m| m.dso), Some(DsoId(2)));
        assert_eq!(maps.find(0x0fff), None);
        assert_eq!(maps.find(0x3000), None);
    }

    #[test]
    fn insert_below_fills_gaps_only() {
        let mut maps = Mappings::default();
        maps.insert(map(0x2000, 0x3000, 0x2000, 1));
        maps.insert_below(map(0x1000, 0x4000, 0x1000, 2));
        assert_eq!(maps.find(0x2500).map(|m| m.dso), Some(DsoId(1)));
        assert_eq!(maps.find(0x1500).map(|m| m.dso), Some(DsoId(2)));
        assert_eq!(maps.find(0x3500).map(|m| m.to_dso(0x3500)), Some(0x3500));
    }
}
