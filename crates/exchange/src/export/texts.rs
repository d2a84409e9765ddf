//! A table of distinct texts that messages refer to by number.

use rustc_hash::FxHashMap;

/// The table; the first text is empty.
pub struct Texts {
    /// The texts by number.
    pub list: Vec<String>,
    ids: FxHashMap<String, u64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { list: vec![String::new()], ids: FxHashMap::from_iter([(String::new(), 0)]) }
    }
}

impl Texts {
    /// The number of a text, new or known.
    pub fn id(&mut self, text: &str) -> u64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        self.list.push(text.to_owned());
        let id = self.list.len() as u64 - 1;
        self.ids.insert(text.to_owned(), id);
        id
    }
}
