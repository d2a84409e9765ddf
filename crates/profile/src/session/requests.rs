//! Requests by OpenTelemetry's thread context, put among the calls of spans.
//!
//! ```text
//!   looks     | a |        | b | b |··· off CPU ···| b |    | c |
//!   request        |<-------------- b ------------------>|          begin and end in the middle between two looks
//! ```
//! One request is the time in which looks at a thread find one trace without another in between, or one route where the
//! program gives no trace ids. Off the CPU a thread can't change its context.

use crate::grow::Grow as _;
use crate::profile::{Profile, SeenRequest, SpanCall, SpanFunctionInfo, SpanOutcome, TaskId};
use perfdata::appendix::thread_contexts::{ContextChange, ThreadContexts};
use rustc_hash::FxHashMap;

/// Name of the requests whose route no attribute has.
pub const WITHOUT_ROUTE: &str = "requests without a route";

/// A new thread of a known process is looked at after this time at most, ns.
const FIRST_LOOK_NS: u64 = 20_000_000;

/// A request that goes on.
struct OpenRequest {
    trace: [u8; 16],
    span: [u8; 8],
    route: u32,
    begin_ns: u64,
    from_ns: u64,
    /// Off the CPU so far.
    off_ns: u64,
    /// Its begin was before the first look at the thread.
    is_cut: bool,
}

impl OpenRequest {
    /// `born_ns`: when the thread began, if that is known.
    fn of(change: &ContextChange, born_ns: Option<u64>) -> Self {
        let ContextChange { trace, span, route, time_ns, .. } = *change;
        let born_ns = born_ns.filter(|born_ns| (*born_ns..=*born_ns + FIRST_LOOK_NS).contains(&time_ns));
        let before_ns = if change.before_ns == 0 { born_ns.unwrap_or(0) } else { change.before_ns };
        let begin_ns = if before_ns == 0 { time_ns } else { middle(before_ns, time_ns) };
        Self { trace, span, route, begin_ns, from_ns: time_ns, off_ns: 0, is_cut: before_ns == 0 }
    }

    /// True if a thread that has this context goes on with it. A span inside the request may have no route.
    fn goes_on_with(&self, change: &ContextChange) -> bool {
        let has_trace = self.trace != [0; 16];
        let same_route = self.route == change.route || (has_trace && (self.route == 0 || change.route == 0));
        change.has_context && self.trace == change.trace && same_route
    }
}

fn middle(from: u64, to: u64) -> u64 {
    from + to.saturating_sub(from) / 2
}

/// Adds the requests of all threads that the profile knows. `last_ns`: end of the recording.
pub(super) fn add_requests(profile: &mut Profile, contexts: ThreadContexts, last_ns: u64) {
    let tasks: FxHashMap<(u32, u32), TaskId> = (0..profile.tasks().len())
        .map(|at| {
            let task = &profile.tasks()[at];
            ((task.pid.cast_unsigned(), task.tid.cast_unsigned()), TaskId::from_index(at))
        })
        .collect();
    let lives: FxHashMap<u32, (u64, u64)> = {
        let totals = profile.off_cpu.totals.iter();
        totals.map(|of| (profile.task(of.task).tid.cast_unsigned(), (of.start_ns, of.end_ns))).collect()
    };
    let first_ns = lives.values().map(|(start_ns, _)| *start_ns).min().unwrap_or(0);
    let mut by_thread: FxHashMap<(u32, u32), Vec<ContextChange>> = FxHashMap::default();
    for change in &contexts.changes {
        by_thread.entry((change.pid, change.tid)).or_default().push(*change);
    }
    let mut found = Requests { routes: &contexts.routes, profile, by_route: FxHashMap::default() };
    let mut threads: Vec<_> = by_thread.into_iter().collect();
    threads.sort_unstable_by_key(|(ids, _)| *ids);
    for ((pid, tid), mut changes) in threads {
        let Some(&task) = tasks.get(&(pid, tid)) else { continue };
        // CPUs hand over their records one after the other.
        changes.sort_by_key(|change| change.time_ns);
        let life = lives.get(&tid).copied();
        let born_ns = life.map(|(start_ns, _)| start_ns).filter(|start_ns| *start_ns > first_ns);
        let (begin_ns, end_ns) = life.unwrap_or((0, last_ns));
        // Threads are looked at before and after the times of their waits are taken, too.
        changes.retain(|change| change.time_ns <= end_ns);
        found.add_thread(task, &changes, ThreadLife { born_ns, begin_ns, end_ns });
    }
    profile.spans.contexts = ThreadContexts { changes: Vec::new(), ..contexts };
}

/// Begin of a thread, if it is known, and the times between which its waits are.
#[derive(Clone, Copy)]
struct ThreadLife {
    born_ns: Option<u64>,
    begin_ns: u64,
    end_ns: u64,
}

struct Requests<'p> {
    routes: &'p [String],
    profile: &'p mut Profile,
    /// Indices of the profile's functions.
    by_route: FxHashMap<u32, usize>,
}

impl Requests<'_> {
    fn add_thread(&mut self, task: TaskId, changes: &[ContextChange], life: ThreadLife) {
        let mut open: Option<OpenRequest> = None;
        for change in changes {
            if let Some(of) = open.as_mut().filter(|of| of.goes_on_with(change)) {
                of.off_ns.grow(change.off_ns);
                if of.route == 0 {
                    of.route = change.route;
                }
                continue;
            }
            if let Some(mut of) = open.take() {
                of.off_ns.grow(change.off_ns);
                let to_ns = change.before_ns.max(of.from_ns);
                self.push(task, &of, to_ns, Some(middle(to_ns, change.time_ns)));
            }
            open = change.has_context.then(|| OpenRequest::of(change, life.born_ns));
            if let Some(of) = &mut open {
                of.is_cut |= of.begin_ns < life.begin_ns;
            }
        }
        if let Some(of) = open {
            self.push(task, &of, life.end_ns.max(of.from_ns), None);
        }
    }

    /// Adds one; without an end it goes on at `to_ns`.
    fn push(&mut self, task: TaskId, of: &OpenRequest, to_ns: u64, end_ns: Option<u64>) {
        let spans = &mut self.profile.spans;
        let function = *self.by_route.entry(of.route).or_insert_with(|| {
            let name = (of.route as usize).checked_sub(1).and_then(|at| self.routes.get(at));
            let name = name.map_or(WITHOUT_ROUTE, String::as_str).to_owned();
            spans.functions.push(SpanFunctionInfo { name, is_route: true, ..SpanFunctionInfo::default() });
            spans.functions.len() - 1
        });
        if of.is_cut {
            spans.functions[function].without_begin.grow(1);
            return;
        }
        spans.calls.push(SpanCall {
            function,
            task,
            begin_ns: of.begin_ns,
            end_ns: end_ns.unwrap_or(to_ns),
            outcome: if end_ns.is_some() { SpanOutcome::Returned } else { SpanOutcome::Open },
            outer: None,
            seen: Some(SeenRequest {
                from_ns: of.from_ns,
                to_ns,
                off_ns: end_ns.map(|_| of.off_ns),
                trace: of.trace,
                span: of.span,
            }),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Task;

    const TRACE: u8 = 1;

    fn change(time_ns: u64, before_ns: u64, context: Option<(u8, u32)>) -> ContextChange {
        let (trace, route) = context.unwrap_or_default();
        let has_context = context.is_some();
        let ids = ContextChange { trace: [trace; 16], span: [9; 8], pid: 1, tid: 2, route, ..ZERO };
        ContextChange { time_ns, before_ns, has_context, ..ids }
    }

    const ZERO: ContextChange = ContextChange {
        time_ns: 0,
        before_ns: 0,
        off_ns: 0,
        pid: 0,
        tid: 0,
        has_context: false,
        route: 0,
        trace: [0; 16],
        span: [0; 8],
    };

    /// Name, begin, end, first and last look, and whether it ended.
    fn requests(changes: Vec<ContextChange>) -> (Vec<(String, [u64; 4], bool)>, u64) {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("server");
        profile.intern_task(Task { pid: 1, tid: 2, process: 1, comm });
        let routes = vec!["/a".to_owned(), "/b".to_owned()];
        let contexts = ThreadContexts { processes: 1, routes, changes, ..ThreadContexts::default() };
        add_requests(&mut profile, contexts, 1000);
        let row = |call: &SpanCall| {
            let seen = call.seen.expect("a request");
            let times = [call.begin_ns, call.end_ns, seen.from_ns, seen.to_ns];
            let name = profile.spans.functions[call.function].name.clone();
            (name, times, call.outcome == SpanOutcome::Returned)
        };
        let cut = profile.spans.functions.iter().map(|of| of.without_begin).sum();
        (profile.spans.calls.iter().map(row).collect(), cut)
    }

    #[test]
    fn begin_and_end_are_in_the_middle_between_two_looks() {
        let found = requests(vec![
            change(110, 100, Some((TRACE, 1))),
            change(220, 200, None),
            change(310, 300, Some((2, 2))),
        ]);
        let a = ("/a".to_owned(), [105, 210, 110, 200], true);
        assert_eq!(found, (vec![a, ("/b".to_owned(), [305, 1000, 310, 1000], false)], 0));
    }

    #[test]
    fn a_span_inside_a_request_is_part_of_it() {
        let found = requests(vec![
            change(110, 100, Some((TRACE, 0))),
            change(120, 118, Some((TRACE, 1))),
            change(130, 128, Some((TRACE, 0))),
            change(140, 138, Some((TRACE, 1))),
            // The same trace on another route, then one without ids on two.
            change(220, 200, Some((TRACE, 2))),
            change(240, 230, Some((0, 1))),
            change(260, 250, Some((0, 0))),
            change(280, 270, None),
        ]);
        let names: Vec<(&str, u64)> =
            found.0.iter().map(|(name, times, _)| (name.as_str(), times[3])).collect();
        assert_eq!(names, [("/a", 200), ("/b", 230), ("/a", 250), (WITHOUT_ROUTE, 270)]);
    }

    #[test]
    fn a_request_that_the_first_look_finds_has_no_begin_and_wrong_times_are_no_panic() {
        let first = change(110, 0, Some((TRACE, 1)));
        assert_eq!(requests(vec![first, change(130, 120, None)]), (Vec::new(), 1));
        let wild =
            [change(5, u64::MAX, Some((TRACE, 9))), change(4, 9, None), change(u64::MAX, 1, Some((3, 1)))];
        assert_eq!(requests(wild.to_vec()).0.len(), 1);
        let stranger = ContextChange { tid: 77, ..first };
        assert_eq!(requests(vec![stranger]).0, Vec::new());
    }
}
