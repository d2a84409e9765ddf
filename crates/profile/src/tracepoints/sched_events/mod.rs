//! The scheduler's tracepoints, one by one, for the views that perf's users know: how long threads waited for a CPU
//! ([`latency`]), a line for each switch ([`timehist`]), and who was on which CPU ([`cpu_map`]).
//!
//! These views take every event as it was recorded and ask nothing of the profile. The wall-clock views use
//! [`crate::off_cpu`], which has stacks and reasons as well.

pub mod cpu_map;
mod decode;
pub mod latency;
pub mod timehist;

pub use decode::SchedDecoder;

/// The idle thread of every CPU.
pub const IDLE: i32 = 0;

/// One event of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedEvent {
    /// ns of the recording's clock.
    pub time_ns: u64,
    /// The CPU that saw it.
    pub cpu: u32,
    /// The event.
    pub action: SchedAction,
}

/// Contents of the tracepoints, with threads by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedAction {
    /// `sched_switch`: the CPU goes from one thread to another.
    Switch {
        /// The thread that leaves.
        prev: i32,
        /// State from now on.
        state: TaskState,
        /// The thread that comes.
        next: i32,
    },
    /// `sched_waking`, `sched_wakeup`, `sched_wakeup_new`: a thread becomes runnable.
    Wake {
        /// That thread.
        tid: i32,
    },
    /// `sched_stat_runtime`: CPU time of the thread since the last such event.
    Ran {
        /// The thread.
        tid: i32,
        /// CPU time in ns.
        ns: u64,
    },
    /// `sched_migrate_task`: a thread moves to another CPU.
    Migrate {
        /// That thread.
        tid: i32,
    },
}

impl SchedAction {
    /// The thread it happens to, other than the one that runs.
    #[must_use]
    pub fn other(self) -> Option<i32> {
        match self {
            Self::Switch { next, .. } => Some(next),
            Self::Wake { tid } | Self::Migrate { tid } => Some(tid),
            Self::Ran { .. } => None,
        }
    }
}

/// The state in which a thread leaves its CPU, as a letter: `R` runnable, `S` asleep, `D` in uninterruptible sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskState(pub char);

impl TaskState {
    /// Whether the thread goes on wanting a CPU.
    #[must_use]
    pub fn is_runnable(self) -> bool {
        self.0 == 'R'
    }
}
