//! Whole paths as rows: for diffs and exports that want chains rather than functions.

use super::ReportOpts;
use super::context::Context;
use super::expand::PathOpts;
use super::row::ChainEntry;
use crate::profile::{Profile, Sums};
use rustc_hash::FxHashMap;

/// A path and what ends there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRow {
    /// Positions in the entries, **leaf first**.
    pub entries: Vec<u32>,
    /// Sums by event.
    pub own: Vec<Sums>,
}

/// The distinct paths of `events` in order of first sight, and the entries they consist of. `opts` filters and expands as in a report.
#[must_use]
pub fn path_rows(profile: &Profile, opts: &ReportOpts, events: &[usize]) -> (Vec<PathRow>, Vec<ChainEntry>) {
    let context = Context::new(profile, opts);
    let member_of: FxHashMap<usize, usize> =
        events.iter().enumerate().map(|(at, &event)| (event, at)).collect();
    let path_opts =
        PathOpts { max_stack: opts.max_stack, cuts: context.cuts(), hide_unresolved: opts.hide_unresolved };
    let mut rows: Vec<PathRow> = Vec::new();
    let mut ids: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    let mut path = Vec::new();
    for (key, sums) in profile.cells() {
        let Some(&member) = member_of.get(&(key.event as usize)) else { continue };
        if !context.cell_passes(key) {
            continue;
        }
        context.expanded.path(profile, key.callsite, &path_opts, &mut path);
        let row = match ids.get(&path) {
            Some(&row) => row,
            None => {
                ids.insert(path.clone(), rows.len());
                rows.push(PathRow { entries: path.clone(), own: vec![Sums::default(); events.len()] });
                rows.len() - 1
            }
        };
        rows[row].own[member].add(*sums);
    }
    (rows, context.expanded.entries)
}
