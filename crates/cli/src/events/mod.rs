//! Commands about events of one kind: block requests, the scheduler, probes.

pub mod io;
pub mod probe;
pub mod sched;
