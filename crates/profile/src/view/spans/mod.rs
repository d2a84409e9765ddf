//! Requests: the calls of each function that was recorded as a span, and where their wall clock went.
//!
//! ```text
//!   span     |<------------------ handle ------------------>|
//!   thread   |■■■■|···· lock in put ····|..|■■■■■|· disk ·|■|      on CPU, lock in put, runnable, disk
//! ```
//! Conservation: the states of the counted calls add up to the sum of their lengths, to the nanosecond. Calls without
//! a begin, without a return or without an end, and calls inside others of the same function, are counted by name and
//! are in no sum.

mod find_calls;
mod gaps;
mod split;
mod state_words;
#[cfg(test)]
mod tests;

pub(crate) use self::state_words::target_words;

use self::find_calls::{Counted, counted_calls};
use self::split::{SpanSplitter, SplitCalls};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::{Profile, TaskId};
use crate::profile::{SeenRequest, SpanCall, SpanOutcome};
use crate::view::blame::timelines::Timelines;
use crate::view::blame::walk::{Lead, Walk};
use crate::view::blame::{Blame, BlameEnd};
use crate::view::ranking::RankRows as _;
use crate::view::wall::Part;
use std::cmp::Reverse;
use std::rc::Rc;

/// Functions and rows to show.
#[derive(Clone, Debug, Default)]
pub struct SpanOpts {
    /// Only this function, as it was named for the recording; `None`: all.
    pub function: Option<String>,
    /// How many of the slowest calls to keep.
    pub slowest: usize,
}

/// The calls of one function.
#[derive(Clone, Debug, Default)]
pub struct SpanFunctionRow {
    /// Name, as the user gave it.
    pub name: String,
    /// For a route, whose calls are requests: half of how long the looks left open when one began and ended, ns; the
    /// median.
    pub unsure_ns: Option<u64>,
    /// Calls that returned and are inside no other of the function; the lengths and states are theirs.
    pub calls: u64,
    /// Threads with such calls.
    pub threads: usize,
    /// Calls that are not among them.
    pub not_counted: NotCounted,
    /// Their lengths.
    pub latency: CallLatency,
    /// Where their time went, most first; `None` if the recording has nothing about time off the CPU.
    pub states: Option<Vec<SpanStateRow>>,
    /// The longest calls, longest first, with those that had not ended yet.
    pub slowest: Vec<SlowCall>,
}

/// Calls that are in no sum, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotCounted {
    /// Their begin was before the recording, or lost.
    pub without_begin: u64,
    /// They had no end in a flight recorder's window, and began before it.
    pub before_window: u64,
    /// They had not ended at the recording's end.
    pub open: u64,
    /// They were left by an exception, longjmp or the end of their thread.
    pub left: u64,
    /// They are inside another call of the same function.
    pub nested: u64,
}

impl NotCounted {
    /// All.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.without_begin, self.before_window, self.open, self.left, self.nested].into_iter().grown_sum()
    }
}

/// Lengths of calls, ns. A percentile is the length of a call: at least that many of them are no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLatency {
    /// Sum.
    pub total_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// Ninth decile.
    pub p90_ns: u64,
    /// 99th percentile. The slowest 1 % are the calls at least this long.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// A state of a call: on the CPU, or a wait and what it was for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanState {
    /// Part of the wall clock.
    pub part: Part,
    /// Target of the wait: `lock in put()`, `pipe with server`, a file; `None` without a name.
    pub target: Option<String>,
}

/// Time in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanStateRow {
    /// Which.
    pub state: SpanState,
    /// Σ over all counted calls, ns.
    pub ns: u64,
    /// The same of the calls that are at least as long as the 99th percentile.
    pub slowest_ns: u64,
}

/// One of the longest calls.
#[derive(Clone, Debug)]
pub struct SlowCall {
    /// Its thread.
    pub task: TaskId,
    /// Begin, ns of the recording's clock.
    pub begin_ns: u64,
    /// Begin, ns since the recording's first moment.
    pub at_ns: u64,
    /// Length, ns; at least that where `is_open`.
    pub length_ns: u64,
    /// It had not ended at the recording's end.
    pub is_open: bool,
    /// For a request by its thread's context: when it was seen, and its ids.
    pub seen: Option<SeenRequest>,
    /// Its time by state, most first; they add up to its length. Empty if nothing about time off the CPU is known.
    pub states: Vec<(SpanState, u64)>,
    /// The same time by who did what: through its waits, into the threads that ended them.
    pub causes: Blame,
}

/// Computes it for each function that has events, in the file's order; empty if none was recorded.
#[must_use]
pub fn spans(profile: &Profile, opts: &SpanOpts) -> Vec<SpanFunctionRow> {
    if profile.spans.functions.is_empty() {
        return Vec::new();
    }
    let lines = Timelines::of(profile);
    let leads = profile.off_cpu.source.map(|_| Walk::leads(&lines));
    let view = SpanView { profile, lines: &lines, leads, slowest: opts.slowest };
    let wanted = |name: &str| opts.function.as_ref().is_none_or(|wanted| wanted == name);
    let functions = profile.spans.functions.iter().enumerate();
    let mut rows: Vec<SpanFunctionRow> =
        functions.filter(|(_, of)| wanted(&of.name)).map(|(at, _)| view.row(at)).collect();
    // Functions as they were named; routes by their time.
    rows.rank_by_key(|row| row.unsure_ns.map(|_| Reverse(row.latency.total_ns)));
    rows
}

struct SpanView<'t, 'p> {
    profile: &'p Profile,
    lines: &'t Timelines<'p>,
    /// `None`: nothing about time off the CPU is known.
    leads: Option<Rc<[Lead]>>,
    slowest: usize,
}

impl SpanView<'_, '_> {
    fn row(&self, function: usize) -> SpanFunctionRow {
        let Counted { calls, open, not_counted } = counted_calls(self.profile, function);
        let mut lengths: Vec<u64> = calls.iter().map(SpanCall::length_ns).collect();
        lengths.sort_unstable();
        let latency = CallLatency::of_sorted(&lengths);
        let all: Vec<SpanCall> = calls.iter().chain(&open).copied().collect();
        let split = self.leads.as_ref().map(|_| SpanSplitter::new(self.lines, function).split(&all));
        let states = split.as_ref().map(|split| rows_of(&all, split, latency.p99_ns));
        let mut threads: Vec<i32> = calls.iter().map(|call| self.profile.task(call.task).tid).collect();
        threads.sort_unstable();
        threads.dedup();
        SpanFunctionRow {
            name: self.profile.spans.functions[function].name.clone(),
            unsure_ns: self.profile.spans.functions[function].is_route.then(|| unsure_ns(&calls)),
            calls: calls.len() as u64,
            threads: threads.len(),
            not_counted,
            latency,
            states,
            slowest: self.slowest(&all, split.as_ref()),
        }
    }

    fn slowest(&self, all: &[SpanCall], split: Option<&SplitCalls>) -> Vec<SlowCall> {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.rank_by_key(|&at| (Reverse(all[at].length_ns()), all[at].begin_ns));
        order.truncate(self.slowest);
        let states = |at: usize| split.map_or_else(Vec::new, |split| states_of(split, at));
        order.into_iter().map(|at| self.slow_call(all[at], states(at))).collect()
    }

    fn slow_call(&self, call: SpanCall, states: Vec<(SpanState, u64)>) -> SlowCall {
        let first_ns = self.profile.off_cpu.totals.iter().map(|totals| totals.start_ns).min();
        let first_ns = first_ns.or(self.profile.time_span_ns.map(|(first, _)| first)).unwrap_or(0);
        SlowCall {
            task: call.task,
            begin_ns: call.begin_ns,
            at_ns: call.begin_ns.saturating_sub(first_ns),
            length_ns: call.length_ns(),
            is_open: call.outcome == SpanOutcome::Open,
            seen: call.seen,
            states,
            causes: self.causes(&call),
        }
    }

    fn causes(&self, call: &SpanCall) -> Blame {
        let Some(leads) = self.leads.clone() else { return Blame::default() };
        let Some(thread) = self.lines.thread_of(call.task) else { return Blame::default() };
        let mut walk = Walk::new(self.lines, leads, call.length_ns());
        let (born, dead) = self.lines.threads[thread].life();
        let (from, to) = (call.begin_ns.max(born), call.end_ns.min(dead));
        if from < to {
            walk.add_window(thread, from, to);
        }
        let unseen = call.length_ns().saturating_sub(to.saturating_sub(from));
        walk.add_end(thread, None, BlameEnd::Waited(UNSEEN), unseen);
        Blame::of_walk(vec![call.task], walk)
    }
}

/// Time of a thread outside what is known of it.
const UNSEEN: Part = Part::Blocked(crate::off_cpu::WaitReason::Unknown);

/// Sums of the calls that ended. Whoever preempted them, preemption is one row.
fn rows_of(all: &[SpanCall], split: &SplitCalls, slow_ns: u64) -> Vec<SpanStateRow> {
    let row = |state: &SpanState| SpanStateRow { state: state.clone(), ns: 0, slowest_ns: 0 };
    let mut rows: Vec<SpanStateRow> = split.states.iter().map(row).collect();
    let ended = |call: &SpanCall| call.outcome == SpanOutcome::Returned;
    for (call, states) in all.iter().zip(&split.calls).filter(|(call, _)| ended(call)) {
        let is_slow = call.length_ns() >= slow_ns;
        for &(state, ns) in states {
            rows[state].ns.grow(ns);
            rows[state].slowest_ns.grow(if is_slow { ns } else { 0 });
        }
    }
    let mut preempted = SpanStateRow { state: SpanState::unnamed(Part::Preempted), ns: 0, slowest_ns: 0 };
    for row in rows.extract_if(.., |row| row.state.part == Part::Preempted) {
        preempted.ns.grow(row.ns);
        preempted.slowest_ns.grow(row.slowest_ns);
    }
    rows.push(preempted);
    rows.retain(|row| row.ns > 0);
    rows.rank_by(|a, b| (Reverse(a.ns), &a.state).cmp(&(Reverse(b.ns), &b.state)));
    rows
}

/// Median of what the begins and ends of requests may be off by, together, ns.
fn unsure_ns(calls: &[SpanCall]) -> u64 {
    let of = |call: &SpanCall| {
        let seen = call.seen?;
        Some(
            seen.from_ns.saturating_sub(call.begin_ns).saturating_add(call.end_ns.saturating_sub(seen.to_ns)),
        )
    };
    let mut all: Vec<u64> = calls.iter().filter_map(of).collect();
    all.sort_unstable();
    CallLatency::of_sorted(&all).p50_ns
}

/// The states of one call, most time first.
fn states_of(split: &SplitCalls, call: usize) -> Vec<(SpanState, u64)> {
    let named = |&(state, ns): &(usize, u64)| (split.states[state].clone(), ns);
    let mut states: Vec<(SpanState, u64)> = split.calls[call].iter().map(named).collect();
    states.rank_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    states
}

impl CallLatency {
    /// Lengths in ascending order, summed up.
    fn of_sorted(lengths: &[u64]) -> Self {
        let at = |percent: usize| {
            let rank = (lengths.len() * percent).div_ceil(100).max(1);
            lengths.get(rank - 1).copied().unwrap_or(0)
        };
        Self {
            total_ns: lengths.iter().copied().grown_sum(),
            p50_ns: at(50),
            p90_ns: at(90),
            p99_ns: at(99),
            max_ns: lengths.last().copied().unwrap_or(0),
        }
    }
}
