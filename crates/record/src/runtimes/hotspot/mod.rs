//! HotSpot: the names of methods, compiled and interpreted, read from its memory; maps that it writes itself.

mod attach;
mod compiled;
mod interpreted;
mod jvm;
mod methods;
mod structs;

pub use attach::{is_jvm, write_map};
pub use interpreted::{METHODS_BYTES, METHODS_START};
pub use jvm::{Jvm, WalkedFrames};

use structs::JvmOffsets;

/// Reads memory from an address on; how many bytes could be read.
pub type JvmMemory<'m> = dyn FnMut(u64, &mut [u8]) -> usize + 'm;

/// True for HotSpot's library, by its path at the end of `text`.
#[must_use]
pub fn is_library(text: &[u8]) -> bool {
    text.ends_with(b"/libjvm.so")
}

fn read_u64(memory: &mut JvmMemory<'_>, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (memory(address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

fn read_u16(memory: &mut JvmMemory<'_>, address: u64) -> Option<u16> {
    let mut bytes = [0; 2];
    (memory(address, &mut bytes) == bytes.len()).then(|| u16::from_le_bytes(bytes))
}

fn read_u32(memory: &mut JvmMemory<'_>, address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    (memory(address, &mut bytes) == bytes.len()).then(|| u32::from_le_bytes(bytes))
}

fn read_u8(memory: &mut JvmMemory<'_>, address: u64) -> Option<u8> {
    let mut byte = [0];
    (memory(address, &mut byte) == 1).then_some(byte[0])
}

/// A JVM's memory at one look.
struct Look<'l, 'm> {
    offsets: JvmOffsets,
    memory: &'l mut JvmMemory<'m>,
    /// What is known is compared with memory once in each round.
    round: u32,
}

impl Look<'_, '_> {
    fn u64(&mut self, address: u64) -> Option<u64> {
        read_u64(self.memory, address)
    }

    fn u32(&mut self, address: u64) -> Option<u32> {
        read_u32(self.memory, address)
    }

    fn u8(&mut self, address: u64) -> Option<u8> {
        read_u8(self.memory, address)
    }
}
