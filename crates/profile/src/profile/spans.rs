//! Spans: the calls of functions that were recorded with their begins and ends (`--span`).
//!
//! A begin without an end and an end without a begin are data: [`SpanOutcome`] has the reason, and no view takes their
//! length for a call's.

use super::ids::TaskId;
use crate::table::FrameId;
use perfdata::appendix::open_spans::OpenSpans;
use perfdata::appendix::thread_contexts::ThreadContexts;
use rustc_hash::{FxHashMap, FxHashSet};
use sched::{OpenCall, OpenCalls};
use std::collections::BTreeSet;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    /// It returned: begin and end are its own.
    Returned,
    /// It was left without a return: by an exception, longjmp, or the end of its thread. Its end is when that was
    /// noticed, so the call was shorter.
    Left,
    /// It had not ended when the recording or its process did: the call took at least this long.
    Open,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanCall {
    /// Index into [`Spans::functions`].
    pub function: usize,
    /// Its thread.
    pub task: TaskId,
    /// Begin, ns of the recording's clock.
    pub begin_ns: u64,
    /// End; what it means depends on the outcome.
    pub end_ns: u64,
    /// How it ended.
    pub outcome: SpanOutcome,
    /// The innermost call of the same function around it, as an index into [`Spans::calls`]; `None` if there is none.
    pub outer: Option<usize>,
    /// For a request by its thread's context, not a call.
    pub seen: Option<SeenRequest>,
}

/// A request that a thread's context had. Begin and end are in the middle between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// The first look that found it, ns of the recording's clock.
    pub from_ns: u64,
    /// The last one, or the end of its last wait.
    pub to_ns: u64,
    /// How long its thread was off the CPU; `None` if it had not ended.
    pub off_ns: Option<u64>,
    /// OpenTelemetry's trace id; zeros if there is none.
    pub trace: [u8; 16],
    /// Id of the span that was seen first.
    pub span: [u8; 8],
}

impl SpanCall {
    /// ns from begin to end.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// A function whose calls were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFunctionInfo {
    /// Name, as the user gave it; a request's route.
    pub name: String,
    /// It is a route: its calls are requests.
    pub is_route: bool,
    /// Its first instructions (several for overloads and copies).
    pub entries: BTreeSet<FrameId>,
    /// Ends of calls that began before the recording, or whose begin was lost.
    pub without_begin: u64,
    /// Calls without an end that began before a flight recorder's window: the file has neither side.
    pub before_window: u64,
}

/// All calls of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// In the file's order.
    pub functions: Vec<SpanFunctionInfo>,
    /// In the order of their begins, requests by threads' contexts after them by thread.
    pub calls: Vec<SpanCall>,
    /// Looks at threads' contexts, without the changes: [`ThreadContexts::processes`] is 0 if there were none.
    pub contexts: ThreadContexts,
}

impl Spans {
    /// True if a call of the same function is around this one. Calls that were left don't count: whatever began after
    /// them is not inside them.
    #[must_use]
    pub fn is_nested(&self, call: &SpanCall) -> bool {
        let mut outer = call.outer;
        while let Some(around) = outer.and_then(|at| self.calls.get(at)) {
            if around.outcome != SpanOutcome::Left {
                return true;
            }
            outer = around.outer;
        }
        false
    }
}

/// Begin or end of a call, as the file has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanEdge {
    /// Index into [`Spans::functions`].
    pub function: usize,
    pub is_end: bool,
}

/// Function and side of an event; `None` for other events.
pub(crate) fn edge_of_event(name: &str) -> Option<(&str, bool)> {
    let name = name.strip_prefix("span:")?;
    Some(name.strip_suffix("__return").map_or((name, false), |function| (function, true)))
}

/// A hit of a span's probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanHit {
    pub edge: SpanEdge,
    pub tid: i32,
    pub task: TaskId,
    pub time_ns: u64,
    /// Stack pointer; `None`: not recorded.
    pub sp: Option<u64>,
}

/// The calls of one thread that are open, and their indices.
#[derive(Default)]
struct ThreadCalls {
    open: OpenCalls,
    indices: Vec<(OpenCall, usize)>,
}

impl ThreadCalls {
    fn take_index(&mut self, call: &OpenCall) -> Option<usize> {
        let is_it = |(of, _): &(OpenCall, usize)| {
            (of.function, of.begin_ns, of.sp) == (call.function, call.begin_ns, call.sp)
        };
        self.indices.iter().rposition(is_it).map(|at| self.indices.remove(at).1)
    }
}

/// Begins and ends in time order → calls.
#[derive(Default)]
pub(crate) struct SpanAssembly {
    /// By event; `None` for events that are not spans'.
    edges: Vec<Option<SpanEdge>>,
    threads: FxHashMap<i32, ThreadCalls>,
    /// Calls that ended with their threads, by process.
    with_threads: Vec<(i32, usize)>,
    spans: Spans,
    /// Calls that had no end: function, and begin, ns.
    expected: Vec<(usize, u64)>,
}

/// The threads of a process that ends do so within this time, ns.
const AT_ONCE_NS: u64 = 5_000_000;

impl SpanAssembly {
    /// For events of these names.
    pub fn new<'n>(events: impl Iterator<Item = &'n str>) -> Self {
        let mut of = Self::default();
        for name in events {
            let edge = edge_of_event(name).map(|(function, is_end)| {
                let known = of.spans.functions.iter().position(|of| of.name == function);
                let function = known.unwrap_or_else(|| {
                    let name = function.to_owned();
                    of.spans.functions.push(SpanFunctionInfo { name, ..SpanFunctionInfo::default() });
                    of.spans.functions.len() - 1
                });
                SpanEdge { function, is_end }
            });
            of.edges.push(edge);
        }
        of
    }

    /// The edge that samples of this event are; `None` for other events.
    pub fn edge(&self, event: usize) -> Option<SpanEdge> {
        self.edges.get(event).copied().flatten()
    }

    /// Takes the next hit; `entry`: the frame of a begin.
    pub fn hit(&mut self, hit: SpanHit, entry: Option<FrameId>) {
        let function = u32::try_from(hit.edge.function).unwrap_or(u32::MAX);
        if hit.edge.is_end {
            let calls = self.threads.entry(hit.tid).or_default();
            let ended = calls.open.exit(function, hit.sp).and_then(|call| calls.take_index(&call));
            match ended {
                Some(at) => self.end(at, hit.time_ns, SpanOutcome::Returned),
                None => self.spans.functions[hit.edge.function].without_begin += 1,
            }
            return;
        }
        self.spans.functions[hit.edge.function].entries.extend(entry);
        let calls = self.threads.entry(hit.tid).or_default();
        let left = calls.open.enter(function, hit.time_ns, hit.sp);
        let left: Vec<usize> = left.iter().filter_map(|call| calls.take_index(call)).collect();
        let outer = outer_of(calls);
        if let Some(open) = calls.open.open().last() {
            calls.indices.push((*open, self.spans.calls.len()));
        }
        self.spans.calls.push(SpanCall {
            function: hit.edge.function,
            task: hit.task,
            begin_ns: hit.time_ns,
            end_ns: hit.time_ns,
            outcome: SpanOutcome::Open,
            outer,
            seen: None,
        });
        left.into_iter().for_each(|at| self.end(at, hit.time_ns, SpanOutcome::Left));
    }

    /// A thread runs another program: its calls don't return.
    pub fn thread_execs(&mut self, tid: i32, time_ns: u64) {
        let Some(calls) = self.threads.remove(&tid) else { return };
        calls.indices.iter().for_each(|(_, at)| self.end(*at, time_ns, SpanOutcome::Left));
    }

    /// A thread ends, and with the first thread its process. Calls that end with their process were in progress until
    /// then; those that end with their thread alone were left.
    pub fn thread_ends(&mut self, pid: i32, tid: i32, time_ns: u64) {
        let calls = self.threads.remove(&tid).unwrap_or_default();
        for (call, at) in calls.indices {
            self.end(at, time_ns, SpanOutcome::Left);
            self.with_threads.extend((!calls.open.is_doubtful(&call)).then_some((pid, at)));
        }
        if pid != tid {
            return;
        }
        for (_, at) in self.with_threads.extract_if(.., |(of, _)| *of == pid).collect::<Vec<_>>() {
            let ended_ns = self.spans.calls[at].end_ns;
            if time_ns.saturating_sub(ended_ns) <= AT_ONCE_NS {
                self.end(at, ended_ns, SpanOutcome::Open);
            }
        }
    }

    /// These calls had no end, whether or not their begins come.
    pub fn expect_open(&mut self, open: &OpenSpans) {
        let number = |name: &str| self.spans.functions.iter().position(|of| of.name == name);
        let calls = open.calls.iter();
        self.expected = calls.filter_map(|call| Some((number(&call.function)?, call.begin_ns))).collect();
    }

    /// The calls so far. `last_ns`: end of the recording.
    pub fn finish(mut self, last_ns: u64) -> Spans {
        let begun: FxHashSet<(usize, u64)> =
            self.spans.calls.iter().map(|call| (call.function, call.begin_ns)).collect();
        for (function, begin_ns) in std::mem::take(&mut self.expected) {
            let has_begun = begun.contains(&(function, begin_ns));
            self.spans.functions[function].before_window += u64::from(!has_begun);
        }
        for calls in std::mem::take(&mut self.threads).into_values() {
            for (call, at) in calls.indices {
                let is_doubtful = calls.open.is_doubtful(&call);
                let outcome = if is_doubtful { SpanOutcome::Left } else { SpanOutcome::Open };
                let end_ns = last_ns.max(call.begin_ns);
                self.end(at, end_ns, outcome);
            }
        }
        self.spans
    }

    fn end(&mut self, at: usize, end_ns: u64, outcome: SpanOutcome) {
        let call = &mut self.spans.calls[at];
        (call.end_ns, call.outcome) = (end_ns, outcome);
    }
}

/// The innermost open call of the same function around the one that was entered last.
fn outer_of(calls: &ThreadCalls) -> Option<usize> {
    let (inner, around) = calls.open.open().split_last()?;
    let outer = around.iter().rfind(|call| call.function == inner.function && !call.is_doubtful)?;
    let is_it = |(of, _): &&(OpenCall, usize)| {
        (of.function, of.begin_ns, of.sp) == (outer.function, outer.begin_ns, outer.sp)
    };
    calls.indices.iter().rfind(is_it).map(|(_, at)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hits(SpanAssembly);

    impl Hits {
        fn new() -> Self {
            Self(SpanAssembly::new(["cpu-clock", "span:f", "span:f__return"].into_iter()))
        }

        fn hit(&mut self, event: usize, time_ns: u64, sp: u64) {
            let edge = self.0.edge(event).expect("an event of a span");
            let task = TaskId::from_index(0);
            self.0.hit(SpanHit { edge, tid: 1, task, time_ns, sp: Some(sp) }, None);
        }

        /// (begin, end, outcome, nested) of all calls.
        fn calls(self) -> Vec<(u64, u64, SpanOutcome, bool)> {
            let spans = self.0.finish(1000);
            let row = |call: &SpanCall| (call.begin_ns, call.end_ns, call.outcome, spans.is_nested(call));
            spans.calls.iter().map(row).collect()
        }
    }

    #[test]
    fn recursive_calls_are_nested_and_only_those() {
        let mut of = Hits::new();
        for (event, time, sp) in
            [(1, 10, 100), (1, 20, 80), (2, 30, 80), (2, 40, 100), (1, 50, 100), (2, 60, 100)]
        {
            of.hit(event, time, sp);
        }
        use SpanOutcome::Returned;
        assert_eq!(
            of.calls(),
            [(10, 40, Returned, false), (20, 30, Returned, true), (50, 60, Returned, false)]
        );
    }

    #[test]
    fn calls_that_were_left_hold_nothing_and_are_known_by_their_place() {
        let mut of = Hits::new();
        of.hit(1, 10, 100);
        // Thrown. The next call comes from deeper, the one after from the same place.
        of.hit(1, 20, 80);
        of.hit(2, 30, 80);
        of.hit(1, 40, 100);
        of.hit(2, 50, 100);
        use SpanOutcome::{Left, Returned};
        assert_eq!(of.calls(), [(10, 40, Left, false), (20, 30, Returned, false), (40, 50, Returned, false)]);
    }

    #[test]
    fn calls_that_are_cut_are_counted_by_their_side() {
        let mut of = Hits::new();
        of.hit(2, 5, 100);
        of.hit(1, 10, 100);
        assert_eq!(of.0.spans.functions[0].without_begin, 1);
        assert_eq!(of.calls(), [(10, 1000, SpanOutcome::Open, false)]);
        let mut of = Hits::new();
        of.hit(1, 10, 100);
        of.0.thread_ends(7, 1, 70);
        assert_eq!(of.calls(), [(10, 70, SpanOutcome::Left, false)]);
        // The process ends with all its threads.
        let mut of = Hits::new();
        of.hit(1, 10, 100);
        of.0.thread_ends(7, 1, 70);
        of.0.thread_ends(7, 7, 80);
        assert_eq!(of.calls(), [(10, 70, SpanOutcome::Open, false)]);
    }

    #[test]
    fn calls_in_progress_whose_begin_is_older_than_the_window_are_counted() {
        use perfdata::appendix::open_spans::OpenSpan;

        let call = |function: &str, tid, begin_ns| OpenSpan { function: function.to_owned(), tid, begin_ns };
        let mut of = Hits::new();
        of.0.expect_open(&OpenSpans { calls: vec![call("f", 1, 10), call("f", 2, 3), call("g", 1, 3)] });
        of.hit(1, 10, 100);
        let spans = of.0.finish(1000);
        assert_eq!((spans.functions[0].before_window, spans.calls.len()), (1, 1));
    }

    #[test]
    fn a_call_that_ended_with_its_thread_in_the_window_is_counted_once() {
        use perfdata::appendix::open_spans::OpenSpan;

        let call = |tid, begin_ns| OpenSpan { function: "f".to_owned(), tid, begin_ns };
        let mut of = Hits::new();
        of.0.expect_open(&OpenSpans { calls: vec![call(1, 10), call(2, 3)] });
        of.hit(1, 10, 100);
        of.0.thread_ends(7, 1, 70);
        let spans = of.0.finish(1000);
        assert_eq!((spans.functions[0].before_window, spans.calls.len()), (1, 1));
        assert_eq!(spans.calls[0].outcome, SpanOutcome::Left);
    }

    #[test]
    fn only_events_of_spans_are_edges() {
        assert_eq!(edge_of_event("span:a::b"), Some(("a::b", false)));
        assert_eq!(edge_of_event("span:a__return"), Some(("a", true)));
        assert_eq!(edge_of_event("cpu-clock"), None);
    }
}
