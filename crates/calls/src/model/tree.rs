//! The sums: a tree of calls by path, and a table by function.

use profile::grow::{Grow as _, GrownSum as _};
use rustc_hash::FxHashMap;

use super::{Call, DurationHistogram, End, FunctionId};

/// A path of calls: a node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Counts and times of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Calls that ended within the recording.
    pub count: u64,
    /// Number of these that ended without returning.
    pub unwound: u64,
    /// Calls still open at the end: their time is in `total_ns` and `self_ns`, not in the histogram.
    pub open: u64,
    /// Time in them and in all they called, ns; of a function: recursion counted once.
    pub total_ns: u64,
    /// Time in themselves, ns.
    pub self_ns: u64,
    /// Part of the total off the CPU, ns.
    pub off_ns: u64,
    /// Part of `self_ns` off the CPU, ns.
    pub self_off_ns: u64,
    /// Sum of the finished calls' durations, ns: recursion counted each time. Over `count` it is the mean.
    pub finished_ns: u64,
    /// Shortest finished call, ns; `None` without one.
    pub min_ns: Option<u64>,
    /// Longest finished call, ns; `None` without one.
    pub max_ns: Option<u64>,
    /// All finished calls' durations.
    pub histogram: DurationHistogram,
}

impl CallStats {
    /// Calls, those still open at the end included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.count.saturating_add(self.open)
    }

    /// Part of the total on the CPU, ns.
    #[must_use]
    pub fn on_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.off_ns)
    }

    /// Part of `self_ns` on the CPU, ns.
    #[must_use]
    pub fn self_on_ns(&self) -> u64 {
        self.self_ns.saturating_sub(self.self_off_ns)
    }

    /// Whether times are known, not only how often it was called.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.count == 0 || self.min_ns.is_some()
    }

    /// Mean of the finished calls, ns; `None` without one, and where they were not timed.
    #[must_use]
    pub fn average_ns(&self) -> Option<u64> {
        (self.count > 0 && self.is_timed()).then(|| self.finished_ns / self.count)
    }

    /// Duration in ns that a share `q` (0 to 1) of the finished calls does not exceed; `None` without one.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        // A histogram's bucket reaches beyond the shortest and the longest call in it.
        let ns = self.histogram.quantile(q)?;
        Some(ns.max(self.min_ns?).min(self.max_ns?))
    }

    fn merge(&mut self, other: &Self) {
        self.count.grow(other.count);
        self.unwound.grow(other.unwound);
        self.open.grow(other.open);
        self.total_ns.grow(other.total_ns);
        self.self_ns.grow(other.self_ns);
        self.off_ns.grow(other.off_ns);
        self.self_off_ns.grow(other.self_off_ns);
        self.finished_ns.grow(other.finished_ns);
        self.min_ns = [self.min_ns, other.min_ns].into_iter().flatten().min();
        self.max_ns = self.max_ns.max(other.max_ns);
        self.histogram.merge(&other.histogram);
    }
}

/// One node: a function called on one path.
#[derive(Clone, Debug)]
pub struct CallNode {
    /// The caller's node; `None` for a thread's outermost calls.
    pub parent: Option<NodeId>,
    /// The called function.
    pub function: FunctionId,
    /// Calls on this path.
    pub stats: CallStats,
}

/// One of the slowest calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCall {
    /// The call.
    pub call: Call,
    /// The thread's number, as given to `keep_slowest`.
    pub thread: u32,
}

/// No node was called from there yet.
const NO_NODE: NodeId = NodeId(u32::MAX);

fn path_key(parent: Option<NodeId>, FunctionId(function): FunctionId) -> u64 {
    let NodeId(parent) = parent.unwrap_or(NO_NODE);
    u64::from(parent) << 32 | u64::from(function)
}

/// All calls of some threads, added up.
#[derive(Clone, Debug, Default)]
pub struct CallProfile {
    nodes: Vec<CallNode>,
    /// By parent (all bits set: none) in the high half and function in the low one.
    by_path: FxHashMap<u64, NodeId>,
    /// Sums by function number; their total counts a recursion once.
    functions: Vec<CallStats>,
    slowest: Vec<SlowCall>,
    slowest_wanted: usize,
    thread: u32,
    /// Calls that were not recorded, as the tracer counted them.
    pub lost: u64,
    /// Pieces missing in the trace.
    pub gaps: u64,
    /// Returns from calls that began before the trace did.
    pub returns_without_call: u64,
    /// Steps with a time before their predecessor's.
    pub backwards: u64,
}

impl CallProfile {
    /// Empty; keeps the `slowest_wanted` slowest calls of thread number `thread`.
    #[must_use]
    pub fn new(thread: u32, slowest_wanted: usize) -> Self {
        Self { thread, slowest_wanted, ..Self::default() }
    }

    /// The nodes, parents before children.
    #[must_use]
    pub fn nodes(&self) -> &[CallNode] {
        &self.nodes
    }

    /// All calls, those still open at the end included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.functions.iter().map(CallStats::calls).grown_sum()
    }

    /// The functions that were called, with their sums, by number.
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, &CallStats)> {
        (0u32..).map(FunctionId).zip(&self.functions).filter(|(_, stats)| stats.calls() > 0)
    }

    /// The slowest calls, slowest first.
    #[must_use]
    pub fn slowest(&self) -> &[SlowCall] {
        &self.slowest
    }

    /// The functions on the path of a node, outermost first, the node's own last.
    #[must_use]
    pub fn path(&self, node: NodeId) -> Vec<FunctionId> {
        let mut path = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.and_then(|NodeId(id)| self.nodes.get(id as usize)) {
            path.push(node.function);
            at = node.parent;
        }
        path.reverse();
        path
    }

    /// The node of `function` called from `parent`.
    fn child(&mut self, parent: Option<NodeId>, function: FunctionId) -> NodeId {
        let next = NodeId(u32::try_from(self.nodes.len()).expect("invariant: fewer than 2^32 paths"));
        let node = *self.by_path.entry(path_key(parent, function)).or_insert(next);
        if node == next {
            self.nodes.push(CallNode { parent, function, stats: CallStats::default() });
        }
        node
    }

    fn function(&mut self, FunctionId(id): FunctionId) -> &mut CallStats {
        let id = id as usize;
        if id >= self.functions.len() {
            self.functions.resize_with(id + 1, CallStats::default);
        }
        &mut self.functions[id]
    }

    /// A call as slow as this may be among the slowest, ns; none is so slow when none is wanted.
    pub(super) fn slow_from_ns(&self) -> u64 {
        match self.slowest.get(self.slowest_wanted.wrapping_sub(1)) {
            Some(fastest) => fastest.call.total_ns.saturating_add(1),
            None if self.slowest_wanted > 0 => 0,
            None => u64::MAX,
        }
    }

    /// Keeps a call if it is one of the slowest.
    #[cold]
    pub(super) fn keep_slow(&mut self, call: &Call) {
        if call.end != End::Open {
            self.keep(SlowCall { call: *call, thread: self.thread });
        }
    }

    /// These are its paths.
    pub(super) fn set_nodes(&mut self, nodes: Vec<CallNode>) {
        let paths = (0..).map(NodeId).zip(&nodes);
        self.by_path = paths.map(|(id, node)| (path_key(node.parent, node.function), id)).collect();
        self.nodes = nodes;
        self.settle();
    }

    /// All calls have ended: each function's sums are those of its nodes, but times within a call of itself only once.
    fn settle(&mut self) {
        let outermost = self.outermost();
        let nodes = std::mem::take(&mut self.nodes);
        for (node, outermost) in nodes.iter().zip(outermost) {
            let stats = self.function(node.function);
            let (total_ns, off_ns) = (stats.total_ns, stats.off_ns);
            stats.merge(&node.stats);
            if !outermost {
                (stats.total_ns, stats.off_ns) = (total_ns, off_ns);
            }
        }
        self.nodes = nodes;
    }

    /// For each node, whether its function is absent from all nodes above it.
    fn outermost(&self) -> Vec<bool> {
        const NONE: usize = usize::MAX;
        let root = self.nodes.len();
        // First child and next sibling; the root's come last.
        let mut links = vec![(NONE, NONE); root + 1];
        for (id, node) in self.nodes.iter().enumerate().rev() {
            let parent = node.parent.map_or(root, |NodeId(parent)| parent as usize);
            links[id].1 = std::mem::replace(&mut links[parent].0, id);
        }
        let mut open: FxHashMap<FunctionId, u32> = FxHashMap::default();
        let (mut outermost, mut path, mut next) = (vec![false; root], Vec::new(), links[root].0);
        loop {
            if next != NONE {
                let above = open.entry(self.nodes[next].function).or_default();
                outermost[next] = *above == 0;
                *above += 1;
                path.push(next);
                next = links[next].0;
            } else if let Some(left) = path.pop() {
                *open.entry(self.nodes[left].function).or_default() -= 1;
                next = links[left].1;
            } else {
                return outermost;
            }
        }
    }

    fn keep(&mut self, slow: SlowCall) {
        let at = self.slowest.partition_point(|kept| kept.call.total_ns >= slow.call.total_ns);
        if at < self.slowest_wanted {
            self.slowest.insert(at, slow);
            self.slowest.truncate(self.slowest_wanted);
        }
    }

    /// Whether any time off the CPU is known.
    #[must_use]
    pub fn has_off_cpu(&self) -> bool {
        self.nodes.iter().any(|node| node.stats.off_ns > 0)
    }

    /// Functions get other numbers: that of each old one, each used once.
    pub fn renumber(&mut self, order: &[FunctionId]) {
        let new = |FunctionId(old): FunctionId| order[old as usize];
        for node in &mut self.nodes {
            node.function = new(node.function);
        }
        self.slowest.iter_mut().for_each(|slow| slow.call.function = new(slow.call.function));
        let paths = (0..).map(NodeId).zip(&self.nodes);
        self.by_path = paths.map(|(id, node)| (path_key(node.parent, node.function), id)).collect();
        for (old, function) in (0..).map(FunctionId).zip(std::mem::take(&mut self.functions)) {
            *self.function(new(old)) = function;
        }
    }

    /// Adds sums of a function whose calls and paths are not known. Its node is at the root of the tree.
    pub fn add_function(&mut self, function: FunctionId, stats: &CallStats) {
        self.function(function).merge(stats);
        let NodeId(node) = self.child(None, function);
        self.nodes[node as usize].stats.merge(stats);
    }

    /// Adds another's calls. Numbers of functions must mean the same in both.
    pub fn merge(&mut self, other: &Self) {
        let mut mapped: Vec<NodeId> = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let parent = node.parent.map(|NodeId(id)| mapped[id as usize]);
            let here = self.child(parent, node.function);
            self.nodes[here.0 as usize].stats.merge(&node.stats);
            mapped.push(here);
        }
        for (id, function) in (0..).map(FunctionId).zip(&other.functions) {
            self.function(id).merge(function);
        }
        self.slowest_wanted = self.slowest_wanted.max(other.slowest_wanted);
        for slow in &other.slowest {
            let call = Call { node: mapped[slow.call.node.0 as usize], ..slow.call };
            self.keep(SlowCall { call, thread: slow.thread });
        }
        self.lost.grow(other.lost);
        self.gaps.grow(other.gaps);
        self.returns_without_call.grow(other.returns_without_call);
        self.backwards.grow(other.backwards);
    }
}
