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
use crate::view::ranking::RankRows as _;
use rayon::prelude::*;
use std::cmp::Reverse;

/// A chain of a row: `len` entries at `start` of the paths, in the graph's direction.
#[derive(Clone, Copy)]
struct Chain {
    start: u32,
    len: u32,
    /// Position of the path whose sums it has.
    path: u32,
}

/// The graphs of one section: facts that all of its trees share.
pub(super) struct Graphs<'a> {
    profile: &'a Profile,
    entries: &'a [ChainEntry],
    all: &'a SectionPaths,
    /// By path of `all`: the sums that a graph needs, apart from the rest so that it stays in the processor's cache.
    weights: Vec<Weight>,
    opts: GraphOpts,
    /// Period below which nothing is shown; fractal graphs use each node's own.
    min: u64,
}

impl<'a> Graphs<'a> {
    /// For the paths of a section; `min` is the period below which nothing is shown.
    pub fn new(context: &'a Context<'_>, all: &'a SectionPaths, opts: GraphOpts, min: u64) -> Self {
        let (profile, entries) = (context.profile, &context.expanded.entries);
        let weights = all.paths.iter().map(|path| Weight::of(path.sums)).collect();
        Self { profile, entries, all, weights, opts, min }
    }

    /// The trees of rows, each with its row. `chains` has by row how many chains it has, 0 for a row without a tree.
    ///
    /// Each core lists and draws the chains of its own rows. Trees are independent of each other: which core makes one
    /// does not show in it.
    pub fn trees(&self, chains: &[u32]) -> Vec<(usize, Vec<GraphNode>)> {
        let shares = Shares::of_cores();
        let trees = (0..shares.count()).into_par_iter().map(|share| {
            let listed = self.chains_of_share(chains, shares, share).into_par_iter().enumerate();
            let trees = listed.filter(|(_, chains)| !chains.is_empty()).map_init(
                || TreeMaker { graphs: self, weights: vec![0; self.entries.len()], open: Vec::new() },
                |maker, (at, mut chains)| (shares.row(share, at), maker.tree(&mut chains)),
            );
            trees.collect::<Vec<_>>()
        });
        trees.flatten_iter().collect()
    }

    /// The chains of each row of one share.
    fn chains_of_share(&self, counts: &[u32], shares: Shares, share: usize) -> Vec<Vec<Chain>> {
        let counts = counts.iter().skip(share).step_by(shares.count());
        let mut chains: Vec<Vec<Chain>> = counts.map(|&count| Vec::with_capacity(count as usize)).collect();
        // Only the first event of a group has graphs.
        for (at, path) in (0..).zip(&self.all.paths).filter(|(_, path)| path.key.member == 0) {
            self.all.for_each_row(path, |row, skipped| {
                let Some(place) = shares.place(share, row as usize) else { return };
                if chains[place].capacity() > 0 {
                    let (start, len) = (path.start + skipped, path.len - skipped);
                    chains[place].push(Chain { start, len, path: at });
                }
            });
        }
        chains
    }
}

/// Rows dealt out in turn, into as many shares as a power of two has.
#[derive(Clone, Copy)]
struct Shares {
    bits: u32,
}

impl Shares {
    fn of_cores() -> Self {
        Self { bits: rayon::current_num_threads().next_power_of_two().trailing_zeros() }
    }

    fn count(self) -> usize {
        1 << self.bits
    }

    /// The row at `place` of a share.
    fn row(self, share: usize, place: usize) -> usize {
        place << self.bits | share
    }

    /// The place of `row` in the share; `None` if it is another's.
    fn place(self, share: usize, row: usize) -> Option<usize> {
        (row & (self.count() - 1) == share).then_some(row >> self.bits)
    }
}

/// Counts of a path, or of several.
#[derive(Clone, Copy, Default)]
struct Weight {
    period: u64,
    /// Samples.
    count: u64,
}

impl Weight {
    fn of(sums: Sums) -> Self {
        Self { period: sums.period, count: sums.count }
    }

    fn add(&mut self, other: Self) {
        self.period = self.period.saturating_add(other.period);
        self.count = self.count.saturating_add(other.count);
    }
}

/// Makes the trees of rows.
struct TreeMaker<'a> {
    graphs: &'a Graphs<'a>,
    /// By entry: room to sum up periods in; all 0 between uses.
    weights: Vec<u64>,
    /// Room to sort chains in, by their entry at one position.
    open: Vec<(u32, Chain)>,
}

impl TreeMaker<'_> {
    /// The tree of one row's chains, biggest branches first. Their order afterwards is arbitrary.
    fn tree(&mut self, chains: &mut [Chain]) -> Vec<GraphNode> {
        let roots = self.branches(chains, 0);
        match self.graphs.opts.mode {
            GraphMode::Graph | GraphMode::Fractal => roots,
            GraphMode::Flat | GraphMode::Folded => flatten(roots, self.graphs.min),
        }
    }

    /// The branches after position `at` of chains that are equal up to there.
    fn branches(&mut self, chains: &mut [Chain], at: u32) -> Vec<GraphNode> {
        let graphs = self.graphs;
        let mut nodes: Vec<GraphNode> = (self.open_to_the_front(chains, at))
            .chunk_by_mut(|a, b| graphs.entry(a, at) == graphs.entry(b, at))
            .map(|group| self.node(group, at))
            .collect();
        let by_weight = matches!(graphs.opts.mode, GraphMode::Graph | GraphMode::Fractal);
        let weight = |node: &GraphNode| if by_weight { node.cumulative } else { 0 };
        nodes.rank_by_key(|node| Reverse((weight(node), graphs.place(node))));
        nodes
    }

    /// Puts the chains that continue at `at` in a branch above the minimum to the front, by their entry there, and
    /// returns them. The others are gone.
    fn open_to_the_front<'c>(&mut self, chains: &'c mut [Chain], at: u32) -> &'c mut [Chain] {
        let (graphs, weights) = (self.graphs, &mut self.weights);
        let mut all = 0u64;
        self.open.clear();
        // Where the row begins, and mostly after it, all chains go on alike: they stay where they are.
        if chains.first().is_some_and(|first| first.len > at) && graphs.go_on_as_one(chains, at) {
            let all = graphs.total(chains.iter()).period;
            let kept = if all >= graphs.min_of(all) { chains.len() } else { 0 };
            return &mut chains[..kept];
        }
        for chain in chains.iter().filter(|chain| chain.len > at) {
            let (entry, period) = (graphs.entry(chain, at), graphs.weights[chain.path as usize].period);
            let weight = &mut weights[entry as usize];
            *weight = weight.saturating_add(period);
            all = all.saturating_add(period);
            self.open.push((entry, *chain));
        }
        let min = graphs.min_of(all);
        let mut kept = 0;
        for index in 0..self.open.len() {
            if weights[self.open[index].0 as usize] >= min {
                self.open.swap(kept, index);
                kept += 1;
            }
        }
        self.open.iter().for_each(|(entry, _)| weights[*entry as usize] = 0);
        let open = &mut self.open[..kept];
        open.sort_unstable_by_key(|(entry, _)| *entry);
        chains.iter_mut().zip(open).for_each(|(place, (_, chain))| *place = *chain);
        &mut chains[..kept]
    }

    /// The node of chains that have the same entry at `at`.
    fn node(&mut self, chains: &mut [Chain], at: u32) -> GraphNode {
        let graphs = self.graphs;
        let cumulative = graphs.total(chains.iter());
        let mut end = at + 1;
        while graphs.go_on_as_one(chains, end) {
            end += 1;
        }
        let own = graphs.total(chains.iter().filter(|chain| chain.len <= end));
        let first = &chains[0];
        let entries = graphs.all.entries[(first.start + at) as usize..(first.start + end) as usize].to_vec();
        GraphNode {
            entries,
            own: own.period,
            cumulative: cumulative.period,
            own_count: own.count,
            cumulative_count: cumulative.count,
            children: self.branches(chains, end),
        }
    }
}

impl Graphs<'_> {
    /// Period that a branch of chains with a period of `all` must have.
    fn min_of(&self, all: u64) -> u64 {
        match self.opts.mode {
            GraphMode::Fractal => share(all, self.opts.min_percent).ceil() as u64,
            _ => self.min,
        }
    }

    fn go_on_as_one(&self, chains: &[Chain], at: u32) -> bool {
        let entry = self.entry(&chains[0], at);
        chains.iter().all(|chain| chain.len > at && self.entry(chain, at) == entry)
    }

    /// The entry at a position; an arbitrary number after the end.
    fn entry(&self, chain: &Chain, at: u32) -> u32 {
        if at < chain.len { self.all.entries[(chain.start + at) as usize] } else { 0 }
    }

    fn total<'c>(&self, chains: impl Iterator<Item = &'c Chain>) -> Weight {
        let mut total = Weight::default();
        chains.for_each(|chain| total.add(self.weights[chain.path as usize]));
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
    chains.rank_by_key(|chain| Reverse(chain.own));
    chains
}
