//! Parts of a JSON text with the keys that lead to them, for errors.

use super::error::{ImportError, ImportFormat};
use serde_json::Value;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct JsonPart<'a> {
    /// The value.
    pub value: &'a Value,
    path: String,
    format: ImportFormat,
}

impl<'a> JsonPart<'a> {
    /// The whole text.
    #[must_use]
    pub fn whole(value: &'a Value, format: ImportFormat) -> Self {
        Self { value, path: String::new(), format }
    }

    fn inner(&self, value: &'a Value, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { value, path, format: self.format }
    }

    /// The part of this key; `None` if there is none, or it is null.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Self> {
        self.value.get(key).filter(|value| !value.is_null()).map(|value| self.inner(value, key))
    }

    /// The part of this key.
    ///
    /// # Errors
    /// If there is none.
    pub fn part(&self, key: &str) -> Result<Self, ImportError> {
        self.find(key).ok_or_else(|| self.inner(self.value, key).error("a key is missing"))
    }

    /// An error at this place.
    #[must_use]
    pub fn error(&self, problem: &'static str) -> ImportError {
        let path = if self.path.is_empty() { "the top" } else { &self.path };
        ImportError::key(self.format, problem, path)
    }

    /// An error at an element of this list.
    #[must_use]
    pub fn error_at(&self, index: usize, problem: &'static str) -> ImportError {
        ImportError::key(self.format, problem, format!("{}[{index}]", self.path))
    }

    /// The elements of the list that this is.
    ///
    /// # Errors
    /// If it is no list.
    pub fn list(&self) -> Result<&'a [Value], ImportError> {
        self.value.as_array().map(Vec::as_slice).ok_or_else(|| self.error("a list is missing"))
    }

    /// The same with the place of each.
    ///
    /// # Errors
    /// If it is no list.
    pub fn parts(&self) -> Result<Vec<Self>, ImportError> {
        let part = |(at, value)| Self { value, path: format!("{}[{at}]", self.path), format: self.format };
        Ok(self.list()?.iter().enumerate().map(part).collect())
    }

    /// The text of this key; empty if there is none.
    #[must_use]
    pub fn text(&self, key: &str) -> &'a str {
        self.value.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// The list of numbers of this key, each `None` where it is null.
    ///
    /// # Errors
    /// If it is no list, or has something else.
    pub fn indices(&self, key: &str) -> Result<Vec<Option<usize>>, ImportError> {
        let list = self.part(key)?;
        let index = |(at, value): (usize, &Value)| match value {
            Value::Null => Ok(None),
            // -1 is written for "none", too.
            Value::Number(number) if number.as_i64() == Some(-1) => Ok(None),
            _ => match value.as_u64().and_then(|value| usize::try_from(value).ok()) {
                Some(value) => Ok(Some(value)),
                None => Err(list.error_at(at, "no index")),
            },
        };
        list.list()?.iter().enumerate().map(index).collect()
    }

    /// The list of numbers of this key.
    ///
    /// # Errors
    /// If it is no list, or has something else.
    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, ImportError> {
        let list = self.part(key)?;
        let number =
            |(at, value): (usize, &Value)| value.as_f64().ok_or_else(|| list.error_at(at, "no number"));
        list.list()?.iter().enumerate().map(number).collect()
    }
}

/// A number of units as whole ones; negative and infinite numbers are 0.
#[must_use]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Reads a text.
///
/// # Errors
/// If it is no JSON, with the byte where it ends to be some.
pub fn parse(text: &[u8]) -> Result<Value, ImportError> {
    serde_json::from_slice(text).map_err(|why| {
        let problem = if why.is_eof() { "the text is cut off" } else { "no valid JSON" };
        ImportError::at(ImportFormat::Json, problem, offset_of(text, why.line(), why.column()))
    })
}

/// The byte at a line and a column, both from 1.
fn offset_of(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        text.split_inclusive(|&b| b == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before + column.saturating_sub(1)
}
