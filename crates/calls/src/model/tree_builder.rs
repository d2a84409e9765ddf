//! The tree of calls while calls are added to it: laid out for the cache, for every call of a trace comes by here.

use profile::grow::Grow as _;
use rustc_hash::FxHashMap;

use super::histogram::{DurationHistogram, bucket};
use super::{Call, CallNode, CallStats, End, FunctionId, NodeId};

/// The place above all paths. A node's place is its [`NodeId`] and one more.
pub(super) const ROOT: u32 = 0;
/// No function has this number.
const NO_FUNCTION: u32 = u32::MAX;

/// A node: all that a finished call changes, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node {
    parent: u32,
    function: u32,
    /// The function called last from here, and its node: loops call the same again.
    last: (u32, u32),
    count: u64,
    /// Total of finished calls, ns.
    finished_ns: u64,
    self_ns: u64,
    min_ns: u64,
    max_ns: u64,
    span: Span,
}

/// Position of a node's histogram among all counts.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// The place of its first bucket.
    at: u32,
    /// The number of that bucket, and how many there are.
    first: u16,
    buckets: u16,
}

/// Numbers that few nodes have.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    unwound: u64,
    open: u64,
    open_ns: u64,
    off_ns: u64,
    self_off_ns: u64,
}

fn path_key(parent: u32, function: u32) -> u64 {
    u64::from(parent) << 32 | u64::from(function)
}

/// A cache of paths, each at the place its key hashes to: loops take the same few again and again. Grows with the tree.
#[derive(Clone, Debug)]
struct Recent {
    places: Vec<(u64, u32)>,
    /// Shift that makes a key's hash its place: the remaining upper bits.
    shift: u32,
}

impl Recent {
    const FEWEST_BITS: u32 = 6;
    const MOST_BITS: u32 = 16;

    /// Empty, of 2^`bits` places.
    fn new(bits: u32) -> Self {
        // A key that no path has: nothing is called from the last place, nor has a function that number.
        Self { places: vec![(u64::MAX, ROOT); 1 << bits], shift: u64::BITS - bits }
    }

    #[inline]
    const fn place(&self, key: u64) -> usize {
        // Fibonacci hashing: the upper bits depend on all of the key's.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn find(&self, key: u64) -> Option<u32> {
        let (known, node) = self.places[self.place(key)];
        (known == key).then_some(node)
    }

    /// Keeps a path of a tree with `nodes` nodes.
    fn keep(&mut self, key: u64, node: u32, nodes: usize) {
        let bits = u64::BITS - self.shift;
        if nodes > self.places.len() && bits < Self::MOST_BITS {
            *self = Self::new(bits + 2);
        }
        let place = self.place(key);
        self.places[place] = (key, node);
    }
}

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct TreeBuilder {
    nodes: Vec<Node>,
    /// By node, as far as any has some.
    rare: Vec<Rare>,
    /// The histograms, each a span.
    counts: Vec<u64>,
    by_path: FxHashMap<u64, u32>,
    /// Recently used paths.
    recent: Recent,
}

impl Node {
    fn new(parent: u32, function: u32) -> Self {
        Self {
            parent,
            function,
            last: (NO_FUNCTION, ROOT),
            count: 0,
            finished_ns: 0,
            self_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            span: Span::default(),
        }
    }
}

impl TreeBuilder {
    /// No paths yet.
    pub fn new() -> Self {
        Self {
            nodes: vec![Node::new(ROOT, NO_FUNCTION)],
            rare: Vec::new(),
            counts: Vec::new(),
            by_path: FxHashMap::default(),
            recent: Recent::new(Recent::FEWEST_BITS),
        }
    }

    /// The place of `function` called from place `parent`.
    #[inline(always)]
    pub fn child(&mut self, parent: u32, FunctionId(function): FunctionId) -> u32 {
        let (last, node) = self.nodes[parent as usize].last;
        if last == function { node } else { self.find_child(parent, function) }
    }

    #[inline(never)]
    fn find_child(&mut self, parent: u32, function: u32) -> u32 {
        let key = path_key(parent, function);
        let node = self.recent.find(key).unwrap_or_else(|| self.look_up(key, parent, function));
        self.nodes[parent as usize].last = (function, node);
        node
    }

    fn look_up(&mut self, key: u64, parent: u32, function: u32) -> u32 {
        let next = u32::try_from(self.nodes.len()).expect("invariant: fewer than 2^32 paths");
        let node = *self.by_path.entry(key).or_insert(next);
        if node == next {
            self.nodes.push(Node::new(parent, function));
        }
        self.recent.keep(key, node, self.nodes.len());
        node
    }

    /// The function of a place.
    #[inline]
    pub fn function(&self, place: u32) -> FunctionId {
        FunctionId(self.nodes[place as usize].function)
    }

    /// A call of place `place` ended that is to be counted.
    #[inline(always)]
    pub fn closed(&mut self, place: u32, call: &Call) {
        if call.end != End::Returned || call.off_ns > 0 {
            self.closed_rarely(place, call);
        }
        let node = &mut self.nodes[place as usize];
        node.self_ns.grow(call.self_ns);
        if call.end == End::Open {
            return;
        }
        node.count += 1;
        node.finished_ns.grow(call.total_ns);
        node.min_ns = node.min_ns.min(call.total_ns);
        node.max_ns = node.max_ns.max(call.total_ns);
        let Span { at, first, buckets } = node.span;
        let within = (bucket(call.total_ns) as u32).wrapping_sub(first.into());
        if within < u32::from(buckets) {
            self.counts[(at + within) as usize] += 1;
        } else {
            self.widen(place, call.total_ns);
        }
    }

    #[cold]
    fn closed_rarely(&mut self, place: u32, call: &Call) {
        let place = place as usize;
        if place >= self.rare.len() {
            self.rare.resize(self.nodes.len(), Rare::default());
        }
        let rare = &mut self.rare[place];
        rare.off_ns.grow(call.off_ns);
        rare.self_off_ns.grow(call.self_off_ns);
        rare.unwound += u64::from(call.end == End::Unwound);
        if call.end == End::Open {
            rare.open += 1;
            rare.open_ns.grow(call.total_ns);
        }
    }

    /// Counts a duration outside of the node's buckets: they move to where there is room for twice as many.
    #[cold]
    fn widen(&mut self, place: u32, ns: u64) {
        /// A cache line of counts.
        const STEP: usize = 8;
        let Span { at, first, buckets } = self.nodes[place as usize].span;
        let (at, first, buckets) = (at as usize, usize::from(first), usize::from(buckets));
        let bucket = bucket(ns);
        let (low, high) = match buckets {
            0 => (bucket, bucket + 1),
            _ if bucket < first => (bucket.min(first.saturating_sub(buckets)), first + buckets),
            _ => (first, (bucket + 1).max(first + 2 * buckets)),
        };
        let (low, high) = (low / STEP * STEP, high.next_multiple_of(STEP));
        let new = self.counts.len();
        self.counts.resize(new + high - low, 0);
        self.counts.copy_within(at..at + buckets, new + first.max(low) - low);
        self.counts[new + bucket - low] += 1;
        let at = u32::try_from(new).expect("invariant: histograms of fewer than 32 GiB");
        self.nodes[place as usize].span = Span { at, first: low as u16, buckets: (high - low) as u16 };
    }

    /// The nodes as the views have them, parents before children.
    pub fn settled(&self) -> Vec<CallNode> {
        (0u32..).zip(&self.nodes).skip(1).map(|(place, node)| self.settled_node(place, node)).collect()
    }

    fn settled_node(&self, place: u32, node: &Node) -> CallNode {
        let rare = self.rare.get(place as usize).copied().unwrap_or_default();
        let Span { at, first, buckets } = node.span;
        let counts = &self.counts[at as usize..at as usize + usize::from(buckets)];
        let called = node.count > 0;
        let stats = CallStats {
            count: node.count,
            unwound: rare.unwound,
            open: rare.open,
            total_ns: node.finished_ns.saturating_add(rare.open_ns),
            self_ns: node.self_ns,
            off_ns: rare.off_ns,
            self_off_ns: rare.self_off_ns,
            finished_ns: node.finished_ns,
            min_ns: called.then_some(node.min_ns),
            max_ns: called.then_some(node.max_ns),
            histogram: DurationHistogram::of_buckets(first.into(), counts),
        };
        CallNode {
            parent: node.parent.checked_sub(1).map(NodeId),
            function: FunctionId(node.function),
            stats,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that took `total_ns`.
    fn call(total_ns: u64) -> Call {
        Call {
            node: NodeId(0),
            function: FunctionId(1),
            start_ns: 0,
            total_ns,
            self_ns: total_ns,
            off_ns: 0,
            self_off_ns: 0,
            depth: 0,
            end: End::Returned,
        }
    }

    #[test]
    fn histograms_of_nodes_are_those_of_their_calls_however_they_grew() {
        let mut tree = TreeBuilder::new();
        let nodes = [1, 2].map(|function| tree.child(ROOT, FunctionId(function)));
        let mut plain = [DurationHistogram::default(), DurationHistogram::default()];
        let mut ns = 1u64;
        for round in 0..4000u64 {
            ns = ns.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
            let at = (ns >> 33) as usize % 2;
            let took = (ns >> 20) >> (round % 44); // below 2^44: the sums hold
            tree.closed(nodes[at], &call(took));
            plain[at].add(took);
        }
        let settled = tree.settled();
        assert_eq!(settled.iter().map(|node| &node.stats.histogram).collect::<Vec<_>>(), plain.each_ref());
        tree.closed(nodes[0], &call(1 << 62));
        assert_eq!(tree.settled()[0].stats.max_ns, Some(1 << 62));
    }

    #[test]
    fn a_path_is_one_node_whoever_was_called_between() {
        let mut tree = TreeBuilder::new();
        let parent = tree.child(ROOT, FunctionId(7));
        let places: Vec<u32> = (0..500).map(|function| tree.child(parent, FunctionId(function))).collect();
        let again: Vec<u32> = (0..500).map(|function| tree.child(parent, FunctionId(function))).collect();
        assert_eq!(places, again);
        assert_eq!(tree.settled().len(), 501);
    }
}
