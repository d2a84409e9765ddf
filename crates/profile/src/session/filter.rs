//! Selection of a session's samples (`--time`, `--cpu`): the others aren't part of totals.

use super::{EventSwitch, Session, cpu_of};
use crate::machine::TaskSpanId;
use perfdata::Sample;

/// Conditions on samples. Empty lists let everything pass.
#[derive(Clone, Debug, Default)]
pub struct SampleFilter {
    /// Ranges of time, both ends included, ns of the recording's clock.
    pub times_ns: Vec<(u64, u64)>,
    /// CPUs.
    pub cpus: Vec<i32>,
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Numbers of threads that run at the sample's moment: ranges, both ends included.
    pub parallelism: Vec<(u64, u64)>,
    /// Events that turn counting on and off.
    pub switch: EventSwitch,
}

impl Session {
    pub(super) fn passes(&self, sample: &Sample<'_>, span: TaskSpanId) -> bool {
        let filter = &self.opts.filter;
        let in_time = filter.times_ns.is_empty()
            || sample.time_ns.is_none_or(|t| filter.times_ns.iter().any(|&(from, to)| from <= t && t <= to));
        let on_cpu = filter.cpus.is_empty() || filter.cpus.contains(&cpu_of(sample));
        let is_in = |&(from, to): &(u64, u64)| (from..=to).contains(&self.running.now());
        let in_time = in_time && (filter.parallelism.is_empty() || filter.parallelism.iter().any(is_in));
        if filter.pids.is_empty() && filter.tids.is_empty() {
            return in_time && on_cpu;
        }
        let thread = &self.machine.threads()[self.machine.spans()[span.index()].thread.index()];
        in_time
            && on_cpu
            && (filter.pids.is_empty() || filter.pids.contains(&thread.pid))
            && (filter.tids.is_empty() || filter.tids.contains(&thread.tid))
    }
}
