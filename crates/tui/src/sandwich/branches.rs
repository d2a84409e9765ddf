//! One side of a function: its callers, or what it calls, as a tree whose branches open on demand.

use profile::view::flame::{NameId, NodeId, Tree};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;

/// Branches that are open at first have at least this share of the function's value.
const LARGE: f64 = 0.2;
/// Levels that are open at first.
const LEVELS: usize = 8;

/// Towards the root, or away from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Callers,
    Callees,
}

/// Nodes of a function: those not inside of another one's, and with them those that these call directly.
pub(super) struct Places {
    pub(super) outermost: Vec<usize>,
    pub(super) all: Vec<usize>,
}

/// The nodes of the function `name`.
pub(super) fn places(tree: &Tree, name: &str) -> Places {
    let is_named: Vec<bool> = tree.names().map(|(other, _)| other == name).collect();
    let mut places = Places { outermost: Vec::new(), all: Vec::new() };
    // By node: inside of the function; and a place of it.
    let (mut inside, mut is_place) = (vec![false; tree.len()], vec![false; tree.len()]);
    for (id, parent) in tree.nodes_with_parents() {
        let (at, above) = (id.index(), parent.index());
        let is_it = is_named[tree.node(id).name.index()];
        inside[at] = inside[above] || is_it;
        if is_it && (!inside[above] || is_place[above]) {
            is_place[at] = true;
            places.all.push(at);
            if !inside[above] {
                places.outermost.push(at);
            }
        }
    }
    places
}

/// One function of a side.
pub(super) struct BranchRow {
    name: NameId,
    /// With what it calls; of callers, the part that is in the function.
    pub(super) value: u64,
    /// 0 next to the function.
    pub(super) depth: usize,
    pub(super) is_open: bool,
    /// It has branches of its own.
    pub(super) has_more: bool,
    /// Nodes, each with its part of the value.
    nodes: Vec<(usize, u64)>,
}

/// A side.
pub(super) struct Branches {
    direction: Direction,
    names: Vec<String>,
    rows: Vec<BranchRow>,
    /// By node: first of its callees in `list`.
    starts: Vec<usize>,
    list: Vec<usize>,
    totals: Vec<(u64, u64)>,
}

impl Branches {
    /// One side, its large branches open.
    pub(super) fn new(tree: &Tree, direction: Direction, places: &Places, whole: u64) -> Self {
        let (starts, list) = callees(tree);
        let names = tree.names().map(|(name, _)| name.to_owned()).collect();
        let mut this = Self { direction, names, rows: Vec::new(), starts, list, totals: tree.totals() };
        let nodes: Vec<(usize, u64)> = match direction {
            Direction::Callers => places.outermost.iter().map(|&at| (at, this.totals[at].0)).collect(),
            Direction::Callees => places.all.iter().map(|&at| (at, 0)).collect(),
        };
        let own = places.all.first().map(|&at| tree.node_at(at).name);
        this.rows = this.below(tree, &nodes, (0, own));
        let mut at = 0;
        while at < this.rows.len() {
            let row = &this.rows[at];
            if row.depth < LEVELS && row.value as f64 >= whole as f64 * LARGE {
                this.open(tree, at);
            }
            at += 1;
        }
        this
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, at: usize) -> &BranchRow {
        &self.rows[at]
    }

    pub(super) fn name(&self, at: usize) -> Option<&str> {
        self.rows.get(at).map(|row| self.names[row.name.index()].as_str())
    }

    /// Shows the branches of a row.
    pub(super) fn open(&mut self, tree: &Tree, at: usize) {
        let Some(row) = self.rows.get(at).filter(|row| !row.is_open && row.has_more) else { return };
        let below = self.below(tree, &row.nodes, (row.depth + 1, None));
        self.rows[at].is_open = true;
        self.rows.splice(at + 1..at + 1, below);
    }

    /// Hides the branches of a row, or those it is one of; the row to go to.
    pub(super) fn close(&mut self, at: usize) -> usize {
        let Some(row) = self.rows.get(at) else { return at };
        let depth = row.depth;
        if !row.is_open {
            let above = |row: &BranchRow| row.depth < depth;
            return self.rows[..at].iter().rposition(above).unwrap_or(at);
        }
        let end = self.rows[at + 1..].iter().position(|row| row.depth <= depth);
        let end = end.map_or(self.rows.len(), |end| at + 1 + end);
        self.rows.drain(at + 1..end);
        self.rows[at].is_open = false;
        at
    }

    /// Callees or callers of the nodes at a depth; without a function. Biggest first, equal ones by name.
    fn below(&self, tree: &Tree, nodes: &[(usize, u64)], how: (usize, Option<NameId>)) -> Vec<BranchRow> {
        let (depth, without) = how;
        let mut by_name: FxHashMap<NameId, Vec<(usize, u64)>> = FxHashMap::default();
        for &(at, value) in nodes {
            for (next, value) in self.next(tree, at, value) {
                let name = tree.node_at(next).name;
                if Some(name) != without {
                    by_name.entry(name).or_default().push((next, value));
                }
            }
        }
        let row = |(name, nodes): (NameId, Vec<(usize, u64)>)| BranchRow {
            name,
            value: nodes.iter().map(|(_, value)| *value).fold(0, u64::saturating_add),
            depth,
            is_open: false,
            has_more: nodes.iter().any(|&(at, value)| !self.next(tree, at, value).is_empty()),
            nodes,
        };
        let mut rows: Vec<BranchRow> = by_name.into_iter().map(row).filter(|row| row.value > 0).collect();
        let text = |row: &BranchRow| self.names[row.name.index()].as_str();
        rows.rank_by(|a, b| b.value.cmp(&a.value).then_with(|| text(a).cmp(text(b))));
        rows
    }

    /// The nodes next to one that has a part of the value.
    fn next(&self, tree: &Tree, at: usize, value: u64) -> Vec<(usize, u64)> {
        match self.direction {
            Direction::Callers => match tree.parent_index(at) {
                root if root == Tree::ROOT.index() => Vec::new(),
                parent => vec![(parent, value)],
            },
            Direction::Callees => {
                let callees = &self.list[self.starts[at]..self.starts[at + 1]];
                callees.iter().map(|&callee| (callee, self.totals[callee].0)).collect()
            }
        }
    }
}

/// Callees of all nodes in one list, with the begin of each node's.
fn callees(tree: &Tree) -> (Vec<usize>, Vec<usize>) {
    let mut starts = vec![0usize; tree.len() + 1];
    let calls =
        || tree.nodes_with_parents().map(|(id, parent): (NodeId, NodeId)| (id.index(), parent.index()));
    calls().for_each(|(_, parent)| starts[parent + 1] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let (mut next, mut list) = (starts.clone(), vec![0usize; tree.len().saturating_sub(1)]);
    for (node, parent) in calls() {
        list[next[parent]] = node;
        next[parent] += 1;
    }
    (starts, list)
}
