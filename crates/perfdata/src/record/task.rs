//! Records about tasks: names, beginnings, ends, switches, namespaces.
//
// Layout: COMM { u32 pid, tid; char comm[]; }     FORK, EXIT { u32 pid, ppid, tid, ptid; u64 time; }
//         SWITCH_CPU_WIDE { u32 next_prev_pid, next_prev_tid; }     SWITCH { }
//         NAMESPACES { u32 pid, tid; u64 nr; { u64 dev, inode; }[nr]; }
// Source: linux v7.2 kernel/events/core.c, perf_event_comm_output(), perf_event_task_output(), …

use super::Header;
use crate::abi::*;
use crate::wire::{Put, U64s, Wire};

/// A thread got a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The name, at most 15 bytes from the kernel.
    pub comm: &'a [u8],
    /// It got it by exec: all mappings before are gone.
    pub exec: bool,
}

impl<'a> Comm<'a> {
    pub(super) fn parse(misc: u16, w: &mut Wire<'a>) -> Option<Self> {
        let (pid, tid) = (w.u32()?, w.u32()?);
        Some(Comm { pid, tid, comm: w.cstr(w.len() as u64)?, exec: misc & PERF_RECORD_MISC_COMM_EXEC != 0 })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u32(self.pid);
        p.u32(self.tid);
        p.cstr_padded(self.comm);
    }
}

/// A task began (fork, clone) or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskRecord {
    /// Process of the task.
    pub pid: u32,
    /// Parent's process.
    pub ppid: u32,
    /// The task itself.
    pub tid: u32,
    /// The parent task.
    pub ptid: u32,
    /// When, ns of the recording's clock.
    pub time_ns: u64,
}

impl TaskRecord {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        Some(TaskRecord { pid: w.u32()?, ppid: w.u32()?, tid: w.u32()?, ptid: w.u32()?, time_ns: w.u64()? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        for v in [self.pid, self.ppid, self.tid, self.ptid] {
            p.u32(v);
        }
        p.u64(self.time_ns);
    }
}

/// A context switch; its task is in the record's sample id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switch {
    /// The task went off the CPU (else it came on).
    pub out: bool,
    /// It was preempted: it was still runnable.
    pub preempt: bool,
    /// `SWITCH_CPU_WIDE` only: process and thread that comes next (if out) or was before (if in).
    pub next_prev: Option<(u32, u32)>,
}

impl Switch {
    pub(super) fn parse(header: Header, w: &mut Wire<'_>) -> Option<Self> {
        let wide = header.type_ == PERF_RECORD_SWITCH_CPU_WIDE;
        Some(Switch {
            out: header.misc & PERF_RECORD_MISC_SWITCH_OUT != 0,
            preempt: header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
            next_prev: if wide { Some((w.u32()?, w.u32()?)) } else { None },
        })
    }

    pub(super) fn type_and_misc(&self) -> (u32, u16) {
        let type_ = if self.next_prev.is_some() { PERF_RECORD_SWITCH_CPU_WIDE } else { PERF_RECORD_SWITCH };
        let out = if self.out { PERF_RECORD_MISC_SWITCH_OUT } else { 0 };
        (type_, out | if self.preempt { PERF_RECORD_MISC_SWITCH_OUT_PREEMPT } else { 0 })
    }

    pub(super) fn write(&self, p: &mut Put) {
        if let Some((pid, tid)) = self.next_prev {
            p.u32(pid);
            p.u32(tid);
        }
    }
}

/// A task's namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    links: U64s<'a>,
}

impl<'a> Namespaces<'a> {
    /// Names of the namespaces by index.
    pub const NAMES: [&'static str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];

    /// From flat words: device, inode for each namespace in the order of [`Namespaces::NAMES`].
    #[must_use]
    pub fn from_words(pid: u32, tid: u32, words: &'a [u64]) -> Self {
        Namespaces { pid, tid, links: words.into() }
    }

    /// (device, inode) of each namespace, in the order of [`Namespaces::NAMES`].
    pub fn links(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + use<'a> {
        let links = self.links;
        (0..links.len() / 2).map(move |i| (links.get(2 * i).unwrap_or(0), links.get(2 * i + 1).unwrap_or(0)))
    }

    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let (pid, tid) = (w.u32()?, w.u32()?);
        let nr = w.u64()?;
        Some(Namespaces { pid, tid, links: w.u64s(nr.checked_mul(2)?)? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u32(self.pid);
        p.u32(self.tid);
        p.count(self.links.len() / 2);
        p.u64s(&self.links);
    }
}
