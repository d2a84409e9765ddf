//! Files that others wrote: profiles of pprof, speedscope, Firefox and Chrome, stacks of `perf script`, folded stacks,
//! and perf's settings.

mod chrome;
mod chrome_spans;
mod detect;
mod error;
mod firefox;
pub mod folded;
mod gathered;
mod json;
mod of_tree;
mod parquet;
pub mod perf_config;
pub mod perf_script;
mod pprof;
mod protobuf;
mod row_sums;
mod speedscope;

pub use detect::{MOST_BYTES, gather};
pub use error::{ImportError, ImportFormat, Position};
pub use gathered::{Gathered, StackOwner};
pub use parquet::{RowTexts, SampleColumns, SampleRows, StackRow, hosts, services};
pub use row_sums::{RowSum, RowSums};

use profile::view::flame::Tree;

/// Findings while reading an input, besides the stacks.
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
    /// Output of `perf script`.
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

/// True for folded stacks and the text of `perf script`, as far as the first byte tells.
pub fn is_text(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    !matches!(first, None | Some(b'{' | b'[')) && !detect::is_binary(bytes)
}

/// The stacks of a text input with the notes about it.
pub struct Stacks {
    /// The stacks.
    pub tree: Tree,
    /// Other findings.
    pub notes: ImportNotes,
}

#[cfg(test)]
mod tests;
