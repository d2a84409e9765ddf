//! Hits of the probes of spans, in time order → which of them begin or end a call.
//!
//! A jump at the end of a function leaves it only if its condition holds, or if the stack is as at the entry; a jump to the
//! first instruction is no new call. Such hits are left out, so that the file has begins and ends only.

use perfdata::{PidTid, Sample};
use rustc_hash::FxHashMap;
use sched::{OpenCall, OpenCalls};

use super::{FLAGS, SP, SpanFunction, holds};
use crate::calls::Leave;
use crate::open::plan::Plan;

/// A call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedSpan {
    /// Index of the function.
    pub function: usize,
    /// The thread.
    pub task: PidTid,
    /// First moment, ns of the recording's clock.
    pub begin_ns: u64,
    /// Last moment.
    pub end_ns: u64,
    /// No call of the same function is around it.
    pub is_outermost: bool,
}

/// A hit, as the file has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanHit {
    /// It neither begins nor ends a call.
    Neither,
    /// A call begins, or one ends that began before the recording.
    Edge,
    /// This call ends.
    Ended(EndedSpan),
}

/// The probe of one opened event.
#[derive(Debug, Clone, Copy)]
struct SpanProbe {
    function: usize,
    loops: bool,
    /// `None`: the first instruction.
    leave: Option<Leave>,
}

/// The open calls of all threads.
#[derive(Debug, Default)]
pub struct SpanWatch {
    /// By opened event.
    probes: FxHashMap<usize, SpanProbe>,
    threads: FxHashMap<u32, OpenCalls>,
}

impl SpanWatch {
    /// For the probes of this plan.
    #[must_use]
    pub fn new(plan: &Plan, spans: &[SpanFunction]) -> Self {
        let mut opened = plan.opened.iter().enumerate().filter(|(_, event)| event.probe.is_some());
        let mut probes = FxHashMap::default();
        for (number, span) in spans.iter().enumerate() {
            let leaves = span.function.leaves.iter().map(|leave| Some(*leave));
            for leave in std::iter::once(None).chain(leaves) {
                let Some((event, _)) = opened.next() else { break };
                probes.insert(event, SpanProbe { function: number, loops: span.function.loops, leave });
            }
        }
        debug_assert!(opened.next().is_none(), "one event for each place");
        Self { probes, threads: FxHashMap::default() }
    }

    /// True if the opened event is one of the probes.
    #[must_use]
    pub fn has(&self, opened: usize) -> bool {
        self.probes.contains_key(&opened)
    }

    /// Takes a hit of one of the probes.
    pub fn take(&mut self, opened: usize, sample: &Sample<'_>, time_ns: u64) -> SpanHit {
        let Some(probe) = self.probes.get(&opened).copied() else { return SpanHit::Neither };
        let task = PidTid::of_record(sample.pid_tid);
        let register = |number| sample.regs_user.as_ref().and_then(|registers| registers.reg(number));
        let sp = register(SP);
        let function = u32::try_from(probe.function).unwrap_or(u32::MAX);
        let calls = self.threads.entry(task.tid).or_default();
        let is_open = sp.is_some_and(|sp| calls.is_open_at(function, sp));
        let Some(leave) = probe.leave else {
            if probe.loops && is_open {
                return SpanHit::Neither;
            }
            calls.enter(function, time_ns, sp);
            return SpanHit::Edge;
        };
        let is_taken =
            leave.condition.is_none_or(|number| holds(number, register(FLAGS).unwrap_or_default()));
        if !is_taken || leave.maybe && !is_open {
            return SpanHit::Neither;
        }
        match calls.exit(function, sp) {
            None => SpanHit::Edge,
            Some(call) => SpanHit::Ended(EndedSpan {
                function: probe.function,
                task,
                begin_ns: call.begin_ns,
                end_ns: time_ns,
                is_outermost: call.depth == 0,
            }),
        }
    }

    /// Calls without an end yet, with their threads; those that may have been left aren't among them.
    pub fn open(&self) -> impl Iterator<Item = (u32, &OpenCall)> {
        let all = self.threads.iter().map(|thread| (*thread.0, thread.1.open()));
        all.flat_map(|(tid, calls)| calls.iter().map(move |call| (tid, call)))
            .filter(|(_, call)| !call.is_doubtful)
    }

    /// A thread has ended: its number may be another's next.
    pub fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}
