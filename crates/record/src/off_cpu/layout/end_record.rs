//! The record of a thread's end: its sums.

use perfdata::off_cpu::QueueLengths;

use super::{ARGUMENT_AT, END_BYTES, KIND_COUNT, LIFE_AT, QUEUE_AT, u32_at, u64_at, until_nul};

/// `struct end_record`: a thread's exact sums; `total_ns` adds up to `end_ns - start_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndRecord {
    /// When the thread came under observation.
    pub start_ns: u64,
    /// When it exited, or recording ended.
    pub end_ns: u64,
    /// By [`super::OffCpuRecordKind`].
    pub total_ns: [u64; KIND_COUNT],
    /// The part of `total_ns` that no sample represents.
    pub carry_ns: [u64; KIND_COUNT],
    /// Times the thread left a CPU.
    pub switches: u64,
    /// The thread.
    pub tid: u32,
    /// Process of the thread.
    pub pid: u32,
    /// Bits of [`super::flag`].
    pub flags: u32,
    /// Number of `switches` at which the thread could have gone on.
    pub preemptions: u32,
    /// Times it got another CPU than it had before.
    pub migrations: u64,
    /// Page faults without and with a wait for a disk.
    pub faults: [u64; 2],
    /// Kernel name of the thread at the end.
    pub comm: Vec<u8>,
    /// Lengths of the thread's waits for a CPU: once woken, and preempted.
    pub queue: Box<[QueueLengths; 2]>,
    /// As in the lowest byte of [`super::SiteSums::print`].
    pub life: u32,
    /// The first argument of its program, if that began while recording and is short; empty if not known.
    pub argument: Vec<u8>,
}

pub(super) fn parse_end(bytes: &[u8]) -> EndRecord {
    let words = |start: usize| std::array::from_fn(|i| u64_at(bytes, start + i * 8));
    EndRecord {
        start_ns: u64_at(bytes, 8),
        end_ns: u64_at(bytes, 16),
        total_ns: words(24),
        carry_ns: words(24 + KIND_COUNT * 8),
        switches: u64_at(bytes, 24 + KIND_COUNT * 16),
        tid: u32_at(bytes, 32 + KIND_COUNT * 16),
        pid: u32_at(bytes, 36 + KIND_COUNT * 16),
        flags: u32_at(bytes, 40 + KIND_COUNT * 16),
        preemptions: u32_at(bytes, 44 + KIND_COUNT * 16),
        migrations: u64_at(bytes, 48 + KIND_COUNT * 16),
        faults: [u64_at(bytes, 56 + KIND_COUNT * 16), u64_at(bytes, 64 + KIND_COUNT * 16)],
        comm: until_nul(&bytes[72 + KIND_COUNT * 16..QUEUE_AT]).to_vec(),
        queue: Box::new(std::array::from_fn(|which| QueueLengths {
            longest_us: u32_at(bytes, QUEUE_AT + which * 4),
            counts: std::array::from_fn(|i| {
                u32_at(bytes, QUEUE_AT + 8 + (which * QueueLengths::BUCKETS + i) * 4)
            }),
        })),
        life: u32_at(bytes, LIFE_AT),
        argument: until_nul(&bytes[ARGUMENT_AT..END_BYTES]).to_vec(),
    }
}
