//! Text that others wrote: stacks of `perf script`, folded stacks, and perf's settings.

pub mod folded;
pub mod perf_config;
pub mod perf_script;

use profile::view::flame::Tree;

/// What reading an input found besides the stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportNotes {
    /// Lines that are neither of the format nor empty nor comments.
    pub odd_lines: u64,
    /// Samples of other events than the one that was read, per event in the order of their first sight.
    pub other_events: Vec<(String, u64)>,
    /// The event that was read; empty if the input names none.
    pub event: String,
    /// True if the text ends inside a stack; that stack is left out.
    pub cut_off: bool,
}

/// Which of the text formats an input is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextFormat {
    /// What `perf script` prints.
    PerfScript,
    /// `root;caller;leaf COUNT` lines.
    Folded,
}

/// Finds the format by the first line that is neither empty nor a comment; an empty text is folded.
pub fn text_format(text: &[u8]) -> TextFormat {
    let mut lines = text.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    match lines.find(|line| line[0] != b'#') {
        Some(line) if perf_script::is_header(&String::from_utf8_lossy(line)) => TextFormat::PerfScript,
        _ => TextFormat::Folded,
    }
}

/// The stacks of a text input with the notes about it.
pub struct Stacks {
    /// The stacks.
    pub tree: Tree,
    /// What else was found.
    pub notes: ImportNotes,
}
