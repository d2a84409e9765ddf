//! Symbols: names of frames once they have been symbolized.

use super::{DsoId, StringId, dense_id};
use rustc_hash::FxHashMap;

dense_id! {
    /// A symbol of a [`SymbolTable`].
    SymbolId
}

/// A name with its range in a DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SymbolRange {
    /// The DSO that defines it.
    pub dso: DsoId,
    /// The demangled name.
    pub name: StringId,
    /// First address, in the space of the DSO's frames (file offset for files).
    pub start: u64,
    /// Length in bytes; 0 if unknown.
    pub size: u64,
    /// True for a function that is only in the debug information, inlined into another. `start` and `size` are then
    /// those of the function that holds it.
    pub inlined: bool,
}

/// One source-level frame of a frame's expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineFrame {
    /// Function.
    pub symbol: SymbolId,
    /// Source file from the debug information; `None` without line information.
    pub file: Option<StringId>,
    /// Line in `file`, 1-based; 0 if unknown.
    pub line: u32,
}

/// All distinct symbols.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    entries: Vec<SymbolRange>,
    ids: FxHashMap<SymbolRange, SymbolId>,
}

impl SymbolTable {
    /// The id of this symbol, new or known.
    pub fn intern(&mut self, symbol: SymbolRange) -> SymbolId {
        *self.ids.entry(symbol).or_insert_with(|| {
            self.entries.push(symbol);
            SymbolId::from_index(self.entries.len() - 1)
        })
    }

    /// The symbol of an id of this table.
    #[must_use]
    pub fn of(&self, id: SymbolId) -> &SymbolRange {
        &self.entries[id.index()]
    }

    /// All symbols with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (SymbolId, &SymbolRange)> {
        self.entries.iter().enumerate().map(|(at, symbol)| (SymbolId::from_index(at), symbol))
    }

    /// Number of distinct symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True before symbolization.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
