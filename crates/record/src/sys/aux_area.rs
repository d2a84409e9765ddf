//! The AUX area of a ring: the processor writes its trace there, and the control page has the position of its end.
//!
//! Two ways to be filled, as rings: *full trace* (mapped writable: the head only grows; the processor stops when the
//! area is full, and an `AUX` record reports it) and *snapshot* (mapped read-only: written over and over, the head is
//! a place in the area; read while the trace is stopped).
//
// Source: linux v6.18 kernel/events/ring_buffer.c perf_aux_output_begin(), perf_aux_output_end(), rb_alloc_aux();
//         kernel/events/core.c perf_mmap(): aux_offset and aux_size are set before the area is mapped.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::perf_abi::control_page;
use super::ring::{Ring, RingSpan};
use super::ring_index::{RingIndex, RingRange};

/// Bytes in front of the head that are kept, to see whether they were written over.
const REMEMBERED_BYTES: usize = 4096;

/// Bytes at an area's end that show whether it was ever filled.
const END_BYTES: usize = 512;

/// Behaviour of an AUX area that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuxMode {
    /// The kernel stops until some of it is read: the whole trace.
    Full,
    /// The kernel writes over the oldest part: the end of the trace.
    Snapshot,
}

/// A mapped AUX area. Unmapped on drop.
#[derive(Debug)]
pub(super) struct AuxArea {
    base: NonNull<u8>,
    bytes: usize,
    /// For full trace: the position up to which it was read.
    index: RingIndex,
    mode: AuxMode,
    /// For snapshots: where the last one ended, and the bytes in front of that.
    last: Option<(usize, Vec<u8>)>,
}

// SAFETY: the mapping belongs to this value alone and may be read from any thread.
unsafe impl Send for AuxArea {}

/// A piece of the trace.
#[derive(Debug, Clone, Copy)]
pub struct TraceBytes<'a> {
    /// Offset of its first byte: in the whole stream of a full trace, in the area of a snapshot.
    pub offset: u64,
    /// The bytes.
    pub span: RingSpan<'a>,
}

/// The kernel's factors between the time stamp counter and the times of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TscFactors {
    /// Right shift of the product.
    pub shift: u16,
    /// Factor.
    pub mult: u32,
    /// Time at TSC 0, ns.
    pub zero_ns: u64,
}

impl Ring {
    /// Maps an AUX area of `bytes` (a power of two, whole pages) for the ring of the event `fd`, whose PMU must write
    /// traces.
    ///
    /// `EPERM` means the locked-memory limit, `ENOMEM` no memory in one piece, `EINVAL` a size that the PMU can't
    /// take, `EOPNOTSUPP` a PMU without traces.
    pub fn map_aux(&mut self, fd: BorrowedFd<'_>, bytes: usize, mode: AuxMode) -> io::Result<()> {
        let index = RingIndex::new(bytes as u64, 0).ok_or(io::ErrorKind::InvalidInput)?;
        let offset = self.mapped_bytes().next_multiple_of(bytes);
        self.control(control_page::AUX_OFFSET).store(offset as u64, Ordering::Release);
        self.control(control_page::AUX_SIZE).store(bytes as u64, Ordering::Release);
        let protection = match mode {
            AuxMode::Snapshot => libc::PROT_READ,
            AuxMode::Full => libc::PROT_READ | libc::PROT_WRITE,
        };
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        self.aux = Some(AuxArea { base, bytes, index, mode, last: None });
        Ok(())
    }

    /// Gives the AUX area back, if there is one.
    pub fn unmap_aux(&mut self) {
        self.aux = None;
    }

    /// Calls `read` with all that is new in a full-trace area, then gives the space back; `None` if nothing is. It ends
    /// with a whole packet: the kernel moves the head only when the processor has stopped and flushed.
    pub fn read_aux<R>(&mut self, read: impl FnOnce(TraceBytes<'_>) -> R) -> Option<R> {
        let head = self.aux_head();
        let area = self.aux.as_mut().filter(|area| area.mode == AuxMode::Full)?;
        let offset = area.index.tail();
        if head == offset {
            return None;
        }
        let result = read(TraceBytes { offset, span: area.span(area.index, head) });
        area.index.advance_to(head);
        self.control(control_page::AUX_TAIL).store(head, Ordering::Release);
        Some(result)
    }

    /// Calls `read` with what was written to a snapshot area since the last time, oldest first; all of it if the
    /// writing has come round. The trace must be stopped. `None` if nothing is new.
    pub fn read_aux_snapshot<R>(&mut self, read: impl FnOnce(TraceBytes<'_>) -> R) -> Option<R> {
        let head = self.aux_head();
        let area = self.aux.as_mut().filter(|area| area.mode == AuxMode::Snapshot)?;
        let head = (head & (area.bytes as u64 - 1)) as usize;
        let (from, len) = area.news(head);
        let index = RingIndex::new(area.bytes as u64, from as u64)?;
        let traced = TraceBytes { offset: from as u64, span: area.span(index, (from + len) as u64) };
        if len == 0 {
            return None;
        }
        let result = read(traced);
        area.remember(head);
        Some(result)
    }

    /// How time stamps become times of records; `None` where the kernel doesn't report it.
    #[must_use]
    pub fn tsc_factors(&self) -> Option<TscFactors> {
        let number = |at: usize| self.control(at & !7).load(Ordering::Acquire);
        const TRIES: usize = 100;
        const CAP_USER_TIME_ZERO: u64 = 1 << 4;
        for _ in 0..TRIES {
            // The kernel makes `lock` (the third u32) odd while it changes the rest.
            let before = number(control_page::LOCK);
            let caps = number(control_page::CAPABILITIES);
            // Layout: u16 time_shift; u32 time_mult, one after the other in a word: shift at 2 or 0 of it.
            let shift_at = control_page::TIME_SHIFT;
            let mult_at = control_page::TIME_MULT;
            let shift = (number(shift_at) >> ((shift_at & 7) * 8)) as u16;
            let mult = (number(mult_at) >> ((mult_at & 7) * 8)) as u32;
            let zero_ns = number(control_page::TIME_ZERO);
            let lock_at = control_page::LOCK & 7;
            let after = number(control_page::LOCK);
            if before == after && (before >> (lock_at * 8)) & 1 == 0 {
                return (caps & CAP_USER_TIME_ZERO != 0).then_some(TscFactors { shift, mult, zero_ns });
            }
        }
        None
    }

    fn aux_head(&self) -> u64 {
        self.control(control_page::AUX_HEAD).load(Ordering::Acquire)
    }
}

impl AuxArea {
    fn slice(&self, range: RingRange) -> &[u8] {
        let RingRange { offset, len } = range;
        debug_assert!(offset + len <= self.bytes);
        // SAFETY: `RingIndex::pieces` and `remember` stay within the area.
        let start = unsafe { self.base.add(offset) };
        // SAFETY: the bytes are in our mapping; the processor does not write between tail and head of a full trace,
        // nor anywhere while a snapshot's trace is stopped, which its reader sees to.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    fn span(&self, index: RingIndex, end: u64) -> RingSpan<'_> {
        let pieces = index.pieces(end);
        RingSpan { first: self.slice(pieces.first), second: self.slice(pieces.second) }
    }

    /// Where what is new begins, and its length, when the head is at `head`.
    fn news(&self, head: usize) -> (usize, usize) {
        let came_round = match &self.last {
            Some((at, bytes)) => self.in_front_of(*at) != bytes.as_slice(),
            // The first time: the end is still zero unless it was reached. If only just, zeros come with it, which
            // are filler to a decoder.
            None => self
                .slice(RingRange { offset: self.bytes - END_BYTES, len: END_BYTES })
                .iter()
                .any(|byte| *byte != 0),
        };
        let from = self.last.as_ref().map_or(0, |(at, _)| *at);
        match (came_round, head >= from) {
            (true, _) => (head, self.bytes),
            (false, true) => (from, head - from),
            (false, false) => (from, self.bytes - from + head),
        }
    }

    /// The bytes written last when the head was at `head`: in front of it, or at the area's end.
    fn in_front_of(&self, head: usize) -> &[u8] {
        let end = if head == 0 { self.bytes } else { head };
        let len = REMEMBERED_BYTES.min(end);
        self.slice(RingRange { offset: end - len, len })
    }

    fn remember(&mut self, head: usize) {
        let bytes = self.in_front_of(head).to_vec();
        self.last = Some((head, bytes));
    }
}

impl Drop for AuxArea {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our own mmap call; no borrow of the bytes outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
