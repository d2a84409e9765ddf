//! Frames: one address in one DSO, before symbols.

use super::{DsoId, HashedIds, dense_id};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher as _;

dense_id! {
    /// A frame of a [`FrameTable`].
    FrameId
}

/// One address in one DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The DSO that contains the address.
    pub dso: DsoId,
    /// The address as hit or returned to, in the space that [`super::DsoKind`] names (file offset
    /// for files). Reports show this one.
    pub addr: u64,
    /// `addr`, or `addr - 1` if it is a return address: the one to look names up by.
    pub lookup: u64,
    /// Where the frame was in the process when first seen. perf shows it in call graphs for
    /// frames without a name; another process may have had it elsewhere.
    pub first_avma: u64,
}

/// All distinct frames.
#[derive(Clone, Debug, Default)]
pub struct FrameTable {
    entries: Vec<Frame>,
    ids: HashedIds,
}

impl FrameTable {
    /// The id of this frame, new or known. `first_avma` is kept of the first call.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        let hash = hash_of(&frame);
        if let Some(known) = self.find(hash, &frame) {
            return known;
        }
        self.entries.push(frame);
        let id = FrameId::from_index(self.entries.len() - 1);
        self.ids.insert(hash, id.0);
        id
    }

    fn find(&self, hash: u64, frame: &Frame) -> Option<FrameId> {
        let key = key_of(frame);
        self.ids.find(hash, |id| key_of(&self.entries[id as usize]) == key).map(FrameId)
    }

    /// The same, but no new one if there are `most` of them already.
    pub fn intern_within(&mut self, frame: Frame, most: usize) -> Option<FrameId> {
        if self.entries.len() < most {
            return Some(self.intern(frame));
        }
        self.find(hash_of(&frame), &frame)
    }

    /// The frame of an id of this table.
    #[must_use]
    pub fn of(&self, id: FrameId) -> &Frame {
        &self.entries[id.index()]
    }

    /// All frames in order of first sight; the `n`-th has `FrameId(n)`.
    #[must_use]
    pub fn entries(&self) -> &[Frame] {
        &self.entries
    }

    /// Number of distinct frames.
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

/// Frames with equal keys are one.
fn key_of(frame: &Frame) -> (DsoId, u64, bool) {
    (frame.dso, frame.addr, frame.lookup != frame.addr)
}

fn hash_of(frame: &Frame) -> u64 {
    FxBuildHasher.hash_one(key_of(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_knows_its_frames_and_takes_no_new_one() {
        let mut table = FrameTable::default();
        let frame = |addr| Frame { dso: DsoId(0), addr, lookup: addr, first_avma: addr };
        let known = table.intern_within(frame(1), 1);
        assert_eq!((known, table.intern_within(frame(2), 1)), (Some(FrameId(0)), None));
        assert_eq!((table.intern_within(frame(1), 1), table.len()), (known, 1));
    }
}
