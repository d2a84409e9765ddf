//! Block I/O on the command line: recording its events, naming devices, distinguishing processes.

pub mod device;
pub mod record;
pub mod trace;

use ::record::event::{EventSource as _, SystemSource};
use perfdata::{Order, PerfData, Record};
use profile::tracepoints::block_io::BlockEvents;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A process and all that it and its children started, as far as the recording saw it.
#[must_use]
pub fn descendants(file: &PerfData<'_>, roots: &[u32]) -> BTreeSet<i32> {
    let mut pids: BTreeSet<i32> = roots.iter().map(|pid| pid.cast_signed()).collect();
    file.visit(Order::Time, |item| {
        if let Record::Fork(task) = &item.record
            && pids.contains(&task.ppid.cast_signed())
        {
            pids.insert(task.pid.cast_signed());
        }
        ControlFlow::Continue(())
    });
    pids
}

/// A reader of the block layer's events of the kernel that runs.
#[must_use]
pub fn block_events_here() -> BlockEvents {
    let source = SystemSource::new();
    BlockEvents::new(&|name| source.read_tracefs(&format!("block/{name}/format")).ok())
}
