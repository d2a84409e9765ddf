//! Strings once: comms, paths, symbol names.

use super::dense_id;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

dense_id! {
    /// A string of a [`StringTable`]. Id 0 is the empty string.
    StringId
}

impl StringId {
    /// The empty string, present in every table.
    pub const EMPTY: Self = Self(0);
}

/// All distinct strings, in order of first sight, in one buffer.
#[derive(Clone, Debug)]
pub struct StringTable {
    text: String,
    ends: Vec<usize>,
    ids: HashTable<u32>,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self { text: String::new(), ends: Vec::new(), ids: HashTable::new() };
        table.intern("");
        table
    }
}

impl StringTable {
    /// The id of `text`, new or known.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = hash_of(text);
        if let Some(&id) = self.ids.find(hash, |&id| self.of(StringId(id)) == text) {
            return StringId(id);
        }
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let id = StringId::from_index(self.ends.len() - 1);
        let (buffer, ends) = (&self.text, &self.ends);
        self.ids.insert_unique(hash, id.0, |&id| hash_of(slice(buffer, ends, id as usize)));
        id
    }

    /// The id of `text` if it was interned before.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<StringId> {
        self.ids.find(hash_of(text), |&id| self.of(StringId(id)) == text).map(|&id| StringId(id))
    }

    /// The text of an id of this table.
    #[must_use]
    pub fn of(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id.index())
    }

    /// Number of distinct strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never true: the empty string is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], index: usize) -> &'a str {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &text[start..ends[index]]
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.write_u8(0xff);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_id_and_ids_follow_first_sight() {
        let mut table = StringTable::default();
        let a = table.intern("main");
        let b = table.intern("rand");
        assert_eq!((a, b), (StringId(1), StringId(2)));
        assert_eq!(table.intern("main"), a);
        assert_eq!(table.of(b), "rand");
        assert_eq!(table.intern(""), StringId::EMPTY);
        assert_eq!(table.find("absent"), None);
    }
}
