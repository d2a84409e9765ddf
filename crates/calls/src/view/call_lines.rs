//! Every call in order, nested, with its duration: the lines of `tally calls replay`.

use crate::model::{End, Extra, ExtraKind, FunctionId, Passage, ReplayGate, Step};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter::Peekable;

use super::View;
use super::thread_track::ThreadTrack;

/// Visibility of a thread's calls, by the order in which they were entered: two bits each, for there may be many.
#[derive(Default)]
struct Plan {
    kept: Bits,
    has_inner: Bits,
}

/// A row of bits, not set beyond those that were.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, at: usize) {
        let word = at / u64::BITS as usize;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (at % u64::BITS as usize);
    }

    fn is_set(&self, at: usize) -> bool {
        let word = self.0.get(at / u64::BITS as usize).copied().unwrap_or(0);
        word >> (at % u64::BITS as usize) & 1 == 1
    }
}

impl Plan {
    /// A call is shown, and so is that it is within the innermost counted one of these.
    fn keep(&mut self, call: &Open, outer: &[Open]) {
        self.kept.set(call.number);
        if let Some(outer) = outer.iter().rev().find(|outer| outer.passage.counted) {
            self.has_inner.set(outer.number);
        }
    }

    /// The same of one that has no end to be shown at: so its beginning is shown.
    fn keep_open(&mut self, call: &Open, outer: &[Open]) {
        if call.passage.counted && call.passage.leads {
            self.keep(call, outer);
            self.has_inner.set(call.number);
        }
    }
}

/// A line of the log.
pub struct CallLine {
    /// Calls shown around it.
    pub depth: usize,
    /// Content.
    pub what: LineKind,
}

/// The content of a line.
pub enum LineKind {
    /// A call begins that holds others.
    Begin(NamedCall),
    /// A call ends: how long it took if that is known, whether it held others, its result, how it ended.
    End {
        /// The call.
        named: NamedCall,
        /// How long it took; `None` if that is not known.
        ns: Option<u64>,
        /// A line for its beginning came before.
        has_inner: bool,
        /// Recorded result.
        result: Option<Extra>,
        /// How it ended.
        end: End,
    },
    /// Calls open around the next call that are not recorded.
    Around(Vec<FunctionId>),
    /// This many calls are missing.
    Lost(u64),
}

/// A call's function and what was recorded of its arguments.
#[derive(Clone, Copy)]
pub struct NamedCall {
    /// The function.
    pub function: FunctionId,
    /// `None` if nothing was recorded.
    pub arguments: Option<Extra>,
}

/// An open call.
struct Open {
    number: usize,
    named: NamedCall,
    start_ns: u64,
    passage: Passage,
}

/// A thread's open calls, as its steps are walked.
struct Walk<'a> {
    gate: ReplayGate<'a>,
    open: Vec<Open>,
    entered: usize,
    now_ns: u64,
    /// Result of the call that ends next.
    result: Option<Extra>,
}

impl<'a> Walk<'a> {
    fn new(view: &'a View<'_>) -> Self {
        Self { gate: view.gate(), open: Vec::new(), entered: 0, now_ns: 0, result: None }
    }

    /// A call begins; its number and the filters' decision.
    fn enter(&mut self, function: FunctionId) -> (usize, Passage) {
        let (number, passage) = (self.entered, self.gate.enter(self.now_ns, function));
        if self.gate.callers_only() && passage.leads {
            let unaware = self.open.iter_mut().rev().take_while(|open| !open.passage.leads);
            unaware.for_each(|open| open.passage.leads = true);
        }
        self.entered += 1;
        let named = NamedCall { function, arguments: None };
        self.open.push(Open { number, named, start_ns: self.now_ns, passage });
        (number, passage)
    }

    /// Whether all that is asked for was walked.
    fn is_over(&self) -> bool {
        self.gate.is_over(self.now_ns)
    }

    /// The call `below` the innermost ends; `None` when it began before the recording. And whether it is shown.
    fn leave(&mut self, below: usize) -> Option<(Open, bool)> {
        let at = self.open.len().checked_sub(below + 1)?;
        let call = self.open.remove(at);
        let is_long = self.now_ns.saturating_sub(call.start_ns) >= self.gate.min_ns();
        self.gate.leave(call.passage);
        let is_shown = is_long && call.passage.counted && call.passage.leads;
        Some((call, is_shown))
    }
}

/// Walks a thread once to learn which calls are shown and which of them hold others.
fn plan(view: &View<'_>, track: &ThreadTrack<'_>) -> Plan {
    let (mut walk, mut plan) = (Walk::new(view), Plan::default());
    let ended = |walk: &mut Walk<'_>, plan: &mut Plan, below| {
        let Some((call, is_shown)) = walk.leave(below) else { return };
        if is_shown {
            plan.keep(&call, &walk.open);
        }
    };
    for (time_ns, step) in track.steps() {
        walk.now_ns = walk.now_ns.max(time_ns);
        match step {
            Step::Enter(function) => drop(walk.enter(function)),
            Step::TailJump(function) => {
                ended(&mut walk, &mut plan, 0);
                walk.enter(function);
            }
            Step::Exit(below) | Step::Unwound(below) => ended(&mut walk, &mut plan, below),
            Step::Abandon(below) => {
                if let Some((call, _)) = walk.leave(below) {
                    plan.keep_open(&call, &walk.open);
                }
            }
            _ => {}
        }
        if walk.is_over() {
            break;
        }
    }
    while let Some((call, _)) = walk.leave(0) {
        plan.keep_open(&call, &walk.open);
    }
    plan
}

/// The lines of one thread in time order.
struct Lines<'a> {
    steps: Peekable<Box<dyn Iterator<Item = (u64, Step)> + 'a>>,
    track: &'a ThreadTrack<'a>,
    plan: &'a Plan,
    walk: Walk<'a>,
    /// Lines to come before any other.
    ready: VecDeque<CallLine>,
}

impl<'a> Lines<'a> {
    fn new(view: &'a View<'_>, track: &'a ThreadTrack<'_>, plan: &'a Plan) -> Self {
        Self { steps: track.steps().peekable(), track, plan, walk: Walk::new(view), ready: VecDeque::new() }
    }

    fn line(&mut self, step: Step) -> Option<CallLine> {
        match step {
            Step::Enter(function) => self.begin(function),
            Step::TailJump(function) => {
                let ended = self.end(0, End::Returned);
                self.ready.extend(ended);
                self.begin(function)
            }
            Step::Exit(below) => self.end(below, End::Returned),
            Step::Unwound(below) => self.end(below, End::Unwound),
            Step::Abandon(below) => self.end(below, End::Open),
            Step::Extra(extra) if extra.kind == ExtraKind::Result => {
                self.walk.result = Some(extra);
                None
            }
            Step::Lost(calls) => Some(CallLine { depth: self.walk.open.len(), what: LineKind::Lost(calls) }),
            _ => None,
        }
    }

    /// The call `below` the innermost ends.
    fn end(&mut self, below: usize, end: End) -> Option<CallLine> {
        let result = self.walk.result.take();
        let (call, _) = self.walk.leave(below)?;
        let what = LineKind::End {
            named: call.named,
            ns: (end != End::Open).then_some(self.walk.now_ns.saturating_sub(call.start_ns)),
            has_inner: self.plan.has_inner.is_set(call.number),
            result,
            end,
        };
        self.plan.kept.is_set(call.number).then_some(CallLine { depth: call.passage.depth(), what })
    }

    /// Names what is open around the call that begins.
    fn around(&mut self, passage: Passage, functions: Vec<FunctionId>) {
        if !functions.is_empty() {
            self.ready.push_back(CallLine { depth: passage.depth(), what: LineKind::Around(functions) });
        }
    }

    /// The open calls that are not shown, outermost first; of many the innermost.
    fn not_shown(&self) -> Vec<FunctionId> {
        const MOST: usize = 32;
        let hidden = |open: &&Open| !self.plan.kept.is_set(open.number);
        let names: Vec<FunctionId> =
            self.walk.open.iter().filter(hidden).map(|open| open.named.function).collect();
        names[names.len().saturating_sub(MOST)..].to_vec()
    }

    /// A call begins; what was recorded of its entry follows at once.
    fn begin(&mut self, function: FunctionId) -> Option<CallLine> {
        let (number, passage) = self.walk.enter(function);
        let (kept, has_inner) = (self.plan.kept.is_set(number), self.plan.has_inner.is_set(number));
        while let Some((_, Step::Extra(extra))) = self
            .steps
            .next_if(|(_, step)| matches!(step, Step::Extra(extra) if extra.kind != ExtraKind::Result))
        {
            if extra.kind == ExtraKind::Arguments {
                self.walk.open.last_mut()?.named.arguments = Some(extra);
            } else if kept {
                self.around(passage, self.track.backtrace(extra));
            }
        }
        if kept && passage.shows_callers() {
            self.around(passage, self.not_shown());
        }
        let named = self.walk.open.last()?.named;
        let line = CallLine { depth: passage.depth(), what: LineKind::Begin(named) };
        self.ready.extend((kept && has_inner).then_some(line));
        self.ready.pop_front()
    }
}

impl Iterator for Lines<'_> {
    type Item = (u64, CallLine);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(line) = self.ready.pop_front() {
            return Some((self.walk.now_ns, line));
        }
        while !self.walk.is_over() {
            let (time_ns, step) = self.steps.next()?;
            self.walk.now_ns = self.walk.now_ns.max(time_ns);
            if let Some(line) = self.line(step) {
                return Some((self.walk.now_ns, line));
            }
        }
        None
    }
}

/// Hands on the lines of all threads, merged by time, each with its thread.
///
/// # Errors
/// The first error of `take`, which ends the walk.
pub fn each_line<E>(
    view: &View<'_>,
    take: &mut dyn FnMut(&ThreadTrack<'_>, &CallLine) -> Result<(), E>,
) -> Result<(), E> {
    let plans: Vec<Plan> = view.tracks.par_iter().map(|track| plan(view, track)).collect();
    let mut threads: Vec<Lines<'_>> =
        view.tracks.iter().zip(&plans).map(|(track, plan)| Lines::new(view, track, plan)).collect();
    let mut next: Vec<Option<CallLine>> = Vec::new();
    let mut order: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for at in 0..threads.len() {
        next.push(None);
        advance(&mut threads, &mut next, &mut order, at);
    }
    while let Some(Reverse((_, at))) = order.pop() {
        if let Some(line) = next[at].take() {
            take(&view.tracks[at], &line)?;
        }
        advance(&mut threads, &mut next, &mut order, at);
    }
    Ok(())
}

/// Takes thread `at`'s next line and puts it in its place among the others.
fn advance(
    threads: &mut [Lines<'_>],
    next: &mut [Option<CallLine>],
    order: &mut BinaryHeap<Reverse<(u64, usize)>>,
    at: usize,
) {
    if let Some((time_ns, line)) = threads[at].next() {
        next[at] = Some(line);
        order.push(Reverse((time_ns, at)));
    }
}
