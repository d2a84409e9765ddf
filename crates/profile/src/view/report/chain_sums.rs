//! Sums of all chains of each row of a section.

use super::piece_of;
use super::section_paths::{SectionPath, SectionPaths};
use crate::profile::Sums;
use rayon::prelude::*;

/// By row: sums of its chains.
pub(super) struct ChainSums {
    /// By row, then by member of the section.
    pub sums: Vec<Sums>,
    /// Entries of the longest chain.
    pub depths: Vec<u32>,
    /// Chains in graphs, which are of the first member alone.
    pub counts: Vec<u32>,
    members: usize,
}

impl ChainSums {
    /// Sums up all paths for `rows` rows. Parts add up to the same in any order.
    pub fn of(all: &SectionPaths, rows: usize, members: usize) -> Self {
        let empty = || Self {
            sums: vec![Sums::default(); rows * members],
            depths: vec![0; rows],
            counts: vec![0; rows],
            members,
        };
        let pieces = all.paths.par_chunks(piece_of(all.paths.len())).map(|paths| {
            let mut sums = empty();
            paths.iter().for_each(|path| sums.add_path(all, path));
            sums
        });
        pieces.reduce_with(Self::and).unwrap_or_else(empty)
    }

    fn add_path(&mut self, all: &SectionPaths, path: &SectionPath) {
        let (member, is_drawn) = (path.key.member as usize, u32::from(path.key.member == 0));
        all.for_each_row(path, |row, skipped| {
            let row = row as usize;
            self.sums[row * self.members + member].add(path.sums);
            self.counts[row] += is_drawn;
            self.depths[row] = self.depths[row].max(path.len - skipped);
        });
    }

    fn and(mut self, other: Self) -> Self {
        self.sums.iter_mut().zip(other.sums).for_each(|(all, more)| all.add(more));
        self.counts.iter_mut().zip(other.counts).for_each(|(all, more)| *all += more);
        self.depths.iter_mut().zip(other.depths).for_each(|(all, other)| *all = other.max(*all));
        self
    }
}
