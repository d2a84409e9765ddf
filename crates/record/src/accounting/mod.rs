//! Numbers kept while recording: times and losses of each thread, counters of the target, activity of the machine.

pub mod account;
pub mod disk_watch;
pub mod summary;
pub mod system;
pub mod thread_totals;
pub mod totals;
