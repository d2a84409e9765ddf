//! The shared file's slots, from the side that writes them.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::sandbox;
use crate::layout::slots::*;
use crate::sys;
use crate::sys::timer;

static BASE: AtomicUsize = AtomicUsize::new(0);

/// The mapped file.
#[derive(Clone, Copy)]
pub struct Slots {
    base: usize,
    count: usize,
}

/// A claimed slot.
pub struct Slot {
    slots: Slots,
    /// Index of its word of state: brief slots follow the others.
    index: usize,
}

impl Slots {
    /// Maps the file of this path for the process.
    pub fn map(path: &[u8]) -> Option<Self> {
        let fd = sys::open(path, sys::OLD_FILE)?;
        let mut head = [0u8; 16];
        let is_whole = sys::read(fd, &mut head) == head.len();
        // Only reserved and touched page by page: most processes of a build take few slots.
        let count = count_of(&head).filter(|_| is_whole);
        let base = count.and_then(|count| sys::map_file_lazily(fd, file_bytes(count)));
        sys::close(fd);
        BASE.store(base? as usize, Ordering::Release);
        Self::of_process()
    }

    /// The process's; `None` without.
    pub fn of_process() -> Option<Self> {
        let base = BASE.load(Ordering::Acquire);
        if base == 0 {
            return None;
        }
        let slots = Self { base, count: 0 };
        let count = slots.header(COUNT_WORD).load(Ordering::Relaxed) as usize;
        Some(Self { count, ..slots })
    }

    /// A word of the header.
    pub fn header(self, word: usize) -> &'static AtomicU64 {
        // SAFETY: within the mapping, which stays, and whose words all processes change only as atomics.
        unsafe { &*((self.base + word * 8) as *const AtomicU64) }
    }

    /// A word of an entry in the table of Python's interpreters.
    #[cfg(target_arch = "x86_64")]
    pub fn python(self, entry: usize, word: usize) -> &'static AtomicU64 {
        self.header(PYTHON_TABLE_AT / 8 + entry * PYTHON_ENTRY_WORDS + word)
    }

    fn state(self, index: usize) -> &'static AtomicU64 {
        self.header(STATES_AT / 8 + index)
    }

    /// A slot with room for a stack, for this thread; else the record is counted as lost.
    pub fn claim(self) -> Option<Slot> {
        // From the front, so that few pages are in use; neighbours begin at different slots.
        self.claim_in(0..self.count, 16)
    }

    /// A slot for a record without registers and stack; else it is counted as lost.
    pub fn claim_brief(self) -> Option<Slot> {
        self.claim_in(self.count..self.count + BRIEF_COUNT, BRIEF_COUNT)
    }

    /// Threads begin to search at one of the first `spread` slots.
    fn claim_in(self, range: Range<usize>, spread: usize) -> Option<Slot> {
        const TRIES: usize = 1024;
        let tid = sys::tid() as usize;
        let writing = WRITING | (tid as u64) << 8;
        for attempt in 0..TRIES.min(range.len()) {
            let index = range.start + (tid % spread + attempt) % range.len();
            let claim = |state: &AtomicU64| {
                state.compare_exchange(FREE, writing, Ordering::Acquire, Ordering::Relaxed)
            };
            if self.state(index).load(Ordering::Relaxed) == FREE && claim(self.state(index)).is_ok() {
                return Some(Slot { slots: self, index });
            }
        }
        self.header(LOST_WORD).fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Slot {
    fn at(&self) -> usize {
        let Slots { base, count } = self.slots;
        match self.index.checked_sub(count) {
            Some(brief) => base + brief_at(count) + brief * BRIEF_BYTES,
            None => base + slots_at(count) + self.index * SLOT_BYTES,
        }
    }

    /// Sets a word of the head.
    pub fn set(&mut self, word: usize, value: u64) {
        // SAFETY: within the slot, which is this thread's until it is ready; registers are set in slots with a stack only.
        unsafe { ((self.at() + word * 8) as *mut u64).write(value) };
    }

    /// Sets a word of Python's frames; none past its end.
    #[cfg(target_arch = "x86_64")]
    pub fn set_python(&mut self, index: usize, value: u64) {
        if index < PYTHON_WORDS {
            self.set(PYTHON_AT / 8 + index, value);
        }
    }

    /// Room for the stack; none in a brief slot.
    pub fn room(&mut self) -> &mut [u8] {
        if self.index >= self.slots.count {
            return &mut [];
        }
        // SAFETY: as above; the borrow ends before the slot is handed over.
        unsafe { core::slice::from_raw_parts_mut((self.at() + HEAD_BYTES) as *mut u8, STACK_BYTES) }
    }

    /// Fills in who and when.
    pub fn stamp(&mut self, kind: u64) {
        self.set(word::KIND, kind);
        self.set(word::TIME, sys::monotonic_ns());
        self.set(word::CPU, sys::cpu_ns());
        self.set(word::TASK, u64::from(sys::pid()) | u64::from(sys::tid()) << 32);
        self.set(word::PARENT, 0);
        self.set(word::BYTES, 0);
        self.set(word::QUEUE, 0);
        self.set(word::RUNS, 0);
    }

    /// Hands it to the reader.
    pub fn hand_over(self) {
        self.slots.state(self.index).store(READY, Ordering::Release);
        if self.index >= self.slots.count {
            self.slots.header(BRIEF_WORD).fetch_add(1, Ordering::Release);
        }
    }
}

/// A record without content.
pub fn tell(kind: u64) {
    if sandbox::is_off() {
        return;
    }
    let Some(mut slot) = Slots::of_process().and_then(Slots::claim_brief) else { return };
    slot.stamp(kind);
    slot.set(word::PARENT, u64::from(timer::parent()));
    stamp_queue(&mut slot);
    slot.hand_over();
}

/// Fills in the kernel's sums of the thread's waits for a CPU, where it keeps them.
fn stamp_queue(slot: &mut Slot) {
    let mut text = [0u8; 128];
    let length = read_file(b"/proc/thread-self/schedstat\0", &mut text);
    let mut numbers = [0u64; 3];
    let words = text[..length].split(|byte| !byte.is_ascii_digit()).filter(|word| !word.is_empty());
    for (number, word) in numbers.iter_mut().zip(words) {
        *number =
            word.iter().fold(0u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    }
    slot.set(word::QUEUE, numbers[1]);
    slot.set(word::RUNS, numbers[2]);
}

/// A record with the program's name and mappings.
pub fn record_program(kind: u64) {
    let Some(mut slot) = Slots::of_process().and_then(Slots::claim) else { return };
    slot.stamp(kind);
    slot.set(word::PARENT, u64::from(timer::parent()));
    let room = slot.room();
    let mut bytes = read_file(b"/proc/self/comm\0", room);
    bytes += read_file(b"/proc/self/maps\0", &mut room[bytes..]);
    slot.set(word::BYTES, bytes as u64);
    stamp_queue(&mut slot);
    slot.hand_over();
}

fn read_file(path: &[u8], to: &mut [u8]) -> usize {
    let Some(fd) = sys::open(path, sys::READ_ONLY) else { return 0 };
    let mut len = 0;
    while len < to.len() {
        match sys::read(fd, &mut to[len..]) {
            0 => break,
            n => len += n,
        }
    }
    sys::close(fd);
    len
}
