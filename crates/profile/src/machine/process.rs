//! Processes and threads as identities: a pid is a label that another process may carry later.

use super::{Mapping, Mappings, TaskSpanId};
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
    /// Label.
    pub pid: i32,
    /// Mappings, shared with snapshots taken for samples of this moment. During an exec those of the program
    /// before are still among them, below the new program's.
    pub mappings: Arc<Mappings>,
    /// During an exec: the mappings of the new program alone; `None` once its code is known to run.
    pub(super) new_program: Option<Mappings>,
    /// Changes whenever `mappings` does; equal numbers mean equal mappings.
    pub map_version: u64,
    /// An EXIT record of its main thread was seen.
    pub exited: bool,
}

impl Process {
    pub(super) fn new(pid: i32) -> Self {
        Self { pid, mappings: Arc::default(), new_program: None, map_version: 0, exited: false }
    }

    pub(super) fn insert(&mut self, mapping: Mapping) {
        if let Some(new) = &mut self.new_program {
            new.insert(mapping);
        }
        Arc::make_mut(&mut self.mappings).insert(mapping);
    }

    /// The exec system call replaces the program. Until it returns, user addresses are the caller's own.
    //
    // Source: linux fs/binfmt_elf.c: `begin_new_exec` reports the new name, then the segments are mapped, and only
    // `start_thread`, at the end, replaces the registers that samples within the kernel take user addresses from.
    pub(super) fn begin_exec(&mut self) {
        if self.new_program.as_ref().is_none_or(|new| !new.as_slice().is_empty()) {
            self.end_exec();
            self.new_program = Some(Mappings::default());
        }
    }

    /// Drops the mappings of the program before the exec; false if none was going on.
    pub(super) fn end_exec(&mut self) -> bool {
        let new = self.new_program.take();
        let was_going_on = new.is_some();
        if let Some(new) = new {
            self.mappings = Arc::new(new);
        }
        was_going_on
    }

    /// Is an exec going on, with `avma` in the new program?
    pub(super) fn is_in_new_program(&self, avma: u64) -> bool {
        self.new_program.as_ref().is_some_and(|new| new.find(avma).is_some())
    }
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
    /// The name; `None` until a record has it.
    pub comm: Option<StringId>,
}
