//! A BPF array that programs write and we read, mapped into our memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The words of the array, shared with the kernel. Unmapped on drop.
#[derive(Debug)]
pub struct SharedMap {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and its words are only accessed as atomics.
unsafe impl Send for SharedMap {}

impl SharedMap {
    /// Maps the first `words` words of an array made with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn map(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.as_raw_fd();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no memory of ours.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), words * 8, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<AtomicU64>()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, words })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words, "invariant: a word of the map");
        // SAFETY: `at` is inside of the mapping.
        let word = unsafe { self.base.add(at) };
        // SAFETY: the mapping lives as long as `self`, is aligned to a page, readable and writable; every bit
        // pattern is an AtomicU64.
        unsafe { word.as_ref() }
    }

    /// The word at this index; what was written before it can be read then.
    #[must_use]
    pub fn read(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Sets the word at this index, after all reads before it.
    pub fn write(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and nobody has a reference into it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}
