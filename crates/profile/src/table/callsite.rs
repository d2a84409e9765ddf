//! Callsites: the root-first tree of paths.
//!
//! ```text
//!   _start ── main ─┬─ rand ── lock_wait      one node per distinct path;
//!                   └─ free                   a sample points at its leaf's node
//! ```

use super::{FrameId, dense_id};
use rustc_hash::FxHashMap;

dense_id! {
    /// A node of a [`CallsiteTable`]: a frame and the whole path from the root to it.
    CallsiteId
}

/// A node: its frame, its caller's node, and how deep it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callsite {
    /// The caller's node; `None` at the root.
    pub parent: Option<CallsiteId>,
    /// The frame at the end of this path.
    pub frame: FrameId,
    /// Number of frames on the path, this one included.
    pub depth: u32,
}

/// All distinct paths. A parent's id is always smaller than its children's.
#[derive(Clone, Debug, Default)]
pub struct CallsiteTable {
    entries: Vec<Callsite>,
    ids: FxHashMap<(Option<CallsiteId>, FrameId), CallsiteId>,
}

impl CallsiteTable {
    /// The node of `frame` called from `parent`, new or known.
    pub fn intern(&mut self, parent: Option<CallsiteId>, frame: FrameId) -> CallsiteId {
        *self.ids.entry((parent, frame)).or_insert_with(|| {
            let depth = parent.map_or(0, |id| self.entries[id.index()].depth) + 1;
            self.entries.push(Callsite { parent, frame, depth });
            CallsiteId::from_index(self.entries.len() - 1)
        })
    }

    /// The node of a path given leaf first; `None` for an empty path.
    pub fn intern_leaf_first(&mut self, frames: &[FrameId]) -> Option<CallsiteId> {
        frames.iter().rev().fold(None, |parent, &frame| Some(self.intern(parent, frame)))
    }

    /// The node of an id of this table.
    #[must_use]
    pub fn of(&self, id: CallsiteId) -> &Callsite {
        &self.entries[id.index()]
    }

    /// The path of a node, **leaf first**.
    pub fn leaf_first(&self, id: CallsiteId) -> impl Iterator<Item = FrameId> + '_ {
        std::iter::successors(Some(self.of(id)), |node| node.parent.map(|id| self.of(id)))
            .map(|node| node.frame)
    }

    /// All nodes in order of first sight; parents before children.
    #[must_use]
    pub fn entries(&self) -> &[Callsite] {
        &self.entries
    }

    /// Number of distinct paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True before the first sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_their_common_root() {
        let mut table = CallsiteTable::default();
        let [start, main, rand, free] = [0, 1, 2, 3].map(FrameId);
        let a = table.intern_leaf_first(&[rand, main, start]).expect("not empty");
        let b = table.intern_leaf_first(&[free, main, start]).expect("not empty");
        assert_eq!(table.len(), 4);
        assert_eq!(table.of(a).parent, table.of(b).parent);
        assert_eq!(table.leaf_first(a).collect::<Vec<_>>(), [rand, main, start]);
        assert_eq!(table.of(a).depth, 3);
    }
}
