//! Arguments and results: read from registers, the stack, and what they point at, and written as events.

use crate::layout as l;
use crate::layout::values::{self as v, ValueItem};
use crate::registers::{ValueSource, word_at};
use crate::sys;
use crate::thread::ThreadState;

/// The values of one call, as they are to be written.
struct Gathered {
    bytes: [u8; v::VALUES_BYTES_MAX + 8],
    used: usize,
}

impl Gathered {
    fn push(&mut self, bytes: &[u8]) {
        if self.used + 1 + bytes.len() > v::VALUES_BYTES_MAX {
            return self.mark(v::VALUE_NO_ROOM);
        }
        self.mark(bytes.len() as u8);
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    fn mark(&mut self, mark: u8) {
        if self.used < v::VALUES_BYTES_MAX {
            self.bytes[self.used] = mark;
            self.used += 1;
        }
    }

    /// Reads one value.
    fn add(&mut self, item: ValueItem, from: &impl ValueSource) {
        if item.how == v::HOW_WIDE {
            return match wide(item, from) {
                Some(bytes) => self.push(&bytes),
                None => self.mark(v::VALUE_UNREADABLE),
            };
        }
        let word = match item.from {
            v::FROM_GENERAL => from.general(item.number),
            v::FROM_VECTOR => from.vector(item.number),
            v::FROM_STACK => from.stack(item.offset).and_then(word_at),
            _ => None,
        };
        let Some(word) = word else { return self.mark(v::VALUE_UNREADABLE) };
        match item.how {
            v::HOW_TEXT => self.text(word, None),
            v::HOW_SLICE => self.text(word, from.general(item.offset as u8)),
            v::HOW_TEXT_OBJECT => match (word_at(word), word_at(word.wrapping_add(8))) {
                (Some(at), Some(bytes)) => self.text(at, Some(bytes)),
                _ => self.mark(v::VALUE_UNREADABLE),
            },
            v::HOW_AT => match word_at(word.wrapping_add(u64::from(item.offset))) {
                Some(word) => self.push(low_bytes(&word.to_le_bytes(), item.bytes)),
                None => self.mark(v::VALUE_UNREADABLE),
            },
            _ => self.push(low_bytes(&word.to_le_bytes(), item.bytes)),
        }
    }

    /// Text at an address: up to its 0, or of a length.
    fn text(&mut self, at: u64, bytes: Option<u64>) {
        if at == 0 {
            return self.mark(v::VALUE_NULL);
        }
        let mut text = [0; v::TEXT_BYTES_MAX];
        let wanted = bytes.map_or(text.len(), |bytes| text.len().min(bytes as usize));
        let read = sys::read_memory(at, &mut text[..wanted]);
        if read == 0 && wanted > 0 {
            return self.mark(v::VALUE_UNREADABLE);
        }
        let end = if bytes.is_some() { None } else { text[..read].iter().position(|byte| *byte == 0) };
        self.push(&text[..end.unwrap_or(read)]);
    }
}

fn low_bytes(word: &[u8; 8], bytes: u8) -> &[u8] {
    &word[..usize::from(bytes.clamp(1, 8))]
}

/// A value of two words.
fn wide(item: ValueItem, from: &impl ValueSource) -> Option<[u8; v::WIDE_BYTES]> {
    let mut value = [0; v::WIDE_BYTES];
    match item.from {
        v::FROM_GENERAL => {
            value[..8].copy_from_slice(&from.general(item.number)?.to_le_bytes());
            value[8..].copy_from_slice(&from.general(item.offset as u8)?.to_le_bytes());
        }
        v::FROM_STACK if sys::read_memory(from.stack(item.offset)?, &mut value) == value.len() => {}
        v::FROM_X87 => return from.x87(),
        _ => return None,
    }
    Some(value)
}

impl ThreadState {
    /// Writes the values that `items` names; nothing without any.
    pub fn write_values(
        &mut self,
        code: u64,
        items: impl Iterator<Item = ValueItem>,
        from: &impl ValueSource,
    ) {
        let mut gathered = Gathered { bytes: [0; v::VALUES_BYTES_MAX + 8], used: 0 };
        for item in items {
            gathered.add(item, from);
        }
        if gathered.used == 0 || !self.make_room() {
            return;
        }
        self.word(l::control_word(code, gathered.used as u64));
        l::words(&gathered.bytes[..gathered.used.next_multiple_of(8)]).for_each(|word| self.word(word));
    }
}
