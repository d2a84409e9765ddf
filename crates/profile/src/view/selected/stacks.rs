//! Stacks of a selection as a tree for a flame graph.

use super::Selected;
use crate::view::flame::{
    FrameKind, NameId, NodeId, Tree, call_after_entry, is_entry, kernel_work, start_up_frames,
};

/// How stacks are put into the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackOrder {
    /// States at the root, then callers first.
    #[default]
    StateFirst,
    /// Callers first, states at the leaf.
    Caller,
    /// The innermost function at the root, its callers above.
    Inverted,
}

impl StackOrder {
    /// The one after it, and the first after the last.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::StateFirst => Self::Caller,
            Self::Caller => Self::Inverted,
            Self::Inverted => Self::StateFirst,
        }
    }

    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StateFirst => "state first",
            Self::Caller => "by caller",
            Self::Inverted => "inverted",
        }
    }
}

impl Selected<'_> {
    /// The selected stacks. With `fold` the kernel's part of each is one frame, and start-up code is left out.
    #[must_use]
    pub fn tree(&self, order: StackOrder, fold: bool) -> Tree {
        let mut tree = Tree::new(self.set.unit.clone());
        // A leaf's path and state are the same for many items.
        let mut known = rustc_hash::FxHashMap::default();
        for (item, amount) in self.items() {
            let leaf = *known.entry((item.node, item.state)).or_insert_with(|| {
                let path = self.path(&mut tree, item.node, item.state, (order, fold));
                path.into_iter().fold(Tree::ROOT, |node, name| tree.child(node, name))
            });
            tree.add(leaf, amount, item.count);
        }
        tree
    }

    /// Names from the root of the new tree.
    fn path(&self, tree: &mut Tree, node: NodeId, state: u8, how: (StackOrder, bool)) -> Vec<NameId> {
        let (order, fold) = how;
        let of = &self.data.tree;
        let names = of.path(node);
        let start = if fold { start_up_frames(names.iter().map(|&name| of.name(name))) } else { 0 };
        let frames = names.into_iter().skip(start).map(|name| (of.name(name), of.kind(name)));
        let frames: Vec<(&str, FrameKind)> = if fold { folded(frames) } else { frames.collect() };
        let mut path: Vec<NameId> = frames.iter().map(|(name, kind)| tree.intern(name, *kind)).collect();
        let has_state = self.set.is_wall && (state != 0 || order == StackOrder::StateFirst);
        let name = self.data.states.get(usize::from(state)).map(|name| format!("[{name}]"));
        if let Some(name) = name.filter(|_| has_state) {
            let state = tree.intern(&name, FrameKind::Waiting);
            path.insert(if order == StackOrder::StateFirst { 0 } else { path.len() }, state);
        }
        if order == StackOrder::Inverted {
            path.reverse();
        }
        path
    }
}

/// Runs of kernel functions become one frame: the last of them that names the kernel's work, else a function after the
/// way into the kernel.
pub(crate) fn folded<'n>(frames: impl Iterator<Item = (&'n str, FrameKind)>) -> Vec<(&'n str, FrameKind)> {
    let mut folded: Vec<(&str, FrameKind)> = Vec::new();
    let (mut has_work, mut is_at_entry) = (false, false);
    for (name, kind) in frames {
        let is_kernel = kind == FrameKind::Kernel;
        let is_inside = is_kernel && folded.last().is_some_and(|(_, kind)| *kind == FrameKind::Kernel);
        let call = if is_inside && is_at_entry && !is_entry(name) { call_after_entry(name) } else { None };
        let work = kernel_work(name).or(call).filter(|_| is_kernel);
        is_at_entry = is_kernel && is_entry(name);
        match (is_inside, work) {
            (true, Some(work)) if !has_work => {
                has_work = true;
                *folded.last_mut().expect("invariant: a frame of the kernel is last") = (work, kind);
            }
            (true, _) => {}
            (false, work) => {
                has_work = work.is_some();
                folded.push((work.unwrap_or(name), kind));
            }
        }
    }
    folded
}
