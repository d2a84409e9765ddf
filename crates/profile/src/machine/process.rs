//! Processes and threads as identities: a pid is a label that another process may carry later.

use super::{Mappings, TaskSpanId};
use crate::table::{StringId, dense_id};
use std::sync::Arc;

dense_id! {
    /// A process; never used again for another one, unlike its pid.
    ProcessId
}
dense_id! {
    /// A thread; never used again for another one, unlike its tid.
    ThreadId
}

/// A process and what it has mapped now.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its label.
    pub pid: i32,
    /// Its mappings, shared with snapshots taken for samples of this moment.
    pub mappings: Arc<Mappings>,
    /// Changes whenever `mappings` does; equal numbers mean equal mappings.
    pub map_version: u64,
    /// An EXIT record of its main thread was seen.
    pub exited: bool,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The process it belongs to.
    pub process: ProcessId,
    /// Label of that process.
    pub pid: i32,
    /// Its own label.
    pub tid: i32,
    /// The span that is running now.
    pub span: TaskSpanId,
    /// An EXIT record was seen.
    pub exited: bool,
}

/// One thread under one name; a thread that renames itself or execs has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSpan {
    /// The thread.
    pub thread: ThreadId,
    /// The name; `None` while no record told it.
    pub comm: Option<StringId>,
}
