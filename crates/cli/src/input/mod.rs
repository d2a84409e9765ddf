//! Inputs of `flame` that are not perf.data: the text of `perf script`, and folded stacks.

pub mod folded;
pub mod perf_script;

use crate::flame::Tree;
use crate::text::number::count_of;

/// What reading an input found besides the stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Lines that are neither of the format nor empty nor comments.
    pub odd_lines: u64,
    /// Samples of other events than the one that was read, per event in the order of their first sight.
    pub other_events: Vec<(String, u64)>,
    /// The event that was read; empty if the input names none.
    pub event: String,
    /// True if the text ends inside a stack; that stack is left out.
    pub cut_off: bool,
}

impl Notes {
    /// The notes in words, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.other_events.is_empty() {
            let others: Vec<String> = self.other_events.iter().map(|(e, n)| format!("{e} ({n})")).collect();
            let others = others.join(", ");
            lines.push(format!("shows event {}; left out: {others} (choose with --event)", self.event));
        }
        if self.odd_lines > 0 {
            let count = count_of(self.odd_lines, "line is no stack and is", "lines are no stacks and are");
            lines.push(format!("{count} left out"));
        }
        if self.cut_off {
            lines.push("the text ends inside a stack (no empty line after it), which is left out".to_owned());
        }
        lines
    }
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
    pub notes: Notes,
}

/// Fuzz entry: reads any bytes as `perf script` text in every mode.
pub fn fuzz_perf_script(data: &[u8]) {
    let all =
        perf_script::CollapseOpts { pid: true, tid: true, kernel: true, jit: true, addrs: true, event: None };
    let plain = perf_script::CollapseOpts::default();
    for opts in [all, plain] {
        let stacks = perf_script::read(data, &opts);
        let _ = crate::export::folded::to_text(&stacks.tree);
    }
}

/// Fuzz entry: reads any bytes as folded text; what was read, written and read again must be the same.
pub fn fuzz_folded(data: &[u8]) {
    let _ = folded::parse_line(&String::from_utf8_lossy(data));
    let once = crate::export::folded::to_text(&folded::read(data).tree);
    let twice = crate::export::folded::to_text(&folded::read(once.as_bytes()).tree);
    assert_eq!(once, twice, "folded text changed by a round trip");
}
