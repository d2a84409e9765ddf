//! Time off the CPU: waits and per-thread totals, from any recorder.
//!
//! Four sources, one form ([`Wait`], [`ThreadTotals`]): our own off-CPU samples, perf's `offcpu-time`, the
//! `sched:*` tracepoints, and switch records. Data missing from a source stays [`State::Unknown`] or without stack. It
//! is never guessed.
//! Conservation: for each thread the weights of its waits by state are its totals by state.

pub(crate) mod collector;
mod contention;
pub(crate) mod event_loop;
pub(crate) mod futex;
mod kept_lives;
pub(crate) mod known_lock;
mod other_names;
mod perf_offcpu_lives;
mod reason;
mod stats;
mod tracker;
mod user_reason;
pub(crate) mod wait_names;
mod who_ran;
pub(crate) mod work_waits;

pub(crate) use contention::Contenders;
pub use contention::Contention;
pub(crate) use kept_lives::{RecordedLives, cut_to_window};
pub(crate) use other_names::name_others;
pub(crate) use perf_offcpu_lives::{of_samples, of_unfinished};
pub use reason::{SyscallNumbering, WaitReason};
pub(crate) use stats::{Stat, Stats};
pub(crate) use tracker::{Out, SwitchStates, Tracker, WaitSample};
pub(crate) use user_reason::of_user_frames;
pub(crate) use who_ran::{is_for_cpu, name_longest_runners};

use crate::profile::TaskId;
use crate::table::{CallsiteId, StringId};
use perfdata::appendix::descriptors::NamedDescriptors;
use perfdata::appendix::go_waits::GoWaits;
use perfdata::off_cpu::{QueueLengths, State, WaitSums, event_name};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// One interval off the CPU, or the sum of short ones that were not recorded one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The waiting thread.
    pub task: TaskId,
    /// Stack of the wait, kernel part included; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// The thread's state during the wait.
    pub state: State,
    /// Begin, ns of the recording's clock.
    pub since_ns: u64,
    /// Length, ns; 0 for a sum of short ones.
    pub length_ns: u64,
    /// Time that it represents, ns.
    pub weight_ns: u64,
    /// The system call it was in; `None` if there was none or the source doesn't record it.
    pub syscall: Option<u32>,
    /// The first arguments of the system call.
    pub args: [u64; 3],
    /// Reason found by a look at the thread; without one, its stack and system call show the reason.
    pub told: Option<WaitReason>,
    /// The waker, or the thread that ran instead.
    pub other: Option<RelatedThread>,
    /// Bits of [`perfdata::off_cpu::flag`].
    pub flags: u32,
    /// Where the thread went on, or was woken; `None` if not known.
    pub cpu: Option<u32>,
    /// Exact count, longest and lengths of the waits that this one represents, itself among them.
    pub sums: Option<Box<WaitSums>>,
    /// Text of the labels that the thread's goroutine had.
    pub labels: Option<StringId>,
}

impl Wait {
    /// A wait of this thread; nothing else is known.
    pub(crate) fn of(task: TaskId) -> Self {
        Self {
            task,
            callsite: None,
            state: State::Unknown,
            since_ns: 0,
            length_ns: 0,
            weight_ns: 0,
            syscall: None,
            args: [0; 3],
            told: None,
            other: None,
            flags: 0,
            cpu: None,
            sums: None,
            labels: None,
        }
    }

    /// The longest of the waits that this one represents, ns; 0 where none is known.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.longest_ns).max(self.length_ns)
    }

    /// True for the time of short waits that were not recorded one by one.
    #[must_use]
    pub fn is_short_rest(&self) -> bool {
        self.length_ns == 0 && self.sums.is_none()
    }

    /// When the waits began that this one represents, first to last, in ns of the recording's clock.
    #[must_use]
    pub fn begins_ns(&self) -> RangeInclusive<u64> {
        let first_ns = self.sums.as_ref().map_or(0, |sums| sums.since_ns);
        if first_ns == 0 {
            self.since_ns..=self.since_ns
        } else {
            first_ns.min(self.since_ns)..=self.since_ns
        }
    }

    /// Number of waits that this one represents: counted where the source counts them, else its weight divided by its
    /// length. The length used is at least that of a switch to another thread and back. Otherwise one odd sample would
    /// make a million waits. 0 for a sum without counts, where no single length is known.
    #[must_use]
    pub fn stands_for(&self) -> u64 {
        const SHORTEST_NS: u64 = 2000;
        if let Some(sums) = &self.sums {
            return sums.count.into();
        }
        if self.length_ns == 0 { 0 } else { (self.weight_ns / self.length_ns.max(SHORTEST_NS)).max(1) }
    }
}

/// The waker of a wait, or the preemptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelatedThread {
    /// Process id; 0 if not known.
    pub pid: u32,
    /// Thread id; 0 is an interrupt or the idle task.
    pub tid: u32,
    /// Name; empty if not known.
    pub comm: StringId,
    /// Stack at the wake-up.
    pub callsite: Option<CallsiteId>,
}

/// One thread's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTotals {
    /// The thread, under the name it had.
    pub task: TaskId,
    /// Begin of observation, ns of the recording's clock.
    pub start_ns: u64,
    /// End of the thread or of the recording.
    pub end_ns: u64,
    /// ns by [`State::code`].
    pub total_ns: [u64; 8],
    /// Times it left a CPU.
    pub switches: u64,
}

impl ThreadTotals {
    /// First to last moment.
    #[must_use]
    pub fn life_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// ns in this state.
    #[must_use]
    pub fn of(&self, state: State) -> u64 {
        self.total_ns[usize::from(state.code())]
    }
}

/// Sources of the time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OffCpuSource {
    /// Switch records: no stacks, no states.
    SwitchRecords,
    /// Switch records for the lengths of waits, looks at /proc for reasons and stacks of all but the short ones.
    Looks,
    /// `perf record --off-cpu`: no totals of running time.
    PerfOffCpu,
    /// `sched:sched_switch` samples.
    Tracepoints,
    /// Our own events: exact.
    Tally,
}

/// A sample of a running thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSample {
    /// The thread.
    pub task: TaskId,
    /// When, ns of the recording's clock.
    pub time_ns: u64,
    /// Where.
    pub callsite: CallsiteId,
    /// Events that it represents, in the event's unit.
    pub period: u64,
    /// Where; `None` if not known.
    pub cpu: Option<u32>,
}

/// A thread was made by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBirth {
    /// The new thread's id.
    pub tid: u32,
    /// The id of the thread that made it.
    pub parent_tid: u32,
    /// When, ns of the recording's clock.
    pub time_ns: u64,
}

/// All data of a recording about time off the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Source of the data; `None` if there is none.
    pub source: Option<OffCpuSource>,
    /// Numbers of the system calls of the recorded machine.
    pub numbering: SyscallNumbering,
    /// Waits in the order of their ends.
    pub waits: Vec<Wait>,
    /// One per thread and life.
    pub totals: Vec<ThreadTotals>,
    /// Queue lengths for threads whose every wait for a CPU was counted: after wake-ups, and after preemptions.
    pub queues: Vec<(TaskId, Box<[QueueLengths; 2]>)>,
    /// Titles of processes, by the number of their first thread: their own, or their name with what they are for.
    pub titles: BTreeMap<i32, String>,
    /// Waits for kernel locks from the `lock:contention_*` events, in the order of their ends.
    pub contentions: Vec<Contention>,
    /// Number of ends without begin and begins without end in these events.
    pub half_contentions: u64,
    /// Samples of the CPU's clock with their times, if asked for ([`crate::session::Dimensions::seen_running`]).
    pub seen_running: Vec<RunSample>,
    /// Descriptors that threads waited for.
    pub descriptors: NamedDescriptors,
    /// Where goroutines of Go programs waited.
    pub go_waits: GoWaits,
    /// Births of threads, in order of time.
    pub births: Vec<ThreadBirth>,
    /// Waits that ended before they began, for two CPUs read the clock a little differently: taken to be 0 long.
    pub backwards: u64,
}

/// Kind of an event with data about waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Nothing.
    Other,
    /// Ours or perf's off-CPU samples.
    OffCpu,
    /// `sched:sched_switch`.
    Switch,
    /// `sched:sched_stat_*`.
    Stat(Stat),
    /// `sched:sched_waking`, `sched_wakeup`, `sched_wakeup_new`.
    Wakeup,
    /// `lock:contention_begin`.
    ContentionBegin,
    /// `lock:contention_end`.
    ContentionEnd,
}

impl EventKind {
    /// By the event's name.
    pub fn of(name: &str) -> Self {
        let base =
            name.split([':', '/']).find(|part| !matches!(*part, "sched" | "lock" | "")).unwrap_or(name);
        match base {
            event_name::OFF_CPU | event_name::RUNNABLE | event_name::PREEMPTED | event_name::TOTALS => {
                Self::OffCpu
            }
            "sched_switch" => Self::Switch,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Self::Wakeup,
            name if Stat::of(name).is_some() => Stat::of(name).map_or(Self::Other, Self::Stat),
            "contention_begin" => Self::ContentionBegin,
            "contention_end" => Self::ContentionEnd,
            _ => Self::Other,
        }
    }
}

/// True for events whose samples are time off the CPU (or a thread's totals), not places where code ran.
#[must_use]
pub fn is_off_cpu(event: &str) -> bool {
    EventKind::of(event) == EventKind::OffCpu
}
