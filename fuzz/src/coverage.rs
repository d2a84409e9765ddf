//! Code reached by an input, in a build with the compiler's coverage counters.
//!
//! `-Cpasses=sancov-module` with inline 8-bit counters gives every edge of the program a byte, and announces them all
//! before `main`. Without these flags nothing is announced, and no input is ever new.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Called by the code that the compiler adds, once for each of its units, always with the same section.
// SAFETY: nothing else defines this name; the compiler's pass calls it with two pointers.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, end: *mut u8) {
    START.store(start as usize, Relaxed);
    END.store(end as usize, Relaxed);
}

/// The counters. All bytes are atomic, because threads of the program write to them at any time.
fn counters() -> &'static [AtomicU8] {
    let (start, end) = (START.load(Relaxed), END.load(Relaxed));
    if start == 0 || end <= start {
        return &[];
    }
    // SAFETY: the compiler's section of counters, `start..end`, is writable and lives as long as the program. It is read
    // after an input is done, when no thread of the program runs.
    unsafe { std::slice::from_raw_parts(start as *const AtomicU8, end - start) }
}

/// Edges reached so far, each with the orders of magnitude of its counts.
pub struct Coverage {
    seen: Vec<u8>,
    /// Edges reached.
    pub edges: usize,
}

impl Coverage {
    /// Nothing reached yet.
    pub fn new() -> Self {
        Self { seen: vec![0; counters().len()], edges: 0 }
    }

    /// True if this build counts.
    pub fn is_counted(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Takes the counts since the last call. True if an edge was new, or new in the order of its count.
    pub fn take(&mut self) -> bool {
        let counters = counters();
        // SAFETY: eight relaxed atomic bytes may be read as one relaxed atomic word, because the word is only
        // compared with zero, and `align_to` cuts at the word's alignment.
        let (head, words, tail) = unsafe { counters.align_to::<AtomicU64>() };
        let mut new = self.take_bytes(head, 0);
        for (at, word) in words.iter().enumerate() {
            if word.load(Relaxed) != 0 {
                let from = head.len() + 8 * at;
                new |= self.take_bytes(&counters[from..from + 8], from);
            }
        }
        new | self.take_bytes(tail, counters.len() - tail.len())
    }

    fn take_bytes(&mut self, counters: &[AtomicU8], from: usize) -> bool {
        let mut new = false;
        for (counter, seen) in counters.iter().zip(&mut self.seen[from..]) {
            let order = order_of(counter.swap(0, Relaxed));
            if order & !*seen != 0 {
                self.edges += usize::from(*seen == 0);
                *seen |= order;
                new = true;
            }
        }
        new
    }
}

/// One bit for each order of magnitude: 1, 2, 3, 4, 8, 16, 32 and 128 times.
fn order_of(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..8 => 8,
        8..16 => 16,
        16..32 => 32,
        32..128 => 64,
        128.. => 128,
    }
}
