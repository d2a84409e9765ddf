//! Which event of the file each record of an opened event belongs to.

use crate::open::plan::Plan;
use crate::pipeline::ring_reader::Layouts;

/// The events of a recording as the unwinding thread meets them.
pub(super) struct WorkerEvents {
    pub layouts: Layouts,
    /// Index of the file event of each opened event.
    file_events: Vec<usize>,
    /// Whether the snapshots of each opened event become callchains here.
    unwound: Vec<bool>,
    /// First file event of the off-CPU engine.
    pub first_off_cpu: usize,
    /// First file event of the tracepoints that replace the engine.
    pub first_tracepoint: usize,
}

impl WorkerEvents {
    pub fn new(plan: &Plan, layouts: Layouts) -> Self {
        let first_off_cpu = plan.first_off_cpu();
        let off_cpu_events = first_off_cpu..plan.file.len() + usize::from(plan.off_cpu.is_some());
        Self {
            layouts,
            file_events: plan.opened.iter().map(|e| e.file_event).chain(off_cpu_events).collect(),
            unwound: plan.unwound(),
            first_off_cpu,
            first_tracepoint: plan.first_tracepoint(),
        }
    }

    /// Index of the file event of an opened event.
    pub fn file_event(&self, opened: usize) -> usize {
        self.file_events[opened]
    }

    /// True if the snapshots of an opened event become callchains here.
    pub fn is_unwound(&self, opened: usize) -> bool {
        self.unwound.get(opened).is_some_and(|unwound| *unwound)
    }
}
