//! The file that preloaded timers share with the tally that started them: fixed slots, each taken by a thread for one
//! record and given back by the reader.
//!
//! ```text
//! 0        header: words as below
//! 4096     Python interpreters, of PYTHON_ENTRY_WORDS each: the process, then its words (see `interpreter`)
//! 20480    one word of state per slot
//! after    one word of state per brief slot
//! after    the brief slots, of BRIEF_BYTES each, page-aligned
//! after    the slots, of SLOT_BYTES each, page-aligned: head, stack, Python's frames
//! ```
//! Brief slots are for records without registers and stack, of which thousands of threads make as many at a time.
//!
//! A slot is claimed by one compare-and-swap and belongs to its writer until it is [`READY`]. So a thread killed in the
//! middle loses its own slot only, and no order or lock is shared between threads or processes.
//
// Layout and source: written by `crate::timers`, read by `record::sys::slots`.

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"tallytm3");
/// Word of the header: the number of slots.
pub const COUNT_WORD: usize = 1;
/// Word of the header: CPU time between two samples of a thread, ns.
pub const PERIOD_WORD: usize = 2;
/// Word of the header: records left out because no slot was free.
pub const LOST_WORD: usize = 3;
/// Word of the header: threads that got no timer.
pub const UNTIMED_WORD: usize = 4;
/// Word of the header: the last errno of a refused timer.
pub const ERRNO_WORD: usize = 5;
/// Word of the header: calls that the timer interrupted and that were started again.
pub const RESTARTED_WORD: usize = 6;
/// Word of the header: brief records handed over. The reader looks for them only if it has changed.
pub const BRIEF_WORD: usize = 7;
/// Word of the header: processes that ended their timers, because they were to forbid themselves system calls.
pub const RESTRICTED_WORD: usize = 8;
/// Where the table of Python's interpreters begins.
pub const PYTHON_TABLE_AT: usize = 4096;
/// Processes in that table.
pub const PYTHON_TABLE: usize = 128;
/// Words of an entry: the process id (0: free), then [`super::interpreter::PROCESS_WORDS`], then none.
pub const PYTHON_ENTRY_WORDS: usize = 16;
/// Where the words of state begin.
pub const STATES_AT: usize = PYTHON_TABLE_AT + PYTHON_TABLE * PYTHON_ENTRY_WORDS * 8;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 60 << 10;
/// Number of brief slots.
pub const BRIEF_COUNT: usize = 1 << 14;
/// Bytes of a brief slot: the words of a record's head before its registers.
pub const BRIEF_BYTES: usize = word::REGS * 8;
/// Bytes of a record before its stack.
pub const HEAD_BYTES: usize = 512;
/// Most bytes of stack (or text) in a record.
pub const STACK_BYTES: usize = 52 << 10;
/// Where in a slot the frames of Python begin.
pub const PYTHON_AT: usize = HEAD_BYTES + STACK_BYTES;
/// Most words of Python's frames in a record.
pub const PYTHON_WORDS: usize = (SLOT_BYTES - PYTHON_AT) / 8;
/// The variable that names the file.
pub const FILE_VARIABLE: &str = "TALLY_TIMERS";

/// State: nobody's.
pub const FREE: u64 = 0;
/// State: being written; the writer's thread id is above the lowest 8 bits.
pub const WRITING: u64 = 1;
/// State: complete, for the reader.
pub const READY: u64 = 2;

/// Words of a record's head.
pub mod word {
    /// One of [`super::kind`].
    pub const KIND: usize = 0;
    /// `CLOCK_MONOTONIC`, ns.
    pub const TIME: usize = 1;
    /// CPU time of the thread, ns.
    pub const CPU: usize = 2;
    /// Process id in the low half, thread id in the high one.
    pub const TASK: usize = 3;
    /// Parent process.
    pub const PARENT: usize = 4;
    /// Bytes after the head.
    pub const BYTES: usize = 5;
    /// Time of the thread in the run queue, ns.
    pub const QUEUE: usize = 6;
    /// How often the thread got a CPU; 0: not known.
    pub const RUNS: usize = 7;
    /// First of 33 registers in perf's numbering.
    pub const REGS: usize = 8;
    /// In a sample: number of words of Python's frames, with the flags of [`super::super::interpreter`]; 0: none.
    pub const PYTHON: usize = REGS + super::REGISTERS;
}

/// Kinds of records.
pub mod kind {
    /// The timer fired; registers and stack.
    pub const SAMPLE: u64 = 1;
    /// A thread has its timer.
    pub const THREAD: u64 = 2;
    /// A thread ends.
    pub const END: u64 = 3;
    /// A program begins, after an exec: its name, a newline, and its mappings as /proc shows them.
    pub const EXEC: u64 = 4;
    /// A process begins by a fork, with the mappings of its parent.
    pub const FORK: u64 = 5;
    /// A process calls its last functions; its mappings as in [`EXEC`].
    pub const LAST: u64 = 6;
    /// A process ends at once, without its last functions.
    pub const GONE: u64 = 7;
}

/// Number of registers in a record.
pub const REGISTERS: usize = 33;

/// Where the first brief slot begins.
#[must_use]
pub const fn brief_at(count: usize) -> usize {
    (STATES_AT + (count + BRIEF_COUNT) * 8).next_multiple_of(4096)
}

/// Where the first slot begins.
#[must_use]
pub const fn slots_at(count: usize) -> usize {
    (brief_at(count) + BRIEF_COUNT * BRIEF_BYTES).next_multiple_of(4096)
}

/// Bytes of the whole file.
#[must_use]
pub const fn file_bytes(count: usize) -> usize {
    slots_at(count) + count * SLOT_BYTES
}

/// The number of slots by the first words of a file; `None` if it is no such file.
#[must_use]
pub const fn count_of(head: &[u8; 16]) -> Option<usize> {
    const MOST: usize = 1 << 16;
    let [a, b, c, d, e, f, g, h, rest @ ..] = *head;
    let count = u64::from_ne_bytes(rest) as usize;
    if u64::from_ne_bytes([a, b, c, d, e, f, g, h]) == MAGIC && count <= MOST { Some(count) } else { None }
}

/// The number of the system call that these bytes make on x86-64: `mov eax, NUMBER; syscall`, as C libraries write it.
// Source: Intel SDM volume 2, "MOV" (B8+rd id) and "SYSCALL" (0F 05).
#[must_use]
pub const fn call_number(code: &[u8; 7]) -> Option<u32> {
    match *code {
        [0xb8, a, b, c, d, 0x0f, 0x05] => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calls_number_is_read_only_where_a_call_is_made() {
        assert_eq!(call_number(&[0xb8, 0xe8, 0, 0, 0, 0x0f, 0x05]), Some(232));
        assert_eq!(call_number(&[0xb8, 0xe8, 0, 0, 0, 0x0f, 0x0b]), None);
        assert_eq!(call_number(&[0xb9, 0xe8, 0, 0, 0, 0x0f, 0x05]), None);
    }

    #[test]
    fn a_foreign_or_huge_file_has_no_slots() {
        let head = |magic: u64, count: u64| {
            let mut head = [0; 16];
            head[..8].copy_from_slice(&magic.to_ne_bytes());
            head[8..].copy_from_slice(&count.to_ne_bytes());
            head
        };
        assert_eq!(count_of(&head(MAGIC, 256)), Some(256));
        assert_eq!(count_of(&head(MAGIC, 1 << 40)), None);
        assert_eq!(count_of(&head(1, 256)), None);
    }

    #[test]
    fn slots_are_whole_pages_and_hold_a_whole_record() {
        assert!(slots_at(512).is_multiple_of(4096) && SLOT_BYTES.is_multiple_of(4096));
        assert!(brief_at(512) >= STATES_AT + (512 + BRIEF_COUNT) * 8 && brief_at(512) < slots_at(512));
        const { assert!(PYTHON_AT <= SLOT_BYTES && (word::PYTHON + 1) * 8 <= HEAD_BYTES) };
        const { assert!(super::super::interpreter::PROCESS_WORDS < PYTHON_ENTRY_WORDS) };
    }
}
