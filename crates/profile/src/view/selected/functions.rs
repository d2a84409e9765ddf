//! Functions of a selection: self and total by state.

use super::Selected;
use crate::grow::Grow as _;
use crate::view::flame::{FrameKind, NameId, NodeId, Tree};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// One function's amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTimes {
    /// The function, in the page's tree.
    pub name: NameId,
    /// Running in it, or waiting in the kernel on its behalf.
    pub own: u64,
    /// With all it calls; recursion counts once.
    pub total: u64,
    /// The total by state.
    pub states: Vec<u64>,
}

impl Selected<'_> {
    /// Functions by total, most first.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionTimes> {
        let mut table = Table::new(self);
        let mut places: FxHashMap<(NodeId, u8), u64> = FxHashMap::default();
        for (item, amount) in self.items() {
            places.entry((item.node, item.state)).or_default().grow(amount);
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_unstable();
        places.iter().for_each(|&((node, state), amount)| table.add(node, state, amount));
        let tree = &self.data.tree;
        table.rows.rank_by(|a, b| {
            let key = |row: &FunctionTimes| (Reverse(row.total), Reverse(row.own));
            key(a).cmp(&key(b)).then_with(|| tree.name(a.name).cmp(tree.name(b.name)))
        });
        table.rows
    }
}

struct Table<'t> {
    tree: &'t Tree,
    states: usize,
    rows: Vec<FunctionTimes>,
    index: FxHashMap<NameId, usize>,
    /// By row: the last path that it was counted for.
    seen: Vec<u64>,
    stamp: u64,
}

impl<'t> Table<'t> {
    fn new(of: &Selected<'t>) -> Self {
        Self {
            tree: &of.data.tree,
            states: of.data.states.len(),
            rows: Vec::new(),
            index: FxHashMap::default(),
            seen: Vec::new(),
            stamp: 0,
        }
    }

    fn add(&mut self, leaf: NodeId, state: u8, amount: u64) {
        self.stamp += 1;
        let own = if state == 0 { leaf } else { caller_of_kernel(self.tree, leaf) };
        let mut node = leaf;
        while node != Tree::ROOT {
            let of = self.tree.node(node);
            let at = self.row(of.name);
            if node == own {
                self.rows[at].own.grow(amount);
            }
            if std::mem::replace(&mut self.seen[at], self.stamp) != self.stamp {
                self.rows[at].total.grow(amount);
                self.rows[at].states[usize::from(state)].grow(amount);
            }
            node = of.parent;
        }
    }

    fn row(&mut self, name: NameId) -> usize {
        *self.index.entry(name).or_insert_with(|| {
            self.rows.push(FunctionTimes { name, own: 0, total: 0, states: vec![0; self.states] });
            self.seen.push(0);
            self.rows.len() - 1
        })
    }
}

/// The innermost function outside the kernel; the outermost one where all are the kernel's.
pub(super) fn caller_of_kernel(tree: &Tree, mut node: NodeId) -> NodeId {
    loop {
        let of = tree.node(node);
        if tree.kind(of.name) != FrameKind::Kernel || of.parent == Tree::ROOT {
            return node;
        }
        node = of.parent;
    }
}
