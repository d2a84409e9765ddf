//! Options of a recording.

mod file;
mod observers;
mod sampling;
mod span;
mod stacks;

use crate::off_cpu::{OffCpuOpts, WaitDetail};
use crate::open::spans::SpanFunction;
use crate::open::target::Target;
use crate::sys::time::Clock;
pub use file::{FileOpts, KeepFiles, KeptWindow, Output, SwitchOutput, WindowJudge};
pub use observers::{Observers, SampleWatch, Watched};
pub use sampling::{EventRequest, Rate, SampleExtras, SamplingOpts};
pub use span::{Delay, EndsBy, SpanOpts};
pub use stacks::{CallGraph, StackOpts};

/// All options of a recording. `Default` is what `tally record` does without flags.
#[derive(Debug, Clone, Default)]
pub struct RecordOpts {
    /// Target to watch.
    pub target: Target,
    /// Events to sample, group leaders before their members; empty means `cycles`, else `cpu-clock`.
    pub events: Vec<EventRequest>,
    /// Functions whose calls are recorded: requests of a server.
    pub spans: Vec<SpanFunction>,
    /// Requests are recorded by OpenTelemetry's thread context, too.
    pub thread_contexts: bool,
    /// How they are sampled.
    pub sampling: SamplingOpts,
    /// How callchains are had.
    pub stacks: StackOpts,
    /// Extra fields and records.
    pub extra: SampleExtras,
    /// The clock of all times.
    pub clock: Clock,
    /// Data pages of each ring; `None` chooses by the memory limits.
    pub ring_pages: Option<usize>,
    /// The recorder runs with this real-time priority (`SCHED_FIFO`), 1 to 99.
    pub realtime: Option<i32>,
    /// Where the records go.
    pub file: FileOpts,
    /// When the recording begins and ends.
    pub span: SpanOpts,
    /// Also count these over the target's whole life and keep switches per thread, for a
    /// [`crate::accounting::summary::RunSummary`].
    pub summary: bool,
    /// Each context switch is recorded for the summary; set by the recording itself, where there is no cheaper
    /// source.
    pub counts_switches: bool,
    /// Also record the time off the CPU: why threads wait, for how long, who wakes them.
    pub off_cpu: Option<OffCpuOpts>,
    /// The library that samples by timers where the kernel gives no events; `None`: don't.
    pub timers: Option<crate::files::packed::PackedBytes>,
    /// How processor traces are taken, if an event writes one.
    pub trace: crate::pt::PtOpts,
    /// Observers to inform while the recording goes on.
    pub observers: Observers,
}

impl RecordOpts {
    /// A recording that keeps a window goes on all the time: details of waits are found out more seldom.
    pub fn look_seldom_with_window(&mut self) {
        let is_always = self.file.overwrite;
        if let Some(waits) = self.off_cpu.as_mut().filter(|of| is_always && of.detail == WaitDetail::All) {
            waits.detail = WaitDetail::Always;
        }
    }

    /// True if a signal writes the newest part of a processor's trace.
    #[must_use]
    pub fn takes_snapshots(&self) -> bool {
        self.traces() && self.trace.snapshot.is_some()
    }

    /// Whether an event writes a processor's trace.
    #[must_use]
    pub fn traces(&self) -> bool {
        self.events.iter().any(|event| event.aux)
    }
}
