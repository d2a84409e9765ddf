//! The mapped ring of an event: the kernel writes records, we read them and give the space back.
//!
//! Two ways to be filled: *forward* (mapped writable: the kernel stops and counts losses when full) and
//! *overwritten* (mapped read-only with `attr.write_backward`: the newest records always fit; read while paused).
//
// Source: linux v6.18 kernel/events/ring_buffer.c (perf_output_put_handle: data_head is published after the bytes),
//         include/uapi/linux/perf_event.h, struct perf_event_mmap_page.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::aux_area::AuxArea;
use super::perf_abi::control_page;
use super::ring_index::{RingIndex, RingRange};
use super::{Counter, mem};

/// A mapped ring. Unmapped on drop; it may outlive its [`Counter`]'s descriptor.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    map_bytes: usize,
    data_offset: usize,
    index: RingIndex,
    /// Where a processor's trace goes, separate from the records.
    pub(super) aux: Option<AuxArea>,
}

// SAFETY: the mapping belongs to this value alone and may be read from any thread.
unsafe impl Send for Ring {}

/// Bytes of the ring that wait to be read, in order; wraps from `first` to `second`.
#[derive(Debug, Clone, Copy)]
pub struct RingSpan<'a> {
    /// The earlier bytes.
    pub first: &'a [u8],
    /// The later bytes (at the start of the buffer); empty unless wrapped.
    pub second: &'a [u8],
}

impl RingSpan<'_> {
    /// Bytes in both pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `len` bytes from `offset` on to `out`, as far as there are any.
    pub fn copy_to(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        let split = self.first.len();
        let end = offset.saturating_add(len).min(self.len());
        if offset < split.min(end) {
            out.extend_from_slice(&self.first[offset..end.min(split)]);
        }
        if end > split {
            out.extend_from_slice(&self.second[offset.max(split) - split..end - split]);
        }
    }

    /// The eight bytes at `offset` as a number in this machine's order; `None` past the end.
    #[must_use]
    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        let split = self.first.len();
        let at = |i: usize| if i < split { self.first.get(i) } else { self.second.get(i - split) }.copied();
        if let Some(bytes) = self.first.get(offset..offset.checked_add(8)?) {
            return Some(u64::from_ne_bytes(bytes.try_into().ok()?));
        }
        let mut bytes = [0u8; 8];
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = at(offset + i)?;
        }
        Some(u64::from_ne_bytes(bytes))
    }
}

impl Ring {
    /// Maps `counter`'s ring with `pages` data pages (a power of two).
    ///
    /// `EPERM` means the locked-memory limit (`kernel.perf_event_mlock_kb`, `RLIMIT_MEMLOCK`). `EINVAL` means that
    /// `pages` isn't a power of two, or the event is inherited and has no CPU.
    pub fn map(counter: &Counter, pages: usize) -> io::Result<Self> {
        Self::map_fd(counter.as_fd(), pages)
    }

    /// The same of any descriptor that holds a ring: an event's, or a file that a test lays out like one.
    pub fn map_fd(fd: BorrowedFd<'_>, pages: usize) -> io::Result<Self> {
        let page = mem::page_bytes();
        let data_bytes = pages.checked_mul(page).ok_or(io::ErrorKind::InvalidInput)?;
        let map_bytes = data_bytes.checked_add(page).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = fd.as_raw_fd();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no memory of ours.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), map_bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        let index = RingIndex::new(data_bytes as u64, 0);
        let mut ring = Self {
            base,
            map_bytes,
            data_offset: page,
            index: index.unwrap_or(RingIndex::new(1, 0).expect("invariant: 1 is a power of two")),
            aux: None,
        };
        if index.is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Kernels since 4.1 report where the data begins; it is always the second page.
        ring.data_offset = page;
        Ok(ring)
    }

    /// Bytes mapped: control page and data area.
    pub(super) fn mapped_bytes(&self) -> usize {
        self.map_bytes
    }

    /// Bytes of the data area.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.map_bytes - self.data_offset
    }

    /// Calls `read` with all that waits, then gives the space back to the kernel. Whole records only: the kernel
    /// moves its head record by record. Not called when nothing waits. Forward rings.
    pub fn read<R>(&mut self, read: impl FnOnce(RingSpan<'_>) -> R) -> Option<R> {
        let (head, span) = self.waiting()?;
        let result = read(span);
        self.index.advance_to(head);
        self.tail().store(head, Ordering::Release);
        Some(result)
    }

    /// All that waits, left where it is; `None` when nothing waits. Forward rings.
    #[must_use]
    pub fn peek(&self) -> Option<RingSpan<'_>> {
        self.waiting().map(|(_, span)| span)
    }

    fn waiting(&self) -> Option<(u64, RingSpan<'_>)> {
        let head = self.head().load(Ordering::Acquire);
        if head == self.index.tail() {
            return None;
        }
        let pieces = self.index.pieces(head);
        Some((head, RingSpan { first: self.bytes(pieces.first), second: self.bytes(pieces.second) }))
    }

    /// Bytes that wait to be read in a forward ring.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.head().load(Ordering::Acquire).wrapping_sub(self.index.tail())
    }

    fn bytes(&self, range: RingRange) -> &[u8] {
        let RingRange { offset, len } = range;
        debug_assert!(offset + len <= self.data_bytes());
        // SAFETY: `RingIndex::pieces` stays within the data area, which starts `data_offset` bytes into the mapping.
        let start = unsafe { self.base.add(self.data_offset + offset) };
        // SAFETY: the bytes are in our mapping, and the kernel does not write between tail and head
        // until we move the tail, which needs `&mut self` or happens after the borrow ends.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    fn head(&self) -> &AtomicU64 {
        self.control(control_page::DATA_HEAD)
    }

    fn tail(&self) -> &AtomicU64 {
        self.control(control_page::DATA_TAIL)
    }

    /// A number of the control page, at this offset.
    pub(super) fn control(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= self.data_offset);
        // SAFETY: the control structure is the first page of the mapping; the offset is one of its own fields.
        let field = unsafe { self.base.add(offset) };
        // SAFETY: the field is 8-aligned and lives as long as the mapping; both sides use it as an atomic number.
        unsafe { AtomicU64::from_ptr(field.as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our own mmap call; no borrow of the bytes outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.map_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_across_the_seam() {
        let span = RingSpan { first: &[1, 2, 3], second: &[4, 5, 6, 7, 8, 9] };
        let mut out = Vec::new();
        span.copy_to(1, 4, &mut out);
        span.copy_to(4, 99, &mut out);
        assert_eq!(out, [2, 3, 4, 5, 5, 6, 7, 8, 9]);
        assert_eq!(span.u64_at(0), Some(u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8])));
        assert_eq!(span.u64_at(2), None);
    }
}
