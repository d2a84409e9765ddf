//! The distinct paths of a piece of a section's cells: each core makes one piece, and the pieces are joined in order.

use super::context::Context;
use super::expand::PathOpts;
use super::rows::{PartOf, RowFrame};
use super::section_paths::hash_of_entries;
use super::{GraphOrder, ReportOpts};
use crate::profile::{CellKey, Sums};
use crate::table::{DsoId, FrameId, HashedIds, SymbolId};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// No part.
const NONE: u32 = u32::MAX;

/// Distinguishes cells of equal entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CellPathKey {
    member: u32,
    /// Position in [`CellPaths::parts`].
    part: u32,
    code: Code,
    /// Position in [`super::ReportRow::by_mode`].
    mode: u8,
}

/// The code of a cell's own row, as far as it decides about the row.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Code {
    Function(DsoId, SymbolId),
    Frame(FrameId),
    Entry(u32),
}

/// A distinct path of a piece.
pub(super) struct CellPath {
    key: CellPathKey,
    /// The frame of its first cell's own row.
    pub place: RowFrame,
    /// Start of its entries.
    start: u32,
    len: u32,
    /// End of its entries in [`CellPaths::new_callers`]; they begin where those of the path before end.
    callers_end: u32,
    /// Hash of its entries alone.
    pub entries_hash: u64,
    pub sums: Sums,
}

impl CellPath {
    /// The event, as position among those of the section.
    pub fn member(&self) -> usize {
        self.key.member as usize
    }

    /// Position in [`CellPaths::parts`].
    pub fn part(&self) -> usize {
        self.key.part as usize
    }

    /// Position in [`super::ReportRow::by_mode`].
    pub fn mode(&self) -> usize {
        self.key.mode.into()
    }
}

/// The distinct paths of some cells, in order of first sight.
pub(super) struct CellPaths<'c, 'a> {
    context: &'c Context<'a>,
    pub paths: Vec<CellPath>,
    /// The values of samples that the rows of the paths depend on.
    pub parts: Vec<PartOf>,
    /// By event of the section: sums of all cells, also of those that a filter leaves out.
    pub totals: Vec<Sums>,
    /// The entries of all paths, in the direction of the graphs.
    entries: Vec<u32>,
    ids: HashedIds,
    part_ids: FxHashMap<PartOf, u32>,
    /// The part found last: cells of one thread follow each other.
    last_part: u32,
    /// By path: its entries that no path of the same part before has; empty if callers have no rows.
    new_callers: Vec<u32>,
    seen: SeenCallers,
    /// Room for one path.
    path: Vec<u32>,
}

impl<'c, 'a> CellPaths<'c, 'a> {
    /// The paths of the cells whose event is in the section.
    pub fn of(context: &'c Context<'a>, cells: &[(CellKey, Sums)], members: &Members) -> Self {
        let mut this = Self {
            context,
            paths: Vec::new(),
            parts: Vec::new(),
            totals: vec![Sums::default(); members.count],
            entries: Vec::new(),
            ids: HashedIds::default(),
            part_ids: FxHashMap::default(),
            last_part: NONE,
            new_callers: Vec::new(),
            seen: SeenCallers::new(context.expanded.entries.len()),
            path: Vec::new(),
        };
        for (key, sums) in cells {
            if let Some(member) = members.of_event(key.event) {
                this.add(member, key, *sums);
            }
        }
        // Joining needs paths alone.
        (this.ids, this.seen) = (HashedIds::default(), SeenCallers::new(0));
        this
    }

    /// The entries of a path.
    pub fn entries_of(&self, path: &CellPath) -> &[u32] {
        slice(&self.entries, path)
    }

    /// All paths, each with its entries whose rows begin with it.
    pub fn with_callers(&self) -> impl Iterator<Item = (&CellPath, &[u32])> {
        let mut start = 0;
        self.paths.iter().map(move |path| {
            let callers = &self.new_callers[start..path.callers_end as usize];
            start = path.callers_end as usize;
            (path, callers)
        })
    }

    fn add(&mut self, member: u32, key: &CellKey, sums: Sums) {
        let context = self.context;
        if context.is_left_out(key) {
            return;
        }
        self.totals[member as usize].add(sums);
        if !context.cell_passes(key) {
            return;
        }
        let opts = context.opts;
        let path_opts = PathOpts {
            max_stack: opts.max_stack,
            cuts: context.cuts(),
            hide_unresolved: opts.hide_unresolved,
        };
        context.expanded.path(context.profile, key.callsite, &path_opts, &mut self.path);
        let parent = self.parent();
        if context.parents.is_some() && opts.exclude_other && parent.is_none() {
            return;
        }
        let part = self.part_of(PartOf::new(key, parent));
        let leaf = context.profile.callsites.path(key.callsite)[0];
        let place = self.place(leaf);
        let mode = context.mode_index(leaf);
        let key = CellPathKey { member, part, code: context.code_of(place), mode };
        self.put_in_direction(opts);
        self.count(key, place, sums);
    }

    /// The first entry, from the leaf, that `--parent` names.
    fn parent(&self) -> Option<u32> {
        let parents = self.context.parents.as_ref()?;
        self.path.iter().copied().find(|&entry| parents[entry as usize])
    }

    fn part_of(&mut self, part: PartOf) -> u32 {
        if self.parts.get(self.last_part as usize) != Some(&part) {
            let parts = &mut self.parts;
            self.last_part = *self.part_ids.entry(part).or_insert_with(|| {
                parts.push(part);
                (parts.len() - 1) as u32
            });
        }
        self.last_part
    }

    fn place(&self, leaf: FrameId) -> RowFrame {
        match (self.context.cuts(), self.path.first()) {
            (Some(cuts), Some(&entry)) if cuts[entry as usize] => RowFrame::Entry(entry),
            _ => RowFrame::Leaf(leaf),
        }
    }

    /// Turns the path into the direction of the graphs; nothing needs it where there are neither graphs nor callers.
    fn put_in_direction(&mut self, opts: &ReportOpts) {
        if !opts.children && opts.graph.is_none() {
            self.path.clear();
        }
        if opts.graph.map_or(opts.children, |graph| graph.order == GraphOrder::Caller) {
            self.path.reverse();
        }
    }

    fn count(&mut self, key: CellPathKey, place: RowFrame, sums: Sums) {
        let entries_hash = hash_of_entries(&self.path);
        let hash = hash_of(&key, entries_hash);
        let (paths, all, entries) = (&mut self.paths, &self.entries, &self.path[..]);
        let same = |id: u32| {
            let path = &paths[id as usize];
            path.key == key && slice(all, path) == entries
        };
        if let Some(id) = self.ids.find(hash, same) {
            return paths[id as usize].sums.add(sums);
        }
        self.ids.insert(hash, paths.len() as u32);
        let (start, len) = (all.len() as u32, entries.len() as u32);
        self.entries.extend_from_slice(entries);
        if self.context.opts.children {
            let (seen, part) = (&mut self.seen, key.part);
            self.new_callers.extend(entries.iter().filter(|&&entry| seen.is_new(part, entry)));
        }
        let callers_end = self.new_callers.len() as u32;
        paths.push(CellPath { key, place, start, len, callers_end, entries_hash, sums });
    }
}

/// The entries that paths of each part have had.
struct SeenCallers {
    /// By entry: the part that had it last.
    last: Vec<u32>,
    all: FxHashSet<(u32, u32)>,
}

impl SeenCallers {
    fn new(entries: usize) -> Self {
        Self { last: vec![NONE; entries], all: FxHashSet::default() }
    }

    fn is_new(&mut self, part: u32, entry: u32) -> bool {
        std::mem::replace(&mut self.last[entry as usize], part) != part && self.all.insert((part, entry))
    }
}

fn slice<'e>(entries: &'e [u32], path: &CellPath) -> &'e [u32] {
    &entries[path.start as usize..(path.start + path.len) as usize]
}

fn hash_of(key: &CellPathKey, entries_hash: u64) -> u64 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    hasher.write_u64(entries_hash);
    hasher.finish()
}

/// The events of a section.
pub(super) struct Members {
    /// By event of the profile: its position in the section.
    positions: Vec<Option<u32>>,
    /// Number of events.
    pub count: usize,
}

impl Members {
    /// The section with these `events`, of a profile that has `all` events.
    pub fn of(events: &[usize], all: usize) -> Self {
        let mut positions = vec![None; all];
        for (position, &event) in (0..).zip(events) {
            positions[event] = Some(position);
        }
        Self { positions, count: events.len() }
    }

    fn of_event(&self, event: u32) -> Option<u32> {
        self.positions[event as usize]
    }
}

impl Context<'_> {
    /// The code at a place, one for all places whose rows are the same by all keys.
    fn code_of(&self, place: RowFrame) -> Code {
        match place {
            RowFrame::Entry(entry) => Code::Entry(entry),
            RowFrame::Leaf(frame) => match self.expanded.own(frame).symbol {
                Some(symbol) if !self.has_places => Code::Function(self.expanded.own(frame).dso, symbol),
                _ => Code::Frame(frame),
            },
        }
    }
}
