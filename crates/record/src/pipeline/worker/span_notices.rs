//! Notices about the calls for which a flight recorder writes files.

use super::WorkerState;
use crate::open::spans::EndedSpan;

impl WorkerState {
    /// A span was too long, and what belongs to it has come.
    pub(super) fn is_triggered(&mut self) -> bool {
        let Some(span) = self.spans.triggers.due(self.spans.newest_ns) else { return false };
        self.notice(&self.took(&span));
        true
    }

    /// The last file is written at the end whether a call was too slow or not; this notice names the call.
    pub(super) fn report_triggers(&mut self) {
        if let Some(looks) = self.rules.looks_in_vain() {
            self.notice(&format!(
                "tally: no rule of --trigger fired in {looks} looks; the file has the time before the end"
            ));
        }
        if !self.spans.triggers.is_used() {
            return;
        }
        let last = self.spans.triggers.fired_last().map(|span| self.took(&span));
        let open = self.spans.longest_unfinished().map(|(function, tid, ns)| {
            let name = &self.header.opts.spans[function].name;
            format!("tally: {name} had not ended after {:.1} ms in thread {tid}", ns as f64 / 1e6)
        });
        let none = || {
            "tally: no call was over a limit of --trigger; the file has the time before the end".to_owned()
        };
        let has_none = last.is_none() && open.is_none() && self.spans.triggers.over == 0;
        last.into_iter().chain(open).chain(has_none.then(none)).for_each(|line| self.notice(&line));
        let more = self.spans.triggers.without_file;
        if more > 0 {
            self.notice(&format!(
                "tally: {more} more calls over a limit of --trigger, just after others: without own files"
            ));
        }
    }

    fn took(&self, span: &EndedSpan) -> String {
        let length_ms = (span.end_ns - span.begin_ns) as f64 / 1e6;
        let name = &self.header.opts.spans[span.function].name;
        format!("tally: {name} took {length_ms:.1} ms in thread {}", span.task.tid)
    }

    pub(super) fn notice(&self, line: &str) {
        (self.header.opts.observers.on_notice)(line);
    }
}
