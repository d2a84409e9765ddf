//! Grouping: cells to rows, and the call graphs of the rows that are shown.
//!
//! ```text
//!   cells ─→ distinct paths of entries ─→ rows with their sums ─→ graphs of the rows shown
//! ```

use super::cell_paths::{CellPaths, Members};
use super::chain_sums::ChainSums;
use super::context::Context;
use super::field::ReportField;
use super::graph::{Graphs, share};
use super::order::sort_rows;
use super::row::{Report, ReportRow, ReportSection};
use super::rows::{RowFrame, Rows};
use super::section_paths::{PathKey, SectionPaths};
use super::{GraphMode, ReportOpts, piece_of};
use crate::grow::Grow as _;
use crate::profile::{Profile, Sums};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Makes all sections.
pub(super) fn build(profile: &Profile, opts: &ReportOpts) -> Report {
    let context = Context::new(profile, opts);
    let sections = event_sets(profile, opts).into_iter().map(|events| context.section(events)).collect();
    Report { sections, chain_entries: context.expanded.entries }
}

/// Which events share a section: one each, or all of a group.
fn event_sets(profile: &Profile, opts: &ReportOpts) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = Vec::new();
    let mut set_of: FxHashMap<usize, usize> = FxHashMap::default();
    for (index, event) in profile.events.iter().enumerate() {
        let leader = if opts.one_group { 0 } else { event.leader };
        match set_of.get(&leader).filter(|_| (opts.group || opts.one_group) && leader != index) {
            Some(&set) => sets[set].push(index),
            None => {
                set_of.insert(index, sets.len());
                sets.push(vec![index]);
            }
        }
    }
    sets
}

impl<'a> Context<'a> {
    fn section(&self, events: Vec<usize>) -> ReportSection {
        let mut filling = Filling::new(self, events.len());
        let members = Members::of(&events, self.profile.events.len());
        let cells = self.profile.cells();
        let pieces =
            cells.par_chunks(piece_of(cells.len())).map(|cells| CellPaths::of(self, cells, &members));
        // Each piece is freed once its paths are joined.
        pieces.collect::<Vec<_>>().into_iter().for_each(|piece| filling.add(&piece));
        filling.settle();
        let mut section = ReportSection {
            columns: self.opts.columns(),
            keys: self.keys.clone(),
            totals: std::mem::take(&mut filling.totals),
            shown: std::mem::take(&mut filling.shown),
            events,
            rows: Vec::new(),
            base_periods: Vec::new(),
            base_latencies: Vec::new(),
        };
        let base = if self.opts.relative { &section.shown } else { &section.totals };
        (section.base_periods, section.base_latencies) =
            base.iter().map(|sums| (sums.period, sums.latency)).unzip();
        self.add_graphs(&mut filling, &section);
        section.rows = filling.rows.finish();
        section.rows.retain(|row| self.is_shown(row, &section.base_periods));
        sort_rows(self.profile, self.opts, &mut section);
        section
    }

    fn is_shown(&self, row: &ReportRow, base: &[u64]) -> bool {
        let percent = |sums: &[Sums]| percent_of(sums.first().map_or(0, |s| s.period), base.first().copied());
        let weight = if self.opts.children { percent(&row.children) } else { percent(&row.own) };
        weight >= self.opts.percent_limit || (row.own.len() > 1 && self.opts.percent_limit == 0.0)
    }

    /// The call graphs of the rows that can have nodes above the minimum.
    fn add_graphs(&self, filling: &mut Filling<'_, 'a>, section: &ReportSection) {
        let Some(graph) = self.opts.graph else { return };
        let min = share(section.base_periods[0], graph.min_percent) as u64;
        let wanted = |row: &ReportRow| {
            self.is_shown(row, &section.base_periods)
                && (graph.mode == GraphMode::Fractal || row.children[0].period.max(row.own[0].period) >= min)
        };
        let graphs = Graphs::new(self, &filling.paths, graph, min);
        let counts = &filling.chain_counts;
        let rows = &mut filling.rows.rows;
        let wanted = rows.iter().zip(counts).map(|(row, &count)| if wanted(row) { count } else { 0 });
        for (row, tree) in graphs.trees(&wanted.collect::<Vec<_>>()) {
            rows[row].graph = tree;
        }
    }
}

/// The share of `period` in percent; 0 of nothing.
fn percent_of(period: u64, base: Option<u64>) -> f64 {
    match base {
        Some(base) if base > 0 => 100.0 * period as f64 / base as f64,
        _ => 0.0,
    }
}

/// One section while it fills.
struct Filling<'c, 'a> {
    context: &'c Context<'a>,
    rows: Rows<'c, 'a>,
    paths: SectionPaths,
    totals: Vec<Sums>,
    shown: Vec<Sums>,
    /// By row: its chains in graphs, once settled.
    chain_counts: Vec<u32>,
}

impl<'c, 'a> Filling<'c, 'a> {
    fn new(context: &'c Context<'a>, members: usize) -> Self {
        Self {
            context,
            rows: Rows::new(context, members),
            paths: SectionPaths::default(),
            totals: vec![Sums::default(); members],
            shown: vec![Sums::default(); members],
            chain_counts: Vec::new(),
        }
    }

    /// Counts the paths of some cells at their own rows, and notes them for the rows of their callers.
    fn add(&mut self, cells: &CellPaths<'_, '_>) {
        self.totals.iter_mut().zip(&cells.totals).for_each(|(total, more)| total.add(*more));
        let mut parts: Vec<Option<u32>> = vec![None; cells.parts.len()];
        for (path, callers) in cells.with_callers() {
            let (member, sums) = (path.member(), path.sums);
            let part = *parts[path.part()].get_or_insert_with(|| self.rows.part_of(cells.parts[path.part()]));
            let own = self.rows.row_of(part, path.place);
            let row = &mut self.rows.rows[own as usize];
            row.own[member].add(sums);
            row.by_mode[path.mode()].grow(sums.period);
            self.shown[member].add(sums);
            for &entry in callers {
                self.rows.row_of(part, RowFrame::Entry(entry));
            }
            let key = PathKey { member: member as u32, part, own };
            self.paths.add(key, cells.entries_of(path), path.entries_hash, sums);
        }
    }

    /// Sums up what every row has in its chains.
    fn settle(&mut self) {
        if self.context.opts.children {
            self.paths.find_rows(&self.rows);
        }
        let rows = &mut self.rows.rows;
        let members = self.totals.len();
        let chains = ChainSums::of(&self.paths, rows.len(), members);
        for (at, row) in rows.iter_mut().enumerate() {
            row.children.copy_from_slice(&chains.sums[at * members..(at + 1) * members]);
            row.max_depth = chains.depths[at];
        }
        self.chain_counts = chains.counts;
    }
}

impl ReportSection {
    /// Does this section have a column for `field`?
    #[must_use]
    pub fn has_column(&self, field: &ReportField) -> bool {
        self.columns.contains(field)
    }
}
