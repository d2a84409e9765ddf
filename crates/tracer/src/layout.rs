//! The bytes the tracer writes and the reader reads: thread files and the sled list.
//!
//! A recording is a folder:
//!
//! | file | written by | content |
//! |---|---|---|
//! | `PID-TID-N.calls` | the traced thread | [`ThreadHeader`], then events of 8 bytes until one is 0 |
//! | `PID-N.maps` | the traced process | its `/proc/self/maps` when the tracer started, and after each `dlopen` |
//! | `sleds` | the `tally` that started it | where functions can be patched: `SledFile` |
//! | `lost` | the traced processes | [`LOST_NAME`] |
//! | `info` | the `tally` that started it | command line and clock, as text lines `key value` |
//!
//! An event is one `u64`, little-endian. The two top bits are its kind:
//!
//! ```text
//! 63 62 61                    32 31                     0
//!  1  1 | low 30 bits of address | low 32 bits of the TSC |   entry
//!  0  1 | 0                      | low 32 bits of the TSC |   exit of the innermost open call
//!  1  0 | control code           | argument               |   see `CONTROL_*`
//!  0  0 | low 30 bits of address | 16 bits, 16 bits       |   leaf: a call that made none; not all 0
//!  0  0 | 0                      | 0                      |   the end: nothing written here yet
//! ```
//!
//! A leaf is an entry whose exit followed at once: it has the ticks from the event before it to its entry (high
//! 16 bits), and its duration in ticks (low). The high parts of address and time are in control events, written
//! only when they change. The address is one inside the function's first bytes: the return address of its call
//! to the tracer, or the function's own when the compiler passes it.

pub mod interpreter;
pub mod moved;
pub mod seccomp_filter;
pub mod sleds;
pub mod slots;
#[cfg(not(any(tally_preload, tally_timers)))]
pub mod uftrace;
pub mod values;

/// First bytes of a thread file.
pub const MAGIC: [u8; 8] = *b"tallycl1";
/// Bytes of [`ThreadHeader`] at the start of a thread file; events follow.
pub const HEADER_BYTES: usize = 64;
/// Bytes of one event.
pub const EVENT_BYTES: usize = 8;
/// Bytes of a thread file's first chunk; each next one is twice as long, up to [`CHUNK_BYTES_MAX`].
pub const CHUNK_BYTES_MIN: usize = 64 << 10;
/// Bytes of a page: the header's own stays when the events after it are dropped.
pub const PAGE_BYTES: u64 = 4096;
/// Most bytes by which a thread file grows at once.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Kind of an event, from its two top bits.
pub const KIND_SHIFT: u32 = 62;
/// Kind: a function was entered.
pub const KIND_ENTRY: u64 = 3;
/// Kind: the innermost open call returned.
pub const KIND_EXIT: u64 = 1;
/// Kind: a control event.
pub const KIND_CONTROL: u64 = 2;
/// Kind: a whole call; nothing else in the word when nothing was written.
pub const KIND_LEAF: u64 = 0;

/// Bits of an entry that hold the low part of the address.
pub const ADDR_BITS: u32 = 30;
/// Control: the argument is the high 32 bits of the TSC from here on.
pub const CONTROL_TIME_HIGH: u64 = 1;
/// Control: the argument is the address shifted right by [`ADDR_BITS`], from here on.
pub const CONTROL_ADDR_HIGH: u64 = 2;
/// Control: the innermost open call was left without returning (longjmp, exception); argument as in an exit.
pub const CONTROL_UNWOUND: u64 = 3;
/// Control: the argument counts calls that were not recorded here (too deep, or no space left).
pub const CONTROL_LOST: u64 = 4;
/// Control: the thread was forked off; calls open in the parent are open here. The argument is their number.
pub const CONTROL_FORKED: u64 = 5;

/// Control: the next exit or unwound call is not the innermost, but the one `argument` below it (coroutines).
pub const CONTROL_BELOW: u64 = 6;
/// Control: the thread was off the CPU for this many ns, up to now (adds up; only from outside tracers).
pub const CONTROL_OFF_CPU: u64 = 7;
/// Control: the number of bytes of [`values`] that follow, padded to whole words: arguments of the call just
/// entered.
pub const CONTROL_ARGUMENTS: u64 = 8;
/// Control: the same of the call that ends next: its result.
pub const CONTROL_RESULT: u64 = 9;
/// Control: the number of words that follow, addresses as in entries but whole: functions that were open around
/// the call just entered, but are not recorded; outermost first.
pub const CONTROL_BACKTRACE: u64 = 10;

/// Control: the file can't grow any more, and the argument is the errno why: calls from here on are only counted.
pub const CONTROL_STOPPED: u64 = 11;

/// Words that follow a control event of this code and argument; they are none of events.
#[must_use]
pub const fn words_after(code: u64, argument: u32) -> usize {
    match code {
        CONTROL_ARGUMENTS | CONTROL_RESULT => (argument as usize).div_ceil(EVENT_BYTES),
        CONTROL_BACKTRACE => argument as usize,
        _ => 0,
    }
}

/// The words in the bytes of an event's following words; a cut one is left out.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Header at the start of a thread file: `MAGIC`, then little-endian fields.
///
/// ```text
///  0 magic[8]   8 pid u32  12 tid u32  16 tsc u64  24 monotonic_ns u64  32 first u64  40 reserved[24]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadHeader {
    /// Process id as the target's pid namespace has it.
    pub pid: u32,
    /// Thread id in the same namespace.
    pub tid: u32,
    /// Time stamp counter when the file was made.
    pub tsc: u64,
    /// `CLOCK_MONOTONIC` at the same moment, in ns.
    pub monotonic_ns: u64,
    /// Offset of the first event kept; those before it were dropped. 0: none was.
    pub first: u64,
}

/// Offset of [`ThreadHeader::first`].
pub const HEADER_FIRST: usize = 32;

impl ThreadHeader {
    /// The header as it is in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.pid.to_le_bytes());
        out[12..16].copy_from_slice(&self.tid.to_le_bytes());
        out[16..24].copy_from_slice(&self.tsc.to_le_bytes());
        out[24..32].copy_from_slice(&self.monotonic_ns.to_le_bytes());
        out[HEADER_FIRST..40].copy_from_slice(&self.first.to_le_bytes());
        out
    }

    /// Reads a header; `None` when `bytes` is too short or the magic is another.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        if head[..8] != MAGIC {
            return None;
        }
        let u32_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Some(Self {
            pid: u32_at(8),
            tid: u32_at(12),
            tsc: u64_at(16),
            monotonic_ns: u64_at(24),
            first: u64_at(HEADER_FIRST),
        })
    }
}

/// One event, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEvent {
    /// A function was entered.
    Entry {
        /// Low [`ADDR_BITS`] bits of an address inside the function's first bytes.
        addr_low: u32,
        /// Low 32 bits of the TSC.
        tsc_low: u32,
    },
    /// The innermost open call returned.
    Exit {
        /// Low 32 bits of the TSC.
        tsc_low: u32,
    },
    /// A function was entered and returned.
    Leaf {
        /// As of an entry.
        addr_low: u32,
        /// Ticks from the event before to the entry.
        after: u16,
        /// Ticks it took.
        ticks: u16,
    },
    /// A `CONTROL_*` code with its argument.
    Control {
        /// One of the `CONTROL_*` constants; unknown ones are to be counted and skipped.
        code: u32,
        /// Argument.
        argument: u32,
    },
    /// Nothing was written here.
    End,
}

impl RecordedEvent {
    /// Decodes one event as it is in the file.
    #[must_use]
    pub fn from_bytes(bytes: [u8; EVENT_BYTES]) -> Self {
        Self::from_word(u64::from_le_bytes(bytes))
    }

    /// Decodes one event.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        let low = (word & 0xffff_ffff) as u32;
        let middle = (word >> 32) as u32 & ((1 << ADDR_BITS) - 1);
        match word >> KIND_SHIFT {
            KIND_ENTRY => Self::Entry { addr_low: middle, tsc_low: low },
            KIND_EXIT => Self::Exit { tsc_low: low },
            KIND_CONTROL => Self::Control { code: middle, argument: low },
            _ if word == 0 => Self::End,
            _ => Self::Leaf { addr_low: middle, after: (low >> 16) as u16, ticks: low as u16 },
        }
    }
}

/// The word of an entry.
#[must_use]
pub const fn entry_word(addr: u64, tsc: u64) -> u64 {
    KIND_ENTRY << KIND_SHIFT | (addr & ((1 << ADDR_BITS) - 1)) << 32 | tsc & 0xffff_ffff
}

/// The word of an exit.
#[must_use]
pub const fn exit_word(tsc: u64) -> u64 {
    KIND_EXIT << KIND_SHIFT | tsc & 0xffff_ffff
}

/// The word of a leaf.
#[must_use]
pub const fn leaf_word(addr: u64, after: u16, ticks: u16) -> u64 {
    KIND_LEAF << KIND_SHIFT | (addr & ((1 << ADDR_BITS) - 1)) << 32 | (after as u64) << 16 | ticks as u64
}

/// The word of a control event.
#[must_use]
pub const fn control_word(code: u64, argument: u64) -> u64 {
    KIND_CONTROL << KIND_SHIFT | code << 32 | argument & 0xffff_ffff
}

/// Name of the file of two `u64`: the number of calls of threads that could make no file, and the errno why (0: none),
/// which is also that of maps that could not be written. All processes of a recording add to it.
pub const LOST_NAME: &str = "lost";
/// Bytes.
pub const LOST_BYTES: usize = 16;

/// The environment variable that sets how recording begins: `only` (inside functions of `sleds::ONLY`), `off`,
/// or both with a comma; otherwise everything is recorded from the start.
pub const START_VARIABLE: &str = "TALLY_CALLS_START";
/// The environment variable with the ns below which calls that hold no recorded call are dropped (decimal).
pub const MIN_VARIABLE: &str = "TALLY_CALLS_MIN_NS";
/// The environment variable with the bytes that a thread's file keeps, its oldest being dropped (decimal).
pub const KEEP_VARIABLE: &str = "TALLY_CALLS_KEEP_BYTES";
/// The environment variable that names the recording's folder; without it the tracer stays quiet.
pub const DIR_VARIABLE: &str = "TALLY_CALLS_DIR";
/// The environment variable with the greatest depth to record (a decimal number).
pub const DEPTH_VARIABLE: &str = "TALLY_CALLS_DEPTH";

/// The environment variable with the signals that begin or stop recording: numbers with commas between, each twice the
/// signal's, and one more if it begins recording.
pub const SIGNALS_VARIABLE: &str = "TALLY_CALLS_SIGNALS";
/// The environment variable that is set when only calls that lead to a function of `sleds::CALLER` are recorded.
pub const CALLERS_VARIABLE: &str = "TALLY_CALLS_CALLERS";
/// The environment variable that is set when a function of `sleds::BACKTRACE` asks for what is not recorded.
pub const BACKTRACE_VARIABLE: &str = "TALLY_CALLS_BACKTRACE";
/// The environment variable that makes the tracer measure the cost of a call, print it and end the process:
/// letters of `MEASURE_*`. Each letter gives one line, `LETTER LEAF_PS TREE_PS BYTES`: ps of CPU time of a leaf
/// call, ps of a call in a tree where half of the calls make two others, bytes of 1,000 calls of that tree.
/// x86-64 only.
pub const MEASURE_VARIABLE: &str = "TALLY_CALLS_MEASURE";
/// Cost of functions that call `mcount` or `__fentry__`.
pub const MEASURE_CALLED: u8 = b'c';
/// Cost of patched sleds.
pub const MEASURE_SLED: u8 = b's';
/// Cost of functions that report themselves.
pub const MEASURE_REPORTED: u8 = b'r';
/// Cost of sleds with an argument recorded.
pub const MEASURE_VALUES: u8 = b'v';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_decode_to_what_was_encoded() {
        let (addr, tsc) = (0x5555_1234_5678, 0xabcd_0123_4567_89ab);
        let low = 0x1234_5678 & ((1 << ADDR_BITS) - 1);
        assert_eq!(
            RecordedEvent::from_word(entry_word(addr, tsc)),
            RecordedEvent::Entry { addr_low: low, tsc_low: 0x4567_89ab }
        );
        assert_eq!(RecordedEvent::from_word(exit_word(tsc)), RecordedEvent::Exit { tsc_low: 0x4567_89ab });
        let control = control_word(CONTROL_LOST, 7);
        assert_eq!(
            RecordedEvent::from_word(control),
            RecordedEvent::Control { code: CONTROL_LOST as u32, argument: 7 }
        );
        let leaf = leaf_word(addr, 7, 65_535);
        assert_eq!(
            RecordedEvent::from_word(leaf),
            RecordedEvent::Leaf { addr_low: low, after: 7, ticks: 65_535 }
        );
        assert_eq!(RecordedEvent::from_word(0), RecordedEvent::End);
    }

    #[test]
    fn a_header_reads_as_written() {
        let header = ThreadHeader { pid: 1, tid: 2, tsc: 3 << 40, monotonic_ns: 4, first: 5 };
        assert_eq!(ThreadHeader::parse(&header.to_bytes()), Some(header));
        assert_eq!(ThreadHeader::parse(&header.to_bytes()[1..]), None);
    }
}
