//! Callsites: distinct paths, each kept once as a run of frames.
//!
//! ```text
//!   frames   rand main _start | free main _start | main _start      leaf first, one after another
//!   ends                      3                  6             8
//! ```
//! A tree of shared callers would look smaller, but is not: a node needs ten times the room of a
//! frame id here, and a lookup for every frame of every sample instead of one per sample. Views
//! that want a tree make the part of it they show.
//!
//! The path of a precise sample (see [`crate::callchain::LeafOrigin`]) is kept as recorded. Once its functions are
//! known, the path without skid replaces it: see [`crate::callchain::precise`].

use super::{FrameId, HashedIds, dense_id};
use rustc_hash::FxHasher;
use std::hash::Hasher;

dense_id! {
    /// A path of a [`CallsiteTable`]: a frame with the whole way from the root to it.
    CallsiteId
}

/// The leaf of a path, and its depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callsite {
    /// The frame at the end of this path.
    pub frame: FrameId,
    /// Number of frames on the path, this one included.
    pub depth: usize,
}

/// All distinct paths.
#[derive(Clone, Debug, Default)]
pub struct CallsiteTable {
    /// All paths, each leaf first; none is empty.
    frames: Vec<FrameId>,
    /// Where each path ends in `frames`.
    ends: Vec<usize>,
    /// The path shown for each: itself, except for settled precise ones.
    shown: Vec<CallsiteId>,
    /// Paths of precise samples, ascending.
    precise: Vec<CallsiteId>,
    ids: HashedIds,
}

impl CallsiteTable {
    /// The id of a path given leaf first, new or known; `None` for an empty path.
    pub fn intern_leaf_first(&mut self, path: &[FrameId]) -> Option<CallsiteId> {
        self.intern(path, false)
    }

    /// The same for a precise sample: its address, then the chain of the interrupt after it.
    pub fn intern_precise(&mut self, path: &[FrameId]) -> Option<CallsiteId> {
        self.intern(path, true)
    }

    fn intern(&mut self, path: &[FrameId], precise: bool) -> Option<CallsiteId> {
        if path.is_empty() {
            return None;
        }
        let hash = hash_of(path);
        let is_known =
            |id| self.recorded_path(CallsiteId(id)) == path && self.is_precise(CallsiteId(id)) == precise;
        if let Some(id) = self.ids.find(hash, is_known) {
            return Some(CallsiteId(id));
        }
        self.frames.extend_from_slice(path);
        self.ends.push(self.frames.len());
        let id = CallsiteId::from_index(self.ends.len() - 1);
        self.shown.push(id);
        if precise {
            self.precise.push(id);
        }
        self.ids.insert(hash, id.0);
        Some(id)
    }

    fn is_precise(&self, id: CallsiteId) -> bool {
        self.precise.binary_search(&id).is_ok()
    }

    /// All paths of precise samples, settled or not.
    pub(crate) fn precise(&self) -> &[CallsiteId] {
        &self.precise
    }

    /// A path as it was interned, **leaf first**.
    pub(crate) fn recorded_path(&self, id: CallsiteId) -> &[FrameId] {
        slice(&self.frames, &self.ends, id.index())
    }

    /// From now on the path `shown` replaces the precise path `id`.
    pub(crate) fn settle(&mut self, id: CallsiteId, shown: CallsiteId) {
        self.shown[id.index()] = shown;
    }

    /// Takes over all paths of another table, whose frames became `frames` here. The answer has
    /// their ids here, in the order of the other table.
    pub fn extend_from(&mut self, other: &Self, frames: &[FrameId]) -> Vec<CallsiteId> {
        let mut path = Vec::new();
        let mut ids = Vec::with_capacity(other.len());
        for id in (0..other.len()).map(CallsiteId::from_index) {
            path.clear();
            path.extend(other.leaf_first(id).map(|frame| frames[frame.index()]));
            let is_unsettled = other.is_precise(id) && other.shown[id.index()] == id;
            ids.push(self.intern(&path, is_unsettled).expect("invariant: no path is empty"));
        }
        ids
    }

    /// The leaf of a path of this table.
    #[must_use]
    pub fn of(&self, id: CallsiteId) -> Callsite {
        let path = self.path(id);
        Callsite { frame: path[0], depth: path.len() }
    }

    /// The frames of a path, **leaf first**; never empty.
    #[must_use]
    pub fn path(&self, id: CallsiteId) -> &[FrameId] {
        self.recorded_path(self.shown[id.index()])
    }

    /// The same, one by one.
    pub fn leaf_first(
        &self,
        id: CallsiteId,
    ) -> impl DoubleEndedIterator<Item = FrameId> + ExactSizeIterator + '_ {
        self.path(id).iter().copied()
    }

    /// Number of distinct paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True before the first sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn slice<'a>(frames: &'a [FrameId], ends: &[usize], index: usize) -> &'a [FrameId] {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &frames[start..ends[index]]
}

/// Two frames a step.
fn hash_of(path: &[FrameId]) -> u64 {
    let mut hasher = FxHasher::default();
    let (pairs, rest) = path.as_chunks::<2>();
    pairs.iter().for_each(|[leaf, caller]| hasher.write_u64(u64::from(caller.0) << 32 | u64::from(leaf.0)));
    rest.iter().for_each(|frame| hasher.write_u32(frame.0));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_have_one_id() {
        let mut table = CallsiteTable::default();
        let [start, main, rand] = [0, 1, 2].map(FrameId);
        let a = table.intern_leaf_first(&[rand, main, start]).expect("not empty");
        let b = table.intern_leaf_first(&[main, start]).expect("not empty");
        assert_eq!(table.intern_leaf_first(&[rand, main, start]), Some(a));
        assert_eq!(table.intern_leaf_first(&[]), None);
        assert_eq!(table.path(b), [main, start]);
        assert_eq!(table.of(a), Callsite { frame: rand, depth: 3 });
        assert_eq!(table.len(), 2);
    }
}
