//! HotSpot: the names of methods, compiled and interpreted, read from its memory; maps that it writes itself.

mod attach;
mod code_heap;
mod compiled;
mod debug_offsets;
mod interpreted;
mod jvm;
mod known_methods;
mod lines;
mod methods;
mod number_stream;
mod scopes;
mod structs;
mod stubs;
mod tables;

pub use attach::{is_jvm, write_map};
pub use jvm::Jvm;

use super::memory::{ProcessMemory, read_u8, read_u32, read_u64};
use structs::JvmOffsets;

/// True for HotSpot's library, by its path at the end of `text`.
#[must_use]
pub fn is_library(text: &[u8]) -> bool {
    text.ends_with(b"/libjvm.so")
}

/// A JVM's memory at one look.
struct Look<'l, 'm> {
    offsets: JvmOffsets,
    memory: &'l mut ProcessMemory<'m>,
    /// Known objects are compared with memory once in each round.
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

/// Names whatever this memory has at every eighth address: compiled code, and methods of the interpreter.
pub(crate) fn name_all(bytes: u64, memory: &mut ProcessMemory<'_>) {
    for scopes in [debug_offsets::ScopeOffsets::MADE_UP, debug_offsets::ScopeOffsets::MADE_UP_OUTSIDE] {
        let mut names = super::method_addresses::MethodAddresses::default();
        let (mut compiled, mut methods) =
            (compiled::CompiledCode::default(), known_methods::KnownMethods::default());
        let offsets = JvmOffsets { scopes: Some(scopes), ..JvmOffsets::MADE_UP };
        let mut look = Look { offsets, memory, round: 0 };
        for address in (0..bytes).step_by(8) {
            let mut found = compiled::FoundMethods { methods: &mut methods, names: &mut names };
            compiled.name(address, &mut look, &mut found);
            let position = known_methods::Position::Bcp([Some(address), None]);
            let _ = methods.line_address(address, position, &mut look, &mut names);
        }
        std::hint::black_box(names.take_lines());
    }
}
