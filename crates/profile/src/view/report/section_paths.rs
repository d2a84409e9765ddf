//! The distinct paths of a section: cells that differ in addresses alone are one here.
//!
//! ```text
//!   entries   main work leaf | main idle        in the direction of the graphs
//!   rows        0    1    2  |   -    3         whose chain begins here; `-` where the row has begun before
//! ```
//! Rows and graphs are made of these, so that their work goes with distinct stacks of functions and not with samples.

use super::piece_of;
use super::rows::{RowFrame, Rows};
use crate::profile::Sums;
use crate::table::HashedIds;
use rayon::prelude::*;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// No row begins here.
const NONE: u32 = u32::MAX;

/// Distinguishes paths of the same entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PathKey {
    /// The event, as position among those of the section.
    pub member: u32,
    /// Values that depend on the sample alone.
    pub part: u32,
    /// The row of the samples themselves.
    pub own: u32,
}

/// A distinct path and what was counted on it.
#[derive(Clone, Copy)]
pub(super) struct SectionPath {
    pub key: PathKey,
    /// Start of its entries.
    pub start: u32,
    /// Number of entries.
    pub len: u32,
    pub sums: Sums,
}

/// All distinct paths of a section, in order of first sight.
#[derive(Default)]
pub(super) struct SectionPaths {
    pub paths: Vec<SectionPath>,
    /// The entries of all paths.
    pub entries: Vec<u32>,
    /// By entry; empty if callers have no rows.
    rows: Vec<u32>,
    ids: HashedIds,
}

impl SectionPaths {
    /// Counts `sums` on a path with these entries, whose hash is [`hash_of_entries`].
    pub fn add(&mut self, key: PathKey, entries: &[u32], entries_hash: u64, sums: Sums) {
        let hash = hash_of(key, entries_hash);
        let (paths, all) = (&mut self.paths, &self.entries);
        let same = |id: u32| {
            let path = &paths[id as usize];
            path.key == key && slice(all, path) == entries
        };
        if let Some(id) = self.ids.find(hash, same) {
            return paths[id as usize].sums.add(sums);
        }
        let (id, start) = (paths.len() as u32, all.len() as u32);
        paths.push(SectionPath { key, start, len: entries.len() as u32, sums });
        self.entries.extend_from_slice(entries);
        self.ids.insert(hash, id);
    }

    /// Finds the rows of all entries, each at its first place on its path: all of them are known to `rows`.
    pub fn find_rows(&mut self, rows: &Rows<'_, '_>) {
        let pieces: Vec<Vec<u32>> = (self.paths.par_chunks(piece_of(self.paths.len())))
            .map(|paths| {
                let mut finder = RowFinder::new(rows);
                paths.iter().for_each(|path| finder.add_path(path, slice(&self.entries, path)));
                finder.found
            })
            .collect();
        self.rows = pieces.concat();
    }

    /// Calls `f` with (row, entries before the row's chain): the path's own row, then those of its callers.
    pub fn for_each_row(&self, path: &SectionPath, mut f: impl FnMut(u32, u32)) {
        f(path.key.own, 0);
        let range = path.start as usize..(path.start + path.len) as usize;
        for (skipped, &row) in (0..).zip(self.rows.get(range).unwrap_or_default()) {
            if row != NONE {
                f(row, skipped);
            }
        }
    }
}

fn slice<'e>(entries: &'e [u32], path: &SectionPath) -> &'e [u32] {
    &entries[path.start as usize..(path.start + path.len) as usize]
}

/// The rows of some paths' entries.
struct RowFinder<'r, 'c, 'a> {
    rows: &'r Rows<'c, 'a>,
    /// By row: number of the last path that contains it.
    seen: Vec<u32>,
    /// Number of this path.
    path: u32,
    /// The entries of the path that came last with their rows: what the next one shares with it is not looked up again.
    last: Vec<(u32, u32)>,
    last_part: u32,
    /// By entry: the part it was looked up for last, and its row there.
    last_of_entry: Vec<(u32, u32)>,
    found: Vec<u32>,
}

impl<'r, 'c, 'a> RowFinder<'r, 'c, 'a> {
    fn new(rows: &'r Rows<'c, 'a>) -> Self {
        Self {
            rows,
            seen: vec![0; rows.rows.len()],
            path: 0,
            last: Vec::new(),
            last_part: NONE,
            last_of_entry: vec![(NONE, NONE); rows.entries()],
            found: Vec::new(),
        }
    }

    fn add_path(&mut self, path: &SectionPath, entries: &[u32]) {
        self.path += 1;
        let part = path.key.part;
        let is_same_part = std::mem::replace(&mut self.last_part, part) == part;
        let shared = self.last.iter().zip(entries).take_while(|((old, _), new)| old == *new).count();
        self.last.truncate(if is_same_part { shared } else { 0 });
        for &entry in &entries[self.last.len()..] {
            let row = self.row_of(part, entry);
            self.last.push((entry, row));
        }
        self.mark(path.key.own);
        for at in 0..self.last.len() {
            let row = self.last[at].1;
            let row = if self.mark(row) { row } else { NONE };
            self.found.push(row);
        }
    }

    fn row_of(&mut self, part: u32, entry: u32) -> u32 {
        let last = &mut self.last_of_entry[entry as usize];
        if last.0 != part {
            let row = self.rows.known_row(part, RowFrame::Entry(entry));
            *last = (part, row.expect("invariant: every entry of a path got its row with the path"));
        }
        last.1
    }

    /// True the first time a row occurs on this path.
    fn mark(&mut self, row: u32) -> bool {
        std::mem::replace(&mut self.seen[row as usize], self.path) != self.path
    }
}

/// The hash of a path's entries alone.
pub(super) fn hash_of_entries(entries: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    entries.iter().for_each(|&id| hasher.write_u32(id));
    hasher.finish()
}

fn hash_of(key: PathKey, entries_hash: u64) -> u64 {
    let PathKey { member, part, own } = key;
    let mut hasher = FxHasher::default();
    [member, part, own].iter().for_each(|&id| hasher.write_u32(id));
    hasher.write_u64(entries_hash);
    hasher.finish()
}
