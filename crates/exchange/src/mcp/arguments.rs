//! Arguments of a tool's call, checked.

use serde_json::{Map, Value};
use std::fmt;

/// Why a call can't be made, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadParams(pub String);

impl std::error::Error for BadParams {}

impl fmt::Display for BadParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BadParams {
    /// A reason.
    pub fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// The arguments that a client gave.
pub struct ToolArguments<'a> {
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> ToolArguments<'a> {
    /// Those in `value`, of which each has to be in `known`. Without any, `value` may be null.
    pub fn of(value: &'a Value, known: &[&str]) -> Result<Self, BadParams> {
        let fields = match value {
            Value::Null => None,
            Value::Object(fields) => Some(fields),
            _ => return Err(BadParams::because("arguments must be an object")),
        };
        let stranger = fields.into_iter().flat_map(Map::keys).find(|key| !known.contains(&key.as_str()));
        match stranger {
            Some(key) => Err(BadParams(format!("no argument {key}: there are {}", known.join(", ")))),
            None => Ok(Self { fields }),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields?.get(key).filter(|value| !value.is_null())
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, BadParams> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| BadParams(format!("{key} must be a string")))
    }

    /// A text that has to be there.
    pub fn needed_text(&self, key: &str) -> Result<&'a str, BadParams> {
        self.text(key)?.filter(|text| !text.is_empty()).ok_or_else(|| BadParams(format!("{key} is needed")))
    }

    /// A whole number within `range`.
    pub fn number(&self, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, BadParams> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|number| range.contains(number));
        let why =
            || BadParams(format!("{key} must be a whole number from {} to {}", range.start(), range.end()));
        number.map(Some).ok_or_else(why)
    }

    /// A list of texts.
    pub fn words(&self, key: &str) -> Result<Option<Vec<String>>, BadParams> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let words = value.as_array().and_then(|list| {
            list.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        words
            .filter(|words| !words.is_empty())
            .map(Some)
            .ok_or_else(|| BadParams(format!("{key} must be a list of strings")))
    }
}
