//! The time of each call, by state.
//!
//! Timed waits are cut at the call's begin and end. Between them the thread ran, or waited in short waits of which only
//! the sum of a place is known. A sum whose stack has the function in it belongs to the function's calls, and is spread
//! over those that were under way meanwhile; one without it belongs to the time between calls.

use super::gaps::{Gap, GapLengths};
use super::state_words::state_of;
use super::{SpanState, UNSEEN};
use crate::profile::Profile;
use crate::profile::SpanCall;
use crate::table::{CallsiteId, FrameId, StringId};
use crate::view::blame::timelines::{SummedWaits, Timeline, Timelines};
use crate::view::ranking::RankRows as _;
use crate::view::wall::Part;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Time of calls by state.
#[derive(Default)]
pub(super) struct SplitCalls {
    /// All states there are.
    pub states: Vec<SpanState>,
    /// By call: time in states, as indices. They add up to its length.
    pub calls: Vec<Vec<(usize, u64)>>,
}

impl SplitCalls {
    fn id(&mut self, state: SpanState) -> usize {
        self.states.iter().position(|known| *known == state).unwrap_or_else(|| {
            self.states.push(state);
            self.states.len() - 1
        })
    }

    fn add(&mut self, call: usize, state: usize, ns: u64) {
        if ns == 0 {
            return;
        }
        let sums = &mut self.calls[call];
        match sums.iter_mut().find(|(of, _)| *of == state) {
            Some((_, sum)) => *sum += ns,
            None => sums.push((state, ns)),
        }
    }
}

/// Splits the calls of one function.
pub(super) struct SpanSplitter<'t, 'p> {
    lines: &'t Timelines<'p>,
    /// Names of the function, as symbols.
    names: Vec<StringId>,
    has_function: FxHashMap<CallsiteId, bool>,
    /// State of each wait that was asked for.
    states: FxHashMap<usize, usize>,
    found: SplitCalls,
    /// By call: what is between its timed waits.
    filled: SplitCalls,
}

/// The first two states.
const ON: usize = 0;
const UNKNOWN: usize = 1;

impl<'t, 'p> SpanSplitter<'t, 'p> {
    pub fn new(lines: &'t Timelines<'p>, function: usize) -> Self {
        let profile = lines.profile;
        let entries = profile.spans.functions[function].entries.iter();
        let names = entries.filter_map(|&entry| function_of(profile, entry)).collect();
        let found =
            SplitCalls { states: [Part::On, UNSEEN].map(SpanState::unnamed).into(), calls: Vec::new() };
        let filled = SplitCalls::default();
        Self { lines, names, has_function: FxHashMap::default(), states: FxHashMap::default(), found, filled }
    }

    /// The states of each call, in the order of `calls`. Those of one call add up to its length.
    pub fn split(mut self, calls: &[SpanCall]) -> SplitCalls {
        self.found.calls = vec![Vec::new(); calls.len()];
        self.filled.calls = vec![Vec::new(); calls.len()];
        let mut by_thread: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, call) in calls.iter().enumerate() {
            match self.lines.thread_of(call.task) {
                Some(thread) => by_thread.entry(thread).or_default().push(at),
                None => self.found.add(at, UNKNOWN, call.length_ns()),
            }
        }
        for (thread, mut of_thread) in by_thread {
            of_thread.rank_by_key(|&at| (calls[at].begin_ns, at));
            let mut gaps = Vec::new();
            for at in of_thread {
                self.cut(thread, at, &calls[at], &mut gaps);
            }
            gaps.rank_by_key(|gap: &Gap| (gap.from, gap.call));
            self.fill(thread, &gaps);
        }
        for (at, mut filled) in std::mem::take(&mut self.filled.calls).into_iter().enumerate() {
            if let Some(off_ns) = calls[at].seen.and_then(|seen| seen.off_ns) {
                let timed = self.found.calls[at].iter().filter(|(state, _)| *state != UNKNOWN);
                filled = with_off(filled, off_ns.saturating_sub(timed.map(|(_, ns)| ns).sum()));
            }
            filled.into_iter().for_each(|(state, ns)| self.found.add(at, state, ns));
        }
        self.found
    }

    /// Adds the timed waits of a call, and finds the gaps between them.
    fn cut(&mut self, thread: usize, at: usize, call: &SpanCall, gaps: &mut Vec<Gap>) {
        let lines = self.lines;
        let line = &lines.threads[thread];
        let known = if line.totals.is_empty() { (call.end_ns, call.end_ns) } else { line.life() };
        let from = call.begin_ns.max(known.0).min(call.end_ns);
        let to = call.end_ns.min(known.1).max(from);
        self.found.add(at, UNKNOWN, call.length_ns() - (to - from));
        let mut now = from;
        for timed in line.timed_in(from, to) {
            let (begin, end) = (timed.from.max(now), timed.to.min(to));
            gaps.extend((now < begin).then_some(Gap { from: now, to: begin, call: at }));
            let state = self.state(timed.wait);
            self.found.add(at, state, end - begin);
            now = end;
        }
        gaps.extend((now < to).then_some(Gap { from: now, to, call: at }));
    }

    /// Divides the gaps of a thread, in order of time, among running and the waits that are known by their sums.
    fn fill(&mut self, thread: usize, gaps: &[Gap]) {
        let lines = self.lines;
        let line = &lines.threads[thread];
        let inside = GapLengths::of(gaps);
        let sees_function = self.sees_function(line, gaps);
        let mut coming = line.summed.iter().peekable();
        let mut under_way: Vec<(&SummedWaits, f64)> = Vec::new();
        for gap in gaps {
            under_way.retain(|(sum, _)| sum.to > gap.from);
            while let Some(sum) = coming.next_if(|sum| sum.from < gap.to) {
                let rate = match sees_function.then(|| self.has_function(sum.wait)).flatten() {
                    Some(false) => continue,
                    Some(true) => sum.ns as f64 / inside.within(sum.from, sum.to).max(1) as f64,
                    None => sum.ns as f64 / line.free_ns(sum.from, sum.to).max(1) as f64,
                };
                under_way.push((sum, rate.min(1.0)));
            }
            let share = |(sum, rate): &(&SummedWaits, f64)| {
                sum.to.min(gap.to).saturating_sub(sum.from.max(gap.from)) as f64 * rate
            };
            let length = (gap.to - gap.from) as f64;
            let all: f64 = under_way.iter().map(share).sum::<f64>().max(length);
            let mut left = gap.to - gap.from;
            for of in &under_way {
                let ns = ((share(of) / all * length) as u64).min(left);
                left -= ns;
                let state = self.state(of.0.wait);
                self.filled.add(gap.call, state, ns);
            }
            self.filled.add(gap.call, ON, left);
        }
    }

    /// Whether stacks of waits show that the function was called: of those inside its calls at least half have it.
    fn sees_function(&mut self, line: &Timeline, gaps: &[Gap]) -> bool {
        let profile = self.lines.profile;
        let spans: Vec<(u64, u64)> = gaps.iter().map(|gap| (gap.from, gap.to)).collect();
        // A wait between two gaps of one call is inside it.
        let is_inside = |from: u64| {
            let next = spans.partition_point(|(begin, _)| *begin < from);
            next > 0 && next < gaps.len() && gaps[next - 1].call == gaps[next].call
        };
        let (mut with, mut without, mut sums_with) = (0usize, 0usize, 0usize);
        for timed in line.timed.iter().filter(|timed| is_inside(timed.from)) {
            match self.has_function(timed.wait) {
                Some(true) => with += 1,
                Some(false) => without += 1,
                None => {}
            }
        }
        for sum in line.summed.iter().filter(|sum| profile.off_cpu.waits[sum.wait].callsite.is_some()) {
            sums_with += usize::from(self.has_function(sum.wait) == Some(true));
        }
        if with + without > 0 { with >= without } else { sums_with > 0 }
    }

    /// Whether a wait's stack has the function in it; `None` without a stack.
    fn has_function(&mut self, wait: usize) -> Option<bool> {
        let profile = self.lines.profile;
        let callsite = profile.off_cpu.waits[wait].callsite?;
        let names = &self.names;
        let is_it = |frame: FrameId| {
            let inlined = profile.frame_names(frame).iter();
            inlined.map(|of| profile.symbols.of(of.symbol).name).any(|name| names.contains(&name))
        };
        let has = || profile.callsites.leaf_first(callsite).any(is_it);
        Some(*self.has_function.entry(callsite).or_insert_with(has))
    }

    fn state(&mut self, wait: usize) -> usize {
        let (lines, found) = (self.lines, &mut self.found);
        *self.states.entry(wait).or_insert_with(|| found.id(state_of(lines, wait)))
    }
}

/// The same time with as much of it off the CPU as was measured; the waits keep their shares of that.
fn with_off(filled: Vec<(usize, u64)>, off_ns: u64) -> Vec<(usize, u64)> {
    let all: u64 = filled.iter().map(|(_, ns)| ns).sum();
    let off: u64 = filled.iter().filter(|(state, _)| *state != ON).map(|(_, ns)| ns).sum();
    let mut left = off_ns.min(all);
    let on = (ON, all - left);
    if off == 0 {
        return vec![on, (UNKNOWN, left)];
    }
    let ratio = left as f64 / off as f64;
    let mut with: Vec<(usize, u64)> = Vec::with_capacity(filled.len() + 1);
    for (state, ns) in filled.into_iter().filter(|(state, _)| *state != ON) {
        let ns = ((ns as f64 * ratio) as u64).min(left);
        left -= ns;
        with.push((state, ns));
    }
    // The rest that rounding left.
    if let Some((_, ns)) = with.first_mut() {
        *ns += left;
    }
    with.push(on);
    with
}

/// Name of the function that a frame is in.
fn function_of(profile: &Profile, frame: FrameId) -> Option<StringId> {
    profile.frame_names(frame).last().map(|of| profile.symbols.of(of.symbol).name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_time_off_the_cpu_divides_among_the_waits_that_are_known() {
        assert_eq!(with_off(vec![(ON, 50), (2, 30), (3, 10)], 80), [(2, 60), (3, 20), (ON, 10)]);
        assert_eq!(with_off(vec![(ON, 50), (2, 1), (3, 1)], 3), [(2, 2), (3, 1), (ON, 49)]);
        // No wait is known, and more than there is.
        assert_eq!(with_off(vec![(ON, 50)], 20), [(ON, 30), (UNKNOWN, 20)]);
        assert_eq!(with_off(vec![(ON, 50), (2, 10)], 900), [(2, 60), (ON, 0)]);
        assert_eq!(with_off(Vec::new(), 9), [(ON, 0), (UNKNOWN, 0)]);
    }
}
