//! Records the calls of an instrumented program from inside it.
//!
//! Duties: write every entry and exit of an instrumented function into a file mapped by the thread itself, 8
//! bytes each, so that what was recorded survives the target's death. It does not allocate, lock, call libc or
//! unwind on the hot path, and knows nothing about symbols, filters and output.
//!
//! Two builds of one source: as an ordinary library it is only [`layout`] and [`gate`], which others need; with
//! `--cfg tally_preload` (the cli's build script) it is the shared object that is preloaded.
#![cfg_attr(tally_preload, no_std)]

pub mod gate;
pub mod layout;

#[cfg(tally_preload)]
mod apart;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
#[macro_use]
mod entry_parts;
#[cfg(tally_preload)]
mod calls_of_program;
#[cfg(all(tally_preload, target_arch = "aarch64"))]
mod code_aarch64;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
mod code_x86_64;
#[cfg(tally_preload)]
mod ending;
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
mod hooked;
#[cfg(tally_preload)]
mod import;
#[cfg(tally_preload)]
mod loading;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
mod measure;
#[cfg(tally_preload)]
mod object;
#[cfg(tally_preload)]
mod opened;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
mod reported;
#[cfg(tally_preload)]
mod site;
#[cfg(tally_preload)]
mod sled;
#[cfg(tally_preload)]
mod slow;
#[cfg(tally_preload)]
mod stack;
#[cfg(tally_preload)]
mod start;
#[cfg(tally_preload)]
mod stubs;
#[cfg(tally_preload)]
mod switch;
#[cfg(tally_preload)]
mod sys;
#[cfg(tally_preload)]
mod thread;
#[cfg(tally_preload)]
mod unwinding;
#[cfg(tally_preload)]
mod values;

#[cfg(all(tally_preload, target_arch = "aarch64"))]
use code_aarch64 as code;
#[cfg(all(tally_preload, target_arch = "x86_64"))]
use code_x86_64 as code;

#[cfg(tally_preload)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // A bug of ours must not look like one of the target's: leave at once, by a status of its own.
    sys::exit_group(121)
}
