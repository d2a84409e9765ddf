//! Standard output and standard error.
//!
//! Output is buffered and every write is checked: a reader that goes away (`| head`) ends the command without
//! a message, while a full disk is an error. Names that come from a profile pass through [`harmless`].

use anyhow::Context;
use record::output_file::write_export;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

/// Buffered standard output, held by one command for its whole run. Call `flush` at the end: an error there counts.
pub fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Writes one line to standard output.
///
/// # Errors
/// Whatever writing says, a closed pipe included.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes a value to a file, or for `-` to standard output.
///
/// # Errors
/// Whatever writing says, a closed pipe included.
pub fn json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    let text = format!("{value:#}");
    if path.as_os_str() == "-" {
        return line(&text);
    }
    write_export(path, text + "\n").with_context(|| format!("can't write {}", path.display()))
}

/// Writes `text` to standard output as it is.
///
/// # Errors
/// Whatever writing says, a closed pipe included.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Tells a failure: `tally: TEXT` on standard error.
pub fn complain(text: &str) {
    note(&format!("tally: {}", harmless(&without_errno(text))));
}

/// The system's message without its number: `(os error 2)` tells people nothing.
pub fn without_errno(text: &str) -> String {
    let Some((before, after)) = text.split_once(" (os error ") else { return text.to_owned() };
    match after.split_once(')') {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => format!("{before}{rest}"),
        _ => text.to_owned(),
    }
}

/// One line on standard error. Nobody can be told when that fails, so a failure is ignored.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// True if `error` says that the reader of our output has gone.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// `name` with its control characters spelled out (`\x1b`), so that a symbol cannot steer the terminal.
pub fn harmless(name: &str) -> Cow<'_, str> {
    if !name.chars().any(is_harmful) {
        return Cow::Borrowed(name);
    }
    let mut safe = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_harmful(c) {
            let _ = write!(safe, "\\x{:02x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// The most characters of a name that tables and trees for people show.
const NAME_CHARS: usize = 2000;

/// `name` as tables for people show it: harmless, and with its end left out if it is longer than any screen.
pub fn shown(name: &str) -> Cow<'_, str> {
    let safe = harmless(name);
    let Some((end, _)) = safe.char_indices().nth(NAME_CHARS) else { return safe };
    let all = safe.chars().count();
    Cow::Owned(format!("{}… ({all} characters)", &safe[..end]))
}

/// Control characters (C0, DEL, C1) and those that turn the direction of the text around.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_in_names_are_spelled_out() {
        assert_eq!(harmless("\x1b]0;evil\x07"), "\\x1b]0;evil\\x07");
        assert_eq!(harmless("a\u{202e}b\u{9b}"), "a\\x202eb\\x9b");
        assert!(matches!(harmless("std::vec<größe>"), Cow::Borrowed(_)));
    }

    #[test]
    fn names_longer_than_any_screen_are_cut_in_tables() {
        let name = "ö".repeat(100_000);
        let cut = shown(&name);
        assert!(cut.starts_with("öö") && cut.ends_with("ö… (100000 characters)"));
        assert_eq!(cut.chars().count(), NAME_CHARS + "… (100000 characters)".chars().count());
        assert!(matches!(shown("main"), Cow::Borrowed("main")));
    }

    #[test]
    fn the_number_of_a_system_error_is_left_out() {
        assert_eq!(without_errno("x: No such file (os error 2); try y"), "x: No such file; try y");
    }

    #[test]
    fn a_closed_pipe_is_told_from_other_failures() {
        let pipe = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(is_closed_pipe(&pipe));
        assert!(!is_closed_pipe(&anyhow::anyhow!("no space left")));
    }
}
