//! What a recording tells about itself and its target, beside the samples: the numbers of `tally run`'s screen.
//!
//! Values only; counted while recording, so that they hold even if the file is thrown away.

use std::path::PathBuf;

use perfdata::stack_notes::StackEnd;

use crate::sys::ExitKind;

/// The whole of one recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunSummary {
    /// The command's pid, if one was started.
    pub child_pid: Option<u32>,
    /// How the command ended; `None` if none was started or it still runs.
    pub exit: Option<ExitKind>,
    /// From the start of the command (or of recording) to its end, in ns.
    pub wall_ns: u64,
    /// Counters over the whole life of the target, in the order they are worth showing.
    pub counters: Vec<CounterValue>,
    /// Every thread seen running, by descending on-CPU time. Empty if switches were not recorded.
    pub threads: Vec<ThreadUse>,
    /// How far the stacks can be trusted.
    pub quality: StackQuality,
    /// What the kernel or we had to drop.
    pub lost: Loss,
    /// What recording itself cost.
    pub recorder: RecorderUse,
    /// What was done differently from what was asked, and why; one sentence each.
    pub notices: Vec<Notice>,
    /// The file written; `None` for a pipe.
    pub file: Option<PathBuf>,
    /// Name of the sampled event ("cycles", "cpu-clock").
    pub event: String,
    /// How many other events were recorded.
    pub more_events: usize,
    /// Samples per second asked for; `None` if a period was.
    pub frequency_hz: Option<u64>,
}

impl RunSummary {
    /// The counter of this name, if it was counted.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<&CounterValue> {
        self.counters.iter().find(|c| c.name == name)
    }

    /// True if the output could not be written to its end.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.notices.iter().any(|notice| matches!(notice, Notice::WriteStopped(_)))
    }

    /// CPU time of the target in ns: the task clock, else the sum over threads.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.counter("task-clock").map_or_else(|| self.threads.iter().map(|t| t.on_ns).sum(), |c| c.value)
    }

    /// CPUs used on average: CPU time per wall time; 0 if nothing was measured.
    #[must_use]
    pub fn cpus_used(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.cpu_ns() as f64 / self.wall_ns as f64 }
    }
}

/// One counter's end value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CounterValue {
    /// perf's name: "task-clock" (ns), "context-switches", "cpu-migrations", "minor-faults", "major-faults",
    /// "cycles", "instructions".
    pub name: String,
    /// The count, scaled up if the counter ran only part of the time.
    pub value: u64,
    /// Percent of its enabled time the counter was on the PMU; 100 unless multiplexed.
    pub running_pct: f64,
}

/// One thread's time on and off the CPU while it was watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
    /// Its last name.
    pub comm: String,
    /// From its first to its last moment under watch, in ns; on + off = life.
    pub life_ns: u64,
    /// Time on a CPU, in ns.
    pub on_ns: u64,
    /// Time blocked or waiting for a CPU, in ns.
    pub off_ns: u64,
    /// Of `off_ns`, the part spent runnable, waiting for a CPU after being preempted, in ns.
    pub preempted_ns: u64,
    /// Times it left the CPU by itself (blocked, slept, yielded).
    pub voluntary_switches: u64,
    /// Times it was taken off the CPU while it could have gone on.
    pub involuntary_switches: u64,
    /// Samples taken in it.
    pub samples: u64,
}

/// How complete the user stacks are. Conservation: `complete + joined + Σ stopped = stacks`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackQuality {
    /// Samples that have a user stack.
    pub stacks: u64,
    /// Those that reach the thread's start.
    pub complete: u64,
    /// Those that reach it with the help of memory or a chain read at another moment (deeper than the snapshot).
    pub joined: u64,
    /// Those that end early, by cause, most frequent first.
    pub stopped: Vec<StoppedStacks>,
}

/// Stacks that ended early for one cause in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedStacks {
    /// Why.
    pub reason: StopReason,
    /// The DSO the last frame lies in (its path or pseudo name), if known.
    pub dso: Option<String>,
    /// The thread with most of them: its tid and name.
    pub thread: (u32, String),
    /// How many.
    pub count: u64,
}

/// Why a user stack ends before the thread's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StopReason {
    /// The snapshot of the stack ended: so many bytes were copied.
    StackEnd(u32),
    /// The DSO says nothing about its frames and frame pointers led nowhere.
    NoUnwindInfo,
    /// An address outside every mapping.
    NoMapping,
    /// The unwind information or the stack is damaged, or two frames would be the same.
    Bad,
    /// The object file could not be opened while the process lived.
    NoObjectFile,
    /// More frames than a record holds.
    TooDeep,
    /// The recorder was behind and kept only the leaf.
    Behind,
    /// The kernel gave no registers (the sample hit a kernel thread, or a 32-bit task).
    NoRegisters,
}

impl From<StopReason> for StackEnd {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::StackEnd(bytes) => Self::CopyEnd(bytes),
            StopReason::NoUnwindInfo => Self::NoUnwindInfo,
            StopReason::NoMapping => Self::NoMapping,
            StopReason::Bad => Self::Bad,
            StopReason::NoObjectFile => Self::NoObjectFile,
            StopReason::TooDeep => Self::TooDeep,
            StopReason::Behind => Self::Behind,
            StopReason::NoRegisters => Self::NoRegisters,
        }
    }
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StackEnd(bytes) => write!(f, "cut after {bytes} bytes"),
            Self::NoUnwindInfo => write!(f, "without unwind information"),
            Self::NoMapping => write!(f, "led outside every mapping"),
            Self::Bad => write!(f, "with damaged frames"),
            Self::NoObjectFile => write!(f, "without object file"),
            Self::TooDeep => write!(f, "with too many frames"),
            Self::Behind => write!(f, "left out: the unwinder was behind"),
            Self::NoRegisters => write!(f, "without registers"),
        }
    }
}

/// What is missing from the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// Samples written.
    pub samples: u64,
    /// Records the kernel dropped because a ring was full.
    pub lost_records: u64,
    /// Samples the kernel dropped (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// Times the kernel throttled an event that fired too often.
    pub throttled: u64,
    /// Losses by thread that was running when they were told, most first: (tid, name, records).
    pub by_thread: Vec<(u32, String, u64)>,
}

/// What the recorder itself used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderUse {
    /// CPU time in user mode, in ns.
    pub user_ns: u64,
    /// CPU time in the kernel, in ns.
    pub system_ns: u64,
    /// Largest resident memory, in bytes.
    pub peak_memory_bytes: u64,
    /// Bytes written to the file.
    pub file_bytes: u64,
    /// Bytes of that that are samples (before compression).
    pub sample_bytes: u64,
    /// Bytes of that that are a processor's trace.
    pub trace_bytes: u64,
}

/// Something the user should know about how the recording was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// No hardware counters: this software event (the second) was used in place of the first.
    NoHardwareCounters(String, &'static str),
    /// The kernel may not be sampled (`kernel.perf_event_paranoid` is this): user space only.
    UserOnly(i64),
    /// Rings were made smaller than asked (asked, got; in KiB per CPU) because of the locked-memory limit.
    SmallerRings(u64, u64),
    /// The sampling rate was lowered to the kernel's limit (asked, got; in Hz).
    LowerFrequency(u64, u64),
    /// Registers and stacks can't be had for this event: frame pointers are used.
    FramePointersOnly(&'static str),
    /// The CPU has no branch records: stacks are unwound while recording instead.
    NoBranchRecords,
    /// Writing failed: what was recorded until then is kept.
    WriteStopped(String),
    /// So many samples gave way to newer ones, as asked.
    Overwritten(u64),
    /// The output has reached this size, as asked.
    SizeReached(u64),
    /// An event of several could not be opened and is left out: its name and why.
    EventLeftOut(String, String),
    /// Time off the CPU by tracepoints of all CPUs: why not by BPF.
    ByTracepoints(String),
    /// These CPUs went offline while events of whole CPUs were recorded.
    CpusWent(Vec<u32>),
    /// CPUs that went offline and came back: they have events again.
    CpusAgain(Vec<u32>),
    /// CPUs that came online while recording.
    CpusNew(Vec<u32>),
    /// The machine was suspended so long while recording, in ns.
    Suspended(u64),
    /// Time off the CPU by switch records only: why.
    NoOffCpu(String),
    /// Too many waits per second: a sample stands for so many ns off the CPU now.
    OffCpuPeriod(u64),
    /// The off-CPU engine lost some of what it should have told: how many, of what.
    OffCpuLost(u64, &'static str),
    /// The unwinder was behind: so many bytes of registers and stacks waited for it on disk.
    Spilled(u64),
    /// They could not wait there: why, and how many bytes could not be read back.
    SpillFailed(String, u64),
    /// AUX areas were made smaller than asked (asked, got; in KiB each): no memory, or the locked-memory limit.
    SmallerAreas(u64, u64),
    /// The kernel does not tell how the processor's time stamps relate to the records' times.
    NoTraceClock,
    /// So many times the processor had to stop tracing because an AUX area was full.
    TraceStopped(u64),
    /// So many times the trace has a hole for another reason (a virtual machine was entered, tracing collided).
    TraceHoles(u64),
    /// Snapshots were to be taken on a signal, and none came.
    NoSnapshot,
    /// A process of the target could not be described from /proc: pid and why.
    ProcessUnreadable(u32, String),
}

impl Notice {
    /// What the user should hear of a machine that had been suspended for so many ns since its boot, before and after
    /// the recording; `None` of less than the readings of two clocks may differ.
    #[must_use]
    pub fn of_suspension(before_ns: u64, after_ns: u64) -> Option<Self> {
        const NOISE_NS: u64 = 10_000_000;
        Some(after_ns.saturating_sub(before_ns)).filter(|&ns| ns > NOISE_NS).map(Self::Suspended)
    }
}

fn listed(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoHardwareCounters(asked, event) => {
                write!(f, "no hardware counters here: sampling {event} instead of {asked}")
            }
            Self::UserOnly(paranoid) => write!(
                f,
                "user space only: kernel.perf_event_paranoid={paranoid} hides the kernel \
                 (as root: sysctl kernel.perf_event_paranoid=1)"
            ),
            Self::SmallerRings(asked, got) => write!(
                f,
                "rings of {got} KiB instead of {asked} KiB per CPU: locked-memory limit \
                 (raise kernel.perf_event_mlock_kb or ulimit -l)"
            ),
            Self::LowerFrequency(asked, got) => {
                write!(f, "{got} Hz instead of {asked} Hz: kernel.perf_event_max_sample_rate is {got}")
            }
            Self::FramePointersOnly(why) => write!(f, "user stacks by frame pointers: {why}"),
            Self::NoBranchRecords => {
                write!(f, "no branch records (LBR) here: stacks are unwound while recording")
            }
            Self::WriteStopped(why) => {
                write!(f, "recording stopped early: {why}; everything until then is kept")
            }
            Self::Overwritten(samples) => {
                write!(
                    f,
                    "{samples} older samples gave way to newer ones (--overwrite; -m says how much is kept)"
                )
            }
            Self::SizeReached(bytes) => write!(f, "recording stopped: the output reached {bytes} bytes"),
            Self::EventLeftOut(name, why) => write!(f, "event {name} left out: {why}"),
            Self::ByTracepoints(why) => write!(
                f,
                "off the CPU (tier B): by the scheduler's tracepoints on all CPUs; times are exact unless records are \
                 lost, each switch costs the machine about 3 µs, and of each thread's switches up to 200 a second have \
                 stacks: {why}"
            ),
            Self::CpusWent(cpus) => {
                write!(
                    f,
                    "CPU {} went offline: the kernel closed its events, from then on there are no samples of it",
                    listed(cpus)
                )
            }
            Self::CpusAgain(cpus) => {
                write!(
                    f,
                    "CPU {} went offline and came back: its events were opened again; what began there in the twentieth \
                     of a second before is not told",
                    listed(cpus)
                )
            }
            Self::Suspended(ns) => write!(
                f,
                "the machine was suspended for {:.1} s meanwhile: that time is in no thread's clock, for \
                 CLOCK_MONOTONIC stands still then",
                *ns as f64 / 1e9
            ),
            Self::CpusNew(cpus) => {
                write!(f, "CPU {} came online while recording: it is recorded from then on", listed(cpus))
            }
            Self::NoOffCpu(why) => {
                write!(
                    f,
                    "off the CPU (tier C): when threads ran by switch records, why they waited by looks at /proc; \
                     short waits and wake-ups are not told: {why}"
                )
            }
            Self::OffCpuPeriod(ns) => {
                write!(
                    f,
                    "very many waits: one off-CPU sample stood for up to {} ms of a thread, for all to cost no more than \
                     1 % of a CPU (all times stay exact)",
                    ns / 1_000_000
                )
            }
            Self::OffCpuLost(count, what) => write!(f, "off-CPU: {count} {what}"),
            Self::Spilled(bytes) => write!(
                f,
                "unwinding was slower than sampling: {} MiB of stacks waited on disk; none is lost by that",
                bytes.div_ceil(1 << 20)
            ),
            Self::SpillFailed(why, 0) => {
                write!(f, "unwinding was slower than sampling, and stacks could not wait on disk: {why}")
            }
            Self::SpillFailed(why, bytes) => {
                write!(f, "{bytes} bytes of records that waited on disk could not be read back: {why}")
            }
            Self::SmallerAreas(asked, got) => write!(
                f,
                "AUX areas of {got} KiB instead of {asked} KiB: no memory, or the locked-memory limit \
                 (raise kernel.perf_event_mlock_kb or ulimit -l)"
            ),
            Self::NoTraceClock => write!(
                f,
                "the kernel does not tell how the trace's time stamps relate to its own times: threads can't be told \
                 apart on a CPU, nor time off it (--per-thread does not need it)"
            ),
            Self::TraceStopped(times) => write!(
                f,
                "the trace was lost {times} times because an AUX area was full: give it more, -m,64M, or trace less \
                 (--filter, -S)"
            ),
            Self::TraceHoles(times) => write!(f, "the processor paused the trace {times} times by itself"),
            Self::NoSnapshot => write!(
                f,
                "no snapshot was asked for: kill -USR2 takes one while recording, -Se one at the end"
            ),
            Self::ProcessUnreadable(pid, why) => write!(f, "process {pid} could not be read: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_suspended_while_recording_is_told_and_the_difference_of_two_readings_is_not() {
        assert_eq!(Notice::of_suspension(7_000_000_000, 7_000_900_000), None);
        assert_eq!(Notice::of_suspension(7_000_000_000, 6_999_900_000), None);
        let told = Notice::of_suspension(7_000_000_000, 19_300_000_000).expect("12.3 s").to_string();
        assert!(told.contains("suspended for 12.3 s"), "{told}");
    }
}
