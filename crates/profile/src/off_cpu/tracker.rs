//! Waits put together from switches and wake-ups: for recordings that hold the events, not the intervals.
//!
//! ```text
//!   out(t, state, stack) ── wakeup(t, waker) ── in(t)
//!   └──── blocked ──────────┘└── runnable ─────┘        preempted: out .. in
//! ```
//! Knows times and ids only. A switch-in without its switch-out, or the other way round, is a lost event: the
//! interval between is of unknown state.

mod switch_state;

use super::{OffCpu, OffCpuSource, RelatedThread, ThreadTotals, Wait, WaitReason};
use crate::grow::Grow as _;
use crate::profile::TaskId;
use crate::table::CallsiteId;
use perfdata::off_cpu::{State, flag};
use rustc_hash::FxHashMap;
use sched::{SchedInterval, ThreadState, ThreadTimeline};
pub(crate) use switch_state::SwitchStates;
use switch_state::{NOT_REPORTED, STATES};

/// Follows all threads.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    threads: FxHashMap<u32, Thread>,
    /// Threads in the order of first sight, for output that doesn't depend on hash order.
    order: Vec<u32>,
    ended: Vec<ThreadTotals>,
    /// Threads that ended, until their number is another's: the rest of an end may follow.
    gone: FxHashMap<u32, TaskId>,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Waiting threads are looked at now and then: a wait that no look has met is a short one.
    has_looks: bool,
    has_switches: bool,
}

/// Waits without a look that are longer than this aren't short ones: the looks missed them for another reason.
const LONG_WITHOUT_LOOK_NS: u64 = 200_000_000;

#[derive(Debug)]
struct Thread {
    task: Option<TaskId>,
    timeline: ThreadTimeline<State, RelatedThread>,
    callsite: Option<CallsiteId>,
    look: Option<WaitSample>,
    /// Short waits that no look has met. The next wait that a look meets represents them. Looks come at even times, so
    /// each represents as much time as any other.
    carry_ns: u64,
    totals: [u64; 8],
    start_ns: u64,
    switches: u64,
    open_left: bool,
    /// Time and task of its exit record: it still runs for a moment.
    exit: Option<(u64, TaskId)>,
    /// Waits that ended before the thread's name was known.
    early: Vec<Wait>,
}

/// A switch-out as recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// The thread.
    pub tid: u32,
    /// Place in the profile.
    pub task: TaskId,
    /// Time of the switch, ns.
    pub time_ns: u64,
    /// The thread's state from now on.
    pub state: State,
    /// Stack of the wait.
    pub callsite: Option<CallsiteId>,
    /// The thread that runs instead.
    pub other: Option<RelatedThread>,
    /// It never comes back.
    pub dies: bool,
}

/// Data from a look at a waiting thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitSample {
    /// Sleeping, or uninterruptible.
    pub state: State,
    /// The system call it is in.
    pub syscall: Option<u32>,
    /// First arguments.
    pub args: [u64; 3],
    /// Reason of the wait.
    pub told: Option<WaitReason>,
    /// User stack.
    pub callsite: Option<CallsiteId>,
}

impl Tracker {
    /// Looks at waiting threads are part of the recording.
    pub fn expect_looks(&mut self) {
        self.has_looks = true;
    }

    /// Someone looked at a thread and found it waiting. Counts only for a thread that left its CPU by itself, or
    /// has not been seen yet: it waited before the recording began.
    pub fn look(&mut self, tid: u32, look: WaitSample) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if thread.timeline.state() == NOT_REPORTED {
            thread.look = Some(look);
        }
    }

    fn thread(&mut self, tid: u32, time_ns: u64) -> &mut Thread {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        let order = &mut self.order;
        let gone = self.gone.get(&tid).map(|&task| (time_ns, task));
        let first_ns = gone.map_or(first_ns, |(time_ns, _)| time_ns);
        self.threads.entry(tid).or_insert_with(|| {
            order.push(tid);
            Thread {
                task: None,
                timeline: ThreadTimeline::assumed(first_ns, NOT_REPORTED, NOT_REPORTED),
                callsite: None,
                look: None,
                carry_ns: 0,
                totals: [0; 8],
                start_ns: first_ns,
                switches: 0,
                open_left: gone.is_none(),
                exit: gone,
                early: Vec::new(),
            }
        })
    }

    /// True if a thread was seen to leave or to get a CPU: begins and ends of threads alone give no wall clock.
    pub fn has_switches(&self) -> bool {
        self.has_switches
    }

    /// True if the thread is known to run.
    pub fn is_on(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.timeline.state() == ThreadState::Running)
    }

    /// True if the thread is known not to run.
    pub fn is_off(&self, tid: u32) -> bool {
        let is_off = |of: &Thread| of.timeline.state() != ThreadState::Running && !of.timeline.is_assumed();
        self.threads.get(&tid).is_some_and(is_off)
    }

    /// A thread was born.
    pub fn fork(&mut self, tid: u32, time_ns: u64) {
        self.gone.remove(&tid);
        let thread = self.thread(tid, time_ns);
        thread.timeline = ThreadTimeline::new(time_ns, ThreadState::Runnable);
        thread.start_ns = time_ns;
        thread.open_left = false;
    }

    /// A thread leaves its CPU.
    pub fn switch_out(&mut self, out: Out, waits: &mut Vec<Wait>) {
        self.has_switches = true;
        let thread = self.thread(out.tid, out.time_ns);
        let task = match thread.exit {
            Some((_, task)) => task,
            None => out.task,
        };
        thread.task = Some(task);
        waits.extend(thread.early.drain(..).map(|wait| Wait { task, ..wait }));
        let ran = thread.timeline.leave(out.time_ns, STATES.reported(out.state), out.other);
        thread.add_time(&ran);
        thread.switches += 1;
        (thread.callsite, thread.look) = (out.callsite, None);
        let dies = out.dies || thread.exit.is_some() && out.state == State::Unknown;
        thread.open_left = false;
        if dies {
            self.end(out.tid, out.time_ns, waits);
        }
    }

    /// A thread begins to end; its last switch follows.
    pub fn exit(&mut self, tid: u32, task: TaskId, time_ns: u64) {
        self.thread(tid, time_ns).exit = Some((time_ns, task));
    }

    /// A thread is gone; its number may be used again.
    fn end(&mut self, tid: u32, end_ns: u64, waits: &mut Vec<Wait>) {
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        let Some(task) = thread.task else { return };
        waits.extend(thread.rest(task));
        let Thread { totals: total_ns, start_ns, switches, .. } = thread;
        self.gone.insert(tid, task);
        self.ended.push(ThreadTotals { task, start_ns, end_ns, total_ns, switches });
    }

    /// A thread is woken by `by`; only the first wake-up of a wait counts.
    pub fn wake(&mut self, tid: u32, by: RelatedThread, time_ns: u64) {
        self.thread(tid, time_ns).timeline.wake(time_ns, by);
    }

    /// A thread gets a CPU.
    pub fn switch_in(&mut self, tid: u32, time_ns: u64, waits: &mut Vec<Wait>) {
        self.has_switches = true;
        let has_looks = self.has_looks;
        let thread = self.thread(tid, time_ns);
        let wait = thread.timeline.enter(time_ns);
        let ended = thread.end_wait(wait, 0, has_looks);
        match thread.task {
            Some(_) => waits.extend(ended),
            None => thread.early.extend(ended),
        }
    }

    /// All open intervals end with the recording.
    pub fn finish(mut self, source: OffCpuSource, off_cpu: &mut OffCpu) {
        off_cpu.totals.append(&mut self.ended);
        for tid in self.order.clone() {
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            thread.task = thread.task.or(thread.exit.map(|(_, task)| task));
            // A thread that ends has run until then, and its last switch is lost.
            let exit_ns = thread.exit.map(|(exit_ns, _)| exit_ns.max(thread.timeline.begin_ns()));
            let end_ns = exit_ns.unwrap_or(self.last_ns);
            let last = thread.timeline.finish(end_ns);
            if thread.task.is_some() {
                off_cpu.waits.extend(thread.end_wait(last, flag::OPEN_RIGHT, self.has_looks));
            }
            self.end(tid, end_ns, &mut off_cpu.waits);
        }
        off_cpu.totals.append(&mut self.ended);
        let source = match source {
            OffCpuSource::SwitchRecords if self.has_looks => OffCpuSource::Looks,
            other => other,
        };
        if !off_cpu.totals.is_empty() {
            off_cpu.source = off_cpu.source.max(Some(source));
        }
    }
}

impl Thread {
    /// The short waits that no other wait represents.
    fn rest(&mut self, task: TaskId) -> Option<Wait> {
        let weight_ns = std::mem::take(&mut self.carry_ns);
        let state = State::Sleep;
        self.totals[usize::from(state.code())].grow(weight_ns);
        (weight_ns > 0).then_some(Wait {
            task,
            callsite: None,
            state,
            since_ns: self.start_ns,
            length_ns: 0,
            weight_ns,
            syscall: None,
            args: [0; 3],
            told: None,
            other: None,
            flags: flag::REST,
            cpu: None,
            sums: None,
            labels: None,
        })
    }

    /// Adds time that is no wait: running, or next to a lost event.
    fn add_time(&mut self, time: &SchedInterval<State, RelatedThread>) {
        self.totals[usize::from(STATES.name(time.state).code())].grow(time.length_ns());
    }

    /// The waits of an interval that has ended: blocked, then runnable.
    fn end_wait(
        &mut self,
        wait: SchedInterval<State, RelatedThread>,
        flags: u32,
        has_looks: bool,
    ) -> Vec<Wait> {
        if matches!(wait.state, ThreadState::Running | ThreadState::Unknown) {
            self.add_time(&wait);
            return Vec::new();
        }
        let mut flags = flags | if self.open_left { flag::OPEN_LEFT } else { 0 };
        let mut state = STATES.name(wait.state);
        let look = self.look.take();
        let is_short = look.is_none() && state == State::Unknown && wait.length_ns() < LONG_WITHOUT_LOOK_NS;
        if let Some(look) = look {
            (state, self.callsite) = (look.state, look.callsite);
        } else if has_looks && is_short {
            // Sleeping or uninterruptible: too short to be recorded, unless a look at a later wait represents it.
            state = State::Sleep;
            self.carry_ns.grow(wait.length_ns());
            flags |= flag::REST;
        }
        let mut carry_ns = if look.is_some() { std::mem::take(&mut self.carry_ns) } else { 0 };
        let mut waits = Vec::with_capacity(2);
        for (nth, part) in wait.parts().enumerate() {
            let (state, length_ns) = (if nth == 0 { state } else { State::Runnable }, part.length_ns());
            let represented_ns = length_ns.saturating_add(std::mem::take(&mut carry_ns));
            let weight_ns = if flags & flag::REST != 0 { 0 } else { represented_ns };
            self.totals[usize::from(state.code())].grow(weight_ns);
            waits.push(Wait {
                task: self.task.unwrap_or(TaskId(0)),
                callsite: self.callsite,
                state,
                since_ns: part.begin_ns,
                length_ns,
                weight_ns,
                syscall: look.and_then(|look| look.syscall),
                args: look.map_or([0; 3], |look| look.args),
                told: look.and_then(|look| look.told),
                other: wait.cause,
                flags,
                cpu: None,
                sums: None,
                labels: None,
            });
        }
        self.open_left = false;
        waits
    }
}

#[cfg(test)]
mod tests;
