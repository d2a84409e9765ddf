//! Memory allocated by the program: an allocator that counts.
//!
//! Rust's allocations are counted, including those of libraries. Memory of C libraries and mappings is not counted; the
//! driver's limit of address space bounds it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, counted.
pub struct CountingAllocator;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Forgets the peak so far. Returns the bytes in use.
pub fn start() -> usize {
    let now = NOW.load(Relaxed);
    PEAK.store(now, Relaxed);
    now
}

/// The most bytes in use at one time since [`start`].
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps alloc's contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from this allocator with this layout, so it came from the system's with the same.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        add(bytes);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `dealloc`; `bytes` is the caller's, who keeps realloc's contract.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_holds_what_was_freed_again() {
        let before = start();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(peak() - before >= 64 << 20);
        let again = start();
        assert!(peak() - again < 64 << 20);
    }
}
