//! The raw payload of our off-CPU samples: state, reason, system call and waker, or a thread's totals.
//!
//! Parse and write are next to each other. Always little-endian, whatever the file is: the payload is ours, not
//! the kernel's. The layout is documented in docs/formats/off-cpu.md.

mod embedded;
mod payload;
mod queue;
mod sums;

pub use embedded::NO_TIME_NS;
pub(crate) use embedded::{is_embedded, unfold};
pub use payload::Payload;
pub use queue::QueueLengths;
pub use sums::WaitSums;

/// Names of the events that carry these payloads.
pub mod event_name {
    /// Blocked: the period is ns from switch-out to wake-up.
    pub const OFF_CPU: &str = "offcpu-time";
    /// Woken, waiting for a CPU: the period is ns from wake-up to switch-in.
    pub const RUNNABLE: &str = "runnable-time";
    /// Preempted: the period is ns from switch-out to switch-in.
    pub const PREEMPTED: &str = "preempted-time";
    /// One per thread at its end: the period is its ns on the CPU, the payload a [`super::OffCpuTotals`].
    pub const TOTALS: &str = "oncpu-time";
}

/// Where a part of a thread's wall clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Running.
    On,
    /// Woken and waiting for a CPU.
    Runnable,
    /// Still runnable; another thread was given the CPU.
    Preempted,
    /// An interruptible wait (S).
    Sleep,
    /// An uninterruptible wait (D).
    Disk,
    /// Stopped, traced, parked or frozen (T).
    Stopped,
    /// An idle kernel thread (I): neither busy nor waiting for anything.
    Idle,
    /// Not in the recording.
    Unknown,
}

impl State {
    /// All, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::On,
        Self::Runnable,
        Self::Preempted,
        Self::Sleep,
        Self::Disk,
        Self::Stopped,
        Self::Idle,
        Self::Unknown,
    ];

    /// Number in payloads and in [`OffCpuTotals::total_ns`].
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The state of this number; `Unknown` for numbers from the future.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unknown)
    }

    /// As shown: "on CPU", "runnable", "preempted", "sleeping", …
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on CPU",
            Self::Runnable => "runnable",
            Self::Preempted => "preempted",
            Self::Sleep => "sleeping",
            Self::Disk => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Idle => "idle kernel thread",
            Self::Unknown => "unknown state",
        }
    }
}

/// Properties of an interval; bits of [`OffCpuInterval::flags`] and [`OffCpuTotals::flags`].
pub mod flag {
    /// It began before recording.
    pub const OPEN_LEFT: u32 = 1;
    /// It had not ended when recording did.
    pub const OPEN_RIGHT: u32 = 2;
    /// A kernel thread.
    pub const KTHREAD: u32 = 4;
    /// The time of the wake-up is known.
    pub const WOKEN: u32 = 8;
    /// The user stack did not fit.
    pub const NO_ROOM: u32 = 16;
    /// The kept user stack belonged to another wait and was left out.
    pub const STALE: u32 = 32;
    /// Totals: the thread ended by itself.
    pub const EXITED: u32 = 64;
    /// First run of a thread born while recording.
    pub const NEW: u32 = 128;
    /// Not an interval, but the sum of short ones without samples: no stack.
    pub const REST: u32 = 256;
    /// Not an interval, but a snapshot of a waiting thread. State, system call, place and stack are those of
    /// the wait in progress at the sample's time; its length comes from switch records. The period is the time
    /// between two snapshots.
    pub const LOOK: u32 = 512;
    /// The payload has exact sums for the place: count, longest and lengths of the waits that the sample
    /// represents.
    pub const SUMS: u32 = 1024;
    /// Runnable: the other thread is the one that had the CPU when this one got it; without id and with the name
    /// [`super::IDLE_CPU`] none had. In older files it is the waker.
    pub const RAN_INSTEAD: u32 = 2048;
}

/// Name of the other thread where the CPU had nothing to do.
pub const IDLE_CPU: &str = "an idle CPU";

/// Thread that ended a wait, or ran instead of a preempted thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherThread {
    /// Process; 0 = none or not visible.
    pub pid: u32,
    /// The thread; 0 = an interrupt, the idle task, or none.
    pub tid: u32,
    /// Kernel name.
    pub comm: String,
    /// Stack at the wake-up, leaf first, with perf's context markers; empty if it was not taken.
    pub chain: Vec<u64>,
}

/// The payload of `offcpu-time`, `runnable-time` and `preempted-time` samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuInterval {
    /// State of the thread.
    pub state: State,
    /// Bits of [`flag`].
    pub flags: u32,
    /// When it began, in ns of the recording's clock.
    pub since_ns: u64,
    /// Its own length in ns (the period is the time that the sample represents).
    pub length_ns: u64,
    /// The system call it waits in, by this machine's table; `None` in user code or a page fault.
    pub syscall: Option<u32>,
    /// The first three arguments of `syscall`; 0 without one.
    pub args: [u64; 3],
    /// Sums over all waits that the sample represents, including this one; `None` in older files without this
    /// field and for other sources.
    pub sums: Option<Box<WaitSums>>,
    /// The waker or preemptor.
    pub other: OtherThread,
    /// The kernel function that it waits in, by name; empty if only its address is known (in the callchain).
    pub place: String,
}

/// The payload of `oncpu-time`: one thread's exact sums. `total_ns` adds up to `end_ns - start_ns`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffCpuTotals {
    /// When it came under observation, in ns of the recording's clock.
    pub start_ns: u64,
    /// When it ended, or recording did.
    pub end_ns: u64,
    /// By [`State::code`].
    pub total_ns: [u64; 8],
    /// Times it left a CPU.
    pub switches: u64,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Last kernel name.
    pub comm: String,
    /// Number of `switches` at which it was preempted while runnable; 0 in older files without this field.
    pub preemptions: u32,
    /// Times it got another CPU than it had before.
    pub migrations: u64,
    /// Page faults without and with a wait for a disk.
    pub faults: [u64; 2],
    /// Waits for a CPU that have ended, by length: once woken, and preempted; `None` in older files without
    /// this field.
    pub queue: Option<Box<[QueueLengths; 2]>>,
    /// The title of the process, of its first thread: the one that it gave itself (`postgres: checkpointer`) if it still
    /// lived at the end, or its name with what it is for (`git gc`) if its program began while recording; else empty.
    pub title: String,
}

impl OffCpuTotals {
    /// From first to last moment, ns.
    #[must_use]
    pub fn life_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

#[cfg(test)]
mod tests;
