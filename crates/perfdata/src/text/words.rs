//! The words of one line of session text.

use super::print::MODES;
use crate::CpuMode;

/// Why a line of session text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextProblem {
    /// A word cannot be read.
    #[error("{word} {fault}")]
    BadWord {
        /// The word, or its key.
        word: String,
        /// The fault, as the end of a sentence that begins with the word.
        fault: &'static str,
    },
    /// The line as a whole makes no record.
    #[error("{0}")]
    BadLine(&'static str),
    /// The record cannot be written.
    #[error("{0}")]
    Unwritable(String),
}

impl TextProblem {
    pub(super) fn bad_word(word: impl Into<String>, fault: &'static str) -> Self {
        Self::BadWord { word: word.into(), fault }
    }
}

impl From<std::io::Error> for TextProblem {
    fn from(error: std::io::Error) -> Self {
        Self::Unwritable(error.to_string())
    }
}

/// A value, or the fault of the line.
pub(super) type Parsed<T> = Result<T, TextProblem>;

/// A line's words: kind, `PID/TID`, `KEY=VALUE` and flags, range, name.
#[derive(Default)]
pub(super) struct Words<'t> {
    pub(super) kind: &'t str,
    pub(super) pid_tid: Option<(u32, u32)>,
    pub(super) range: Option<(u64, u64)>,
    words: Vec<(&'t str, &'t str)>,
    pub(super) name: Vec<u8>,
}

/// Words without a value, other than names.
const FLAGS: [&str; 8] = ["exec", "in", "out", "preempt", "data", "timeout", "exact", "-"];

impl<'t> Words<'t> {
    pub(super) fn split(line: &'t str) -> Self {
        let (kind, mut rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut out = Words { kind, ..Words::default() };
        loop {
            rest = rest.trim_start();
            let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some((key, value)) = word.split_once('=').filter(|(k, _)| is_key(k)) {
                out.words.push((key, value));
            } else if FLAGS.contains(&word) {
                out.words.push((word, ""));
            } else if let Some(pair) = pid_tid(word).filter(|_| out.pid_tid.is_none() && out.words.is_empty())
            {
                out.pid_tid = Some(pair);
            } else if let Some(range) = range(word).filter(|_| out.range.is_none()) {
                out.range = Some(range);
            } else if kind == "event" && out.name.is_empty() && !word.is_empty() {
                out.name = word.replace('\u{a0}', " ").into_bytes();
            } else {
                if kind != "event" {
                    out.name = unclean(rest);
                }
                return out;
            }
            rest = tail;
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&'t str> {
        self.words.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    pub(super) fn has(&self, flag: &str) -> bool {
        self.text(flag).is_some()
    }

    pub(super) fn number(&self, key: &str) -> Parsed<Option<u64>> {
        self.text(key)
            .map(|v| number(v).ok_or_else(|| TextProblem::bad_word(format!("{key}={v}"), "is not a number")))
            .transpose()
    }

    pub(super) fn small(&self, key: &str) -> Parsed<Option<u32>> {
        let value = self.number(key)?;
        value
            .map(|v| {
                u32::try_from(v)
                    .or(i64_to_u32(v))
                    .map_err(|_| TextProblem::bad_word(format!("{key}={v}"), "is too large"))
            })
            .transpose()
    }

    pub(super) fn list<T>(&self, key: &str, f: impl Fn(&str) -> Option<T>) -> Parsed<Option<Vec<T>>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let items = text.split(',').filter(|i| !i.is_empty());
        items
            .map(|i| f(i).ok_or_else(|| TextProblem::bad_word(format!("{key}: {i}"), "cannot be read")))
            .collect::<Parsed<Vec<T>>>()
            .map(Some)
    }

    pub(super) fn bytes(&self, key: &str) -> Parsed<Option<Vec<u8>>> {
        self.text(key)
            .map(|v| unhex(v).ok_or_else(|| TextProblem::bad_word(key, "is not hexadecimal")))
            .transpose()
    }

    pub(super) fn mode(&self, default: CpuMode) -> Parsed<CpuMode> {
        let Some(text) = self.text("mode") else { return Ok(default) };
        let found = MODES.iter().find(|(_, name)| *name == text);
        found.map(|(m, _)| *m).ok_or_else(|| TextProblem::bad_word(text, "is not a CPU mode"))
    }

    pub(super) fn pair(&self, key: &str) -> Parsed<Option<(u32, u32)>> {
        self.text(key)
            .map(|v| {
                pid_tid(v)
                    .ok_or_else(|| TextProblem::bad_word(format!("{key}={v}"), "is not a valid PID/TID"))
            })
            .transpose()
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn i64_to_u32(v: u64) -> Result<u32, std::num::TryFromIntError> {
    i32::try_from(v.cast_signed()).map(i32::cast_unsigned)
}

/// Decimal, hexadecimal with `0x`, or negative.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
    }
}

fn pid_tid(word: &str) -> Option<(u32, u32)> {
    let (a, b) = word.split_once('/')?;
    let id = |t: &str| t.parse::<u32>().ok().or_else(|| t.parse::<i32>().ok().map(i32::cast_unsigned));
    Some((id(a)?, id(b)?))
}

/// `[start,end)`
fn range(word: &str) -> Option<(u64, u64)> {
    let (a, b) = word.strip_prefix('[')?.strip_suffix(')')?.split_once(',')?;
    Some((number(a)?, number(b)?))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

/// Takes `\xNN` back.
fn unclean(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let byte = rest
            .strip_prefix(b"\\x")
            .and_then(|r| r.get(..2))
            .and_then(|h| unhex(std::str::from_utf8(h).ok()?));
        match byte {
            Some(b) => {
                out.extend(b);
                rest = rest.get(4..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}
