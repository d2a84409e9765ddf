//! Questions to the model: whose thread, which name at the time, which mapping an address is in.

use std::sync::Arc;

use super::mapping::{LookupAddr, Mappings};
use super::process::{Process, ProcessId, TaskSpan, Thread};
use super::{MachineState, Mode, TaskSpanId};
use crate::table::{DsoTable, Frame, StringId, StringTable};

impl MachineState {
    /// The thread `tid` of `pid` as it is now, with its present name.
    pub fn span_of(&mut self, pid: i32, tid: i32) -> TaskSpanId {
        let thread = self.thread_of(pid, tid);
        self.threads[thread.index()].span
    }

    /// The name of a span. Without a record of it: `swapper` for thread 0 and `:TID` for others.
    pub fn comm_of(&self, span: TaskSpanId, strings: &mut StringTable) -> StringId {
        let span = &self.spans[span.index()];
        span.comm.unwrap_or_else(|| match self.threads[span.thread.index()].tid {
            0 => strings.intern("swapper"),
            tid => strings.intern(&format!(":{tid}")),
        })
    }

    /// Frame of `addr`, seen from `pid` in `mode`.
    pub fn resolve(&mut self, pid: i32, mode: Mode, addr: LookupAddr, dsos: &mut DsoTable) -> Frame {
        let mapping = match mode {
            Mode::Kernel => self.kernel.find(addr.lookup()),
            Mode::User => {
                let process = self.process_of(pid);
                self.processes[process.index()].mappings.find(addr.lookup())
            }
            Mode::Hypervisor | Mode::GuestKernel | Mode::GuestUser => None,
        };
        match mapping {
            Some(mapping) => addr.frame_in(mapping),
            None => addr.frame_unmapped(self.unknown_dso(mode, dsos)),
        }
    }

    /// The same against given user mappings (of an earlier moment).
    pub fn resolve_in(&mut self, maps: &Mappings, addr: LookupAddr, dsos: &mut DsoTable) -> Frame {
        match maps.find(addr.lookup()) {
            Some(mapping) => addr.frame_in(mapping),
            None => addr.frame_unmapped(self.unknown_dso(Mode::User, dsos)),
        }
    }

    /// The user mappings of `pid` now, shared, with a number that changes when they do.
    pub fn mappings_of(&mut self, pid: i32) -> (ProcessId, Arc<Mappings>, u64) {
        let id = self.process_of(pid);
        let process = &self.processes[id.index()];
        (id, Arc::clone(&process.mappings), process.map_version)
    }

    /// A number for what `mode` sees mapped now: it changes when that does.
    #[must_use]
    pub fn version_of(&self, process: ProcessId, mode: Mode) -> u64 {
        match mode {
            Mode::User => self.processes[process.index()].map_version,
            mode => self.kernel_version << 4 | 8 | mode as u64 | 1 << 63,
        }
    }

    /// The kernel's mappings now.
    #[must_use]
    pub fn kernel(&self) -> &Mappings {
        &self.kernel
    }

    /// All spans seen so far; a [`TaskSpanId`] is a position here.
    #[must_use]
    pub fn spans(&self) -> &[TaskSpan] {
        &self.spans
    }

    /// All threads seen so far; a [`super::ThreadId`] is a position here.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// All processes seen so far; a [`ProcessId`] is a position here.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The process of the thread that has this number now; `None` if no record mentions it.
    #[must_use]
    pub fn pid_of(&self, tid: i32) -> Option<i32> {
        let thread = self.by_tid.get(&tid)?;
        Some(self.processes[self.threads[thread.index()].process.index()].pid)
    }
}
