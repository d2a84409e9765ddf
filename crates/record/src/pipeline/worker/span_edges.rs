//! Begins and ends of spans on their way to the file, and the triggers that look at them.

use crate::open::plan::Plan;
use crate::open::spans::{SpanWatch, TriggerWatch};
use crate::session::opts::RecordOpts;
use perfdata::appendix::open_spans::{OpenSpan, OpenSpans};
use sched::OpenCall;
use std::collections::VecDeque;

/// The open spans, and which of them were too long.
pub(super) struct SpanEdges {
    pub watch: SpanWatch,
    pub triggers: TriggerWatch,
    /// Time of the newest record, ns.
    pub newest_ns: u64,
    /// The longest call over its limit whose thread ended: function, thread, ns.
    unfinished: Option<(usize, u32, u64)>,
    /// Calls that ended with their threads, for files of windows: the end, ns, and the call.
    with_threads: VecDeque<(u64, u32, OpenCall)>,
    /// Length of a file's window, ns; `None` for ordinary files.
    window_ns: Option<u64>,
}

/// Calls that ended with their threads and are kept: more would be too much for a recorder that never ends.
const MOST_KEPT: usize = 4096;

/// Between two files of triggers where the window has no time.
const LEAST_PAUSE_NS: u64 = 1_000_000_000;

impl SpanEdges {
    /// A thread ends: its number may be another's next.
    pub fn thread_ends(&mut self, tid: u32) {
        self.unfinished = self.longest_unfinished();
        if let Some(window_ns) = self.window_ns {
            let newest_ns = self.newest_ns;
            let calls = self.watch.open().filter(|(of, _)| *of == tid);
            self.with_threads.extend(calls.map(|(tid, call)| (newest_ns, tid, *call)));
            let begin_ns = newest_ns.saturating_sub(window_ns);
            while self.with_threads.front().is_some_and(|(end_ns, ..)| *end_ns < begin_ns)
                || self.with_threads.len() > MOST_KEPT
            {
                self.with_threads.pop_front();
            }
        }
        self.watch.forget(tid);
    }

    pub fn new(plan: &Plan, opts: &RecordOpts) -> Self {
        Self {
            watch: SpanWatch::new(plan, &opts.spans),
            triggers: TriggerWatch::new(&opts.file.triggers, &opts.spans, pause_ns(opts)),
            newest_ns: 0,
            unfinished: None,
            with_threads: VecDeque::new(),
            window_ns: opts.file.overwrite.then(|| {
                opts.file
                    .window
                    .map_or(u64::MAX, |window| u64::try_from(window.as_nanos()).unwrap_or(u64::MAX))
            }),
        }
    }
}

impl SpanEdges {
    /// The calls without an end, or ended by their thread's end in the window, for a file that may lack their begins.
    pub fn unended(&self, opts: &RecordOpts) -> OpenSpans {
        let name = |function: u32| opts.spans.get(function as usize).map(|span| span.name.clone());
        let Some(window_ns) = self.window_ns else { return OpenSpans::default() };
        let begin_ns = self.newest_ns.saturating_sub(window_ns);
        let ended = self.with_threads.iter().filter(|(end_ns, ..)| *end_ns >= begin_ns);
        let ended = ended.map(|(_, tid, call)| (*tid, call));
        let calls = self.watch.open().chain(ended).filter_map(|(tid, call)| {
            Some(OpenSpan { function: name(call.function)?, tid, begin_ns: call.begin_ns })
        });
        OpenSpans { calls: calls.collect() }
    }

    /// The longest call over its limit that didn't end, or not before its thread: function, thread, ns. `None`: there
    /// is none.
    pub fn longest_unfinished(&self) -> Option<(usize, u32, u64)> {
        let open = self
            .watch
            .open()
            .map(|(tid, call)| (call.function as usize, tid, self.newest_ns.saturating_sub(call.begin_ns)));
        let over = open.filter(|(function, _, ns)| self.triggers.is_over(*function, *ns));
        over.chain(self.unfinished).max_by_key(|(_, tid, ns)| (*ns, *tid))
    }
}

/// A file so soon after another would hold little: its window had just been written.
fn pause_ns(opts: &RecordOpts) -> u64 {
    opts.file.window.map_or(LEAST_PAUSE_NS, |window| window.as_nanos() as u64)
}
