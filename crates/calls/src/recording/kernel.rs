//! The kernel's part of a call: system calls, page faults, block requests, times off the CPU.
//!
//! They are spans under the user's function that caused them.

use rustc_hash::FxHashMap;
use std::path::Path;

use super::function::Function;

/// Name of the pseudo file that these spans belong to.
pub const MAPPING: &str = "[kernel]";
/// Name of the file with their names: lines `address name`.
pub const NAMES: &str = "kernel";
/// Name of a page fault.
pub const FAULT_NAME: &str = "page fault";
/// Name of a request to a disk.
pub const BLOCK_NAME: &str = "block request";
/// Offset of page faults after the system calls' numbers.
pub const FAULT: u64 = 0x1000;
/// Offset of block requests.
pub const BLOCK: u64 = 0x1001;
/// Offset of the first kernel function.
pub const FUNCTIONS: u64 = 0x2000;
/// Most kernel functions that are distinguished.
pub const MOST_FUNCTIONS: u64 = 1 << 20;
/// Why a recording shows nothing of the kernel.
#[must_use]
pub fn why_nothing(recording: &Path) -> &'static str {
    if recording.join(NAMES).is_file() {
        "tally calls: recorded with -K, but the kernel did nothing inside the calls shown"
    } else {
        "tally calls: nothing of the kernel was recorded; `tally calls record -K5` does"
    }
}

/// Whether it is a moment, without an end in the kernel's events.
#[must_use]
pub fn is_moment(function: &Function) -> bool {
    function.dso == MAPPING && matches!(function.name.as_str(), FAULT_NAME | BLOCK_NAME)
}

/// The names by address, from the text of that file.
#[must_use]
pub fn names_in(text: &str) -> FxHashMap<u64, String> {
    let line = |line: &str| {
        let (address, name) = line.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
    };
    text.lines().filter_map(line).collect()
}
