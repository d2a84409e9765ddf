//! The distinct paths of a section: cells that differ in addresses alone are one here.
//!
//! ```text
//!   entries   main work leaf | main idle        in the direction of the graphs
//!   rows        0    1    2  |   -    3         whose chain begins here; `-` where the row has begun before
//! ```
//! Rows and graphs are made of these, so that their work goes with distinct stacks of functions and not with samples.

use super::rows::{RowFrame, Rows};
use crate::profile::Sums;
use crate::table::HashedIds;
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
    /// By entry.
    rows: Vec<u32>,
    ids: HashedIds,
    /// By row: number of the last path that contains it.
    seen: Vec<u32>,
    /// The entries of the path that came last with their rows: what the next one shares with it is not looked up again.
    last: Vec<(u32, u32)>,
    last_part: u32,
}

impl SectionPaths {
    /// Counts `sums` on a path; with `callers`, every entry has its row.
    pub fn add(&mut self, key: PathKey, entries: &[u32], sums: Sums, callers: Option<&mut Rows<'_, '_>>) {
        let hash = hash_of(key, entries);
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
        if let Some(rows) = callers {
            self.note_rows(id, rows);
        }
        self.ids.insert(hash, id);
    }

    /// Finds the rows of a new path's entries, each at its first place.
    fn note_rows(&mut self, id: u32, rows: &mut Rows<'_, '_>) {
        let path = self.paths[id as usize];
        let entries = slice(&self.entries, &path);
        let is_same_part = std::mem::replace(&mut self.last_part, path.key.part) == path.key.part;
        let shared = self.last.iter().zip(entries).take_while(|((old, _), new)| old == *new).count();
        self.last.truncate(if is_same_part { shared } else { 0 });
        for &entry in &entries[self.last.len()..] {
            self.last.push((entry, rows.row_of(path.key.part, RowFrame::Entry(entry))));
        }
        self.mark(path.key.own, id);
        for at in 0..self.last.len() {
            let row = self.last[at].1;
            let row = if self.mark(row, id) { row } else { NONE };
            self.rows.push(row);
        }
    }

    /// True the first time a row occurs on path `id`.
    fn mark(&mut self, row: u32, id: u32) -> bool {
        if self.seen.len() <= row as usize {
            self.seen.resize(row as usize + 1, NONE);
        }
        std::mem::replace(&mut self.seen[row as usize], id) != id
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

fn hash_of(key: PathKey, entries: &[u32]) -> u64 {
    let PathKey { member, part, own } = key;
    let mut hasher = FxHasher::default();
    [member, part, own].iter().chain(entries).for_each(|&id| hasher.write_u32(id));
    hasher.finish()
}
