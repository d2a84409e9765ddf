//! Addresses for methods that run in code of the runtime, which alone a callchain has: the chain gets an address of the
//! method in its place.
//!
//! The addresses are in no process: the recording has a mapping for them, and the process's map of JIT code names them
//! as it names compiled methods, so that both are one function.

use std::fmt::Write as _;

use dso::Avma;
use dso::unwind::Stack;
use rustc_hash::FxHashMap;

use crate::pipeline::chain_join::ChainFrame;

/// The first address: above all of user space, below the kernel's and Python's functions.
pub const METHODS_START: Avma = Avma(0x4a56_0000_0000_0000);
/// Bytes of all addresses.
pub const METHODS_BYTES: u64 = 1 << 32;
/// Bytes of one method's: it is found as a return address, too.
const METHOD_BYTES: u64 = 16;
/// Methods that get an address in a process.
const MOST_METHODS: usize = 1 << 18;

/// A walked stack: frames in the runtime's code get the addresses of their methods.
pub struct WalkedFrames<'w> {
    /// Leaf first.
    pub frames: &'w mut [ChainFrame],
    /// The frames' stack pointers, as far as they are known.
    pub sps: &'w [u64],
    /// The stack as it was.
    pub stack: Stack<'w>,
}

/// The methods of one process that have addresses.
#[derive(Debug, Default)]
pub struct MethodAddresses {
    by_name: FxHashMap<String, u64>,
    /// The recording has the mapping.
    is_mapped: bool,
    /// Lines for the process's map that were not taken yet.
    lines: String,
}

impl MethodAddresses {
    /// The address in chains of the method with this name; `None` when there are too many.
    pub(super) fn of_name(&mut self, name: String) -> Option<u64> {
        if let Some(address) = self.by_name.get(&name) {
            return Some(*address);
        }
        let index = self.by_name.len();
        if index >= MOST_METHODS {
            return None;
        }
        let start = METHODS_START.0 + index as u64 * METHOD_BYTES;
        self.add_line(start, METHOD_BYTES, &name);
        self.by_name.insert(name, start + METHOD_BYTES / 2);
        Some(start + METHOD_BYTES / 2)
    }

    /// True if no method has an address yet.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Names code of the process.
    pub(super) fn add_line(&mut self, start: u64, bytes: u64, name: &str) {
        // Writing to a String can't fail.
        let _ = writeln!(self.lines, "{start:x} {bytes:x} {name}");
    }

    /// Lines of a perf map that name what was added since the last call.
    #[must_use]
    pub fn take_lines(&mut self) -> String {
        std::mem::take(&mut self.lines)
    }

    /// True once: when there are addresses, and the recording has no mapping of them yet.
    pub fn begins(&mut self) -> bool {
        let begins = !self.is_mapped && !self.is_empty();
        self.is_mapped |= begins;
        begins
    }
}
