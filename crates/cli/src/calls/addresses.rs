//! The address space in which a recording by uprobes speaks of functions.
//!
//! Uprobes know functions by file and offset, wherever processes map the file. So all processes get the same maps: each
//! file in one piece, one after the other.

use record::calls::{CallAddresses, KernelParts};
use std::fmt::Write as _;

use calls::probing::ProbePlan;
use calls::recording::kernel;

/// Where the first file is.
const FIRST: u64 = 1 << 16;
/// Files begin at multiples of this.
const ALIGN: u64 = 1 << 16;

/// Addresses of what was chosen.
#[must_use]
pub fn of(chosen: &ProbePlan, parts: KernelParts) -> CallAddresses {
    let mut at = FIRST;
    let mut starts = Vec::new();
    let mut maps = String::new();
    for object in &chosen.objects {
        let bytes = std::fs::metadata(&object.path).map_or(0, |meta| meta.len()).next_multiple_of(ALIGN);
        // Writing to a String does not fail.
        let _ = writeln!(maps, "{at:x}-{:x} r-xp 00000000 00:00 0 {}", at + bytes, object.path.display());
        starts.push(at);
        at += bytes;
    }
    let functions =
        chosen.functions.iter().map(|function| starts[function.object] + function.offset).collect();
    if parts != KernelParts::default() {
        let _ = writeln!(
            maps,
            "{at:x}-{:x} r-xp 00000000 00:00 0 {}",
            at + kernel::FUNCTIONS + kernel::MOST_FUNCTIONS,
            kernel::MAPPING
        );
    }
    let jumps_out = chosen.functions.iter().map(|function| function.jumps_out).collect();
    CallAddresses {
        functions,
        jumps_out,
        system_calls: at,
        fault: at + kernel::FAULT,
        block: at + kernel::BLOCK,
        kernel_functions: at + kernel::FUNCTIONS,
        maps,
    }
}
