//! The lines of the table: rows, and below open ones their call graphs.

use crate::data::{Data, period};
use profile::view::report::{GraphNode, ReportRow};
use std::collections::{HashMap, HashSet};

/// Where a line belongs: the row's position in the section, then the position of each node on the way down.
pub type TreePath = Vec<u32>;

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeLine {
    /// Where.
    pub place: TreePath,
    /// 0 for a row, 1 for the roots of its graph.
    pub depth: usize,
    /// State of a row that can be opened: `Some(open)`.
    pub open: Option<bool>,
    /// Entry of a node, as position in [`profile::view::report::Report::chain_entries`]; `None` for a row.
    pub entry: Option<u32>,
    /// Period of the node; `None` for rows and for further entries of a node.
    pub period: Option<u64>,
}

/// Which rows and nodes are open.
#[derive(Clone, Debug, Default)]
pub struct OpenPlaces {
    open: HashSet<TreePath>,
}

impl OpenPlaces {
    /// Is it open?
    pub fn contains(&self, place: &[u32]) -> bool {
        self.open.contains(place)
    }

    /// Opens a place.
    pub fn open(&mut self, place: TreePath) {
        self.open.insert(place);
    }

    /// Closes a place and all below.
    pub fn close(&mut self, place: &[u32]) {
        self.open.retain(|open| !open.starts_with(place));
    }

    /// Closes everything.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// Open rows, by names: places of other data are others.
    pub fn names(&self, data: &Data) -> Vec<Vec<String>> {
        self.open.iter().filter_map(|place| names_of(data, place)).collect()
    }

    /// The places of names in other data, as far as they are there.
    pub fn of_names(data: &Data, names: &[Vec<String>]) -> Self {
        Self { open: places_of(data, names.iter()).into_iter().collect() }
    }

    /// Opens a row and its whole graph.
    pub fn open_row(&mut self, at: usize, row: &ReportRow) {
        if row.graph.is_empty() {
            return;
        }
        let place = vec![at as u32];
        self.open_nodes(&place, &row.graph);
        self.open.insert(place);
    }

    fn open_nodes(&mut self, place: &[u32], nodes: &[GraphNode]) {
        for (i, node) in (0u32..).zip(nodes).filter(|(_, node)| !node.children.is_empty()) {
            let place: TreePath = place.iter().copied().chain([i]).collect();
            self.open_nodes(&place, &node.children);
            self.open.insert(place);
        }
    }
}

/// The names on the way to a place: the row's values, then the first function of each node.
pub fn names_of(data: &Data, place: &[u32]) -> Option<Vec<String>> {
    let row = data.row(*place.first()? as usize)?;
    let mut names = vec![row_name(data, row)];
    let mut nodes = row.graph.as_slice();
    for &step in &place[1..] {
        let node = nodes.get(step as usize)?;
        names.push(node_name(data, node));
        nodes = &node.children;
    }
    Some(names)
}

/// The places with these names; those not there are left out.
pub fn places_of<'n>(data: &Data, names: impl Iterator<Item = &'n Vec<String>>) -> Vec<TreePath> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Vec::new();
    }
    let rows: HashMap<String, usize> = data.rows().map(|(at, row)| (row_name(data, row), at)).collect();
    let place = |names: &Vec<String>| {
        let at = *rows.get(names.first()?)?;
        let mut nodes = data.row(at)?.graph.as_slice();
        let mut place = vec![at as u32];
        for name in &names[1..] {
            let step = nodes.iter().position(|node| node_name(data, node) == *name)?;
            place.push(step as u32);
            nodes = &nodes[step].children;
        }
        Some(place)
    };
    names.filter_map(place).collect()
}

fn row_name(data: &Data, row: &ReportRow) -> String {
    let values = data.keys().into_iter().map(|key| data.value(row, &key).unwrap_or_default());
    values.collect::<Vec<_>>().join("\t")
}

fn node_name(data: &Data, node: &GraphNode) -> String {
    let entry = node.entries.first().and_then(|&entry| data.report().chain_entries.get(entry as usize));
    entry.map(|entry| data.profile().chain_entry_text(entry)).unwrap_or_default()
}

/// All lines to be shown, rows that `keep` refuses left out.
pub fn lines(data: &Data, open: &OpenPlaces, keep: &dyn Fn(&ReportRow) -> bool) -> Vec<TreeLine> {
    let mut lines = Vec::new();
    for (at, row) in data.rows().filter(|(_, row)| keep(row)) {
        let place = vec![at as u32];
        let is_open = open.contains(&place);
        let openable = (!row.graph.is_empty()).then_some(is_open);
        lines.push(TreeLine { place: place.clone(), depth: 0, open: openable, entry: None, period: None });
        if is_open {
            push_nodes(&mut lines, open, &place, &row.graph);
        }
    }
    lines
}

fn push_nodes(lines: &mut Vec<TreeLine>, open: &OpenPlaces, above: &[u32], nodes: &[GraphNode]) {
    for (i, node) in (0u32..).zip(nodes) {
        let place: TreePath = above.iter().copied().chain([i]).collect();
        let is_open = open.contains(&place);
        let openable = (!node.children.is_empty()).then_some(is_open);
        for (k, &entry) in node.entries.iter().enumerate() {
            lines.push(TreeLine {
                place: place.clone(),
                depth: above.len(),
                // The mark is at the last entry, where the fork is.
                open: openable.filter(|_| k + 1 == node.entries.len()),
                entry: Some(entry),
                period: (k == 0).then_some(node.cumulative),
            });
        }
        if is_open {
            push_nodes(lines, open, &place, &node.children);
        }
    }
}

/// The period a row is sorted by.
pub fn main_period(data: &Data, row: &ReportRow) -> u64 {
    if data.has_children() { period(&row.children) } else { period(&row.own) }
}
