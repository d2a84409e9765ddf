//! Folded stacks: one line per path, `root;caller;leaf COUNT`.

use super::{ImportNotes, Stacks};
use profile::view::flame::{FrameKind, NameId, Tree, Unit};

/// The frame of a stack without any.
const NO_FRAMES: &str = "[unknown]";

/// Reads folded text. A count may have a fraction (some tools scale), of which the whole part is taken.
pub fn read(text: &[u8]) -> Stacks {
    let mut tree = Tree::new(Unit::Samples);
    let mut notes = ImportNotes::default();
    let mut path = Vec::new();
    for line in text.split(|&b| b == b'\n') {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((stack, count)) = parse_line(line) else {
            notes.odd_lines += 1;
            continue;
        };
        path.clear();
        path.extend(stack.split(';').enumerate().map(|(depth, frame)| intern(&mut tree, frame, depth)));
        tree.add_path(&path, count, count);
    }
    Stacks { tree, notes }
}

/// `root;caller;leaf COUNT` in its two parts. A stack that a profiler could not walk has no frames (py-spy).
pub fn parse_line(line: &str) -> Option<(&str, u64)> {
    let (stack, count) = line.rsplit_once([' ', '\t'])?;
    let whole = count.split_once('.').map_or(count, |(whole, fraction)| {
        if fraction.bytes().all(|b| b.is_ascii_digit()) { whole } else { "" }
    });
    let stack = stack.trim();
    Some((if stack.is_empty() { NO_FRAMES } else { stack }, whole.parse().ok()?))
}

fn intern(tree: &mut Tree, frame: &str, depth: usize) -> NameId {
    tree.intern(frame, kind_of(frame, depth))
}

/// The kind by the marks collapsers leave (`_[k]`, `_[j]`, `_[i]`, `_[w]`); depth 0 is the process.
fn kind_of(frame: &str, depth: usize) -> FrameKind {
    match frame {
        _ if frame.ends_with("_[k]") => FrameKind::Kernel,
        _ if frame.ends_with("_[j]") => FrameKind::Jit,
        _ if frame.ends_with("_[i]") => FrameKind::Inlined,
        _ if frame.ends_with("_[w]") => FrameKind::Waiting,
        _ if depth == 0 => FrameKind::Task,
        _ if frame.starts_with('[') => FrameKind::Unknown,
        _ => FrameKind::Program,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_the_count() {
        assert_eq!(parse_line("a;operator new (x);c 12"), Some(("a;operator new (x);c", 12)));
        assert_eq!(parse_line("a 1.75"), Some(("a", 1)));
        assert_eq!(parse_line("a b"), None);
        assert_eq!(parse_line("7"), None);
        assert_eq!(parse_line(" 7"), Some(("[unknown]", 7)));
    }

    #[test]
    fn odd_lines_are_counted() {
        let stacks = read(b"a;b 2\nnonsense\n# comment\n\na;b 3\n");
        assert_eq!(stacks.notes.odd_lines, 1);
        assert_eq!(crate::export::folded::to_text(&stacks.tree), "a;b 5\n");
    }
}
