//! Arguments and results: read from registers, the stack, and what they point at, and written as events.

use crate::layout as l;
use crate::layout::values::{self as v, Item};
use crate::sys;
use crate::thread::Thread;

/// The registers that may hold a function's arguments, as its entry found them.
// Layout: known to the assembly by its offsets.
#[repr(C)]
pub struct Registers {
    /// rdi, rsi, rdx, rcx, r8, r9; on aarch64 x0 to x5.
    pub general: [u64; 6],
    /// Address of the return address, or on aarch64 where it would be: the caller's stack arguments are above
    /// it.
    pub slot: u64,
    /// The function's [`crate::instrumented_fn::Site`].
    pub site: u64,
    /// rax, r10; on aarch64 x6, x7.
    pub more: [u64; 2],
    /// xmm0 to xmm7; on aarch64 v0 to v7.
    pub vector: [[u64; 2]; 8],
}

/// The registers that may hold a function's result.
// Layout: known to the assembly by its offsets.
#[repr(C)]
pub struct Results {
    /// xmm0, xmm1; on aarch64 v0, v1.
    pub vector: [[u64; 2]; 2],
    /// rax, rdx; on aarch64 x0, x1.
    pub general: [u64; 2],
}

/// Where values are at an entry or a return.
pub trait ValueSource {
    /// A general register.
    fn general(&self, number: u8) -> Option<u64>;
    /// The low half of a vector register.
    fn vector(&self, number: u8) -> Option<u64>;
    /// Address of the caller's stack arguments plus this many bytes.
    fn stack(&self, offset: u32) -> Option<u64>;
    /// The top of the stack of x87 registers.
    fn x87(&self) -> Option<[u8; v::WIDE_BYTES]> {
        None
    }
}

impl ValueSource for Registers {
    fn general(&self, number: u8) -> Option<u64> {
        let number = usize::from(number);
        let beyond = if cfg!(target_arch = "aarch64") { self.more.get(number.wrapping_sub(6)) } else { None };
        self.general.get(number).or(beyond).copied()
    }

    fn vector(&self, number: u8) -> Option<u64> {
        self.vector.get(usize::from(number)).map(|register| register[0])
    }

    fn stack(&self, offset: u32) -> Option<u64> {
        Some(self.slot + 8 + u64::from(offset))
    }
}

impl ValueSource for Results {
    fn general(&self, number: u8) -> Option<u64> {
        self.general.get(usize::from(number)).copied()
    }

    fn vector(&self, number: u8) -> Option<u64> {
        self.vector.get(usize::from(number)).map(|register| register[0])
    }

    fn stack(&self, _offset: u32) -> Option<u64> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    fn x87(&self) -> Option<[u8; v::WIDE_BYTES]> {
        let mut value = [0; v::WIDE_BYTES];
        // SAFETY: a function that returns such a number has put it there, and nothing here uses these registers; 10
        // bytes are stored, and loaded again as they were.
        unsafe {
            core::arch::asm!("fstp tbyte ptr [{0}]", "fld tbyte ptr [{0}]", in(reg) value.as_mut_ptr(),
                options(nostack, preserves_flags));
        }
        Some(value)
    }
}

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
    fn add(&mut self, item: Item, from: &impl ValueSource) {
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
fn wide(item: Item, from: &impl ValueSource) -> Option<[u8; v::WIDE_BYTES]> {
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

/// A word of memory that may not be there.
pub fn word_at(at: u64) -> Option<u64> {
    let mut word = [0; 8];
    let read = sys::read_memory(at, &mut word);
    l::words(&word[..read]).next()
}

impl Thread {
    /// Writes the values that `items` names; nothing without any.
    pub fn write_values(&mut self, code: u64, items: impl Iterator<Item = Item>, from: &impl ValueSource) {
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
