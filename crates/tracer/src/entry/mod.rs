//! The hooks: what the assembly of both architectures has in common, and the one of this build.

use core::arch::global_asm;

use crate::registers::{Registers, Results};
use crate::thread::ThreadState;

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod parts;
#[cfg(target_arch = "aarch64")]
mod aarch64;
pub mod addresses;
#[cfg(target_arch = "x86_64")]
pub mod cyg_profile;
#[cfg(target_arch = "aarch64")]
pub mod fast;
pub mod hook;
pub mod unwind_guards;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{frame_record, jump_guard, thread};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{compiled_in, frame_record, jump_guard, thread};

/// Bytes that are set aside for a thread's state.
const THREAD_BYTES: usize = 768;
const _: () = assert!(size_of::<ThreadState>() <= THREAD_BYTES);
// Registers that both save for the slow half.
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
