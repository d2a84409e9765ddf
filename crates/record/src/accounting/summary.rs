//! Summary of a recording and its target, in addition to the samples: the numbers of `tally run`'s screen.
//!
//! Values only; counted while recording, so that they hold even if the file is thrown away.

use std::path::PathBuf;

mod notice;
mod stack_quality;

pub use notice::{COMMAND_OF_DOTNET, COMMAND_OF_JVM, Notice};
pub use perfdata::appendix::stack_notes::StopReason;
pub use stack_quality::{StackQuality, StoppedStacks};

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
    /// Threads seen running, by descending on-CPU time: all of them up to some thousands. Empty if switches were not
    /// recorded.
    pub threads: Vec<ThreadUse>,
    /// Those that are not in [`Self::threads`]: all had ended, and used the CPU less.
    pub more_threads: MoreThreads,
    /// How far the stacks can be trusted.
    pub quality: StackQuality,
    /// Data that the kernel or the recorder had to drop.
    pub lost: Loss,
    /// Cost of the recording itself.
    pub recorder: RecorderUse,
    /// Deviations from the requested options, with the reason; one sentence each.
    pub notices: Vec<Notice>,
    /// Processes that were attached to as the recording began; 0 of a command and of the whole machine.
    pub attached_processes: usize,
    /// Living children of the selected processes that were left out.
    pub children_left_out: usize,
    /// The file written; `None` for a pipe, or if another recording has replaced it.
    pub file: Option<PathBuf>,
    /// Name of the sampled event ("cycles", "cpu-clock").
    pub event: String,
    /// How many other events were recorded.
    pub more_events: usize,
    /// Requested samples per second; `None` if a period was requested.
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
        let of_threads = || self.threads.iter().map(|t| t.on_ns).sum::<u64>() + self.more_threads.on_ns;
        self.counter("task-clock").map_or_else(of_threads, |c| c.value)
    }

    /// Why a run has no samples, to follow these words.
    #[must_use]
    pub fn why_unsampled(cpu_ns: u64) -> &'static str {
        /// CPU time in which even stops would have taken one.
        const ENOUGH_NS: u64 = 50_000_000;
        if cpu_ns < ENOUGH_NS {
            "it used too little CPU time to be sampled"
        } else {
            "where its CPU time went is not known"
        }
    }

    /// CPUs used on average: CPU time per wall time; 0 if nothing was measured.
    #[must_use]
    pub fn cpus_used(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.cpu_ns() as f64 / self.wall_ns as f64 }
    }

    /// CPUs that the recorder used meanwhile, on average; 0 if nothing was measured.
    #[must_use]
    pub fn recorder_cpus(&self) -> f64 {
        self.cpus_of(self.recorder.while_running_ns.saturating_add(self.recorder.programs_ns))
    }

    /// The same of its own threads, and of its BPF programs, which run in the time of the threads they observe.
    #[must_use]
    pub fn recorder_cpus_by_place(&self) -> (f64, f64) {
        (self.cpus_of(self.recorder.while_running_ns), self.cpus_of(self.recorder.programs_ns))
    }

    /// `tally: 0.04 CPUs`; where its BPF programs use more than a little, which is in the program's time, that too:
    /// `tally: 0.06 CPUs, and 0.43 in the program's threads`.
    #[must_use]
    pub fn recorder_words(&self) -> String {
        const LITTLE: f64 = 0.05;
        match self.recorder_cpus_by_place() {
            (own, bpf) if bpf >= LITTLE => {
                format!("tally: {own:.2} CPUs, and {bpf:.2} in the program's threads")
            }
            _ => format!("tally: {:.2} CPUs", self.recorder_cpus()),
        }
    }

    fn cpus_of(&self, spent_ns: u64) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { spent_ns as f64 / self.wall_ns as f64 }
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
    /// Process of the thread.
    pub pid: u32,
    /// TID of the thread.
    pub tid: u32,
    /// Last name of the thread.
    pub comm: String,
    /// The process's title or arguments, of the first thread where several processes have the same name.
    pub title: Option<String>,
    /// From its first to its last moment under watch, in ns; on + off = life.
    pub life_ns: u64,
    /// Time on a CPU, in ns.
    pub on_ns: u64,
    /// Time blocked or waiting for a CPU, in ns.
    pub off_ns: u64,
    /// Part of `off_ns` spent runnable, waiting for a CPU after being preempted, in ns.
    pub preempted_ns: u64,
    /// Times it left the CPU by itself (blocked, slept, yielded).
    pub voluntary_switches: u64,
    /// Times it was taken off the CPU while it could have gone on.
    pub involuntary_switches: u64,
    /// Samples taken in it.
    pub samples: u64,
}

/// Threads that are not listed one by one, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoreThreads {
    /// How many.
    pub threads: u64,
    /// Time on a CPU, in ns.
    pub on_ns: u64,
    /// Times they left the CPU by themselves.
    pub voluntary_switches: u64,
    /// Times they were taken off the CPU.
    pub involuntary_switches: u64,
    /// Samples taken in them.
    pub samples: u64,
}

impl MoreThreads {
    /// Adds a thread.
    pub fn add(&mut self, thread: &ThreadUse) {
        self.threads += 1;
        self.on_ns = self.on_ns.saturating_add(thread.on_ns);
        self.voluntary_switches += thread.voluntary_switches;
        self.involuntary_switches += thread.involuntary_switches;
        self.samples += thread.samples;
    }
}

/// Data missing from the recording.
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
    /// Losses by thread that was running when they were reported, most first: (tid, name, records).
    pub by_thread: Vec<(u32, String, u64)>,
}

/// Resources that the recorder itself used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderUse {
    /// CPU time in user mode, in ns.
    pub user_ns: u64,
    /// CPU time in the kernel, in ns.
    pub system_ns: u64,
    /// The part of both from the start of the command (or of recording) to its end, in ns: without preparation, and
    /// without the work that is left then.
    pub while_running_ns: u64,
    /// CPU time of its BPF programs, in ns: not its threads', but that of those that the programs ran in.
    pub programs_ns: u64,
    /// Largest resident memory, in bytes.
    pub peak_memory_bytes: u64,
    /// Bytes written to the file.
    pub file_bytes: u64,
    /// Bytes of that that are samples (before compression).
    pub sample_bytes: u64,
    /// Bytes of that that are a processor's trace.
    pub trace_bytes: u64,
}
