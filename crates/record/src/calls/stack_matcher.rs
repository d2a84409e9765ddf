//! Calls matched here, where BPF can't do it in the kernel: sums by function, or only slow calls.
//!
//! The rules are those of `bpf/calls.bpf.c` and `bpf/calls`.

use std::ops::Range;

use rustc_hash::FxHashMap;
use tracer::layout::sleds;

use super::call_gate::{CallFilters, CallGate};
use super::layout::{BUCKETS, CallEvent, CallEventKind, CallMode, FIRST_BUCKET, FunctionSums, SUM_WORDS};
use super::plan::CountRules;
use super::stacks::{CallStacks, STEP_BYTES};

/// An open call.
#[derive(Clone, Copy, Debug)]
struct Frame {
    sp: u64,
    stack: u64,
    start_ns: u64,
    inner_ns: u64,
    function: u32,
    /// The same function is open around it.
    inside: bool,
    /// It may end by a jump that is not seen.
    jumps: bool,
    /// Its entry was handed out.
    shown: bool,
    /// By the filters.
    written: bool,
    /// A call of a function whose callers are requested.
    leads: bool,
    /// It called one that counted.
    kept: bool,
}

/// A thread's open calls.
struct Thread {
    open: Vec<Frame>,
    stacks: CallStacks,
    gate: CallGate,
}

/// All threads' open calls, and what came of those that ended.
pub struct StackMatcher {
    mode: CallMode,
    counted: CountRules,
    filters: CallFilters,
    threads: FxHashMap<u32, Thread>,
    words: Vec<Option<Box<[u64; SUM_WORDS]>>>,
    /// Returns from calls whose entry was not seen, while all probes were in place.
    pub strays: u64,
    /// When they were, ns of the events' clock.
    pub ready_ns: Range<u64>,
}

impl StackMatcher {
    /// For `functions` functions.
    #[must_use]
    pub fn new(mode: CallMode, counted: CountRules, functions: usize) -> Self {
        let filters = CallFilters {
            rules: counted.rules.clone(),
            callers: counted.callers,
            starts_off: counted.starts_off,
            depth: counted.depth as usize,
            ..CallFilters::default()
        };
        let (threads, words) = (FxHashMap::default(), vec![None; functions]);
        Self { mode, counted, filters, threads, words, strays: 0, ready_ns: 0..u64::MAX }
    }

    /// Takes a thread's next event; `jumps`: its function may end by a jump that is not seen.
    pub fn take(&mut self, event: &CallEvent, jumps: bool, sink: &mut dyn FnMut(CallEvent)) {
        let new =
            || Thread { open: Vec::new(), stacks: CallStacks::default(), gate: CallGate::new(&self.filters) };
        let mut thread = self.threads.remove(&event.tid).unwrap_or_else(new);
        match event.kind {
            CallEventKind::Enter => self.enter(&mut thread, event, jumps, sink),
            CallEventKind::Exit => self.exit(&mut thread, event, sink),
            CallEventKind::Exec => {
                while let Some(top) = thread.open.len().checked_sub(1) {
                    self.close(&mut thread, top, &event.ends_as(CallEventKind::Unwound), sink);
                }
                sink(*event);
            }
            CallEventKind::Fork => sink(*event),
            // Kernel events are shown only under calls that were handed out.
            _ if thread.open.last().is_some_and(|frame| frame.shown) => sink(*event),
            _ => {}
        }
        self.threads.insert(event.tid, thread);
    }

    /// The sums, of functions that were called.
    #[must_use]
    pub fn sums(&self) -> Vec<(u32, FunctionSums)> {
        let all = (0u32..).zip(&self.words);
        all.filter_map(|(number, words)| Some((number, FunctionSums::from_words(words.as_deref()?))))
            .collect()
    }

    fn enter(
        &mut self,
        thread: &mut Thread,
        event: &CallEvent,
        jumps: bool,
        sink: &mut dyn FnMut(CallEvent),
    ) {
        let top = thread.open.last().map(|frame| (frame.sp, frame.function));
        if event.loops && top == Some((event.sp, event.function)) {
            return;
        }
        let stack = thread.stacks.find(event.sp, STEP_BYTES);
        while let Some(at) = stack.and_then(|stack| thread.top_of(stack)) {
            let top = thread.open[at];
            if top.sp > event.sp {
                break;
            }
            let jumped = top.sp == event.sp && top.jumps;
            let kind = if jumped { CallEventKind::Exit } else { CallEventKind::Unwound };
            self.close(thread, at, &event.ends_as(kind), sink);
        }
        let stack = thread.stacks.push(stack, event.sp);
        let inside = thread.open.iter().any(|frame| frame.function == event.function);
        let rules = self.filters.of(event.function);
        let written = thread.gate.enter(rules);
        if rules & sleds::CALLER != 0 {
            thread.open.iter_mut().for_each(|frame| frame.leads |= frame.stack == stack);
        }
        thread.open.push(Frame {
            sp: event.sp,
            stack,
            start_ns: event.time_ns,
            inner_ns: 0,
            function: event.function,
            inside,
            jumps,
            shown: false,
            written,
            leads: rules & sleds::CALLER != 0,
            kept: false,
        });
        if written && self.mode == CallMode::Totals && !self.counted.callers && self.counted.min_ns == 0 {
            self.words_of(event.function).into_iter().for_each(|words| words[7] += 1);
        }
    }

    fn exit(&mut self, thread: &mut Thread, event: &CallEvent, sink: &mut dyn FnMut(CallEvent)) {
        let is_it = |frame: &Frame| frame.sp == event.sp && frame.function == event.function;
        let Some(at) = thread.open.iter().rposition(is_it) else {
            self.strays += u64::from(!event.maybe && self.ready_ns.contains(&event.time_ns));
            return;
        };
        let stack = thread.open[at].stack;
        while let Some(inner) = thread.top_of(stack).filter(|inner| thread.open[*inner].sp < event.sp) {
            self.close(thread, inner, &event.ends_as(CallEventKind::Unwound), sink);
        }
        self.close(thread, at, &event.ends_as(CallEventKind::Exit), sink);
    }

    /// The call at this place of the list ended: at the time of `end`, and in its way.
    fn close(&mut self, thread: &mut Thread, at: usize, end: &CallEvent, sink: &mut dyn FnMut(CallEvent)) {
        let frame = thread.open[at];
        let ns = end.time_ns.saturating_sub(frame.start_ns);
        if let CallMode::Slow(min_ns) = self.mode
            && ns >= min_ns
        {
            show(&mut thread.open[..=at], end, sink);
            sink(CallEvent { sp: frame.sp, function: frame.function, ..*end });
        }
        thread.open.remove(at);
        thread.stacks.remove(frame.stack, frame.sp);
        thread.gate.leave(self.filters.of(frame.function), frame.written);
        if self.mode == CallMode::Totals && self.counts(&frame, ns) {
            let around = thread.open[..at].iter().rposition(|around| around.stack == frame.stack);
            if let Some(around) = around.or(at.checked_sub(1)) {
                thread.open[around].inner_ns += ns;
                thread.open[around].kept = true;
            }
            self.add_up(&frame, ns, end.kind);
        }
    }

    fn counts(&self, frame: &Frame, ns: u64) -> bool {
        let by_callers = !self.counted.callers || frame.leads;
        frame.written && by_callers && (ns >= self.counted.min_ns || frame.kept)
    }

    fn words_of(&mut self, function: u32) -> Option<&mut [u64; SUM_WORDS]> {
        let place = self.words.get_mut(function as usize)?;
        Some(place.get_or_insert_with(|| Box::new([0; SUM_WORDS])))
    }

    fn add_up(&mut self, frame: &Frame, ns: u64, kind: CallEventKind) {
        let Some(words) = self.words_of(frame.function) else { return };
        words[0] += 1;
        words[1] += ns;
        words[2] += if frame.inside { 0 } else { ns };
        words[3] += ns.saturating_sub(frame.inner_ns);
        words[4] = if words[4] == 0 { ns + 1 } else { words[4].min(ns + 1) };
        words[5] = words[5].max(ns);
        words[6] += u64::from(kind == CallEventKind::Unwound);
        words[FIRST_BUCKET + bucket_of(ns).min(BUCKETS - 1)] += 1;
    }
}

impl Thread {
    /// The innermost call of a stack.
    fn top_of(&self, stack: u64) -> Option<usize> {
        self.stacks.top(stack)?;
        self.open.iter().rposition(|frame| frame.stack == stack)
    }
}

/// Hands out the entries of all open calls: those around a slow call are as slow.
fn show(open: &mut [Frame], event: &CallEvent, sink: &mut dyn FnMut(CallEvent)) {
    for frame in open.iter_mut().filter(|frame| !frame.shown) {
        frame.shown = true;
        let (time_ns, sp, function) = (frame.start_ns, frame.sp, frame.function);
        sink(CallEvent { kind: CallEventKind::Enter, time_ns, sp, function, loops: false, ..*event });
    }
}

/// As `bucket_of` of `bpf/calls/event.h`: 16 to each power of two.
fn bucket_of(ns: u64) -> usize {
    if ns < 16 {
        return ns as usize;
    }
    let power = ns.ilog2() as usize;
    ((power - 3) << 4) + (ns >> (power - 4) & 15) as usize
}

#[cfg(test)]
mod tests;
