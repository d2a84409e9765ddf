//! Call graphs: chains of a row as a tree with single-child runs joined.
//!
//! ```text
//!   chains            a b c (3)   a b d (5)   a b (1)
//!   tree     [a b] own 1, cumulative 9
//!             ├── [d] 5
//!             └── [c] 3
//! ```

use super::row::{ChainEntry, GraphNode};
use super::{GraphMode, GraphOpts};
use crate::profile::{Profile, Sums};
use rustc_hash::FxHashMap;

const NO_ENTRY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct TrieNode {
    parent: u32,
    entry: u32,
    own: Sums,
}

/// The chains of many rows: each row is a root of its own.
#[derive(Default)]
pub(super) struct Trie {
    nodes: Vec<TrieNode>,
    ids: FxHashMap<(u32, u32), u32>,
}

impl Trie {
    /// A new row; gives its root.
    pub fn add_root(&mut self) -> u32 {
        self.nodes.push(TrieNode { parent: NO_ENTRY, entry: NO_ENTRY, own: Sums::default() });
        (self.nodes.len() - 1) as u32
    }

    /// Adds a chain below a root.
    pub fn insert(&mut self, root: u32, chain: impl Iterator<Item = u32>, sums: Sums) {
        let mut at = root;
        for entry in chain {
            let nodes = &mut self.nodes;
            at = *self.ids.entry((at, entry)).or_insert_with(|| {
                nodes.push(TrieNode { parent: at, entry, own: Sums::default() });
                (nodes.len() - 1) as u32
            });
        }
        if at != root {
            self.nodes[at as usize].own.add(sums);
        }
    }

    /// The trees of all roots, by root id, runs joined, nothing left out, children by falling
    /// address, as perf's tree has them.
    pub fn into_trees(self, profile: &Profile, entries: &[ChainEntry]) -> FxHashMap<u32, Vec<GraphNode>> {
        let mut below: Vec<Vec<GraphNode>> = Vec::new();
        below.resize_with(self.nodes.len(), Vec::new);
        let mut trees = FxHashMap::default();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let mut children = std::mem::take(&mut below[index]);
            children.sort_by_key(|child| {
                let entry = &entries[*child.entries.last().expect("invariant: a node has an entry") as usize];
                let addr = entry.symbol.map_or(entry.avma, |id| profile.symbols.of(id).start);
                std::cmp::Reverse((entry.dso, addr))
            });
            if node.entry == NO_ENTRY {
                children.iter_mut().for_each(unreverse);
                trees.insert(index as u32, children);
            } else {
                below[node.parent as usize].push(joined(node, children));
            }
        }
        trees
    }
}

/// A node, joined with its child when it has only that. `entries` is still reversed, so that
/// joining is a push.
fn joined(node: &TrieNode, mut children: Vec<GraphNode>) -> GraphNode {
    if node.own.count == 0
        && children.len() == 1
        && let Some(mut only) = children.pop()
    {
        only.entries.push(node.entry);
        return only;
    }
    let cumulative = children.iter().map(|child| child.cumulative).sum::<u64>() + node.own.period;
    let cumulative_count = children.iter().map(|child| child.cumulative_count).sum::<u64>() + node.own.count;
    GraphNode {
        entries: vec![node.entry],
        own: node.own.period,
        cumulative,
        own_count: node.own.count,
        cumulative_count,
        children,
    }
}

fn unreverse(node: &mut GraphNode) {
    node.entries.reverse();
    node.children.iter_mut().for_each(unreverse);
}

/// Leaves out what is below the minimum and sorts the rest, biggest first.
///
/// `base` is the period that `min_percent` refers to (the section's total); fractal graphs use
/// each parent's own.
pub(super) fn prune(nodes: Vec<GraphNode>, opts: &GraphOpts, base: u64) -> Vec<GraphNode> {
    match opts.mode {
        GraphMode::Graph => prune_absolute(nodes, share(base, opts.min_percent) as u64),
        GraphMode::Fractal => prune_relative(nodes, opts.min_percent),
        GraphMode::Flat | GraphMode::Folded => flatten(nodes, share(base, opts.min_percent) as u64),
    }
}

fn share(base: u64, percent: f64) -> f64 {
    base as f64 * (percent / 100.0)
}

fn prune_absolute(mut nodes: Vec<GraphNode>, min: u64) -> Vec<GraphNode> {
    nodes.retain(|node| node.cumulative >= min);
    nodes.sort_by_key(|node| std::cmp::Reverse(node.cumulative));
    for node in &mut nodes {
        node.children = prune_absolute(std::mem::take(&mut node.children), min);
    }
    nodes
}

fn prune_relative(mut nodes: Vec<GraphNode>, percent: f64) -> Vec<GraphNode> {
    let all: u64 = nodes.iter().map(|node| node.cumulative).sum();
    let min = share(all, percent).ceil() as u64;
    nodes.retain(|node| node.cumulative >= min);
    nodes.sort_by_key(|node| std::cmp::Reverse(node.cumulative));
    for node in &mut nodes {
        node.children = prune_relative(std::mem::take(&mut node.children), percent);
    }
    nodes
}

/// Every chain as a node of its own, without children; of equal ones the longer first.
fn flatten(nodes: Vec<GraphNode>, min: u64) -> Vec<GraphNode> {
    let mut chains = Vec::new();
    let mut todo: Vec<(Vec<u32>, GraphNode)> = nodes.into_iter().map(|node| (Vec::new(), node)).collect();
    while let Some((mut path, node)) = todo.pop() {
        path.extend(&node.entries);
        if node.own > 0 && node.own >= min {
            chains.push(GraphNode {
                entries: path.clone(),
                own: node.own,
                cumulative: node.own,
                own_count: node.own_count,
                cumulative_count: node.own_count,
                children: Vec::new(),
            });
        }
        todo.extend(node.children.into_iter().map(|child| (path.clone(), child)));
    }
    chains.reverse(); // last child first became children before their parent
    chains.sort_by_key(|chain| std::cmp::Reverse(chain.own));
    chains
}
