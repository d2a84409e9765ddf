//! Calls matched here, where BPF can't do it in the kernel: sums by function, or only slow calls.

use rustc_hash::FxHashMap;

use super::layout::{BUCKETS, CallEvent, Kind, Mode, SUM_WORDS, Sums};
use super::threads::is_other_stack;

/// An open call.
#[derive(Clone, Copy, Debug)]
struct Frame {
    sp: u64,
    start_ns: u64,
    inner_ns: u64,
    function: u32,
    /// The same function is open around it.
    inside: bool,
    /// It may end by a jump that is not seen.
    jumps: bool,
    /// Its entry was handed out.
    shown: bool,
}

/// All threads' open calls, and what came of those that ended.
pub struct Tracked {
    mode: Mode,
    threads: FxHashMap<u32, Vec<Frame>>,
    words: Vec<Option<Box<[u64; SUM_WORDS]>>>,
    /// Returns from calls whose entry was not seen.
    pub strays: u64,
}

impl Tracked {
    /// Of so many functions.
    #[must_use]
    pub fn new(mode: Mode, functions: usize) -> Self {
        Self { mode, threads: FxHashMap::default(), words: vec![None; functions], strays: 0 }
    }

    /// Takes a thread's next event; `jumps`: its function may end by a jump that is not seen.
    pub fn take(&mut self, event: &CallEvent, jumps: bool, sink: &mut dyn FnMut(CallEvent)) {
        let mut open = self.threads.remove(&event.tid).unwrap_or_default();
        match event.kind {
            Kind::Enter => self.enter(&mut open, event, jumps, sink),
            Kind::Exit => self.exit(&mut open, event, sink),
            Kind::Exec => {
                while !open.is_empty() {
                    self.close(&mut open, event, Kind::Unwound, sink);
                }
                sink(*event);
            }
            Kind::Fork => sink(*event),
            // The kernel's part stands only under calls that were handed out.
            _ if open.last().is_some_and(|frame| frame.shown) => sink(*event),
            _ => {}
        }
        if !open.is_empty() {
            self.threads.insert(event.tid, open);
        }
    }

    /// The sums, of functions that were called.
    #[must_use]
    pub fn sums(&self) -> Vec<(u32, Sums)> {
        let all = (0u32..).zip(&self.words);
        all.filter_map(|(number, words)| Some((number, Sums::from_words(words.as_deref()?)))).collect()
    }

    fn enter(
        &mut self,
        open: &mut Vec<Frame>,
        event: &CallEvent,
        jumps: bool,
        sink: &mut dyn FnMut(CallEvent),
    ) {
        let top = open.last().map(|frame| (frame.sp, frame.function));
        if event.loops && top == Some((event.sp, event.function)) {
            return;
        }
        while let Some(top) = open.last().copied() {
            let above = || open.iter().any(|frame| frame.sp >= event.sp);
            if top.sp > event.sp || top.sp < event.sp && is_other_stack(top.sp, event.sp, above) {
                break;
            }
            let jumped = top.sp == event.sp && top.jumps;
            self.close(open, event, if jumped { Kind::Exit } else { Kind::Unwound }, sink);
        }
        let inside = open.iter().any(|frame| frame.function == event.function);
        open.push(Frame {
            sp: event.sp,
            start_ns: event.time_ns,
            inner_ns: 0,
            function: event.function,
            inside,
            jumps,
            shown: false,
        });
    }

    fn exit(&mut self, open: &mut Vec<Frame>, event: &CallEvent, sink: &mut dyn FnMut(CallEvent)) {
        let is_it = |frame: &Frame| frame.sp == event.sp && frame.function == event.function;
        let Some(at) = open.iter().rposition(is_it) else {
            self.strays += u64::from(!event.maybe);
            return;
        };
        // Calls of another stack stay open above it; they are set aside meanwhile.
        let others: Vec<Frame> = open[at + 1..]
            .iter()
            .filter(|frame| frame.sp > event.sp || is_other_stack(frame.sp, event.sp, || false))
            .copied()
            .collect();
        let mut below: Vec<Frame> = open[..=at].to_vec();
        below.extend(open[at + 1..].iter().filter(|frame| !others.iter().any(|other| other.sp == frame.sp)));
        while below.len() > at + 1 {
            self.close(&mut below, event, Kind::Unwound, sink);
        }
        self.close(&mut below, event, Kind::Exit, sink);
        below.extend(others);
        *open = below;
    }

    /// The innermost call ended.
    fn close(
        &mut self,
        open: &mut Vec<Frame>,
        event: &CallEvent,
        kind: Kind,
        sink: &mut dyn FnMut(CallEvent),
    ) {
        let Some(frame) = open.last().copied() else { return };
        let ns = event.time_ns.saturating_sub(frame.start_ns);
        if let Mode::Slow(min_ns) = self.mode
            && ns >= min_ns
        {
            show(open, event, sink);
            sink(CallEvent { kind, sp: frame.sp, function: frame.function, ..*event });
        }
        open.pop();
        if let Some(around) = open.last_mut() {
            around.inner_ns += ns;
        }
        if self.mode == Mode::Totals {
            self.add_up(&frame, ns, kind);
        }
    }

    fn add_up(&mut self, frame: &Frame, ns: u64, kind: Kind) {
        let Some(place) = self.words.get_mut(frame.function as usize) else { return };
        let words = place.get_or_insert_with(|| Box::new([0; SUM_WORDS]));
        words[0] += 1;
        words[1] += ns;
        words[2] += if frame.inside { 0 } else { ns };
        words[3] += ns.saturating_sub(frame.inner_ns);
        words[4] = if words[4] == 0 { ns + 1 } else { words[4].min(ns + 1) };
        words[5] = words[5].max(ns);
        words[6] += u64::from(kind == Kind::Unwound);
        words[7 + bucket_of(ns).min(BUCKETS - 1)] += 1;
    }
}

/// Hands out the entries of all open calls: those around a slow call are as slow.
fn show(open: &mut [Frame], event: &CallEvent, sink: &mut dyn FnMut(CallEvent)) {
    for frame in open.iter_mut().filter(|frame| !frame.shown) {
        frame.shown = true;
        let (time_ns, sp, function) = (frame.start_ns, frame.sp, frame.function);
        sink(CallEvent { kind: Kind::Enter, time_ns, sp, function, loops: false, ..*event });
    }
}

/// As `bucket_of` of `bpf/calls.bpf.c`: 16 to each power of two.
fn bucket_of(ns: u64) -> usize {
    if ns < 16 {
        return ns as usize;
    }
    let power = ns.ilog2() as usize;
    ((power - 3) << 4) + (ns >> (power - 4) & 15) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+A@90 5` enters function A at stack place 90 at 5 ns; `-` leaves it.
    fn run(mode: Mode, script: &[(char, u32, u64, u64)]) -> (Tracked, Vec<CallEvent>) {
        let mut tracked = Tracked::new(mode, 4);
        let mut out = Vec::new();
        for &(what, function, sp, time_ns) in script {
            let kind = if what == '+' { Kind::Enter } else { Kind::Exit };
            let event = CallEvent {
                time_ns,
                sp,
                tid: 7,
                pid: 7,
                function,
                kind,
                generation: false,
                loops: false,
                maybe: false,
            };
            tracked.take(&event, false, &mut |event| out.push(event));
        }
        (tracked, out)
    }

    #[test]
    fn recursion_counts_once_in_the_total_and_each_call_in_the_count() {
        let script = [('+', 0, 90, 10), ('+', 0, 80, 20), ('-', 0, 80, 50), ('-', 0, 90, 110)];
        let sums = run(Mode::Totals, &script).0.sums();
        let (_, f) = &sums[0];
        assert_eq!((f.count, f.finished_ns, f.total_ns, f.self_ns), (2, 130, 100, 100));
        assert_eq!((f.min_ns, f.max_ns, f.unwound), (Some(30), 100, 0));
        assert_eq!(f.buckets.iter().map(|(_, calls)| calls).sum::<u64>(), 2);
    }

    #[test]
    fn a_longjmp_ends_what_lies_below_it_as_unwound() {
        let script = [('+', 0, 90, 10), ('+', 1, 80, 20), ('+', 2, 70, 30), ('-', 0, 90, 40)];
        let sums = run(Mode::Totals, &script).0.sums();
        let unwound: Vec<_> = sums.iter().map(|(number, sums)| (*number, sums.count, sums.unwound)).collect();
        assert_eq!(unwound, [(0, 1, 0), (1, 1, 1), (2, 1, 1)]);
    }

    #[test]
    fn a_call_on_another_stack_ends_nothing_on_this_one() {
        const FAR: u64 = 64 << 20;
        let script = [
            ('+', 0, FAR, 10),
            ('+', 1, 90, 20),
            ('-', 0, FAR, 30),
            ('+', 2, FAR, 40),
            ('-', 1, 90, 50),
            ('-', 2, FAR, 60),
        ];
        let tracked = run(Mode::Totals, &script).0;
        let ends: Vec<_> =
            tracked.sums().iter().map(|(number, sums)| (*number, sums.count, sums.unwound)).collect();
        assert_eq!((ends, tracked.strays), (vec![(0, 1, 0), (1, 1, 0), (2, 1, 0)], 0));
    }

    #[test]
    fn only_slow_calls_and_those_around_them_come_out() {
        let script = [
            ('+', 0, 90, 0),
            ('+', 1, 80, 10),
            ('-', 1, 80, 20),
            ('+', 2, 80, 30),
            ('-', 2, 80, 530),
            ('-', 0, 90, 600),
        ];
        let out = run(Mode::Slow(100), &script).1;
        let seen: Vec<_> = out.iter().map(|event| (event.kind, event.function, event.time_ns)).collect();
        assert_eq!(
            seen,
            [(Kind::Enter, 0, 0), (Kind::Enter, 2, 30), (Kind::Exit, 2, 530), (Kind::Exit, 0, 600)]
        );
    }

    #[test]
    fn buckets_are_sixteen_to_a_power_of_two() {
        assert_eq!([0, 15, 16, 31, 32, 33, 34, 63, 64].map(bucket_of), [0, 15, 16, 31, 32, 32, 33, 47, 48]);
        assert!(bucket_of(1 << 46) < BUCKETS);
    }
}
