//! Recordings with switches as samples of the tracepoint `sched:sched_switch`: `have_sched_switch` 1, as perf wrote
//! them before the kernel had switch records, and still does where those aren't available for whole CPUs.

use perfdata::tracepoint::{Format, TracepointFormats};
use perfdata::{Item, PerfData, Record};

/// A switch: the thread that left a CPU and the one that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    /// CPU.
    pub cpu: Option<u32>,
    /// The thread that left; 0 is the idle one.
    pub prev: i32,
    /// The thread that came.
    pub next: i32,
}

/// How the tracepoint's samples are read, by event.
pub(super) struct SwitchSamples {
    formats: Vec<Option<Format>>,
}

impl SwitchSamples {
    pub(super) fn new(file: &PerfData<'_>) -> Self {
        let formats = file.features().tracing_data.as_ref().map(TracepointFormats::new).unwrap_or_default();
        let of = |event: &perfdata::Event| {
            let is_one = event.attr.type_ == perfdata::abi::PERF_TYPE_TRACEPOINT
                && event.name.starts_with("sched:sched_switch");
            formats.of(event.attr.config).filter(|_| is_one).cloned()
        };
        Self { formats: file.events().iter().map(of).collect() }
    }

    /// The switch that a record contains, if it has one.
    pub(super) fn of(&self, item: &Item<'_>) -> Option<Switch> {
        let Record::Sample(sample) = &item.record else { return None };
        let format = self.formats.get(item.event?)?.as_ref()?;
        let raw = sample.raw?;
        let tid = |name: &str| format.value(format.field(name)?, raw).trim().parse().ok();
        Some(Switch { cpu: sample.cpu, prev: tid("prev_pid")?, next: tid("next_pid")? })
    }
}
