//! Text that others wrote, made harmless for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::is_unseen;

/// For a terminal: `name` with its control characters spelled out (`\x1b`), line ends and tabs as well.
pub fn harmless(name: &str) -> Cow<'_, str> {
    spelled(name, is_unseen)
}

/// `text` with the characters spelled out that `is_bad` selects.
pub fn spelled(text: &str, is_bad: fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_bad(c) {
            spell(&mut safe, c);
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Appends a character by its number: `\x1b`.
pub fn spell(to: &mut String, c: char) {
    let _ = write!(to, "\\x{:02x}", u32::from(c));
}
