//! Ids found by the hash of their entries.

use hashbrown::HashTable;

/// Ids with their hashes: a growing table doesn't read the entries again, and few others are compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct HashedIds(HashTable<HashedId>);

/// An id with half of its entry's hash.
#[derive(Clone, Copy, Debug)]
struct HashedId {
    hash: u32,
    id: u32,
}

/// Half of a hash that depends on all of it.
fn half(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// The hash for the table, which takes places from the lower bits and tags from the upper ones.
fn whole(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

impl HashedIds {
    /// The id with this hash whose entry `is_same`.
    #[inline]
    pub fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = half(hash);
        let known = self.0.find(whole(hash), |known| known.hash == hash && is_same(known.id));
        known.map(|known| known.id)
    }

    /// Adds an id that [`Self::find`] doesn't find.
    #[inline]
    pub fn insert(&mut self, hash: u64, id: u32) {
        let hash = half(hash);
        self.0.insert_unique(whole(hash), HashedId { hash, id }, |known| whole(known.hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_equal_hashes_stay_apart() {
        let mut ids = HashedIds::default();
        (0..100).for_each(|id| ids.insert(u64::from(id / 2), id));
        assert_eq!(ids.find(7, |id| id == 15), Some(15));
        assert_eq!(ids.find(7, |id| id == 16), None);
    }
}
