//! The counter as a test sets it, in place of the processor's.

use std::cell::Cell;

thread_local! {
    static TICKS: Cell<u64> = const { Cell::new(0) };
}

/// From now on it is this time on this thread.
pub fn set_ticks(to: u64) {
    TICKS.set(to);
}

/// The time last set.
pub fn ticks() -> u64 {
    TICKS.get()
}
