//! `.ARM.exidx` and `.ARM.extab`: from a stated address to the unwind instructions of the function around it.
//!
//! The index has an entry of two words for each function, sorted by address: the function's begin, and its
//! instructions, where they are, or a refusal. A function ends where the next entry begins, so that code without an
//! entry of its own has that of the code before it.
//
// Source: ARM IHI 0038 "Exception Handling ABI for the Arm Architecture" 6 and 7, 9.3.

use super::opcodes::{Outcome, interpret};
use crate::{Bytes, ObjectFile, Svma};

const ENTRY: usize = 8;
/// The second word of a function that can't be unwound.
const CANT_UNWIND: u32 = 1;
/// A word with instructions in it, not a distance.
const COMPACT: u32 = 1 << 31;

/// The index of one file.
#[derive(Debug)]
pub(super) struct ExceptionIndex {
    svma: u64,
    bytes: Bytes,
    is_little_endian: bool,
}

/// The entry of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// First address of the function.
    pub start: u64,
    pub outcome: Outcome,
}

impl ExceptionIndex {
    /// Empty where the file has none.
    pub fn new(object: &ObjectFile) -> Self {
        let section = object.sections().iter().find(|s| s.name == ".ARM.exidx");
        let bytes = object.section_bytes(".ARM.exidx").ok().flatten();
        Self {
            svma: section.map_or(0, |s| s.svma.start),
            bytes: bytes.unwrap_or_else(|| Bytes::from_vec(Vec::new())),
            is_little_endian: object.is_little_endian(),
        }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() < ENTRY
    }

    /// The entry of the code at `svma`; `None` before the first.
    pub fn find(&self, object: &ObjectFile, svma: u64) -> Option<IndexEntry> {
        let (mut low, mut high) = (0, self.bytes.len() / ENTRY);
        while low < high {
            let middle = low.midpoint(high);
            if self.start(middle)? <= svma { low = middle + 1 } else { high = middle }
        }
        let at = low.checked_sub(1)?;
        let start = self.start(at)?;
        let word = self.word(at * ENTRY + 4)?;
        let outcome = if word == CANT_UNWIND {
            Outcome::Refuses
        } else if word & COMPACT != 0 {
            self.inline(word)
        } else {
            let place = self.address(at * ENTRY + 4);
            self.in_table(object, relative(place, word)).unwrap_or(Outcome::Damaged)
        };
        Some(IndexEntry { start, outcome })
    }

    fn start(&self, at: usize) -> Option<u64> {
        Some(relative(self.address(at * ENTRY), self.word(at * ENTRY)?) & !1)
    }

    /// Stated address of the byte at `offset`.
    fn address(&self, offset: usize) -> u64 {
        self.svma.wrapping_add(offset as u64)
    }

    fn word(&self, offset: usize) -> Option<u32> {
        self.bytes.get(offset..offset + 4).map(|bytes| self.word_of(bytes))
    }

    fn word_of(&self, bytes: &[u8]) -> u32 {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.is_little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    /// Three instructions in the index itself; only the first personality's may be there.
    fn inline(&self, word: u32) -> Outcome {
        if word >> 24 & 0x7f != 0 { Outcome::Damaged } else { interpret(&word.to_be_bytes()[1..]) }
    }

    /// The instructions at `svma` of the table. `None` if they are cut off.
    fn in_table(&self, object: &ObjectFile, svma: u64) -> Option<Outcome> {
        let word = |at: u64| {
            let bytes = object.bytes_at(Svma(svma.checked_add(4 * at)?), 4)?;
            (bytes.len() == 4).then(|| self.word_of(bytes))
        };
        let first = word(0)?;
        let (mut code, words) = if first & COMPACT == 0 {
            // A personality routine's address; the C++ runtime's have the same instructions in the words after it.
            let second = word(1)?;
            (second.to_be_bytes()[1..].to_vec(), 2..2 + u64::from(second >> 24))
        } else {
            match first >> 24 & 0x0f {
                0 => (first.to_be_bytes()[1..].to_vec(), 0..0),
                1 | 2 => (first.to_be_bytes()[2..].to_vec(), 1..1 + u64::from(first >> 16 & 0xff)),
                _ => return None,
            }
        };
        for at in words {
            code.extend(word(at)?.to_be_bytes());
        }
        Some(interpret(&code))
    }
}

/// The address that a distance of 31 bits in the word at `place` leads to.
fn relative(place: u64, word: u32) -> u64 {
    let distance = (word << 1).cast_signed() >> 1;
    place.wrapping_add_signed(distance.into()) & 0xffff_ffff
}
