//! The bounds of a thread's own stack, from the process's mappings.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Where the environment was when the program started: at the top of the main thread's stack.
static ENVIRONMENT: AtomicU64 = AtomicU64::new(0);

/// Keeps the address of the environment, as the program's start has it.
pub fn note_environment(at: u64) {
    ENVIRONMENT.store(at, Ordering::Relaxed);
}

/// The bounds of this thread's own stack, wherever it runs just now; `variables` is an address among its own variables.
/// Nothing when they can't be read.
pub fn own_stack(variables: u64) -> (u64, u64) {
    const GROWTH_BYTES: u64 = 64 << 20;
    if sys::pid() == sys::tid() {
        // The main thread's stack grows downwards as it is used, as far as the next mapping. (An emulator may put the
        // program's data, and in it other stacks, right below.)
        let [below, _, end] = mapping_of(ENVIRONMENT.load(Ordering::Relaxed));
        return (end.saturating_sub(GROWTH_BYTES).max(below), end);
    }
    // The C library keeps a thread's own variables at its stack's top: the next mapping is something else.
    (mapping_of(variables)[1], variables)
}

/// Where the mapping before the one that holds an address ends, and that one's own bounds. Nothing when they can't be read.
fn mapping_of(at: u64) -> [u64; 3] {
    let Some(file) = sys::open(b"/proc/self/maps\0", sys::READ_ONLY) else { return [0; 3] };
    let (mut range, mut field, mut skip) = ([0u64; 2], 0, false);
    let mut block = [0; 2048];
    let (mut found, mut below) = ([0; 3], 0);
    'file: loop {
        let n = sys::read(file, &mut block);
        if n == 0 {
            break;
        }
        for byte in &block[..n] {
            match byte {
                b'\n' => (below, range, field, skip) = (range[1], [0; 2], 0, false),
                _ if skip => {}
                b'-' => field = 1,
                b' ' => {
                    if at >= range[0] && at < range[1] {
                        found = [below, range[0], range[1]];
                        break 'file;
                    }
                    skip = true;
                }
                digit => {
                    range[field] = range[field] << 4 | u64::from((*digit as char).to_digit(16).unwrap_or(0))
                }
            }
        }
    }
    sys::close(file);
    found
}
