//! Sums of a thread's waits at one place, and what ends them.
//
// Source: crates/record/bpf/shared.h (struct site_sums, struct exec_record, struct site_record).

use perfdata::off_cpu::QueueLengths;

use super::{OffCpuRecordKind, u32_at, u64_at};

/// Bytes of [`SiteSums`].
pub(super) const SITE_BYTES: usize = 120 + QueueLengths::BUCKETS * 4;
/// Offset of the fields after the lengths.
const AFTER_LENGTHS: usize = 64 + QueueLengths::BUCKETS * 4;
/// Bytes of an [`ExecRecord`].
pub(super) const EXEC_BYTES: usize = 32;
/// Bytes of a [`SiteRecord`].
pub(super) const SITE_RECORD_BYTES: usize = 24;
/// The part of [`SiteSums::print`] that is the thread's life.
pub const LIFE_MASK: u64 = 0xff;
/// Words of [`SiteSums`] in the map of places.
pub const SITE_WORDS: usize = SITE_BYTES / 8;

/// `struct site_sums`: waits of one thread at one place, since the last sample of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteSums {
    /// Fingerprint of the thread's life, kind and place; 0 = no place.
    pub print: u64,
    /// When the first of them began.
    pub since_ns: u64,
    /// Blocked or preempted.
    pub wait_ns: u64,
    /// Waiting for a CPU afterwards.
    pub runnable_ns: u64,
    /// The longest wait.
    pub longest_ns: u64,
    /// The system call's first argument; 0 without one.
    pub arg: u64,
    /// Fingerprint of kind and place without `arg`; 0 = none.
    pub stack_print: u64,
    /// The system call.
    pub syscall: Option<u32>,
    /// Kind of the waits.
    pub kind: OffCpuRecordKind,
    /// How many.
    pub count: u32,
    /// The thread's process.
    pub pid: u32,
    /// By length.
    pub lengths: [u32; QueueLengths::BUCKETS],
}

impl SiteSums {
    /// From the map's form.
    #[must_use]
    pub fn from_words(words: &[u64; SITE_WORDS]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Self::read(&bytes)
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        Self {
            print: u64_at(bytes, 0),
            since_ns: u64_at(bytes, 8),
            wait_ns: u64_at(bytes, 16),
            runnable_ns: u64_at(bytes, 24),
            longest_ns: u64_at(bytes, 32),
            arg: u64_at(bytes, AFTER_LENGTHS),
            stack_print: u64_at(bytes, AFTER_LENGTHS + 8),
            syscall: u32_at(bytes, AFTER_LENGTHS + 40).checked_sub(1),
            kind: OffCpuRecordKind::of(u32_at(bytes, 60)),
            count: u32_at(bytes, 48),
            pid: u32_at(bytes, AFTER_LENGTHS + 44),
            lengths: std::array::from_fn(|i| u32_at(bytes, 64 + i * 4)),
        }
    }
}

/// Sums of a place as they were when its thread ended, or became another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteRest {
    /// The sums.
    pub sums: SiteSums,
    /// The thread.
    pub tid: u32,
    /// When it ended.
    pub time_ns: u64,
    /// The stacks that samples of this place showed are still those of the program.
    pub has_stack: bool,
}

/// `struct exec_record`: what lives with this number from now on is another life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecRecord {
    /// When.
    pub time_ns: u64,
    /// The thread, by its number before.
    pub tid: u32,
    /// The life that has ended.
    pub life: u32,
}

impl ExecRecord {
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self { time_ns: u64_at(bytes, 8), tid: u32_at(bytes, 16), life: u32_at(bytes, 24) }
    }
}

/// `struct site_record`: where to find sums of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteRecord {
    /// [`SiteSums::print`].
    pub print: u64,
    /// The thread.
    pub tid: u32,
}

impl SiteRecord {
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self { print: u64_at(bytes, 8), tid: u32_at(bytes, 16) }
    }
}
