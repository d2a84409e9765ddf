//! Each thread's branches become steps, which whoever asked takes at once: nothing is kept.

use crate::model::{Replay, Step};
use crate::pt::{FlowReplay, Move, Sideband};
use rayon::prelude::*;
use std::collections::BTreeMap;

use super::decode::Stretch;

/// Takes the steps of one thread.
pub trait Takes: Send {
    /// The next step, at a time in ns.
    fn take(&mut self, time_ns: u64, step: Step);
}

impl Takes for Replay<'_> {
    #[inline(always)]
    fn take(&mut self, time_ns: u64, step: Step) {
        self.step(time_ns, step, &mut |_| {});
    }
}

impl Takes for Vec<(u64, Step)> {
    fn take(&mut self, time_ns: u64, step: Step) {
        self.push((time_ns, step));
    }
}

/// Branches that are no plain calls and returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odd {
    /// Returns that fit no call.
    pub unmatched: u64,
    /// Jumps into the middle of functions that were not open.
    pub shared: u64,
    /// Transactions that were undone.
    pub aborted: u64,
}

/// A thread's way through the trace so far.
pub struct TraceThread<T> {
    replay: FlowReplay,
    /// Receiver of the thread's steps.
    pub taker: T,
    first_ns: u64,
    last_ns: u64,
}

/// All threads by id.
pub struct Threads<T, M> {
    make: M,
    by_tid: BTreeMap<i32, TraceThread<T>>,
}

impl<T: Takes, M: FnMut(i32) -> Option<T>> Threads<T, M> {
    /// None yet; `make` returns the consumer of a thread's steps, if it is wanted.
    pub fn new(make: M) -> Self {
        Self { make, by_tid: BTreeMap::new() }
    }

    /// Takes stretches in the order of their times; threads side by side.
    pub fn take(&mut self, side: &Sideband<'_>, stretches: &[Stretch<Move>]) {
        let mut of: BTreeMap<i32, Vec<&Stretch<Move>>> = BTreeMap::new();
        for stretch in stretches {
            of.entry(stretch.tid).or_default().push(stretch);
        }
        for tid in of.keys().filter(|tid| !self.by_tid.contains_key(tid)).copied().collect::<Vec<_>>() {
            if let Some(taker) = (self.make)(tid) {
                self.by_tid.insert(tid, TraceThread::new(taker));
            }
        }
        let busy: Vec<(&mut TraceThread<T>, &Vec<&Stretch<Move>>)> =
            self.by_tid.iter_mut().filter_map(|(tid, thread)| Some((thread, of.get(tid)?))).collect();
        busy.into_par_iter().with_max_len(1).for_each(|(thread, stretches)| {
            stretches.iter().for_each(|stretch| thread.take(side, stretch.tid, &stretch.events));
        });
    }

    /// Oddities in the branches of all threads.
    pub fn odd(&self) -> Odd {
        let sum = |of: fn(&FlowReplay) -> u64| self.by_tid.values().map(|thread| of(&thread.replay)).sum();
        Odd {
            unmatched: sum(|replay| replay.unmatched),
            shared: sum(|replay| replay.shared),
            aborted: sum(|replay| replay.aborted),
        }
    }

    /// Receivers of the steps, by thread; and the time of the first step of all, ns.
    pub fn finish(self) -> (Vec<(i32, T)>, u64) {
        let start_ns = self.by_tid.values().map(|thread| thread.first_ns).min().unwrap_or(0);
        (self.by_tid.into_iter().map(|(tid, thread)| (tid, thread.taker)).collect(), start_ns)
    }
}

impl<T: Takes> TraceThread<T> {
    /// Nothing of it is seen yet.
    pub fn new(taker: T) -> Self {
        Self { replay: FlowReplay::default(), taker, first_ns: 0, last_ns: 0 }
    }

    /// Takes the next of its branches; it has this id.
    pub fn take(&mut self, side: &Sideband<'_>, tid: i32, events: &[Move]) {
        let Self { replay, taker, first_ns, last_ns } = self;
        let clock = side.setup.clock;
        for event in events {
            let time_ns = if event.tsc == 0 { *last_ns } else { clock.ns_at(event.tsc).max(*last_ns) };
            if event.is_begin() && *last_ns > 0 {
                let off_ns = side.off_cpu_ns(tid, *last_ns, time_ns);
                if off_ns > 0 {
                    taker.take(time_ns, Step::OffCpu(off_ns));
                }
            }
            if *first_ns == 0 {
                *first_ns = time_ns;
            }
            *last_ns = time_ns;
            replay.take(event, &mut |step| taker.take(time_ns, step));
        }
    }
}
