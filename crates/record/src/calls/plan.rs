//! The functions to probe, and the kind of probe for each.

use std::path::PathBuf;

use tracer::layout::sleds;

use super::layout::{self, Mode};

/// How the end of a call is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exits {
    /// By probes on the function's return instructions: touches nothing of the program.
    Sites,
    /// By a return probe: the kernel swaps the return address. Sees every return, but an unwinder (C++ exceptions,
    /// Rust panics) or a change of stacks meanwhile would end the program.
    Return,
    /// Not at all: only entries are counted. Only with [`Mode::Totals`].
    None,
}

impl Exits {
    /// How many places are probed of a function.
    #[must_use]
    pub const fn places(self, function: &Function) -> usize {
        match self {
            Self::Sites => 1 + function.leaves.len(),
            Self::Return => 2,
            Self::None => 1,
        }
    }
}

/// A file whose functions are probed.
#[derive(Clone, Debug)]
pub struct Object {
    /// Path of the file in tally's own view.
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

    /// Bits for the attach cookie of its probe.
    pub(super) fn cookie(self) -> u64 {
        let condition = self.condition.map_or(0, |number| {
            layout::COOKIE_CONDITION | u64::from(number & 15) << layout::COOKIE_CONDITION_SHIFT
        });
        condition | if self.maybe { layout::COOKIE_MAYBE } else { 0 }
    }
}

/// A function to be probed. Its place in the list is its number.
#[derive(Clone, Debug)]
pub struct Function {
    /// Number of its file.
    pub object: usize,
    /// File offset of its first instruction.
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

/// Kernel activity to record as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelParts {
    /// System calls.
    pub system_calls: bool,
    /// Page faults of user code.
    pub faults: bool,
    /// Times off the CPU.
    pub switches: bool,
    /// Block requests.
    pub blocks: bool,
}

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFunction {
    /// Symbol of the function.
    pub name: String,
    /// Address of the function from `/proc/kallsyms`.
    pub address: u64,
}

/// Which functions of the kernel are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelWish {
    /// Only these and what they call; none: all.
    pub functions: Vec<KernelFunction>,
    /// Nested so deep; 0: no function of the kernel at all.
    pub depth: u32,
}

/// Which calls the sums of [`Mode::Totals`] are of.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Rule of each function, by its number: `tracer::layout::sleds`' `NOT`, `ONLY`, `START`, `STOP`, `CALLER`. May
    /// be shorter than there are functions.
    pub rules: Vec<u32>,
    /// Only calls inside functions of `ONLY`.
    pub any_only: bool,
    /// None before a function of `START` is called.
    pub starts_off: bool,
    /// None nested deeper; 0: all.
    pub depth: u64,
    /// Only those that lead to functions of `CALLER`.
    pub callers: bool,
    /// Only those that lasted so long, and those around them.
    pub min_ns: u64,
}

impl Counted {
    /// Attach cookie of a function's entry.
    pub(super) fn cookie_of(&self, function: u32) -> u64 {
        let rules = self.rules.get(function as usize).copied().unwrap_or(0);
        let bits = [
            (sleds::NOT, layout::COOKIE_NOT),
            (sleds::ONLY, layout::COOKIE_ONLY),
            (sleds::START, layout::COOKIE_START),
            (sleds::STOP, layout::COOKIE_STOP),
            (sleds::CALLER, layout::COOKIE_CALLER),
        ];
        bits.iter().filter(|(rule, _)| rules & rule != 0).map(|(_, bit)| bit).sum()
    }
}

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data handed out from the kernel.
    pub mode: Mode,
    /// How ends of calls are seen.
    pub exits: Exits,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u32,
    /// Kernel activity to record.
    pub kernel: KernelParts,
    /// Functions of the kernel.
    pub kernel_wish: KernelWish,
    /// Which calls are summed up.
    pub counted: Counted,
}

/// A function whose rate was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its number.
    pub function: u32,
    /// Entries so far.
    pub entries: u64,
}
