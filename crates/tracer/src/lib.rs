//! Records the calls of an instrumented program from inside it.
//!
//! Duties: write every entry and exit of an instrumented function into a file mapped by the thread itself, 8
//! bytes each, so that what was recorded survives the target's death. It does not allocate, lock, call libc or
//! unwind on the hot path, and knows nothing about symbols, filters and output.
//!
//! Three builds of one source: as an ordinary library it is only [`layout`] and [`gate`], which others need; with
//! `--cfg tally_preload` (the cli's build script) it is the shared object that is preloaded; with `--cfg tally_timers` it
//! is another one, which takes samples by timers where the kernel gives no events.
#![cfg_attr(any(tally_preload, tally_timers), no_std)]
// The timers use a part of the system calls and layouts only.
#![cfg_attr(tally_timers, allow(dead_code))]

pub mod gate;
pub mod layout;

#[cfg(tally_preload)]
mod stack_regions;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
#[macro_use]
mod entry_parts;
#[cfg(tally_preload)]
mod code;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
mod cyg_profile;
#[cfg(tally_preload)]
mod entry;
#[cfg(all(tally_preload, target_arch = "aarch64"))]
mod entry_aarch64;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
mod entry_x86_64;
#[cfg(tally_preload)]
mod events;
#[cfg(all(tally_preload, target_arch = "aarch64"))]
mod fast;
#[cfg(tally_preload)]
mod frame;
#[cfg(tally_preload)]
mod hook;
#[cfg(tally_preload)]
mod import;
#[cfg(tally_preload)]
mod init;
#[cfg(tally_preload)]
mod instrumented_fn;
#[cfg(tally_preload)]
mod interposed;
#[cfg(tally_preload)]
mod loading;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
mod measure;
#[cfg(tally_preload)]
mod object;
#[cfg(tally_preload)]
mod opened;
#[cfg(tally_preload)]
mod return_hooks;
#[cfg(tally_preload)]
mod signal_toggle;
#[cfg(tally_preload)]
mod sled;
#[cfg(tally_preload)]
mod slow_filter;
#[cfg(tally_preload)]
mod stack;
#[cfg(tally_preload)]
mod stubs;
#[cfg(any(tally_preload, tally_timers))]
mod sys;
#[cfg(tally_preload)]
mod thread;
#[cfg(tally_preload)]
mod thread_exit;
#[cfg(tally_timers)]
mod timers;
#[cfg(tally_preload)]
mod unwind_guards;
#[cfg(tally_preload)]
mod values;

#[cfg(any(tally_preload, tally_timers))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // A bug of ours must not look like one of the target's: leave at once, by a status of its own.
    sys::exit_group(121)
}
