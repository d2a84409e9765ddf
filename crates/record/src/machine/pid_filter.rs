//! Processes watched through events of whole CPUs.
//!
//! An event opened for tasks makes every switch of theirs dearer (on a virtual machine by 0.4 µs, more than the whole
//! off-CPU engine), an event opened for a CPU does not. So where the engine runs, it also selects the target's
//! samples, and records of other processes are left out here.

use perfdata::Record;
use perfdata::abi::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE,
};
use rustc_hash::FxHashSet;

use crate::off_cpu::Engine;
use crate::open::event_fallback::{self, Setup};
use crate::open::target::Whom;
use crate::open::{Places, Start};
use crate::session::opts::RecordOpts;

/// The processes whose records count: the target, and what it forks.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    pids: FxHashSet<u32>,
}

impl Followed {
    /// Beginning with these.
    #[must_use]
    pub fn new(pids: impl IntoIterator<Item = u32>) -> Self {
        Self { pids: pids.into_iter().collect() }
    }

    /// True for a process that is followed now.
    #[must_use]
    pub fn has(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// True if a record is about a followed process, or one of its children, which are followed from their fork on.
    /// Records without a process concern every process. Has to be called in time order.
    pub fn concerns(&mut self, record: &Record<'_>) -> bool {
        match record {
            Record::Fork(task) if task.pid != task.ppid => {
                if self.pids.contains(&task.ppid) {
                    self.pids.insert(task.pid);
                    return true;
                }
                // The number may have been a followed one's before.
                self.pids.remove(&task.pid);
                false
            }
            Record::Fork(task) | Record::Exit(task) => self.pids.contains(&task.pid),
            Record::Mmap(mmap) => mmap.pid == u32::MAX || self.pids.contains(&mmap.pid),
            Record::Comm(comm) => self.pids.contains(&comm.pid),
            Record::Namespaces(namespaces) => self.pids.contains(&namespaces.pid),
            _ => true,
        }
    }
}

/// Opens the events on all CPUs and lets the engine choose the samples; `None` where that is not the same thing, or
/// not allowed.
pub fn open(opts: &RecordOpts, engine: &mut Engine) -> Option<Setup> {
    let filter = engine.sample_filter()?;
    let setup = open_whole(opts, &[])?;
    setup.opened.set_bpf(&setup.plan, filter).ok()?;
    Some(setup)
}

/// The same without an engine: the caller chooses the samples. The threads in `beside` get the events of tasks.
pub fn open_whole(opts: &RecordOpts, beside: &[u32]) -> Option<Setup> {
    if !suits(opts) {
        return None;
    }
    let mut places =
        Places { tids: Vec::new(), cpus: opts.target.cpus(), cgroup: None, beside: beside.to_vec() };
    let mut whole = opts.clone();
    whole.target.whom = Whom::System;
    event_fallback::open(&whole, &mut places, Start::ByHand).ok()
}

/// Tracepoints would need another kind of BPF program as their filter. Counts and switch records of the target alone
/// are available from its tasks only.
fn suits(opts: &RecordOpts) -> bool {
    let is_clock = |config| config == PERF_COUNT_SW_CPU_CLOCK || config == PERF_COUNT_SW_TASK_CLOCK;
    let samples_time = opts.events.iter().all(|event| match event.attr.type_ {
        PERF_TYPE_HARDWARE => !event.leader_samples && event.leader.is_none(),
        PERF_TYPE_SOFTWARE => is_clock(event.attr.config),
        _ => false,
    });
    let target = &opts.target;
    let whole = target.whom != Whom::System && target.cpus.is_none() && target.cgroup.is_none();
    whole && samples_time && !opts.extra.switches && !opts.sampling.no_inherit && !opts.extra.stat
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::record::TaskRecord;

    fn fork(pid: u32, ppid: u32) -> Record<'static> {
        Record::Fork(TaskRecord { pid, ppid, tid: pid, ptid: ppid, time_ns: 0 })
    }

    #[test]
    fn children_are_followed_and_a_number_used_again_by_a_stranger_is_not() {
        let mut followed = Followed::new([10]);
        assert!(followed.concerns(&fork(11, 10)) && followed.concerns(&fork(12, 11)));
        assert!(!followed.concerns(&fork(20, 1)));
        assert!(followed.concerns(&Record::Exit(TaskRecord {
            pid: 12,
            ppid: 11,
            tid: 12,
            ptid: 11,
            time_ns: 0
        })));
        assert!(!followed.concerns(&fork(12, 1)) && !followed.concerns(&fork(13, 12)));
    }
}
