//! Probes to be put on functions: where each is entered, and by which instructions it is left.

use std::path::PathBuf;

/// How the end of a call is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exits {
    /// By probes on the function's return instructions: touches nothing of the program.
    Sites,
    /// By a return probe: the kernel swaps the return address. Sees every return, but an unwinder (C++ exceptions,
    /// Rust panics) or a change of stacks meanwhile would end the program.
    Return,
    /// Not at all: only entries are counted. Only with sums made in the kernel.
    None,
}

impl Exits {
    /// How many places are probed of a function.
    #[must_use]
    pub const fn places(self, function: &ProbedFunction) -> usize {
        match self {
            Self::Sites => 1 + function.leaves.len(),
            Self::Return => 2,
            Self::None => 1,
        }
    }
}

/// A file whose functions are probed.
#[derive(Clone, Debug)]
pub struct ProbedObject {
    /// Path of the file as our process sees it.
    pub path: PathBuf,
    /// Only in this process; in every one that maps the file if 0 (those not followed pay, too, but are not recorded).
    pub pid: u32,
}

/// An instruction by which a function is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// File offset.
    pub offset: u64,
    /// Only if this condition holds: x86's number of it.
    pub condition: Option<u8>,
    /// Only if the stack pointer is there as at entry: a computed jump.
    pub maybe: bool,
}

impl Leave {
    /// One that always leaves.
    #[must_use]
    pub const fn always(offset: u64) -> Self {
        Self { offset, condition: None, maybe: false }
    }
}

/// A function to be probed. Its place in the list is its number.
#[derive(Clone, Debug)]
pub struct ProbedFunction {
    /// Number of its file.
    pub object: usize,
    /// File offset of its first instruction, or of one soon after it at which a probe costs less.
    pub offset: u64,
    /// Return instructions and jumps out of the function, for [`Exits::Sites`].
    pub leaves: Vec<Leave>,
    /// It may also end by a jump whose moment is not seen (conditional, computed; with return probes any).
    pub jumps_out: bool,
    /// The function jumps back to `offset`. Another hit at the same place of the stack isn't a new call.
    pub loops: bool,
    /// It is Go's: what calls it is a goroutine, whose stack may move and go on in another thread.
    pub by_goroutine: bool,
}
