//! Records the calls of an instrumented program from inside it.
//!
//! Duties: write every entry and exit of an instrumented function into a file mapped by the thread itself, 8
//! bytes each, so that what was recorded survives the target's death. It does not allocate, lock, call libc or
//! unwind on the hot path, and knows nothing about symbols, filters and output.
//!
//! Three builds of one source: as an ordinary library it is only [`layout`] and [`gate`], which others need; with
//! `--cfg tally_preload` (the cli's build script) it is the shared object that is preloaded; with `--cfg tally_timers` it
//! is another one, which takes samples by timers where the kernel gives no events. Unit tests have all parts of the first but
//! the assembly and what it calls.
//!
//! ```
//! use tracer::gate::{Gate, GateStart};
//! use tracer::layout::sleds::ONLY;
//!
//! // Only calls within a function that has the rule ONLY are recorded.
//! let mut gate = Gate::new(GateStart { any_only: true, starts_off: false });
//! assert!(!gate.is_open());
//! gate.enter(ONLY);
//! assert!(gate.is_open());
//! gate.leave(ONLY);
//! assert!(!gate.is_open());
//! ```
#![cfg_attr(any(tally_preload, tally_timers), no_std)]
// The timers use a part of the system calls and layouts only, unit tests all but the assembly and what it calls.
#![cfg_attr(any(tally_timers, test), allow(dead_code))]

pub mod gate;
pub mod layout;

#[cfg(tally_preload)]
mod entry;
#[cfg(test)]
#[path = "entry/for_tests.rs"]
mod entry;
#[cfg(any(tally_preload, test))]
mod frame;
#[cfg(any(tally_preload, test))]
mod instrumented_fn;
#[cfg(any(tally_preload, test))]
mod patch;
#[cfg(any(tally_preload, test))]
mod process;
#[cfg(any(tally_preload, test))]
mod registers;
#[cfg(any(tally_preload, tally_timers, test))]
mod sys;
#[cfg(any(tally_preload, test))]
mod thread;
#[cfg(tally_timers)]
mod timers;

#[cfg(any(tally_preload, tally_timers))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // A bug of ours must not look like one of the target's: leave at once, by a status of its own.
    sys::exit_group(121)
}
