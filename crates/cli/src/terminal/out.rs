//! Standard output and standard error.
//!
//! Output is buffered and every write is checked: a reader that goes away (`| head`) ends the command without
//! a message, while a full disk is an error. Text of others is made harmless on its way ([`crate::terminal::foreign`]).

use crate::terminal::foreign::{Net, harmless_lines, json_lines};
use crate::terminal::status_line;
use anyhow::Context;
use display::number::count_of;
use display::term;
use record::output_file::write_export;
use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Stderr, Stdout, StdoutLock, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

pub use crate::terminal::foreign::harmless;

/// Buffered standard output for text, in which nothing can steer a terminal.
pub type TextOutput = BufWriter<Net<Stdout>>;

/// Buffered standard output of one command for its whole run. Call `flush` at the end: an error there counts.
///
/// Control characters are spelled out, wherever they come from; colours pass where they are on.
pub fn stdout() -> TextOutput {
    BufWriter::with_capacity(64 * 1024, Net::new(io::stdout(), term::colours_stdout()))
}

/// The same on standard error.
pub fn stderr() -> BufWriter<Net<Stderr>> {
    BufWriter::new(Net::new(io::stderr(), term::colours_stderr()))
}

/// The same for bytes that are no text, and for screens that move the cursor: nothing is changed.
pub fn raw_stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Whether standard output is a file, so that nobody watches it.
pub fn is_stdout_file() -> bool {
    let output = io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from);
    output.and_then(|output| output.metadata()).is_ok_and(|output| output.is_file())
}

/// Refuses to write what is not for people's eyes to a terminal, with the flag that writes it elsewhere.
///
/// # Errors
/// Standard output is a terminal.
pub fn refuse_terminal(what: &str, instead: &str) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        anyhow::bail!(
            "the output is {what}, and standard output is a terminal: use {instead}, or redirect it to a file"
        );
    }
    Ok(())
}

/// Where a picture goes that would go to a terminal: `flame.svg` in this folder, or `flame-2.svg` and so on, so that
/// no file is overwritten. `None` if standard output is no terminal.
pub fn picture_for_terminal(stem: &str) -> Option<PathBuf> {
    io::stdout().is_terminal().then(|| free_name(Path::new(""), stem))
}

fn free_name(folder: &Path, stem: &str) -> PathBuf {
    let names = std::iter::once(format!("{stem}.svg")).chain((2u32..).map(|n| format!("{stem}-{n}.svg")));
    let mut paths = names.map(|name| folder.join(name));
    paths.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| folder.join(stem))
}

/// Reports the picture that was written because standard output is a terminal.
pub fn note_picture(path: &Path) {
    note(&format!("wrote {}: open it in a browser; --folded prints text", path.display()));
}

/// Writes one line to standard output.
///
/// # Errors
/// Standard output can't be written, or is a closed pipe.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes a value to a file, or for `-` to standard output.
///
/// # Errors
/// Standard output can't be written, or is a closed pipe.
pub fn json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    let text = json_lines(value);
    if path.as_os_str() == "-" {
        return line(&text);
    }
    write_export(path, text + "\n").with_context(|| format!("can't write {}", path.display()))
}

/// Writes the rows of a view to standard output, and how many were left out to standard error: at most `most` of a kind
/// are shown (0: all).
///
/// # Errors
/// Standard output can't be written, or is a closed pipe.
pub fn rows(value: &serde_json::Value, most: usize) -> anyhow::Result<()> {
    note_rows_left_out(value, most);
    line(&json_lines(value))
}

/// Writes to standard error how many rows `--max-lines` (`most`; 0: all) has left out of a view.
pub fn note_rows_left_out(value: &serde_json::Value, most: usize) {
    let left_out = if most == 0 { 0 } else { exchange::rows::left_out(value) };
    if left_out > 0 {
        let count = count_of(left_out, "row is", "rows are");
        note(&format!("tally: {count} left out; --max-lines 0 prints all"));
    }
}

/// Writes `text` to standard output as it is.
///
/// # Errors
/// Standard output can't be written, or is a closed pipe.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Reports a failure: `tally: TEXT` on standard error.
pub fn complain(text: &str) {
    note(&format!("tally: {}", without_errno(text)));
}

/// The system's message without its number: `(os error 2)` is of no use to people.
pub fn without_errno(text: &str) -> String {
    let Some((before, after)) = text.split_once(" (os error ") else { return text.to_owned() };
    match after.split_once(')') {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{before}{}", without_errno(rest))
        }
        _ => text.to_owned(),
    }
}

/// One line on standard error, made harmless: a name in it can't begin another. A failure to write is ignored, because
/// there is nowhere else to report it.
pub fn note(line: &str) {
    status_line::clear();
    let _ = writeln!(Net::new(io::stderr().lock(), false), "{}", harmless(line));
}

/// Several lines on standard error; whoever made them has made each name in them harmless.
pub fn note_lines(text: &str) {
    status_line::clear();
    let _ = writeln!(Net::new(io::stderr().lock(), false), "{}", harmless_lines(text));
}

/// A screen of text on standard error; colours pass if `has_colours`.
///
/// # Errors
/// Standard output can't be written.
pub fn screen(text: &str, has_colours: bool) -> io::Result<()> {
    status_line::clear();
    let mut net = Net::new(io::stderr().lock(), has_colours);
    net.write_all(text.as_bytes())?;
    net.flush()
}

/// True if `error` means that the reader of our output has gone.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_for_a_terminal_overwrites_no_file() {
        let folder = record::scratch::ScratchFolder::private("picture-test").expect("a folder");
        let name = |folder: &Path| free_name(folder, "flame").file_name().map(|name| name.to_owned());
        assert_eq!(name(folder.path()), Some("flame.svg".into()));
        write_export(&folder.path().join("flame.svg"), b"mine").expect("a file");
        assert_eq!(name(folder.path()), Some("flame-2.svg".into()));
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
