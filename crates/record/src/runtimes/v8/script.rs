//! Scripts: the file of a function, and the line and column of its start.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::layout::Look;
use super::strings::{read_name, read_string};

/// Longer sources are not read, in characters.
const MOST_CHARACTERS: usize = 16 << 20;
/// Scripts that are known at a time.
const MOST_SCRIPTS: usize = 4096;

/// The scripts of one V8 that were read.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    known: FxHashMap<u64, Script>,
}

#[derive(Clone, Debug)]
pub(super) struct Script {
    /// The words of the object when it was read: another may take its place.
    words: [u64; 2],
    pub(super) file: Arc<str>,
    /// Ascending: the first characters of lines.
    lines: Arc<[u32]>,
}

impl Scripts {
    /// The script that a word refers to; `None` if it is none.
    pub(super) fn read(&mut self, word: u64, look: &mut Look<'_, '_>) -> Option<Script> {
        let layout = look.layout;
        let words = [look.word(word, layout.script_name)?, look.word(word, layout.script_source)?];
        if let Some(known) = self.known.get(&word).filter(|known| known.words == words) {
            return Some(known.clone());
        }
        look.type_of(word).filter(|kind| *kind == layout.types.script)?;
        let script = Script {
            words,
            // Code of `eval` and `new Function` has none.
            file: read_name(look, words[0]).unwrap_or_else(|| "eval".into()).into(),
            lines: line_starts(&read_string(look, words[1], MOST_CHARACTERS).unwrap_or_default()),
        };
        if self.known.len() >= MOST_SCRIPTS {
            self.known.clear();
        }
        self.known.insert(word, script.clone());
        Some(script)
    }
}

fn line_starts(source: &[u16]) -> Arc<[u32]> {
    let ends = (1u32..).zip(source).filter(|(_, unit)| **unit == u16::from(b'\n'));
    std::iter::once(0).chain(ends.map(|(after, _)| after)).collect()
}

impl Script {
    /// Line and column, from 1, of the character at this index.
    pub(super) fn place_of(&self, index: u32) -> (usize, u32) {
        let line = self.lines.partition_point(|start| *start <= index);
        (line, index - self.lines[line.saturating_sub(1)] + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_1() {
        let source: Vec<u16> = "ab\n\ncde\n".encode_utf16().collect();
        let script = Script { words: [0; 2], file: "a.js".into(), lines: line_starts(&source) };
        let places = [0, 2, 3, 4, 6, 8].map(|index| script.place_of(index));
        assert_eq!(places, [(1, 1), (1, 3), (2, 1), (3, 1), (3, 3), (4, 1)]);
    }
}
