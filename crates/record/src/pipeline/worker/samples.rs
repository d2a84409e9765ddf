//! One sample on its way to the file: its user stack, its wait, the objects that it was in.

use std::sync::atomic::Ordering;

use perfdata::{PidTid, Record, Sample, SampleId};

use super::{EventSample, WorkerState};
use crate::accounting::account::StackEnding;
use crate::accounting::summary::StopReason;
use crate::open::spans::SpanHit;
use crate::open::target::Whom;
use crate::pipeline::ring_reader::LEFT_OUT_BYTES;
use crate::runtimes::python::StackMoment;
use crate::session::opts::Watched;

impl WorkerState {
    pub(super) fn sample(&mut self, of: &EventSample<'_>) {
        let EventSample { file_event, time_ns, sample, bytes, .. } = *of;
        let task = PidTid::of_record(sample.pid_tid);
        let PidTid { pid, tid } = task;
        if self.waits.switches.as_ref().is_some_and(|(switches, _)| !switches.follows(tid)) {
            // The record is of another process on a CPU that is watched as a whole.
            return;
        }
        if self.header.opts.sampling.exclude_self && pid == std::process::id() {
            // Asked for by --exclude-perf.
            return;
        }
        self.account.sample(pid, tid, time_ns);
        self.sink.note_sample();
        self.shared.samples.fetch_add(1, Ordering::Relaxed);
        self.written.note_time(time_ns);
        if let Some(raw) = sample.raw {
            self.hand_on(|| Watched::Sample { time_ns, pid, tid, raw: raw.to_vec() });
        }
        if !of.is_unwound || sample.regs_user.is_none() {
            self.written.sample_bytes += bytes.len() as u64;
            return self.sink.raw(bytes);
        }
        let unwound = if self.shared.gives_up.load(Ordering::Relaxed) {
            self.stacks.leaf(sample)
        } else {
            self.add_python(task, time_ns, StackMoment::Sample(time_ns));
            self.add_goroutine(task, StackMoment::Sample(time_ns));
            self.unwind(sample, time_ns)
        };
        if let Some(ending) = unwound.ending {
            let ending = self.with_dso(pid, sample, ending);
            self.ladder.count(unwound.was_cut && !self.shared.queue.is_behind(), &self.shared);
            self.account.stack(tid, time_ns, ending);
        }
        let mut chain = self.stacks.chain().to_vec();
        self.add_labels(task, StackMoment::Sample(time_ns), &mut chain);
        let chain = perfdata::Callchain(chain.as_slice().into());
        let ip = self.stacks.interpreted_leaf(sample).or(sample.ip);
        let written = Sample { callchain: Some(chain), stack_user: None, ip, ..*sample };
        let before = self.sink.bytes();
        self.sink.record(file_event, &Record::Sample(written), &SampleId::default());
        self.written.sample_bytes += self.sink.bytes() - before;
    }

    /// Adds the DSO in which a stack ended, and distinguishes a stack left out by the reader from a truncated one.
    pub(super) fn with_dso(&mut self, pid: u32, sample: &Sample<'_>, ending: StackEnding) -> StackEnding {
        let StackEnding::Stopped(reason, _) = ending else { return ending };
        let left_out = sample.stack_user.is_some_and(|s| s.reserved == LEFT_OUT_BYTES as u64);
        let reason = match reason {
            StopReason::CopyEnd(_) if left_out => StopReason::Behind,
            other => other,
        };
        let dso = self.stacks.last_frame().and_then(|address| self.processes.name_at(pid, address));
        StackEnding::Stopped(reason, dso)
    }
}

impl WorkerState {
    /// A hit of a probe. Probes see every process that runs the file: others' hits are left out.
    pub(super) fn span_edge(&mut self, event: usize, sample: &Sample<'_>, time_ns: u64, bytes: &[u8]) {
        let PidTid { pid, .. } = PidTid::of_record(sample.pid_tid);
        let is_ours = match &self.followed {
            Some(followed) => followed.has(pid),
            None => self.header.opts.target.whom == Whom::System || self.processes.is_living(pid),
        };
        if !is_ours {
            return;
        }
        match self.spans.watch.take(event, sample, time_ns) {
            SpanHit::Neither => return,
            SpanHit::Edge => {}
            SpanHit::Ended(span) => self.spans.triggers.take(&span),
        }
        self.written.note_time(time_ns);
        self.written.sample_bytes += bytes.len() as u64;
        self.sink.raw(bytes);
    }
}
