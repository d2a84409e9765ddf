//! The walk from frame to frame.

use super::registers::Regs;
use super::space::AddressSpace;
use crate::Avma;

/// A copy of the user stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// Address of its first byte: the stack pointer at the time of the copy.
    pub start: Avma,
    /// The bytes, upwards.
    pub bytes: &'a [u8],
}

impl Stack<'_> {
    /// The 8 bytes at `address` as a little-endian number, `None` outside of the copy.
    pub fn read(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start.0)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Which unwind information is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The file has none at all.
    File,
    /// The file has some, but none for this function, and the frame pointer is no frame pointer.
    Function,
    /// JIT or other anonymous code, and the frame pointer is no frame pointer.
    Anonymous,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The outermost frame was reached: its rules say that there is no caller, or the return address is 0.
    /// Only such a chain is complete.
    ReachedRoot,
    /// The next value lies `bytes` past the end of the copied stack: a larger snapshot would go on.
    StackEnd {
        /// How many bytes more would have been needed for the next step.
        bytes: u64,
    },
    /// No rules for the code at `pc`.
    NoUnwindInfo {
        /// What is missing.
        which: Which,
        /// Where.
        pc: Avma,
    },
    /// The code address `avma` is in no mapping we know.
    NoModule {
        /// Where.
        avma: Avma,
    },
    /// The rules give no stack address, or point below the stack or outside of it.
    BadCfa {
        /// Of which code.
        pc: Avma,
    },
    /// The stack pointer did not move up: going on would not end.
    Loop,
    /// As many frames as asked for were found.
    TooDeep,
}

impl Stop {
    /// Whether the chain goes to the thread's start.
    pub fn is_complete(self) -> bool {
        self == Self::ReachedRoot
    }
}

/// Walks stacks and remembers the rules it has met. One per thread; `Send`.
#[derive(Default)]
pub struct Unwinder {}

impl Unwinder {
    /// With an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the code addresses of the stack to `out`, **leaf first**: the pc itself, then return addresses.
    /// At most `max` of them. Values are read from `stack` only.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        regs: &Regs,
        stack: Stack<'_>,
        max: usize,
        out: &mut Vec<Avma>,
    ) -> Stop {
        let mut regs = *regs;
        for depth in 0..max {
            out.push(regs.pc());
            if depth > 0 && space.find(regs.pc().0.wrapping_sub(1)).is_none() {
                return Stop::NoModule { avma: regs.pc() };
            }
            let fp = match &regs {
                Regs::X86_64(r) => r.0[6],
                Regs::Aarch64(r) => r.0[29],
            };
            let (Some(next), Some(ra)) = (stack.read(fp), stack.read(fp.wrapping_add(8))) else {
                return Stop::NoUnwindInfo { which: Which::Function, pc: regs.pc() };
            };
            if ra == 0 {
                return Stop::ReachedRoot;
            }
            match &mut regs {
                Regs::X86_64(r) => (r.0[6], r.0[7], r.0[16]) = (next, fp.wrapping_add(16), ra),
                Regs::Aarch64(r) => (r.0[29], r.0[31], r.0[32]) = (next, fp.wrapping_add(16), ra),
            }
        }
        Stop::TooDeep
    }
}
