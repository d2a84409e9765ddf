//! `--hierarchy`: the rows as a tree, a level for each key.

use super::ReportOpts;
use super::order::sort_rows;
use super::row::{ReportRow, ReportSection, SortValue};
use crate::grow::Grow as _;
use crate::profile::{Profile, Sums};
use rustc_hash::FxHashMap;

/// A line of the tree.
#[derive(Clone, Debug)]
pub struct Level {
    /// Place of its key among [`ReportSection::keys`]; 0 is the outermost.
    pub depth: usize,
    /// The sums of all rows below, with the values of the keys down to this one; of the innermost level the row itself.
    pub row: ReportRow,
    /// It is of the innermost level.
    pub is_leaf: bool,
}

/// The tree of a section's rows, line by line: each row before its children, and the rows of a level in order.
#[must_use]
pub fn hierarchy(profile: &Profile, opts: &ReportOpts, section: &ReportSection) -> Vec<Level> {
    let mut levels = Vec::new();
    add_level((profile, opts, section), 0, section.rows.clone(), &mut levels);
    levels
}

fn add_level(
    given: (&Profile, &ReportOpts, &ReportSection),
    depth: usize,
    rows: Vec<ReportRow>,
    levels: &mut Vec<Level>,
) {
    let (profile, opts, section) = given;
    if depth + 1 >= section.keys.len() {
        levels.extend(rows.into_iter().map(|row| Level { depth, row, is_leaf: true }));
        return;
    }
    let mut below: FxHashMap<SortValue, Vec<ReportRow>> = FxHashMap::default();
    for row in rows {
        below.entry(row.values[depth].clone()).or_default().push(row);
    }
    let sums = below.values().map(|rows| sum_of(rows, depth)).collect();
    let keys = section.keys[..=depth].to_vec();
    let mut level = ReportSection { keys, rows: sums, ..ReportSection::default() };
    sort_rows(profile, opts, &mut level);
    for row in level.rows {
        let rows = below.remove(&row.values[depth]).unwrap_or_default();
        levels.push(Level { depth, row, is_leaf: false });
        add_level(given, depth + 1, rows, levels);
    }
}

/// The sums of rows that have the same values down to `depth`.
fn sum_of(rows: &[ReportRow], depth: usize) -> ReportRow {
    let mut sum = ReportRow { values: rows[0].values[..=depth].to_vec(), ..ReportRow::default() };
    sum.own.resize(rows[0].own.len(), Sums::default());
    for row in rows {
        sum.own.iter_mut().zip(&row.own).for_each(|(sum, own)| sum.add(*own));
        sum.by_mode.iter_mut().zip(row.by_mode).for_each(|(sum, part)| sum.grow(part));
    }
    sum.children.clone_from(&sum.own);
    sum
}
