//! The file shared with preloaded timers, from the side that reads it. Its layout is `tracer::layout::slots`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use tracer::layout::interpreter::PROCESS_WORDS;
use tracer::layout::slots::*;

/// The mapped file. Other processes write it, so that nothing in it is trusted or borrowed: records are copied out.
#[derive(Debug)]
pub struct SharedSlots {
    base: NonNull<u8>,
    count: usize,
    /// Brief records that were handed over before the last look for them.
    seen_brief: AtomicU64,
}

/// A record that was taken out of its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRecord {
    /// The words of its head; registers of a brief record are 0.
    pub words: Vec<u64>,
    /// Content that follows: stack or text.
    pub bytes: Vec<u8>,
    /// Frames of Python in two words each, innermost first; empty if there are none.
    pub python: Vec<u64>,
}

impl SlotRecord {
    /// Whether a timer in the program made it: else the thread was stopped from outside.
    #[must_use]
    pub fn is_from_inside(&self) -> bool {
        self.words.len() > word::PYTHON
    }
}

impl SharedSlots {
    /// Lays out `file`, which must be new, for `count` slots. Its space is allocated now: a store without room would
    /// end the program that makes it.
    ///
    /// # Errors
    /// If there is no room, or it can't be mapped.
    pub fn create(file: &File, count: usize, period_ns: u64) -> io::Result<Self> {
        let bytes = file_bytes(count);
        let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the descriptor is open; no memory is touched.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        let slots = Self { base, count, seen_brief: AtomicU64::new(0) };
        slots.word(PERIOD_WORD).store(period_ns, Ordering::Relaxed);
        slots.word(COUNT_WORD).store(count as u64, Ordering::Relaxed);
        slots.word(0).store(MAGIC, Ordering::Release);
        Ok(slots)
    }

    /// The address of a byte of the mapping.
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < file_bytes(self.count));
        self.base.as_ptr().wrapping_add(offset)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, which lives as long as `self` and is aligned to pages; other processes change its
        // words only as atomics.
        unsafe { &*self.at(index * 8).cast::<AtomicU64>() }
    }

    /// A counter of the header.
    #[must_use]
    pub fn header(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    fn state(&self, index: usize) -> &AtomicU64 {
        self.word(STATES_AT / 8 + index)
    }

    /// Indices of all slots that may be in use, brief ones after the others.
    fn in_use(&self) -> Range<usize> {
        let handed_over = self.word(BRIEF_WORD).load(Ordering::Acquire);
        let has_brief = self.seen_brief.swap(handed_over, Ordering::Relaxed) != handed_over;
        0..if has_brief { self.all() } else { self.count }
    }

    fn all(&self) -> usize {
        self.count + BRIEF_COUNT
    }

    /// Takes all complete records out, in no order.
    #[must_use]
    pub fn take(&self) -> Vec<SlotRecord> {
        let ready = self.in_use().filter(|&at| self.state(at).load(Ordering::Acquire) == READY);
        ready
            .map(|at| {
                let record = self.copy(at);
                self.state(at).store(FREE, Ordering::Release);
                record
            })
            .collect()
    }

    /// Gives back the slots whose writers were killed, by their thread's id.
    pub fn free_those_of(&self, is_gone: impl Fn(u32) -> bool) {
        for at in 0..self.all() {
            let state = self.state(at).load(Ordering::Relaxed);
            if state & 0xff == WRITING && is_gone((state >> 8) as u32) {
                let _ = self.state(at).compare_exchange(state, FREE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    fn copy(&self, index: usize) -> SlotRecord {
        const WORDS: usize = word::PYTHON + 1;
        if let Some(brief) = index.checked_sub(self.count) {
            let from = brief_at(self.count) + brief * BRIEF_BYTES;
            let mut words = self.words(from, word::REGS);
            words.resize(WORDS, 0);
            return SlotRecord { words, bytes: Vec::new(), python: Vec::new() };
        }
        let from = slots_at(self.count) + index * SLOT_BYTES;
        let words = self.words(from, WORDS);
        let length = usize::try_from(words[word::BYTES]).unwrap_or(0).min(STACK_BYTES);
        let mut bytes = vec![0u8; length];
        let stack = self.at(from + HEAD_BYTES);
        // SAFETY: within the slot; the target is a vector of that length.
        unsafe { std::ptr::copy_nonoverlapping(stack, bytes.as_mut_ptr(), length) };
        let is_sample = words[word::KIND] == kind::SAMPLE;
        let python = if is_sample { (words[word::PYTHON] & 0xffff_ffff) as usize } else { 0 };
        let python = self.words(from + PYTHON_AT, python.min(PYTHON_WORDS));
        SlotRecord { words, bytes, python }
    }

    /// Has the timers of process `pid` copy the frames of Python that are laid out like this. No more once all entries
    /// of the table are taken: its samples have native frames only.
    pub fn watch_python(&self, pid: u32, words: &[u64; PROCESS_WORDS]) {
        let id = |entry: usize| self.python(entry, 0).load(Ordering::Relaxed);
        let own = (0..PYTHON_TABLE).find(|&entry| id(entry) == u64::from(pid));
        let Some(entry) = own.or_else(|| (0..PYTHON_TABLE).find(|&entry| id(entry) == 0)) else { return };
        // A timer that reads the entry now sees that it changes.
        self.python(entry, 0).store(0, Ordering::Release);
        for (at, &value) in words.iter().enumerate() {
            self.python(entry, at + 1).store(value, Ordering::Release);
        }
        self.python(entry, 0).store(pid.into(), Ordering::Release);
    }

    /// The process runs something else, or has ended.
    pub fn forget_python(&self, pid: u32) {
        let entries = (0..PYTHON_TABLE).map(|entry| self.python(entry, 0));
        let of_process = |id: &&AtomicU64| id.load(Ordering::Relaxed) == u64::from(pid);
        entries.filter(of_process).for_each(|id| id.store(0, Ordering::Release));
    }

    fn python(&self, entry: usize, at: usize) -> &AtomicU64 {
        self.word(PYTHON_TABLE_AT / 8 + entry * PYTHON_ENTRY_WORDS + at)
    }

    /// The words at an offset of the mapping.
    fn words(&self, from: usize, count: usize) -> Vec<u64> {
        let read = |at: usize| {
            let word = self.at(from + at * 8).cast::<u64>();
            // SAFETY: within the slot and aligned; volatile, because a faulty writer may still change it.
            unsafe { word.read_volatile() }
        };
        (0..count).map(read).collect()
    }
}

// SAFETY: the mapping is only accessed as atomics, or copied out of slots that are the reader's.
unsafe impl Send for SharedSlots {}
// SAFETY: as above, for several threads at a time.
unsafe impl Sync for SharedSlots {}

impl Drop for SharedSlots {
    fn drop(&mut self) {
        // SAFETY: exactly what `create` mapped; no borrow outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), file_bytes(self.count)) };
    }
}
