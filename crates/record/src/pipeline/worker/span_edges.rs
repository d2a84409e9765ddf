//! Begins and ends of spans on their way to the file, and the triggers that look at them.

use perfdata::{PidTid, Sample};

use super::WorkerState;
use crate::open::plan::Plan;
use crate::open::target::Whom;
use crate::session::opts::RecordOpts;
use crate::spans::{SpanHit, SpanWatch, TriggerWatch};

/// The open spans, and which of them were too long.
pub(super) struct SpanEdges {
    pub watch: SpanWatch,
    pub triggers: TriggerWatch,
    /// Time of the newest record, ns.
    pub newest_ns: u64,
}

/// Between two files of triggers where the window has no time.
const LEAST_PAUSE_NS: u64 = 1_000_000_000;

impl SpanEdges {
    pub fn new(plan: &Plan, opts: &RecordOpts) -> Self {
        Self {
            watch: SpanWatch::new(plan, &opts.spans),
            triggers: TriggerWatch::new(&opts.file.triggers, &opts.spans, pause_ns(opts)),
            newest_ns: 0,
        }
    }
}

/// A file so soon after another would hold little: its window had just been written.
fn pause_ns(opts: &RecordOpts) -> u64 {
    opts.file.window.map_or(LEAST_PAUSE_NS, |window| window.as_nanos() as u64)
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

    /// A span was too long, and what belongs to it has come.
    pub(super) fn is_triggered(&mut self) -> bool {
        let Some(span) = self.spans.triggers.due(self.spans.newest_ns) else { return false };
        let length_ms = (span.end_ns - span.begin_ns) as f64 / 1e6;
        let name = &self.header.opts.spans[span.function].name;
        let line = format!("tally: {name} took {length_ms:.1} ms in thread {}", span.task.tid);
        (self.header.opts.observers.on_notice)(&line);
        true
    }
}
