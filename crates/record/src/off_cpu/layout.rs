//! The Rust twin of `bpf/shared.h`: the records of the BPF program, read by value.
//!
//! Knows offsets and nothing else. A test reads the header itself and fails when a constant or a struct here differs.
//
// Source: crates/record/bpf/shared.h (struct off_record, struct end_record).

mod control;
mod end_record;
mod site;
#[cfg(test)]
mod tests;

use perfdata::off_cpu::QueueLengths;

pub use control::{ClockScope, NOT_BEGUN, OffCpuControl};
pub use end_record::EndRecord;
use end_record::parse_end;
use site::{EXEC_BYTES, SITE_BYTES, SITE_RECORD_BYTES};
pub use site::{ExecRecord, LIFE_MASK, SITE_WORDS, SiteRecord, SiteRest, SiteSums};

/// Where a part of a thread's wall clock goes; the numbers are `KIND_*` of `shared.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OffCpuRecordKind {
    /// Running.
    On = 0,
    /// Woken and waiting for a CPU.
    Runnable = 1,
    /// Still runnable; another thread was given the CPU.
    Preempted = 2,
    /// An interruptible wait (state S).
    Sleep = 3,
    /// An uninterruptible wait (state D).
    Disk = 4,
    /// Stopped, traced, parked or frozen.
    Stopped = 5,
    /// An idle kernel thread (`TASK_IDLE`): nothing to do, nothing to blame.
    Idle = 6,
}

/// Slots of [`EndRecord::total_ns`]; a power of two for the verifier's sake.
pub const KIND_COUNT: usize = 8;

/// Bits of [`OffRecord::flags`] and [`EndRecord::flags`].
pub mod flag {
    /// The interval began before recording.
    pub const OPEN_LEFT: u32 = 1;
    /// The interval had not ended when recording did.
    pub const OPEN_RIGHT: u32 = 2;
    /// A kernel thread.
    pub const KTHREAD: u32 = 4;
    /// The time of the wake-up is known.
    pub const WOKEN: u32 = 8;
    /// No room to keep this thread's user stack.
    pub const NO_SLOT: u32 = 16;
    /// The kept user stack belonged to another wait and was left out.
    pub const STALE: u32 = 32;
    /// The thread ended by itself.
    pub const EXITED: u32 = 64;
    /// First run of a thread born while recording.
    pub const NEW: u32 = 128;
}

/// Frames of a kernel stack.
pub const KSTACK_FRAMES: usize = 64;
/// Frames of a waker's user stack by frame pointers.
pub const USER_FRAMES: usize = 32;
/// Room for `struct pt_regs`.
pub const REGS_BYTES: usize = 272;
/// Most user stack kept per thread.
pub const STACK_MAX_BYTES: usize = 24576;
/// Bytes of an [`OffRecord`] before its stack.
pub const HEAD_BYTES: usize = REGS_AT + REGS_BYTES;
/// Where the sums of a place are in it.
const SITE_AT: usize = 136;
const KSTACK_AT: usize = SITE_AT + SITE_BYTES;
const USER_CHAIN_AT: usize = KSTACK_AT + KSTACK_FRAMES * 8;
const REGS_AT: usize = USER_CHAIN_AT + USER_FRAMES * 8;
/// Bytes of an [`EndRecord`].
pub const END_BYTES: usize = ARGUMENT_AT + ARGUMENT_BYTES;
const ARGUMENT_AT: usize = LIFE_AT + 8;
/// Room for the first argument of a program.
const ARGUMENT_BYTES: usize = 64;
const LIFE_AT: usize = QUEUE_AT + 8 + 2 * QueueLengths::BUCKETS * 4;
/// Where the lengths of waits for a CPU begin in it.
const QUEUE_AT: usize = 24 + KIND_COUNT * 16 + 8 + 16 + 24 + 16;
/// Per-CPU counters, in the order of `COUNT_*`.
pub const COUNT_NAMES: [&str; 14] = [
    "context switches not reported by the kernel: their waits are counted all the same",
    "samples",
    "wakers",
    "stack copies",
    "stacks lost, the ring was full: their time is counted with other waits of the same call",
    "threads' totals lost, the ring was full: their time is missing",
    "wakers' stacks lost, the ring was full",
    "times no room was left to keep a user stack",
    "threads not followed, no memory: their time is missing",
    "user stacks left out, the ring was full",
    "first samples of places",
    "times no room was left for the sums of a call: its waits are counted without stack",
    "ns that the programs ran",
    "threads still ending when the recording did: their totals are missing",
];
/// Index of the samples handed out.
pub const COUNT_SAMPLES: usize = 1;
/// Index of the samples that found the ring full.
pub const COUNT_RING_FULL: usize = 4;
/// Index of the samples among these that were the first of their places.
pub const COUNT_FIRST: usize = 10;
/// Index of the programs' own time: runs that make a sample, and 64 times each of one in 64 others.
pub const COUNT_OWN_NS: usize = 12;
/// Index of the threads that are between their exit and their last switch.
pub const COUNT_LEAVING: usize = 13;

const REC_SAMPLE: u32 = 1;
const REC_WAKER: u32 = 2;
const REC_END: u32 = 3;
const REC_EXEC: u32 = 4;
const REC_SITE: u32 = 5;

/// One record of the ring.
#[derive(Debug)]
pub enum OffCpuRecord<'a> {
    /// An interval off the CPU has ended.
    Sample(OffRecord<'a>),
    /// The waker that ended the interval of the same thread that began at `since_ns`; comes before its sample.
    Waker(OffRecord<'a>),
    /// A thread's totals.
    End(Box<EndRecord>),
    /// A thread's waits before its exec are complete.
    Exec(ExecRecord),
    /// Sums of one more place of a thread are in the map.
    Site(SiteRecord),
    /// Waits at one place that no sample took along; come before the thread's totals.
    Rest(SiteRest),
}

impl OffCpuRecordKind {
    fn of(number: u32) -> Self {
        match number {
            0 => Self::On,
            1 => Self::Runnable,
            2 => Self::Preempted,
            4 => Self::Disk,
            5 => Self::Stopped,
            6 => Self::Idle,
            _ => Self::Sleep,
        }
    }
}

/// `struct off_record`; ids are as seen in our pid namespace, 0 = none.
#[derive(Debug, Clone, Copy)]
pub struct OffRecord<'a> {
    bytes: &'a [u8],
}

impl<'a> OffRecord<'a> {
    fn u64(&self, offset: usize) -> u64 {
        u64_at(self.bytes, offset)
    }
    fn u32(&self, offset: usize) -> u32 {
        u32_at(self.bytes, offset)
    }
    /// Switch-in (sample) or wake-up (waker), `CLOCK_MONOTONIC` ns.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.u64(8)
    }
    /// The sleeper's switch-out.
    #[must_use]
    pub fn since_ns(&self) -> u64 {
        self.u64(16)
    }
    /// Length of the wait or preemption.
    #[must_use]
    pub fn wait_ns(&self) -> u64 {
        self.u64(24)
    }
    /// Time of its kind that this sample represents; 0 = not sampled.
    #[must_use]
    pub fn wait_weight_ns(&self) -> u64 {
        self.u64(32)
    }
    /// From wake-up to switch-in.
    #[must_use]
    pub fn runnable_ns(&self) -> u64 {
        self.u64(40)
    }
    /// Runnable time that this sample represents; 0 = not sampled.
    #[must_use]
    pub fn runnable_weight_ns(&self) -> u64 {
        self.u64(48)
    }
    /// The sleeper (in a waker's record too).
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.u32(56)
    }
    /// The sleeper's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.u32(60)
    }
    /// The waker, or who ran instead of a preempted thread.
    #[must_use]
    pub fn other_tid(&self) -> u32 {
        self.u32(64)
    }
    /// The process of [`Self::other_tid`].
    #[must_use]
    pub fn other_pid(&self) -> u32 {
        self.u32(68)
    }
    /// Kind of the wait.
    #[must_use]
    pub fn kind(&self) -> OffCpuRecordKind {
        OffCpuRecordKind::of(self.u32(72))
    }
    /// This wait and those since the last sample of its place; `None` without a place.
    #[must_use]
    pub fn site(&self) -> Option<SiteSums> {
        let sums = SiteSums::read(&self.bytes[SITE_AT..SITE_AT + SITE_BYTES]);
        Some(sums).filter(|sums| sums.print != 0)
    }
    /// Bits of [`flag`].
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.u32(76)
    }
    /// Where the record was written.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.u32(80)
    }
    /// Kernel name of [`Self::other_tid`]'s thread: the waker's in a waker's record; in a sample, that of the thread
    /// that ran instead, empty unless the sleeper was preempted.
    #[must_use]
    pub fn other_comm(&self) -> &'a [u8] {
        until_nul(&self.bytes[96..112])
    }
    /// Process, thread and kernel name of the one that had the CPU until this thread got it: the idle thread is 0, and
    /// 0 is also one outside of our pid namespace. `None` if the thread did not wait for a CPU, or got none.
    #[must_use]
    pub fn ran_instead(&self) -> Option<(u32, u32, &'a [u8])> {
        let comm = until_nul(&self.bytes[120..136]);
        (!comm.is_empty()).then(|| (self.u32(116), self.u32(112), comm))
    }
    /// The kernel stack, leaf first.
    pub fn kernel_chain(&self) -> impl Iterator<Item = u64> + 'a {
        let frames = (self.u32(84) as usize / 8).min(KSTACK_FRAMES);
        let bytes = self.bytes;
        (0..frames).map(move |i| u64_at(bytes, KSTACK_AT + i * 8))
    }
    /// The user stack of a waker by frame pointers, leaf first.
    pub fn user_chain(&self) -> impl Iterator<Item = u64> + 'a {
        let bytes = self.bytes;
        (0..USER_FRAMES).map(move |i| u64_at(bytes, USER_CHAIN_AT + i * 8)).take_while(|pc| *pc != 0)
    }
    /// `struct pt_regs` of the user side; empty for kernel threads.
    #[must_use]
    pub fn regs(&self) -> &'a [u8] {
        &self.bytes[REGS_AT..REGS_AT + (self.u32(88) as usize).min(REGS_BYTES)]
    }
    /// User stack from the stack pointer upwards; empty if it could not be kept.
    #[must_use]
    pub fn stack(&self) -> &'a [u8] {
        let end = HEAD_BYTES + self.u32(92) as usize;
        self.bytes.get(HEAD_BYTES..end).unwrap_or(&[])
    }
}

/// Reads one ring record; `None` for a type or a length this build does not know.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<OffCpuRecord<'_>> {
    let size = u32_at(bytes.get(..8)?, 4) as usize;
    let bytes = bytes.get(..size)?;
    match u32_at(bytes, 0) {
        REC_SAMPLE if size >= HEAD_BYTES => Some(OffCpuRecord::Sample(OffRecord { bytes })),
        REC_WAKER if size >= HEAD_BYTES => Some(OffCpuRecord::Waker(OffRecord { bytes })),
        REC_EXEC if size >= EXEC_BYTES => Some(OffCpuRecord::Exec(ExecRecord::read(bytes))),
        REC_SITE if size >= SITE_RECORD_BYTES => Some(OffCpuRecord::Site(SiteRecord::read(bytes))),
        REC_END if size >= END_BYTES => Some(OffCpuRecord::End(Box::new(parse_end(bytes)))),
        _ => None,
    }
}

/// A sample as the BPF program would write it, of a user stack at hand: `pc` and `sp` are the only registers known,
/// all others are 0.
#[must_use]
pub fn user_record(pc: u64, sp: u64, stack: &[u8]) -> Vec<u8> {
    // Words of `struct pt_regs`; see `registers::pt_regs_index`.
    const PLACES: (usize, usize, usize) =
        if cfg!(target_arch = "x86_64") { (16, 19, 168) } else { (32, 31, 272) };
    let (pc_word, sp_word, regs_bytes) = PLACES;
    let stack = &stack[..stack.len().min(STACK_MAX_BYTES)];
    let mut bytes = vec![0; HEAD_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &REC_SAMPLE.to_ne_bytes());
    put(4, &((HEAD_BYTES + stack.len()) as u32).to_ne_bytes());
    put(88, &(regs_bytes as u32).to_ne_bytes());
    put(92, &(stack.len() as u32).to_ne_bytes());
    put(REGS_AT + pc_word * 8, &pc.to_ne_bytes());
    put(REGS_AT + sp_word * 8, &sp.to_ne_bytes());
    bytes.extend(stack);
    bytes
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or(&[])
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(word)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}
