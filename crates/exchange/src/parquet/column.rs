//! Columns in memory.

use super::TextList;
use rustc_hash::FxHashMap;

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// UTF-8.
    Text,
    /// Signed numbers of 64 bits.
    Number,
    /// Microseconds since 1970 (UTC).
    TimeUs,
}

/// Name and kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: ColumnKind,
}

/// Values of a column, one for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValues {
    /// Texts.
    Texts(TextColumn),
    /// Numbers or times.
    Numbers(Vec<i64>),
}

impl ColumnValues {
    /// Without rows.
    #[must_use]
    pub fn empty(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Text => Self::Texts(TextColumn::default()),
            ColumnKind::Number | ColumnKind::TimeUs => Self::Numbers(Vec::new()),
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.rows.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Distinct texts, and which one each row has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextColumn {
    /// The texts. Files of others may have one twice.
    pub texts: TextList,
    /// For each row, an index into `texts`.
    pub rows: Vec<u32>,
    /// Sum of the lengths of `texts`, bytes.
    pub bytes: usize,
    known: FxHashMap<String, u32>,
}

impl TextColumn {
    /// The number of a text, new or known.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text);
        self.known.insert(text.to_owned(), number);
        self.bytes += text.len();
        number
    }

    /// Adds a row.
    pub fn push(&mut self, text: &str) {
        let number = self.number(text);
        self.rows.push(number);
    }

    /// Text of a row; empty for rows that don't exist.
    #[must_use]
    pub fn text(&self, row: usize) -> &str {
        self.rows.get(row).and_then(|&number| self.texts.get(number as usize)).unwrap_or_default()
    }
}
