//! HotSpot: maps of its compiled code, and the names of methods that it interprets.

mod attach;
mod interpreted;
mod methods;
mod structs;

pub use attach::{is_jvm, write_map};
pub use interpreted::{InterpretedFrames, InterpretedMethods, METHODS_BYTES, METHODS_START};

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
