//! The hooks: what the assembly of both architectures has in common, and the one of this build.

use core::arch::global_asm;

use crate::thread::Thread;
use crate::values::{Registers, Results};

#[cfg(target_arch = "aarch64")]
pub use crate::entry_aarch64::{frame_record, jump_guard, thread};
#[cfg(target_arch = "x86_64")]
pub use crate::entry_x86_64::{compiled_in, frame_record, jump_guard, thread};

/// Bytes that are set aside for a thread's state.
const THREAD_BYTES: usize = 768;
const _: () = assert!(size_of::<Thread>() <= THREAD_BYTES);
// What both save for the slow half.
const _: () = assert!(core::mem::offset_of!(Registers, vector) == 80 && size_of::<Registers>() == 208);
const _: () = assert!(core::mem::offset_of!(Results, general) == 32);

// Every thread's state.
global_asm!(
    r#"
    .section .tbss.tally_thread,"awT",@nobits
    .p2align 6
    .globl tally_thread
    .hidden tally_thread
    .type tally_thread, @object
    .size tally_thread, {bytes}
tally_thread:
    .zero {bytes}
    .text
"#,
    bytes = const THREAD_BYTES,
);

unsafe extern "C" {
    fn tally_return();
    fn tally_sled();
    fn tally_import();
    fn tally_site();
    fn tally_site_called();
    fn tally_site_reported();
    fn tally_sled_return();
}

/// How many places stubs go to.
pub const STUB_TARGETS: usize = 5;

/// Targets of stubs for sleds, imported functions, functions with rules, calls of `mcount` with rules, and
/// functions with rules that report themselves. Each gets its data in r11 (x86-64) or where x16 points
/// (aarch64): the function's body for sleds, the site for all others.
pub fn stub_targets() -> [u64; STUB_TARGETS] {
    [tally_sled, tally_import, tally_site, tally_site_called, tally_site_reported]
        .map(|function: unsafe extern "C" fn()| function as *const () as u64)
}

/// The address that replaces a hooked return address.
pub fn return_address() -> u64 {
    tally_return as *const () as u64
}

/// Where functions that a sled's stub called return to.
pub fn sled_return_address() -> u64 {
    tally_sled_return as *const () as u64
}
