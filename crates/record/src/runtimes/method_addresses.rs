//! Addresses for methods that run in code of the runtime, which alone a callchain has: the chain gets an address of the
//! method in its place.
//!
//! The addresses are in no process: the recording has a mapping for them, and the process's map of JIT code names them
//! as it names compiled methods, so that both are one function.

use std::fmt::Write as _;

use dso::Avma;
use dso::unwind::{Regs, Stack};
use rustc_hash::FxHashMap;

use crate::pipeline::chain_join::ChainFrame;

/// The first address: above all of user space, below the kernel's and Python's functions.
pub const METHODS_START: Avma = Avma(0x4a56_0000_0000_0000);
/// Bytes of all addresses.
pub const METHODS_BYTES: u64 = METHOD_BYTES * MOST_METHODS as u64;
/// Bytes of one method's.
const METHOD_BYTES: u64 = 1 << 24;
/// Bytes of one line's in it: it is found as a return address, too.
const LINE_BYTES: u64 = 16;
/// Later lines have no addresses of their own.
const LAST_LINE: u32 = 0xf_ffff;
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
    /// Registers in the first frame.
    pub regs: &'w Regs,
}

/// A method that has addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MethodNumber(u32);

impl MethodNumber {
    /// The address of one of its lines; 0 if that isn't known.
    pub(super) fn line_address(self, line: u32) -> u64 {
        self.start() + u64::from(line.min(LAST_LINE)) * LINE_BYTES + LINE_BYTES / 2
    }

    fn start(self) -> u64 {
        METHODS_START.0 + u64::from(self.0) * METHOD_BYTES
    }
}

/// The methods of one process that have addresses.
#[derive(Debug, Default)]
pub struct MethodAddresses {
    by_name: FxHashMap<String, MethodNumber>,
    /// Chains have addresses of methods.
    is_used: bool,
    /// The recording has the mapping.
    is_mapped: bool,
    /// Lines for the process's map that were not taken yet.
    lines: String,
}

impl MethodAddresses {
    /// The address in chains of the method with this name; `None` when there are too many.
    pub(super) fn of_name(&mut self, name: String) -> Option<u64> {
        let address = self.number_of(name, None)?.line_address(0);
        Some(self.used(address).0)
    }

    /// The method with this name, whose lines are those of `file`; `None` when there are too many.
    pub(super) fn number_of(&mut self, name: String, file: Option<&str>) -> Option<MethodNumber> {
        if let Some(number) = self.by_name.get(&name) {
            return Some(*number);
        }
        let number = u32::try_from(self.by_name.len()).ok().filter(|_| self.by_name.len() < MOST_METHODS)?;
        let number = MethodNumber(number);
        self.add_line(number.start(), METHOD_BYTES, &name);
        if let Some(file) = file {
            // Writing to a String can't fail.
            let _ = writeln!(self.lines, "={:x} {LINE_BYTES:x} {file}", number.start());
        }
        self.by_name.insert(name, number);
        Some(number)
    }

    /// An address that a chain has.
    pub(super) fn used(&mut self, address: u64) -> Avma {
        self.is_used = true;
        Avma(address)
    }

    /// Code is of these lines, inlined into one another, innermost first.
    pub(super) fn add_scope(&mut self, start: u64, bytes: u64, lines: &[u64]) {
        let _ = write!(self.lines, "@{start:x} {bytes:x}");
        for line in lines {
            let _ = write!(self.lines, " {line:x}");
        }
        self.lines.push('\n');
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

    /// True once: when chains have addresses, and the recording has no mapping of them yet.
    pub fn begins(&mut self) -> bool {
        let begins = !self.is_mapped && self.is_used;
        self.is_mapped |= begins;
        begins
    }
}
