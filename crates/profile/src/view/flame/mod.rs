//! The tree a flame graph draws: what every input becomes, and what SVG, terminal and folded text are made from.
//!
//! A node is a function on a path from the root; equal paths share a node. Values are added, never scaled.

mod compared;
mod condensed;
mod layout;
mod of_blame;
mod of_profile;
mod of_wall;
mod start_up;

pub(crate) use condensed::{call_after_entry, is_entry, kernel_work};
pub(crate) use start_up::start_up_frames;

pub use compared::{BothSides, ChangeOpts, ChangeScale, ComparedTree, SideSum};
pub use layout::{FlameCell, Layout, LayoutOpts, Small};
pub use of_profile::{TreeBuilder, TreeOpts, events_shown, unit_of};
pub use of_wall::WallTree;

use rustc_hash::FxHashMap;

/// Index of an interned frame (a name with its kind).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct NameId(u32);

/// Index of a node of the tree; the root is [`Tree::ROOT`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NameId {
    /// Position in [`Tree::names`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// The node at a position in such a list.
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Position in lists by node, such as [`Tree::totals`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a frame's code comes from: decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum FrameKind {
    /// The process or thread at the root, and the root itself.
    Task,
    /// The profiled program.
    Program,
    /// A shared library.
    Library,
    /// The kernel and its modules.
    Kernel,
    /// Code made at run time.
    Jit,
    /// A Python function.
    Python,
    /// An inlined function.
    Inlined,
    /// Time off the CPU.
    Waiting,
    /// No name was found.
    Unknown,
}

/// One node of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// The frame.
    pub name: NameId,
    /// The caller; the root is its own parent.
    pub parent: NodeId,
    /// Sum of the periods (or counts) of the stacks that end here.
    pub own: u64,
    /// Number of samples that end here; 0 if unknown.
    pub samples: u64,
}

/// Further facts about one node, next to its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum NodeNote {
    /// This many threads of one name; at least two.
    Threads(u32),
    /// At most this many calls of the function by itself or in a circle; at least two.
    Repeats(u32),
}

/// Stacks, merged by path.
#[derive(Clone, Debug)]
pub struct Tree {
    names: Vec<(String, FrameKind)>,
    by_name: FxHashMap<(String, FrameKind), NameId>,
    nodes: Vec<Node>,
    by_path: FxHashMap<(NodeId, NameId), NodeId>,
    details: FxHashMap<NodeId, String>,
    notes: FxHashMap<NodeId, NodeNote>,
    /// Unit of the values.
    pub unit: Unit,
    waiting: bool,
}

/// Unit of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Samples.
    Samples,
    /// Occurrences of the named event.
    Event(String),
}

impl Unit {
    /// `ns`, `samples`, or the event's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Samples => "samples",
            Self::Event(name) => name,
        }
    }
}

impl Tree {
    /// The node above all stacks.
    pub const ROOT: NodeId = NodeId(0);

    /// An empty tree whose root is called "all".
    pub fn new(unit: Unit) -> Self {
        let root = Node { name: NameId(0), parent: Self::ROOT, own: 0, samples: 0 };
        let mut tree = Self {
            names: Vec::new(),
            by_name: FxHashMap::default(),
            nodes: vec![root],
            by_path: FxHashMap::default(),
            details: FxHashMap::default(),
            notes: FxHashMap::default(),
            unit,
            waiting: false,
        };
        tree.intern("all", FrameKind::Task);
        tree
    }

    /// The id of the frame `name` of `kind`.
    pub fn intern(&mut self, name: &str, kind: FrameKind) -> NameId {
        if let Some(&id) = self.by_name.get(&(name.to_owned(), kind)) {
            return id;
        }
        let id = NameId(u32::try_from(self.names.len()).expect("fewer than 2^32 distinct names"));
        self.names.push((name.to_owned(), kind));
        self.by_name.insert((name.to_owned(), kind), id);
        id
    }

    /// The child `name` of `parent`, made if it is new.
    pub fn child(&mut self, parent: NodeId, name: NameId) -> NodeId {
        let next = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 distinct paths"));
        let node = *self.by_path.entry((parent, name)).or_insert(next);
        if node == next {
            self.nodes.push(Node { name, parent, own: 0, samples: 0 });
        }
        node
    }

    /// Adds `own` and `samples` to the stack that ends in `node`. Sums stop at `u64::MAX`.
    pub fn add(&mut self, node: NodeId, own: u64, samples: u64) {
        let node = &mut self.nodes[node.0 as usize];
        node.own = node.own.saturating_add(own);
        node.samples = node.samples.saturating_add(samples);
    }

    /// Text of a node's tooltip in place of value and samples.
    pub fn describe(&mut self, node: NodeId, text: String) {
        self.details.insert(node, text);
    }

    /// Text from `describe`.
    pub fn details(&self, node: NodeId) -> Option<&str> {
        self.details.get(&node).map(String::as_str)
    }

    /// Puts a note next to a node.
    pub fn put_note(&mut self, node: NodeId, note: NodeNote) {
        self.notes.insert(node, note);
    }

    /// The note of a node.
    pub fn note(&self, node: NodeId) -> Option<NodeNote> {
        self.notes.get(&node).copied()
    }

    /// Adds one stack, root first.
    pub fn add_path(&mut self, path: &[NameId], own: u64, samples: u64) {
        let leaf = path.iter().fold(Self::ROOT, |parent, &name| self.child(parent, name));
        self.add(leaf, own, samples);
    }

    /// The node `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The node at a position in lists by node.
    pub fn node_at(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// The frame's name.
    pub fn name(&self, id: NameId) -> &str {
        &self.names[id.0 as usize].0
    }

    /// All frames' names with their kinds, by index.
    pub fn names(&self) -> impl Iterator<Item = (&str, FrameKind)> {
        self.names.iter().map(|(name, kind)| (name.as_str(), *kind))
    }

    /// Ids of all frames' names.
    pub fn name_ids(&self) -> impl Iterator<Item = NameId> + use<> {
        (0..self.names.len() as u32).map(NameId)
    }

    /// The frame's kind.
    pub fn kind(&self, id: NameId) -> FrameKind {
        self.names[id.0 as usize].1
    }

    /// True if the values are time off the CPU.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Number of nodes, the root included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if no stack was added.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && self.nodes[0].own == 0
    }

    /// All nodes but the root with their callers, callers before what they call.
    pub fn nodes_with_parents(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        (0u32..).zip(&self.nodes).skip(1).map(|(i, node)| (NodeId(i), node.parent))
    }

    /// Position of the caller of the node at `at`; a caller's position is never larger.
    pub fn parent_index(&self, at: usize) -> usize {
        self.nodes[at].parent.index()
    }

    /// All nodes that stacks end in, parents before children.
    pub fn leaves(&self) -> impl Iterator<Item = NodeId> {
        (0u32..).zip(&self.nodes).filter(|(_, node)| node.own > 0 || node.samples > 0).map(|(i, _)| NodeId(i))
    }

    /// The names from the root (left out) to `node`.
    pub fn path(&self, mut node: NodeId) -> Vec<NameId> {
        let mut path = Vec::new();
        while node != Self::ROOT {
            let Node { name, parent, .. } = *self.node(node);
            path.push(name);
            node = parent;
        }
        path.reverse();
        path
    }

    /// The same stacks leaf first: the functions that ran are at the root, their callers above.
    pub fn reversed(&self) -> Self {
        let mut tree = Self {
            names: self.names.clone(),
            by_name: self.by_name.clone(),
            nodes: vec![self.nodes[0].clone()],
            by_path: FxHashMap::default(),
            details: FxHashMap::default(),
            notes: FxHashMap::default(),
            unit: self.unit.clone(),
            waiting: self.waiting,
        };
        for leaf in self.leaves().filter(|&leaf| leaf != Self::ROOT) {
            let mut path = self.path(leaf);
            path.reverse();
            let Node { own, samples, .. } = *self.node(leaf);
            tree.add_path(&path, own, samples);
        }
        tree
    }

    /// Per node: (value, samples) of itself and all below, in node order.
    pub fn totals(&self) -> Vec<(u64, u64)> {
        let mut totals: Vec<(u64, u64)> = self.nodes.iter().map(|node| (node.own, node.samples)).collect();
        for i in (1..self.nodes.len()).rev() {
            let (own, samples) = totals[i];
            let parent = &mut totals[self.nodes[i].parent.0 as usize];
            parent.0 = parent.0.saturating_add(own);
            parent.1 = parent.1.saturating_add(samples);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tree of collapsed stacks and their counts.
    pub(super) fn tree(stacks: &[(&str, u64)]) -> Tree {
        let mut tree = Tree::new(Unit::Samples);
        for (stack, count) in stacks {
            let path: Vec<NameId> =
                stack.split(';').map(|name| tree.intern(name, FrameKind::Program)).collect();
            tree.add_path(&path, *count, *count);
        }
        tree
    }

    #[test]
    fn a_node_totals_itself_and_all_below() {
        let tree = tree(&[("a;b", 2), ("a", 1), ("a;b;c", 4), ("d", 8)]);
        let totals: Vec<u64> = tree.totals().into_iter().map(|(value, _)| value).collect();
        assert_eq!(totals, [15, 7, 6, 4, 8]);
    }

    #[test]
    fn reversing_keeps_the_total_and_puts_leaves_at_the_root() {
        let tree = tree(&[("a;b;c", 2), ("x;c", 3), ("c", 1)]);
        let reversed = tree.reversed();
        let c = reversed.leaves().find(|&leaf| reversed.path(leaf).len() == 1).expect("c alone");
        assert_eq!(reversed.name(reversed.node(c).name), "c");
        assert_eq!(reversed.totals()[c.0 as usize].0, 6);
        assert_eq!(reversed.totals()[0].0, tree.totals()[0].0);
    }
}
