//! Strings of V8, in all the ways in which it keeps them.
// Source: V8's src/objects/string.h and instance-type.h, V8 10.2 to 13.6

use super::layout::{Look, object, small_number};
use crate::runtimes::memory::{read_u32, read_u64};

/// Types below it are strings.
const FIRST_OTHER_TYPE: u16 = 128;
const REPRESENTATION: u16 = 7;
const SEQUENTIAL: u16 = 0;
const CONCATENATED: u16 = 1;
const EXTERNAL: u16 = 2;
const SLICED: u16 = 3;
const THIN: u16 = 5;
const ONE_BYTE: u16 = 8;
/// From the resource of an external string to the address of its characters.
const DATA_AFTER_RESOURCE: u64 = 8;
/// How deep strings may refer to others.
const MOST_STEPS: usize = 32;

/// True for the number of a string's type.
pub(super) fn is_string(type_number: u16) -> bool {
    type_number < FIRST_OTHER_TYPE
}

/// The first characters of a string, as UTF-16 units; at most `most`. `None` if it is none, or is not read whole that far.
pub(super) fn read_string(look: &mut Look<'_, '_>, word: u64, most: usize) -> Option<Vec<u16>> {
    let mut text = Vec::new();
    // Pieces still to be read: the last first.
    let mut rest = vec![(word, 0usize, most)];
    for _ in 0..MOST_STEPS {
        let Some((word, from, most)) = rest.pop() else { break };
        let most = most.min(usize::MAX - from);
        let kind = look.type_of(word).filter(|kind| is_string(*kind))?;
        let layout = look.layout.strings;
        match kind & REPRESENTATION {
            THIN => rest.push((look.word(word, layout.actual)?, from, most)),
            SLICED => {
                let offset = small_number(look.word(word, layout.offset)?)? as usize;
                let most = most.min(length_of(look, word)?.saturating_sub(from));
                rest.push((look.word(word, layout.parent)?, offset + from, most));
            }
            CONCATENATED => {
                let (first, second) = (look.word(word, layout.first)?, look.word(word, layout.second)?);
                let first_length = length_of(look, first)?;
                if from + most > first_length {
                    let skipped = from.saturating_sub(first_length);
                    rest.push((second, skipped, most - first_length.saturating_sub(from).min(most)));
                }
                if from < first_length {
                    rest.push((first, from, most));
                }
            }
            SEQUENTIAL | EXTERNAL => {
                let count = length_of(look, word)?.saturating_sub(from).min(most);
                let is_one_byte = kind & ONE_BYTE != 0;
                let start = start_of(look, word, kind & REPRESENTATION)?;
                push_characters(look, start, Characters { from, count, is_one_byte }, &mut text)?;
            }
            _ => return None,
        }
    }
    rest.is_empty().then_some(text)
}

fn length_of(look: &mut Look<'_, '_>, word: u64) -> Option<usize> {
    let at = object(word)?.wrapping_add(look.layout.strings.length);
    read_u32(look.memory, at).map(|length| length as usize)
}

/// The address of the first character.
fn start_of(look: &mut Look<'_, '_>, word: u64, representation: u16) -> Option<u64> {
    let layout = look.layout.strings;
    let object = object(word)?;
    match representation {
        EXTERNAL => read_u64(look.memory, object.wrapping_add(layout.resource + DATA_AFTER_RESOURCE)),
        _ => Some(object.wrapping_add(layout.characters)),
    }
}

/// Which characters of a piece are read.
#[derive(Clone, Copy)]
struct Characters {
    from: usize,
    count: usize,
    is_one_byte: bool,
}

fn push_characters(look: &mut Look<'_, '_>, start: u64, of: Characters, text: &mut Vec<u16>) -> Option<()> {
    let width = if of.is_one_byte { 1 } else { 2 };
    let mut bytes = vec![0; of.count * width];
    let got = (look.memory)(start.wrapping_add((of.from * width) as u64), &mut bytes);
    (got == bytes.len()).then_some(())?;
    match of.is_one_byte {
        true => text.extend(bytes.iter().map(|byte| u16::from(*byte))),
        false => text.extend(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))),
    }
    Some(())
}

/// A short text without control characters, as the names of functions and files are.
pub(super) fn read_name(look: &mut Look<'_, '_>, word: u64) -> Option<String> {
    const MOST: usize = 1024;
    let units = read_string(look, word, MOST)?;
    let text = String::from_utf16_lossy(&units);
    Some(text.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}
