//! Who called whom, as lists.

use crate::model::{CallProfile, NodeId};
use profile::view::ranking::RankRows as _;
use std::cmp::Reverse;

/// Nodes called from each node, the largest total first.
pub struct CalleeLists {
    /// By node.
    pub of: Vec<Vec<NodeId>>,
    /// Called from nowhere.
    pub roots: Vec<NodeId>,
}

impl CalleeLists {
    /// Lists of all nodes that have calls, or lead to such.
    #[must_use]
    pub fn new(sum: &CallProfile) -> Self {
        let mut children = Self { of: vec![Vec::new(); sum.nodes().len()], roots: Vec::new() };
        let shown = shown(sum);
        for (id, node) in (0..).map(NodeId).zip(sum.nodes()) {
            if !shown[id.0 as usize] {
                continue;
            }
            match node.parent {
                Some(NodeId(parent)) => children.of[parent as usize].push(id),
                None => children.roots.push(id),
            }
        }
        let total = |id: &NodeId| Reverse(sum.nodes()[id.0 as usize].stats.total_ns);
        children.of.iter_mut().for_each(|list| list.rank_by_key(total));
        children.roots.rank_by_key(total);
        children
    }
}

/// Which nodes have calls, or lead to such: of some all calls were left out, by their time or by where they lead.
fn shown(sum: &CallProfile) -> Vec<bool> {
    let mut shown = vec![false; sum.nodes().len()];
    for (at, node) in sum.nodes().iter().enumerate().rev() {
        shown[at] |= node.stats.calls() > 0;
        if let (true, Some(NodeId(parent))) = (shown[at], node.parent) {
            shown[parent as usize] = true;
        }
    }
    shown
}
