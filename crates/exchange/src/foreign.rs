//! Text that others wrote: names of events, threads, files, functions and fields, messages that quote them. It may hold
//! what steers a terminal, ends an element or turns a line around. There is one function for each place it goes to.

use display::term;
pub use perfdata::text::harmless;
use perfdata::text::{is_plain_ascii, is_unseen as is_harmful, spell, spelled};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// For an element or an attribute of XML or HTML: harmless, and without what ends either.
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not characters of XML 1.0, not even escaped.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// As JSON on one line, which holds the value whole and shows harmless.
pub fn json(value: &Value) -> String {
    json_text(value.to_string())
}

/// The same over several lines.
pub fn json_lines(value: &Value) -> String {
    json_text(format!("{value:#}"))
}

/// `text` of JSON, in which control characters of ASCII are spelled already: the others can only be in strings.
fn json_text(text: String) -> String {
    if text.is_ascii() && !text.contains('\x7f') {
        return text;
    }
    let is_ascii = term::is_ascii();
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c >= '\x7f' && (is_ascii || is_harmful(c)) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Text of several lines, as a whole: line ends and tabs stay.
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    spelled(text, is_harmful_in_lines)
}

/// Text with our own characters spelled in ASCII; those of names stay.
pub fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len());
    for c in text.chars() {
        match term::in_ascii(c) {
            Some(ascii) => spelled.push_str(ascii),
            None => spelled.push(c),
        }
    }
    Cow::Owned(spelled)
}

fn is_harmful_in_lines(c: char) -> bool {
    is_harmful(c) && c != '\n' && c != '\t'
}

/// Part of an escape sequence that reaches the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetsPass {
    /// Nothing.
    Nothing,
    /// Colours, which our own text has.
    Colours,
}

impl From<bool> for LetsPass {
    /// Whether the terminal has colours.
    fn from(has_colours: bool) -> Self {
        if has_colours { Self::Colours } else { Self::Nothing }
    }
}

/// Lets through only what cannot steer a terminal: the last net under all text that goes to one. Colours of our own
/// pass if asked for.
pub struct Net<W: Write> {
    to: W,
    has_colours: bool,
    /// Our own characters are spelled in ASCII.
    is_ascii: bool,
    /// The beginning of a character or of a colour whose rest is still to come.
    held: Vec<u8>,
}

/// A colour in the making is no longer than this.
const LONGEST_COLOUR: usize = 24;

impl<W: Write> Net<W> {
    /// Over `to`; `has_colours` lets colours pass.
    pub fn new(to: W, lets_pass: impl Into<LetsPass>) -> Self {
        let has_colours = lets_pass.into() == LetsPass::Colours;
        Self { to, has_colours, is_ascii: term::is_ascii(), held: Vec::new() }
    }

    /// `bytes` made safe; keeps what may yet become whole.
    fn caught(&mut self, bytes: &[u8]) -> String {
        let mut safe = String::with_capacity(bytes.len() + 16);
        let mut rest = bytes;
        loop {
            let (valid, bad) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (valid, behind) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(valid).unwrap_or_default(), Some((error.error_len(), behind)))
                }
            };
            let unfinished = self.catch(valid, bad.is_none(), &mut safe);
            match bad {
                None => {
                    self.held.extend_from_slice(&rest[unfinished..]);
                    return safe;
                }
                Some((None, behind)) => {
                    self.held.extend_from_slice(behind);
                    return safe;
                }
                Some((Some(length), behind)) => {
                    for byte in &behind[..length] {
                        let _ = write!(safe, "\\x{byte:02x}");
                    }
                    rest = &behind[length..];
                }
            }
        }
    }

    /// Appends `text` made safe, and returns where in it a colour begins whose end may follow (`is_last`).
    fn catch(&self, text: &str, is_last: bool, safe: &mut String) -> usize {
        let mut rest = text;
        while let Some(at) = rest.find(is_harmful_in_lines) {
            let (plain, behind) = rest.split_at(at);
            safe.push_str(plain);
            match self.colour(behind) {
                Colour::Whole(length) => {
                    safe.push_str(&behind[..length]);
                    rest = &behind[length..];
                }
                Colour::Begun if is_last => return text.len() - behind.len(),
                _ => {
                    let mut chars = behind.chars();
                    chars.next().into_iter().for_each(|c| spell(safe, c));
                    rest = chars.as_str();
                }
            }
        }
        safe.push_str(rest);
        text.len()
    }

    /// Whether `text` begins with a colour: ESC [, digits and semicolons, m.
    fn colour(&self, text: &str) -> Colour {
        if !self.has_colours || !text.starts_with('\x1b') {
            return Colour::No;
        }
        let Some(codes) = text.strip_prefix("\x1b[") else {
            return if text == "\x1b" { Colour::Begun } else { Colour::No };
        };
        match codes.find(|c: char| !c.is_ascii_digit() && c != ';') {
            Some(end) if codes[end..].starts_with('m') && end < LONGEST_COLOUR => Colour::Whole(end + 3),
            None if codes.len() < LONGEST_COLOUR => Colour::Begun,
            _ => Colour::No,
        }
    }
}

enum Colour {
    No,
    Begun,
    /// Bytes of it.
    Whole(usize),
}

impl<W: Write> Write for Net<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.is_empty() && is_plain_ascii(bytes) {
            self.to.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let safe = self.caught(&all);
        let safe = if self.is_ascii { in_ascii(&safe) } else { Cow::Borrowed(safe.as_str()) };
        self.to.write_all(safe.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        for byte in held {
            write!(self.to, "\\x{byte:02x}")?;
        }
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn escape_sequences_in_names_are_spelled_out() {
        assert_eq!(harmless("\x1b]0;evil\x07"), "\\x1b]0;evil\\x07");
        assert_eq!(harmless("a\u{202e}b\u{9b}c\u{61c}\u{2028}"), "a\\x202eb\\x9bc\\x61c\\x2028");
        assert!(matches!(harmless("std::vec<größe>"), Cow::Borrowed(_)));
        assert_eq!(harmless_lines("a\n\tb\r\x1b[m"), "a\n\tb\\x0d\\x1b[m");
    }

    #[test]
    fn names_can_neither_end_an_attribute_nor_hold_what_xml_forbids() {
        assert_eq!(
            xml("<a b=\"c\" d='e'>&\x01\u{ffff}"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\\x01\u{fffd}"
        );
    }

    #[test]
    fn json_holds_every_name_whole_and_shows_none_raw() {
        let value = json!({ "a\u{202e}": "\x1b[2J\x7f\u{9b}größe" });
        for text in [json(&value), json_lines(&value)] {
            assert!(!text.chars().any(is_harmful_in_lines), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).expect("still JSON"), value);
        }
    }

    fn through(pieces: &[&[u8]], has_colours: bool) -> String {
        let mut out = Vec::new();
        let mut net = Net::new(&mut out, has_colours);
        pieces.iter().for_each(|piece| net.write_all(piece).expect("memory"));
        net.flush().expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn the_net_lets_text_and_asked_for_colours_pass_however_they_are_cut() {
        let text = "größe\t\x1b[1;31mred\x1b[0m µ…\n";
        let cut: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        for pieces in [&cut[..], &[text.as_bytes()]] {
            assert_eq!(through(pieces, true), text);
            assert_eq!(through(pieces, false), "größe\t\\x1b[1;31mred\\x1b[0m µ…\n");
        }
    }

    #[test]
    fn where_there_is_only_ascii_our_own_characters_are_spelled_in_it() {
        let mut out = Vec::new();
        let mut net = Net { is_ascii: true, ..Net::new(&mut out, false) };
        net.write_all("█ 3 µs → größe…\n".as_bytes()).expect("memory");
        assert_eq!(String::from_utf8(out).expect("UTF-8"), "# 3 us -> größe...\n");
    }

    #[test]
    fn the_net_holds_all_that_steers_a_terminal() {
        let hostile: [&[u8]; 6] = [
            b"\x1b]0;title\x07",
            b"\x1b[2J",
            b"\x1bP",
            b"\xc2\x9b31m",
            b"\xe2\x80\xae",
            b"a\r\x08\x9b\xff\x7f",
        ];
        for text in hostile {
            let safe = through(&[text], true);
            assert!(!safe.chars().any(is_harmful), "{safe}");
        }
        assert_eq!(through(&[b"\x1b[2J"], true), "\\x1b[2J");
        assert_eq!(through(&[b"x\x1b[31"], true), "x\\x1b\\x5b\\x33\\x31");
    }
}
