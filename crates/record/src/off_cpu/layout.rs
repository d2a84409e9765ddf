//! The Rust twin of `bpf/shared.h`: what the BPF program writes, read by value.
//!
//! Knows offsets and nothing else. A test reads the header itself and fails when a constant or a struct here says
//! something different.
//
// Source: crates/record/bpf/shared.h (struct off_record, struct end_record, struct control).

use perfdata::off_cpu::QueueLengths;

/// Where a part of a thread's wall clock goes; the numbers are `KIND_*` of `shared.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
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
    /// The wake-up was seen.
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
/// Room for `struct pt_regs`.
pub const REGS_BYTES: usize = 272;
/// Most user stack kept per thread.
pub const STACK_MAX_BYTES: usize = 24576;
/// Bytes of an [`OffRecord`] before its stack.
pub const HEAD_BYTES: usize = 112 + KSTACK_FRAMES * 8 + REGS_BYTES;
/// Bytes of an [`EndRecord`].
pub const END_BYTES: usize = QUEUE_AT + 8 + 2 * QueueLengths::BUCKETS * 4;
/// Where the lengths of waits for a CPU begin in it.
const QUEUE_AT: usize = 24 + KIND_COUNT * 16 + 8 + 16 + 24 + 16;
/// Per-CPU counters, in the order of `COUNT_*`.
pub const COUNT_NAMES: [&str; 10] = [
    "switch-ins not shown by the kernel: those waits count, without stack",
    "samples",
    "wakers",
    "stack copies",
    "samples lost, the ring was full: their time counts, without stack",
    "threads' totals lost, the ring was full: their time is missing",
    "wakers' stacks lost, the ring was full",
    "times no room was left to keep a user stack",
    "threads not followed, no memory: their time is missing",
    "user stacks left out, the ring was full",
];

const REC_SAMPLE: u32 = 1;
const REC_WAKER: u32 = 2;
const REC_END: u32 = 3;

/// One record of the ring.
#[derive(Debug)]
pub enum Record<'a> {
    /// An interval off the CPU has ended.
    Sample(OffRecord<'a>),
    /// Who ended the interval of the same thread that began at `since_ns`; comes before its sample.
    Waker(OffRecord<'a>),
    /// A thread's totals.
    End(Box<EndRecord>),
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
    /// What this sample stands for of its kind; 0 = not sampled.
    #[must_use]
    pub fn wait_weight_ns(&self) -> u64 {
        self.u64(32)
    }
    /// From wake-up to switch-in.
    #[must_use]
    pub fn runnable_ns(&self) -> u64 {
        self.u64(40)
    }
    /// What this sample stands for of the runnable time; 0 = not sampled.
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
    /// What the wait was.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.u32(72) {
            0 => Kind::On,
            1 => Kind::Runnable,
            2 => Kind::Preempted,
            4 => Kind::Disk,
            5 => Kind::Stopped,
            6 => Kind::Idle,
            _ => Kind::Sleep,
        }
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
    /// Kernel name of [`Self::other_tid`]'s thread.
    #[must_use]
    pub fn other_comm(&self) -> &'a [u8] {
        until_nul(&self.bytes[96..112])
    }
    /// The kernel stack, leaf first.
    pub fn kernel_chain(&self) -> impl Iterator<Item = u64> + 'a {
        let frames = (self.u32(84) as usize / 8).min(KSTACK_FRAMES);
        let bytes = self.bytes;
        (0..frames).map(move |i| u64_at(bytes, 112 + i * 8))
    }
    /// `struct pt_regs` of the user side; empty for kernel threads.
    #[must_use]
    pub fn regs(&self) -> &'a [u8] {
        let start = 112 + KSTACK_FRAMES * 8;
        &self.bytes[start..start + (self.u32(88) as usize).min(REGS_BYTES)]
    }
    /// User stack from the stack pointer upwards; empty if it could not be kept.
    #[must_use]
    pub fn stack(&self) -> &'a [u8] {
        let end = HEAD_BYTES + self.u32(92) as usize;
        self.bytes.get(HEAD_BYTES..end).unwrap_or(&[])
    }
}

/// `struct end_record`: a thread's exact sums; `total_ns` adds up to `end_ns - start_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndRecord {
    /// When the thread came under observation.
    pub start_ns: u64,
    /// When it exited, or recording ended.
    pub end_ns: u64,
    /// By [`Kind`].
    pub total_ns: [u64; KIND_COUNT],
    /// The part of `total_ns` that no sample stands for.
    pub carry_ns: [u64; KIND_COUNT],
    /// Times the thread left a CPU.
    pub switches: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Of `switches`, those at which it could have gone on.
    pub preemptions: u32,
    /// Times it got another CPU than it had before.
    pub migrations: u64,
    /// Page faults without and with a wait for a disk.
    pub faults: [u64; 2],
    /// Its kernel name at the end.
    pub comm: Vec<u8>,
    /// Its waits for a CPU: once woken, and preempted.
    pub queue: Box<[QueueLengths; 2]>,
}

/// Reads one ring record; `None` for a type or a length this build does not know.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let size = u32_at(bytes.get(..8)?, 4) as usize;
    let bytes = bytes.get(..size)?;
    match u32_at(bytes, 0) {
        REC_SAMPLE if size >= HEAD_BYTES => Some(Record::Sample(OffRecord { bytes })),
        REC_WAKER if size >= HEAD_BYTES => Some(Record::Waker(OffRecord { bytes })),
        REC_END if size >= END_BYTES => Some(Record::End(Box::new(parse_end(bytes)))),
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
    let regs = 112 + KSTACK_FRAMES * 8;
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &REC_SAMPLE.to_ne_bytes());
    put(4, &((HEAD_BYTES + stack.len()) as u32).to_ne_bytes());
    put(88, &(regs_bytes as u32).to_ne_bytes());
    put(92, &(stack.len() as u32).to_ne_bytes());
    put(regs + pc_word * 8, &pc.to_ne_bytes());
    put(regs + sp_word * 8, &sp.to_ne_bytes());
    bytes.extend(stack);
    bytes
}

fn parse_end(bytes: &[u8]) -> EndRecord {
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
    }
}

/// Targets are followed already, but no clock runs.
pub const NOT_BEGUN: u64 = 1;

/// `WHOM_*`: which threads have a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The processes in the map `targets` and what they fork.
    Processes = 0,
    /// The threads in the map `targets`.
    Threads = 1,
    /// All.
    All = 2,
    /// Those in the cgroups of the map `targets`, and below.
    Cgroup = 3,
}

/// `struct control`, as the words the map holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Off-CPU ns per sample of a thread.
    pub period_ns: u64,
    /// Not 0: nothing counts after this moment, or [`NOT_BEGUN`].
    pub end_ns: u64,
    /// This process becomes a target with its exec; 0 = none.
    pub start_at_exec: u32,
    /// User stack to copy.
    pub stack_bytes: u32,
}

impl Control {
    /// In the map's form.
    #[must_use]
    pub fn to_words(self) -> [u64; 3] {
        let pair = |low: u32, high: u32| {
            let mut word = [0u8; 8];
            word[..4].copy_from_slice(&low.to_ne_bytes());
            word[4..].copy_from_slice(&high.to_ne_bytes());
            u64::from_ne_bytes(word)
        };
        [self.period_ns, self.end_ns, pair(self.start_at_exec, self.stack_bytes)]
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../bpf/shared.h");

    fn constant(name: &str) -> usize {
        let line = HEADER.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        let value = line.and_then(|line| line.split_whitespace().nth(2));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no #define {name}"))
    }

    /// Offsets of a struct's fields by the C rules, with its size under the name "".
    fn offsets(name: &str) -> Vec<(String, usize)> {
        let body =
            HEADER.split(&format!("struct {name} {{")).nth(1).and_then(|rest| rest.split("\n};").next());
        let mut at = 0usize;
        let mut found = Vec::new();
        for line in body.unwrap_or_else(|| panic!("no struct {name}")).lines() {
            let Some((declared, _)) = line.split_once(';') else { continue };
            let size = match declared {
                text if text.contains("long long") => 8,
                text if text.contains("int") => 4,
                _ => 1,
            };
            let field = declared.split_whitespace().last().unwrap_or_default();
            let (field, many) = field.split_once('[').unwrap_or((field, "1]"));
            let many = many.trim_end_matches(']');
            let many = many.parse().unwrap_or_else(|_| constant(many));
            at = at.next_multiple_of(size);
            found.push((field.to_owned(), at));
            at += size * many;
        }
        found.push((String::new(), at));
        found
    }

    fn offset(of: &[(String, usize)], field: &str) -> usize {
        of.iter().find(|(name, _)| name == field).unwrap_or_else(|| panic!("no field {field}")).1
    }

    #[test]
    fn the_header_and_this_file_agree() {
        let record = offsets("off_record");
        for (field, at) in [
            ("time_ns", 8),
            ("since_ns", 16),
            ("wait_ns", 24),
            ("wait_weight_ns", 32),
            ("runnable_ns", 40),
            ("runnable_weight_ns", 48),
            ("tid", 56),
            ("tgid", 60),
            ("other_tid", 64),
            ("other_tgid", 68),
            ("kind", 72),
            ("flags", 76),
            ("cpu", 80),
            ("kstack_bytes", 84),
            ("regs_bytes", 88),
            ("stack_bytes", 92),
            ("other_comm", 96),
            ("kstack", 112),
            ("regs", 112 + KSTACK_FRAMES * 8),
            ("stack", HEAD_BYTES),
            ("", HEAD_BYTES + STACK_MAX_BYTES),
        ] {
            assert_eq!(offset(&record, field), at, "off_record.{field}");
        }
        let end = offsets("end_record");
        for (field, at) in [
            ("start_ns", 8),
            ("end_ns", 16),
            ("total", 24),
            ("carry", 24 + KIND_COUNT * 8),
            ("switches", 24 + KIND_COUNT * 16),
            ("tid", 32 + KIND_COUNT * 16),
            ("tgid", 36 + KIND_COUNT * 16),
            ("flags", 40 + KIND_COUNT * 16),
            ("preemptions", 44 + KIND_COUNT * 16),
            ("migrations", 48 + KIND_COUNT * 16),
            ("minor_faults", 56 + KIND_COUNT * 16),
            ("major_faults", 64 + KIND_COUNT * 16),
            ("comm", 72 + KIND_COUNT * 16),
            ("longest_us", QUEUE_AT),
            ("queue", QUEUE_AT + 8),
            ("", END_BYTES),
        ] {
            assert_eq!(offset(&end, field), at, "end_record.{field}");
        }
        assert_eq!(offset(&offsets("control"), ""), 24);
    }

    #[test]
    fn the_headers_constants_are_ours() {
        for (name, value) in [
            ("KIND_RUNNABLE", Kind::Runnable as usize),
            ("KIND_PREEMPTED", Kind::Preempted as usize),
            ("KIND_SLEEP", Kind::Sleep as usize),
            ("KIND_DISK", Kind::Disk as usize),
            ("KIND_STOPPED", Kind::Stopped as usize),
            ("KIND_IDLE", Kind::Idle as usize),
            ("KIND_COUNT", KIND_COUNT),
            ("QUEUE_BUCKETS", QueueLengths::BUCKETS),
            ("QUEUE_FIRST_LOG2", QueueLengths::FIRST_LOG2 as usize),
            ("QUEUE_WORDS", 2 * QueueLengths::BUCKETS),
            ("KSTACK_FRAMES", KSTACK_FRAMES),
            ("REGS_BYTES", REGS_BYTES),
            ("STACK_MAX_BYTES", STACK_MAX_BYTES),
            ("FLAG_OPEN_LEFT", flag::OPEN_LEFT as usize),
            ("FLAG_OPEN_RIGHT", flag::OPEN_RIGHT as usize),
            ("FLAG_KTHREAD", flag::KTHREAD as usize),
            ("FLAG_WOKEN", flag::WOKEN as usize),
            ("FLAG_NO_SLOT", flag::NO_SLOT as usize),
            ("FLAG_STALE", flag::STALE as usize),
            ("FLAG_EXITED", flag::EXITED as usize),
            ("FLAG_NEW", flag::NEW as usize),
            ("WHOM_ALL", Whom::All as usize),
            ("WHOM_CGROUP", Whom::Cgroup as usize),
            ("WHOM_THREADS", Whom::Threads as usize),
            ("REC_SAMPLE", REC_SAMPLE as usize),
            ("REC_WAKER", REC_WAKER as usize),
            ("REC_END", REC_END as usize),
            ("NOT_BEGUN", NOT_BEGUN as usize),
        ] {
            assert_eq!(constant(name), value, "{name}");
        }
    }
}
