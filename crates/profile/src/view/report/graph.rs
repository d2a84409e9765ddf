//! Call graphs: chains of a row as a tree with single-child runs joined.
//!
//! ```text
//!   chains            a b c (3)   a b d (5)   a b (1)
//!   tree     [a b] own 1, cumulative 9
//!             ├── [d] 5
//!             └── [c] 3
//! ```
//! Branches below the minimum are dropped before they are expanded. The work depends on the shown branches and not on
//! the number of chains.

use super::context::Context;
use super::row::{ChainEntry, GraphNode};
use super::section_paths::SectionPaths;
use super::{GraphMode, GraphOpts};
use crate::profile::{Profile, Sums};
use std::cmp::Reverse;

/// A chain of a row: `len` entries at `start` of the paths, in the graph's direction.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    pub start: u32,
    pub len: u32,
    /// Position of the path whose sums it has.
    pub path: u32,
}

/// Positions of chains and their weights.
pub(super) struct Chains<'a> {
    profile: &'a Profile,
    entries: &'a [ChainEntry],
    all: &'a SectionPaths,
    opts: GraphOpts,
    /// Period below which nothing is shown; fractal graphs use each node's own.
    min: u64,
    /// By entry: room to sum up periods in; all 0 between uses.
    weights: Vec<u64>,
}

impl<'a> Chains<'a> {
    /// For the paths of a section; `min` is the period below which nothing is shown.
    pub fn new(context: &'a Context<'_>, all: &'a SectionPaths, opts: GraphOpts, min: u64) -> Self {
        let entries = &context.expanded.entries;
        Self { profile: context.profile, entries, all, opts, min, weights: vec![0; entries.len()] }
    }

    /// The tree of one row's chains, biggest branches first.
    pub fn tree(&mut self, chains: &mut [Chain]) -> Vec<GraphNode> {
        let roots = self.branches(chains, 0);
        match self.opts.mode {
            GraphMode::Graph | GraphMode::Fractal => roots,
            GraphMode::Flat | GraphMode::Folded => flatten(roots, self.min),
        }
    }

    /// The branches after position `at` of chains that are equal up to there.
    fn branches(&mut self, chains: &mut [Chain], at: u32) -> Vec<GraphNode> {
        let open = self.open_to_the_front(chains, at);
        open.sort_unstable_by_key(|chain| self.entry(chain, at));
        let groups: Vec<(Sums, &mut [Chain])> = (open
            .chunk_by_mut(|a, b| self.entry(a, at) == self.entry(b, at)))
        .map(|group| (self.total(group), group))
        .collect();
        let mut nodes: Vec<GraphNode> =
            groups.into_iter().map(|(sums, group)| self.node(group, at, sums)).collect();
        let by_weight = matches!(self.opts.mode, GraphMode::Graph | GraphMode::Fractal);
        let weight = |node: &GraphNode| if by_weight { node.cumulative } else { 0 };
        nodes.sort_by_key(|node| Reverse((weight(node), self.place(node))));
        nodes
    }

    /// Moves the chains that continue at `at` in a branch above the minimum to the front, and returns them.
    fn open_to_the_front<'c>(&mut self, chains: &'c mut [Chain], at: u32) -> &'c mut [Chain] {
        let mut weights = std::mem::take(&mut self.weights);
        let mut all = 0u64;
        for chain in chains.iter().filter(|chain| chain.len > at) {
            let period = self.sums(chain).period;
            let weight = &mut weights[self.entry(chain, at) as usize];
            *weight = weight.saturating_add(period);
            all = all.saturating_add(period);
        }
        let min = match self.opts.mode {
            GraphMode::Fractal => share(all, self.opts.min_percent).ceil() as u64,
            _ => self.min,
        };
        let mut kept = 0;
        for index in 0..chains.len() {
            let chain = chains[index];
            if chain.len > at && weights[self.entry(&chain, at) as usize] >= min {
                chains.swap(kept, index);
                kept += 1;
            }
        }
        for chain in chains.iter().filter(|chain| chain.len > at) {
            weights[self.entry(chain, at) as usize] = 0;
        }
        self.weights = weights;
        &mut chains[..kept]
    }

    /// The node of chains that have the same entry at `at`.
    fn node(&mut self, chains: &mut [Chain], at: u32, sums: Sums) -> GraphNode {
        let mut end = at + 1;
        while self.go_on_as_one(chains, end) {
            end += 1;
        }
        let mut own = Sums::default();
        chains.iter().filter(|chain| chain.len <= end).for_each(|chain| own.add(self.sums(chain)));
        let first = &chains[0];
        let entries = self.all.entries[(first.start + at) as usize..(first.start + end) as usize].to_vec();
        GraphNode {
            entries,
            own: own.period,
            cumulative: sums.period,
            own_count: own.count,
            cumulative_count: sums.count,
            children: self.branches(chains, end),
        }
    }

    fn sums(&self, chain: &Chain) -> Sums {
        self.all.paths[chain.path as usize].sums
    }

    fn go_on_as_one(&self, chains: &[Chain], at: u32) -> bool {
        let entry = self.entry(&chains[0], at);
        chains.iter().all(|chain| chain.len > at && self.entry(chain, at) == entry)
    }

    /// The entry at a position; an arbitrary number after the end.
    fn entry(&self, chain: &Chain, at: u32) -> u32 {
        if at < chain.len { self.all.entries[(chain.start + at) as usize] } else { 0 }
    }

    fn total(&self, chains: &[Chain]) -> Sums {
        let mut total = Sums::default();
        chains.iter().for_each(|chain| total.add(self.sums(chain)));
        total
    }

    /// Sort key (descending) of perf's tree of children, and so the order of equal branches.
    fn place(&self, node: &GraphNode) -> (u32, u64) {
        let entry = &self.entries[node.entries[0] as usize];
        (entry.dso.0, entry.symbol.map_or(entry.avma, |id| self.profile.symbols.of(id).start))
    }
}

/// `percent` of a period.
pub(super) fn share(base: u64, percent: f64) -> f64 {
    base as f64 * (percent / 100.0)
}

/// Every chain as a node of its own, without children; of equal ones the longer first.
fn flatten(nodes: Vec<GraphNode>, min: u64) -> Vec<GraphNode> {
    let mut chains = Vec::new();
    // perf walks by falling address here, whatever the branches weigh.
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
    chains.sort_by_key(|chain| Reverse(chain.own));
    chains
}
