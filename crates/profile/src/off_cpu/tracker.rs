//! Waits put together from switches and wake-ups: for recordings that hold the events, not the intervals.
//!
//! ```text
//!   out(t, state, stack) ── wakeup(t, waker) ── in(t)
//!   └──── blocked ──────────┘└── runnable ─────┘        preempted: out .. in
//! ```
//! Knows times and ids only. A switch-in without its switch-out, or the other way round, is a lost event: the
//! interval between is of unknown state.

use super::{OffCpu, OffCpuSource, RelatedThread, ThreadTotals, Wait, WaitReason};
use crate::grow::Grow as _;
use crate::profile::TaskId;
use crate::table::CallsiteId;
use perfdata::off_cpu::{State, flag};
use rustc_hash::FxHashMap;
use sched::{SchedInterval, StateNames, ThreadState, ThreadTimeline};

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

/// The states of the file format.
const STATES: StateNames<State> = StateNames {
    running: State::On,
    runnable: State::Runnable,
    preempted: State::Preempted,
    unknown: State::Unknown,
};

/// Off the CPU in a state that no event reported: switch records have none.
const NOT_REPORTED: ThreadState<State> = ThreadState::Blocked(State::Unknown);

#[derive(Debug)]
struct Thread {
    task: Option<TaskId>,
    timeline: ThreadTimeline<State, RelatedThread>,
    callsite: Option<CallsiteId>,
    look: Option<Look>,
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
    /// Its place in the profile.
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
pub(crate) struct Look {
    /// Sleeping, or uninterruptible.
    pub state: State,
    /// The system call it is in.
    pub syscall: Option<u32>,
    /// Its first arguments.
    pub args: [u64; 3],
    /// Reason of the wait.
    pub told: Option<WaitReason>,
    /// Its user stack.
    pub callsite: Option<CallsiteId>,
}

impl Tracker {
    /// Looks at waiting threads are part of the recording.
    pub fn expect_looks(&mut self) {
        self.has_looks = true;
    }

    /// Someone looked at a thread and found it waiting. Counts only for a thread that left its CPU by itself, or
    /// has not been seen yet: it waited before the recording began.
    pub fn look(&mut self, tid: u32, look: Look) {
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
            sums: None,
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
                sums: None,
            });
        }
        self.open_left = false;
        waits
    }
}

/// Whether the state that `sched_switch` prints is that of a thread's last switch.
pub(crate) fn is_last_switch(text: &str) -> bool {
    let text = text.trim();
    text.parse::<u64>().map_or_else(|_| text.starts_with(['X', 'Z', 'x']), |bits| bits & 0x30 != 0)
}

/// The state `sched_switch` prints: its letters, or the bits of a file that prints numbers.
pub(crate) fn state_of_text(text: &str) -> State {
    let text = text.trim();
    if let Ok(bits) = text.parse::<u64>() {
        return state_of_bits(bits);
    }
    if text.contains('R') {
        return State::Preempted;
    }
    match text.chars().next() {
        Some('S') => State::Sleep,
        Some('D') => State::Disk,
        Some('I') => State::Idle,
        Some('T' | 't' | 'P') => State::Stopped,
        _ => State::Unknown,
    }
}

// Source: linux v6.18 include/trace/events/sched.h, __trace_sched_switch_state(): TASK_REPORT bits, 0x100 = preempted
fn state_of_bits(bits: u64) -> State {
    match bits {
        0 => State::Preempted,
        bits if bits & 0x100 != 0 && bits & 0xff == 0 => State::Preempted,
        bits if bits & 0x402 == 0x402 || bits & 0x80 != 0 => State::Idle,
        bits if bits & 0x2 != 0 => State::Disk,
        bits if bits & 0x1 != 0 => State::Sleep,
        bits if bits & 0xc != 0 => State::Stopped,
        _ => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(tid: u32, time_ns: u64, state: State) -> Out {
        Out { tid, task: TaskId(tid), time_ns, state, callsite: None, other: None, dies: false }
    }

    const WAKER: RelatedThread =
        RelatedThread { pid: 1, tid: 2, comm: crate::table::StringId(0), callsite: None };

    #[test]
    fn blocked_and_runnable_are_told_apart_and_add_up() {
        let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
        tracker.switch_out(out(7, 100, State::Sleep), &mut off_cpu.waits);
        tracker.wake(7, WAKER, 160);
        tracker.wake(7, WAKER, 170);
        tracker.switch_in(7, 180, &mut off_cpu.waits);
        tracker.switch_out(out(7, 200, State::Preempted), &mut off_cpu.waits);
        tracker.switch_in(7, 250, &mut off_cpu.waits);
        tracker.switch_out(out(7, 260, State::Disk), &mut off_cpu.waits);
        tracker.switch_out(out(8, 300, State::Sleep), &mut off_cpu.waits);
        tracker.finish(OffCpuSource::Tracepoints, &mut off_cpu);
        let lengths: Vec<_> = off_cpu.waits.iter().map(|w| (w.state, w.length_ns)).collect();
        assert_eq!(
            lengths,
            [
                (State::Sleep, 60),
                (State::Runnable, 20),
                (State::Preempted, 50),
                (State::Disk, 40),
                (State::Sleep, 0)
            ]
        );
        for totals in &off_cpu.totals {
            assert_eq!(totals.total_ns.iter().sum::<u64>(), totals.life_ns(), "{totals:?}");
        }
    }

    #[test]
    fn what_a_lost_event_hides_is_unknown() {
        let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
        tracker.switch_out(out(7, 100, State::Sleep), &mut off_cpu.waits);
        tracker.switch_out(out(7, 150, State::Sleep), &mut off_cpu.waits);
        tracker.switch_in(7, 180, &mut off_cpu.waits);
        tracker.switch_in(7, 190, &mut off_cpu.waits);
        tracker.finish(OffCpuSource::Tracepoints, &mut off_cpu);
        assert_eq!(off_cpu.totals[0].of(State::Unknown), 60);
        assert_eq!(off_cpu.totals[0].total_ns.iter().sum::<u64>(), 90);
    }

    #[test]
    fn a_thread_that_ended_has_no_time_after_it_but_what_it_still_runs() {
        let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
        tracker.switch_out(out(7, 100, State::Sleep), &mut off_cpu.waits);
        tracker.switch_in(7, 150, &mut off_cpu.waits);
        tracker.exit(7, TaskId(7), 170);
        // The kernel no longer knows who it is.
        tracker.switch_out(Out { task: TaskId(99), ..out(7, 180, State::Unknown) }, &mut off_cpu.waits);
        tracker.switch_in(7, 300, &mut off_cpu.waits);
        tracker.switch_out(Out { dies: true, ..out(7, 320, State::Unknown) }, &mut off_cpu.waits);
        tracker.switch_in(8, 400, &mut off_cpu.waits);
        tracker.finish(OffCpuSource::Tracepoints, &mut off_cpu);
        let of: Vec<_> = off_cpu.totals.iter().map(|t| (t.task, t.end_ns, t.of(State::On))).collect();
        assert_eq!(of, [(TaskId(7), 180, 30), (TaskId(7), 320, 20)]);
        assert_eq!(off_cpu.waits.iter().map(|w| w.weight_ns).sum::<u64>(), 50);
        assert!(is_last_switch("X") && is_last_switch("Z") && is_last_switch("16") && !is_last_switch("S"));
    }

    #[test]
    fn a_look_at_one_short_wait_stands_for_those_before_it_and_the_sum_is_exact() {
        let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
        let look = Look {
            state: State::Disk,
            syscall: Some(0),
            args: [3, 0, 0],
            told: Some(WaitReason::Pipe),
            callsite: None,
        };
        tracker.expect_looks();
        for begin in [100, 200, 300, 400] {
            tracker.switch_out(out(7, begin, State::Unknown), &mut off_cpu.waits);
            if begin == 300 {
                tracker.look(7, look);
            }
            tracker.switch_in(7, begin + 50, &mut off_cpu.waits);
        }
        // Running: nothing to report.
        tracker.look(7, look);
        tracker.switch_out(out(7, 500, State::Preempted), &mut off_cpu.waits);
        tracker.finish(OffCpuSource::SwitchRecords, &mut off_cpu);
        let weights: Vec<_> = off_cpu.waits.iter().filter(|w| w.weight_ns > 0).collect();
        assert_eq!(weights.len(), 2, "{weights:?}");
        assert_eq!((weights[0].weight_ns, weights[0].told), (150, Some(WaitReason::Pipe)));
        assert_eq!((weights[1].weight_ns, weights[1].flags), (50, flag::REST));
        assert_eq!(off_cpu.source, Some(OffCpuSource::Looks));
        assert_eq!(off_cpu.totals[0].of(State::Disk), 150);
        assert_eq!(off_cpu.totals[0].total_ns.iter().sum::<u64>(), off_cpu.totals[0].life_ns());
    }

    #[test]
    fn states_are_read_in_letters_and_bits() {
        let of = ["S", "R+", "R", "D", "I", "T", "x"].map(state_of_text);
        use State::{Disk, Idle, Preempted, Sleep, Stopped, Unknown};
        assert_eq!(of, [Sleep, Preempted, Preempted, Disk, Idle, Stopped, Unknown]);
        assert_eq!(
            ["0", "1", "2", "1026", "256"].map(state_of_text),
            [Preempted, Sleep, Disk, Idle, Preempted]
        );
    }
}
