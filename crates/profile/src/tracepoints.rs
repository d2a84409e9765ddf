//! The kernel's own tracepoints, put together: requests to disks, waits for locks in the kernel, the
//! scheduler's events one by one.

pub mod block_io;
pub mod lock_events;
pub mod sched_events;
