//! The functions to probe, and the kind of probe for each.

use tracer::layout::sleds;

use super::layout::{self, CallMode};

pub use dso::code::flow::{Exits, Leave, ProbedFunction, ProbedObject};

/// Bits for the attach cookie of the probe of an instruction by which a function is left.
pub(super) fn leave_cookie(leave: Leave) -> u64 {
    let condition = leave.condition.map_or(0, |number| {
        layout::COOKIE_CONDITION | u64::from(number & 15) << layout::COOKIE_CONDITION_SHIFT
    });
    condition | if leave.maybe { layout::COOKIE_MAYBE } else { 0 }
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
pub struct KernelSelection {
    /// Only these and what they call; none: all.
    pub functions: Vec<KernelFunction>,
    /// Nested so deep; 0: no function of the kernel at all.
    pub depth: u32,
}

/// Which calls the sums of [`CallMode::Totals`] are of.
#[derive(Clone, Debug, Default)]
pub struct CountRules {
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

impl CountRules {
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
pub struct ProbeOptions {
    /// The data handed out from the kernel.
    pub mode: CallMode,
    /// How ends of calls are seen.
    pub exits: Exits,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u32,
    /// Kernel activity to record.
    pub kernel: KernelParts,
    /// Functions of the kernel.
    pub kernel_selection: KernelSelection,
    /// Which calls are summed up.
    pub counted: CountRules,
}

/// A function whose rate was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedCounts {
    /// Number.
    pub function: u32,
    /// Entries so far.
    pub entries: u64,
}
