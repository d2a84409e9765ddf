//! Samples of spans' probes, on their way into the calls of the profile.

use super::Session;
use super::requests::add_requests;
use crate::profile::{SpanHit, TaskId};
use perfdata::{Item, Record, Sample};

/// The stack pointer's numbers among the kernel's registers. x86 has no 31.
//
// Source: arch/{x86,arm64}/include/uapi/asm/perf_regs.h.
const SP_AARCH64: u32 = 31;
const SP_X86: u32 = 7;

impl Session {
    /// Takes a begin or an end. `self.path` holds its resolved path.
    pub(super) fn note_span(&mut self, event: usize, task: TaskId, sample: &Sample<'_>) {
        let (Some(edge), Some(time_ns)) = (self.spans.edge(event), sample.time_ns) else { return };
        let regs = sample.regs_user.as_ref();
        let sp = regs.and_then(|regs| regs.reg(SP_AARCH64).or_else(|| regs.reg(SP_X86)));
        let tid = self.profile.task(task).tid;
        let entry = self.path.frames.first().copied();
        self.spans.hit(SpanHit { edge, tid, task, time_ns, sp }, entry);
    }

    /// Takes the end of a thread, or its change to another program.
    pub(super) fn note_span_thread(&mut self, item: &Item<'_>) {
        let Some(time_ns) = item.sample_id.and_then(|id| id.time_ns) else { return };
        match &item.record {
            Record::Exit(exit) => {
                self.spans.thread_ends(exit.pid.cast_signed(), exit.tid.cast_signed(), time_ns);
            }
            Record::Comm(comm) if comm.exec => self.spans.thread_execs(comm.tid.cast_signed(), time_ns),
            _ => {}
        }
    }

    pub(super) fn finish_spans(&mut self) {
        let last_ns = self.profile.time_span_ns.map_or(0, |(_, last)| last);
        let ends = self.profile.off_cpu.totals.iter().map(|totals| totals.end_ns);
        let last_ns = ends.max().unwrap_or(0).max(last_ns);
        self.profile.spans = std::mem::take(&mut self.spans).finish(last_ns);
        let contexts = std::mem::take(&mut self.contexts);
        add_requests(&mut self.profile, contexts, last_ns);
    }
}
