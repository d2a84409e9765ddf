//! Go's goroutines, which are treated as threads: a goroutine goes on in any thread, and its stack may move.
//!
//! The BPF program identifies a goroutine by bits of its address, and reports stack positions as distances from the
//! end of the goroutine's stack. So its calls are matched like those of a thread. The matching is done here even when
//! only sums or slow calls are requested, because the BPF program matches by thread.

use rustc_hash::FxHashMap;

use super::layout::{CallEvent, CallEventKind, CallMode, FunctionSums, GOROUTINE};
use super::plan::{CountRules, Exits, ProbeOptions, ProbedFunction};
use super::stack_matcher::StackMatcher;

/// The goroutines of recorded processes.
pub(super) struct Goroutines {
    mode: CallMode,
    /// By process and the goroutine bits from the BPF program.
    numbers: FxHashMap<(u32, u32), u32>,
    /// By process: how many there are.
    known: FxHashMap<u32, u32>,
    /// By process and number: the latest event.
    last: FxHashMap<(u32, u32), CallEvent>,
    tracked: StackMatcher,
    /// By function: it may end by a jump that is not seen.
    jumps: Vec<bool>,
}

impl Goroutines {
    /// `None` where no function is called by one, or none is followed to its end. Otherwise the kernel has to hand
    /// out every entry and exit, and `options` are changed to that.
    pub fn of(functions: &[ProbedFunction], options: &mut ProbeOptions) -> Option<Self> {
        let any = functions.iter().any(|function| function.by_goroutine) && options.exits != Exits::None;
        any.then(|| {
            let mode = std::mem::replace(&mut options.mode, CallMode::Events);
            let counted = if mode == CallMode::Events {
                CountRules::default()
            } else {
                std::mem::take(&mut options.counted)
            };
            Self {
                mode,
                numbers: FxHashMap::default(),
                known: FxHashMap::default(),
                last: FxHashMap::default(),
                tracked: StackMatcher::new(mode, counted, functions.len()),
                jumps: functions.iter().map(|function| function.jumps_out).collect(),
            }
        })
    }

    /// Takes the next event, and hands on the requested data.
    pub fn take(&mut self, mut event: CallEvent, sink: &mut dyn FnMut(CallEvent)) {
        event.tid = self.number(&event);
        if self.mode == CallMode::Events {
            return sink(event);
        }
        if !self.is_double(&event) {
            let jumps = self.jumps.get(event.function as usize).copied().unwrap_or_default();
            self.tracked.take(&event, jumps, sink);
        }
    }

    /// The number assigned to a goroutine, or the thread's own ID.
    fn number(&mut self, event: &CallEvent) -> u32 {
        let is_call = matches!(event.kind, CallEventKind::Enter | CallEventKind::Exit);
        if !is_call || event.tid & GOROUTINE == 0 {
            return event.tid;
        }
        let known = self.known.entry(event.pid).or_default();
        *self.numbers.entry((event.pid, event.tid)).or_insert_with(|| {
            *known += 1;
            *known
        })
    }

    /// Whether two links, of which one replaces the other, saw the same moment.
    fn is_double(&mut self, event: &CallEvent) -> bool {
        let last = self.last.insert((event.pid, event.tid), *event);
        last.is_some_and(|last| {
            (last.kind, last.function, last.sp) == (event.kind, event.function, event.sp)
                && last.generation != event.generation
        })
    }

    /// The requested sums; `None` if calls were requested.
    pub fn sums(&self) -> Option<Vec<(u32, FunctionSums)>> {
        (self.mode == CallMode::Totals).then(|| self.tracked.sums())
    }

    /// Returns from calls whose entry was not seen, so far as they were matched here.
    pub fn strays(&self) -> u64 {
        self.tracked.strays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function() -> ProbedFunction {
        ProbedFunction {
            object: 0,
            offset: 0,
            leaves: Vec::new(),
            jumps_out: false,
            loops: false,
            by_goroutine: true,
        }
    }

    fn options(mode: CallMode, exits: Exits) -> ProbeOptions {
        let (kernel, kernel_selection) = Default::default();
        ProbeOptions { mode, exits, ring_bytes: 0, kernel, kernel_selection, counted: CountRules::default() }
    }

    fn event(kind: CallEventKind, tid: u32, sp: u64, time_ns: u64) -> CallEvent {
        let (function, generation, loops, maybe) = (0, false, false, false);
        CallEvent { time_ns, sp, tid, pid: 7, function, kind, generation, loops, maybe }
    }

    #[test]
    fn calls_of_goroutines_that_take_turns_in_a_thread_are_matched_one_by_one() {
        let mut options = options(CallMode::Totals, Exits::Sites);
        let mut goroutines = Goroutines::of(&[function()], &mut options).unwrap();
        assert_eq!(options.mode, CallMode::Events);
        let (a, b) = (GOROUTINE | 500, GOROUTINE | 600);
        let steps = [
            (CallEventKind::Enter, a, 10),
            (CallEventKind::Enter, b, 20),
            (CallEventKind::Exit, a, 40),
            (CallEventKind::Exit, b, 90),
        ];
        for (kind, tid, time_ns) in steps {
            goroutines.take(event(kind, tid, 0x3fff_0000, time_ns), &mut |_| {});
        }
        let sums = goroutines.sums().unwrap();
        assert_eq!((sums[0].1.count, sums[0].1.finished_ns, sums[0].1.unwound), (2, 30 + 70, 0));
        assert_eq!(goroutines.strays(), 0);
    }

    #[test]
    fn goroutines_are_numbered_as_they_come_and_threads_keep_their_numbers() {
        let mut goroutines =
            Goroutines::of(&[function()], &mut options(CallMode::Events, Exits::Sites)).unwrap();
        let mut seen = Vec::new();
        for tid in [GOROUTINE | 9, 4321, GOROUTINE | 5, GOROUTINE | 9] {
            goroutines.take(event(CallEventKind::Enter, tid, 1, 1), &mut |event| seen.push(event.tid));
        }
        assert_eq!(seen, [1, 4321, 2, 1]);
        assert!(Goroutines::of(&[function()], &mut options(CallMode::Totals, Exits::None)).is_none());
    }
}
