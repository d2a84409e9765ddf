//! Callsites: distinct paths, each kept once as a run of frames.
//!
//! ```text
//!   frames   rand main _start | free main _start | main _start      leaf first, one after another
//!   ends                      3                  6             8
//! ```
//! A tree of shared callers would look smaller, but is not: a node needs ten times the room of a
//! frame id here, and a lookup for every frame of every sample instead of one per sample. Views
//! that want a tree make the part of it they show.

use super::{FrameId, dense_id};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

dense_id! {
    /// A path of a [`CallsiteTable`]: a frame with the whole way from the root to it.
    CallsiteId
}

/// The leaf of a path, and how deep it lies.
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
    ids: HashTable<u32>,
}

impl CallsiteTable {
    /// The id of a path given leaf first, new or known; `None` for an empty path.
    pub fn intern_leaf_first(&mut self, path: &[FrameId]) -> Option<CallsiteId> {
        if path.is_empty() {
            return None;
        }
        let hash = hash_of(path);
        if let Some(&id) = self.ids.find(hash, |&id| self.path(CallsiteId(id)) == path) {
            return Some(CallsiteId(id));
        }
        self.frames.extend_from_slice(path);
        self.ends.push(self.frames.len());
        let id = CallsiteId::from_index(self.ends.len() - 1);
        let (frames, ends) = (&self.frames, &self.ends);
        self.ids.insert_unique(hash, id.0, |&id| hash_of(slice(frames, ends, id as usize)));
        Some(id)
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
        slice(&self.frames, &self.ends, id.index())
    }

    /// The same, one by one.
    pub fn leaf_first(
        &self,
        id: CallsiteId,
    ) -> impl DoubleEndedIterator<Item = FrameId> + ExactSizeIterator + '_ {
        self.path(id).iter().copied()
    }

    /// All paths in order of first sight, each **leaf first**.
    pub fn iter(&self) -> impl Iterator<Item = &[FrameId]> {
        (0..self.ends.len()).map(|index| slice(&self.frames, &self.ends, index))
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

fn hash_of(path: &[FrameId]) -> u64 {
    let mut hasher = FxHasher::default();
    path.iter().for_each(|frame| hasher.write_u32(frame.0));
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
