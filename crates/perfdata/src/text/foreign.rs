//! Text that others wrote, made harmless for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::is_unseen;

/// For a terminal: `name` with its control characters spelled out (`\x1b`), line ends and tabs as well.
pub fn harmless(name: &str) -> Cow<'_, str> {
    // Almost all names are of such characters: without an early end, many of them are looked at at once.
    let is_printable = name.bytes().fold(true, |all, byte| all & (b' '..0x7f).contains(&byte));
    if is_printable { Cow::Borrowed(name) } else { spelled(name, is_unseen) }
}

/// True if there are only printable ASCII characters, line ends and tabs.
///
/// All output is looked at. The loop is here because the packaged program has this crate built for speed, and not
/// inlined because it would then be built as its caller is: for size, a byte at a time.
#[inline(never)]
#[must_use]
pub fn is_plain_ascii(bytes: &[u8]) -> bool {
    let is_odd = |byte: &u8| !(b' '..0x7f).contains(byte) & (*byte != b'\n') & (*byte != b'\t');
    // Without an early end, so that many bytes are looked at at once.
    !bytes.iter().fold(false, |odd, byte| odd | is_odd(byte))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_control_characters_but_line_ends_and_tabs() {
        assert!(is_plain_ascii(b"main\t7 ~\n") && is_plain_ascii(b""));
        for odd in [0, 7, b'\r', 0x1b, 0x7f, 0x80, 0xff] {
            let mut text = [b'a'; 99];
            text[98] = odd;
            assert!(!is_plain_ascii(&text), "{odd:#x}");
        }
    }
}
