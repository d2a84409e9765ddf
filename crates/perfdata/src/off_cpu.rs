//! The raw payload of our off-CPU samples: state, reason, system call and waker, or a thread's totals.
//!
//! Parse and write are next to each other. Always little-endian, whatever the file is: the payload is ours, not
//! the kernel's. The layout is documented in docs/formats/off-cpu.md.

mod embedded;
mod queue;
mod sums;

pub use embedded::NO_TIME_NS;
pub(crate) use embedded::{is_embedded, unfold};
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

    /// Its number in payloads and in [`OffCpuTotals::total_ns`].
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
    /// The wake-up was seen.
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
}

/// Who ended a wait, or ran instead of a preempted thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherThread {
    /// Its process; 0 = none or not visible.
    pub pid: u32,
    /// The thread; 0 = an interrupt, the idle task, or none.
    pub tid: u32,
    /// Its kernel name.
    pub comm: String,
    /// Its stack at the wake-up, leaf first, with perf's context markers; empty if it was not taken.
    pub chain: Vec<u64>,
}

/// The payload of `offcpu-time`, `runnable-time` and `preempted-time` samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuInterval {
    /// What the thread was.
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
    /// Its last kernel name.
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
    /// The title that the process gave itself (`postgres: checkpointer`), of its first thread if it still lived at the
    /// end; else empty, and in older files.
    pub title: String,
}

/// Either payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// One interval off the CPU.
    Interval(OffCpuInterval),
    /// A thread's sums.
    Totals(OffCpuTotals),
}

const INTERVAL_MAGIC: u32 = u32::from_le_bytes(*b"tOF1");
const TOTALS_MAGIC: u32 = u32::from_le_bytes(*b"tOT1");
const COMM_BYTES: usize = 16;
/// Zeros after the first form of totals.
const PADDING_BYTES: usize = 4;

impl Payload {
    /// Reads a sample's raw bytes; `None` if they aren't a payload of ours, or one of a later form.
    #[must_use]
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let mut read = Bytes(raw);
        match read.u32()? {
            INTERVAL_MAGIC => parse_interval(read).map(Self::Interval),
            TOTALS_MAGIC => parse_totals(read).map(Self::Totals),
            _ => None,
        }
    }
}

// Layout: u32 magic "tOF1"; u32 state; u32 flags; u32 syscall + 1 (0 = none); u64 since_ns; u64 length_ns; u64 args[3];
//         u32 other_pid; u32 other_tid; with the flag SUMS WaitSums;
//         from here on only if any of it is known: char other_comm[16]; u64 n; u64 chain[n];
//         from here on only with a place: u64 bytes; char place[bytes]
fn parse_interval(mut read: Bytes<'_>) -> Option<OffCpuInterval> {
    let state = State::from_code(u8::try_from(read.u32()?).unwrap_or(u8::MAX));
    let flags = read.u32()?;
    let syscall = read.u32()?.checked_sub(1);
    let (since_ns, length_ns) = (read.u64()?, read.u64()?);
    let args = [read.u64()?, read.u64()?, read.u64()?];
    let (pid, tid) = (read.u32()?, read.u32()?);
    let sums = if flags & flag::SUMS != 0 { Some(Box::new(WaitSums::parse(&mut read)?)) } else { None };
    // The rest is padding then.
    let ends_here = read.0.len() < 8;
    let comm = if ends_here { String::new() } else { read.comm()? };
    let frames = if ends_here { 0 } else { usize::try_from(read.u64()?).ok()? };
    let chain = (0..frames).map_while(|_| read.u64()).collect();
    let place = read.text();
    Some(OffCpuInterval {
        state,
        flags: flags & !flag::SUMS,
        since_ns,
        length_ns,
        syscall,
        args,
        sums,
        other: OtherThread { pid, tid, comm, chain },
        place,
    })
}

// Layout: u32 magic "tOT1"; u32 flags; u64 start_ns; u64 end_ns; u64 switches; u64 total_ns[8]; char comm[16];
//         in later files also u32 preemptions; u64 migrations; u64 minor_faults; u64 major_faults;
//         in still later ones QueueLengths of waits once woken; QueueLengths of preemptions;
//         from here on only with a title: u64 bytes; char title[bytes]
fn parse_totals(mut read: Bytes<'_>) -> Option<OffCpuTotals> {
    let flags = read.u32()?;
    let (start_ns, end_ns, switches) = (read.u64()?, read.u64()?, read.u64()?);
    let mut total_ns = [0; 8];
    for total in &mut total_ns {
        *total = read.u64()?;
    }
    let comm = read.comm()?;
    let totals =
        OffCpuTotals { start_ns, end_ns, total_ns, switches, flags, comm, ..OffCpuTotals::default() };
    if read.0.len() <= PADDING_BYTES {
        return Some(totals);
    }
    let (preemptions, migrations, faults) = (read.u32()?, read.u64()?, [read.u64()?, read.u64()?]);
    let both =
        |read: &mut Bytes<'_>| Some(Box::new([QueueLengths::parse(read)?, QueueLengths::parse(read)?]));
    let queue = both(&mut read);
    let title = read.text();
    Some(OffCpuTotals { preemptions, migrations, faults, queue, title, ..totals })
}

impl OffCpuInterval {
    /// The raw bytes; their length + 4 is a multiple of 8, as perf pads raw data.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96 + self.other.chain.len() * 8);
        out.extend(INTERVAL_MAGIC.to_le_bytes());
        out.extend(u32::from(self.state.code()).to_le_bytes());
        let flags = self.flags | if self.sums.is_some() { flag::SUMS } else { 0 };
        out.extend(flags.to_le_bytes());
        out.extend(self.syscall.map_or(0, |nr| nr.wrapping_add(1)).to_le_bytes());
        out.extend(self.since_ns.to_le_bytes());
        out.extend(self.length_ns.to_le_bytes());
        self.args.iter().for_each(|arg| out.extend(arg.to_le_bytes()));
        out.extend(self.other.pid.to_le_bytes());
        out.extend(self.other.tid.to_le_bytes());
        if let Some(sums) = &self.sums {
            sums.write(&mut out);
        }
        if self.other.comm.is_empty() && self.other.chain.is_empty() && self.place.is_empty() {
            return pad(out);
        }
        out.extend(comm_bytes(&self.other.comm));
        out.extend((self.other.chain.len() as u64).to_le_bytes());
        self.other.chain.iter().for_each(|frame| out.extend(frame.to_le_bytes()));
        if !self.place.is_empty() {
            out.extend((self.place.len() as u64).to_le_bytes());
            out.extend(self.place.as_bytes());
        }
        pad(out)
    }
}

impl OffCpuTotals {
    /// The raw bytes, padded as [`OffCpuInterval::to_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(124);
        out.extend(TOTALS_MAGIC.to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        [self.start_ns, self.end_ns, self.switches].iter().for_each(|n| out.extend(n.to_le_bytes()));
        self.total_ns.iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(comm_bytes(&self.comm));
        out.extend(self.preemptions.to_le_bytes());
        [self.migrations, self.faults[0], self.faults[1]].iter().for_each(|n| out.extend(n.to_le_bytes()));
        self.queue.iter().flat_map(|of| of.iter()).for_each(|lengths| lengths.write(&mut out));
        if !self.title.is_empty() && self.queue.is_some() {
            out.extend((self.title.len() as u64).to_le_bytes());
            out.extend(self.title.as_bytes());
        }
        pad(out)
    }

    /// From first to last moment, ns.
    #[must_use]
    pub fn life_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

fn pad(mut out: Vec<u8>) -> Vec<u8> {
    while !(out.len() + 4).is_multiple_of(8) {
        out.push(0);
    }
    out
}

fn comm_bytes(comm: &str) -> [u8; COMM_BYTES] {
    let mut bytes = [0; COMM_BYTES];
    for (to, from) in bytes.iter_mut().take(COMM_BYTES - 1).zip(comm.bytes()) {
        *to = from;
    }
    bytes
}

/// A cursor over the payload.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(head)
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }
    /// A length and a text; empty if there is none.
    fn text(&mut self) -> String {
        let text = self.u64().and_then(|len| self.0.get(..usize::try_from(len).ok()?));
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }
    fn comm(&mut self) -> Option<String> {
        let bytes = self.take::<COMM_BYTES>()?;
        let name = bytes.split(|&b| b == 0).next().unwrap_or(&[]);
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests;
