//! One thread's wall clock, put together from switches and wake-ups (tier B).
//!
//! Conservation: the totals by state add up to the thread's life; of each state, weights of samples + carry = total.

use perfdata::off_cpu::{OffCpuInterval, OtherThread, QueueLengths, State, flag};
use sched::{SchedInterval, StateNames, StatePart, ThreadState, ThreadTimeline};

use perfdata::PidTid;

use super::layout::EndRecord;
use super::place_waits::PlacePrint;

/// Where a thread waits, from a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spot {
    /// Leaf first, with perf's context markers; empty if no stack was taken.
    pub chain: Box<[u64]>,
    /// The place by its registers; `None` if they are not known.
    pub place: Option<PlacePrint>,
    /// The system call, if known.
    pub syscall: Option<u32>,
    /// First arguments of the system call; 0 outside of one.
    pub args: [u64; 3],
}

/// The states of the file format.
const STATES: StateNames<State> = StateNames {
    running: State::On,
    runnable: State::Runnable,
    preempted: State::Preempted,
    unknown: State::Unknown,
};

/// Where and when something happened, and who ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// ns of the recording's clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread that ran.
    pub task: PidTid,
}

/// A thread under watch.
#[derive(Debug)]
pub struct ThreadClock {
    /// Process of the thread.
    pub pid: u32,
    start_ns: u64,
    timeline: ThreadTimeline<State, OtherThread>,
    spot: Option<Spot>,
    total: [u64; 8],
    carry: [u64; 8],
    switches: u64,
    preemptions: u32,
    migrations: u64,
    cpu: Option<u32>,
    queue: [QueueLengths; 2],
    flags: u32,
}

/// An interval that has ended, with the time that its sample represents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedInterval {
    /// Time it represents, ns.
    pub weight_ns: u64,
    /// The interval itself.
    pub interval: OffCpuInterval,
    /// Where; empty if no stack was taken.
    pub chain: Box<[u64]>,
    /// The place that the wait can be summed up by; it represents itself only then.
    pub place: Option<PlacePrint>,
}

impl ThreadClock {
    /// Begins at `time_ns` in this state. A thread found running (`OPEN_LEFT`) may as well wait for a CPU.
    #[must_use]
    pub fn new(pid: u32, time_ns: u64, state: State, flags: u32) -> Self {
        let is_guess = flags & flag::OPEN_LEFT != 0 && state == State::On;
        let timeline = match is_guess {
            true => ThreadTimeline::assumed(time_ns, ThreadState::Running, ThreadState::Runnable),
            false => ThreadTimeline::new(time_ns, STATES.reported(state)),
        };
        Self {
            pid,
            start_ns: time_ns,
            timeline,
            spot: None,
            total: [0; 8],
            carry: [0; 8],
            switches: 0,
            preemptions: 0,
            migrations: 0,
            cpu: None,
            queue: <[QueueLengths; 2]>::default(),
            flags,
        }
    }

    /// Where the thread is since the last switch-out, or where it was found waiting. A second report adds the stack.
    pub fn stands_at(&mut self, spot: Spot) {
        if self.timeline.state() == ThreadState::Running {
            return;
        }
        match &mut self.spot {
            Some(known) if known.chain.is_empty() => *known = spot,
            Some(_) => {}
            None => self.spot = Some(spot),
        }
    }

    /// It leaves a CPU and is `state` from now on; `next` runs instead.
    pub fn leave(&mut self, at: Moment, state: State, next: impl FnOnce() -> OtherThread) {
        let is_preempted = state == State::Preempted;
        let ran = self.timeline.leave(at.time_ns, STATES.reported(state), is_preempted.then(next));
        self.add_time(&ran);
        self.switches += 1;
        self.cpu = Some(at.cpu);
        self.preemptions += u32::from(is_preempted);
        self.flags &= !(flag::OPEN_LEFT | flag::NEW);
        self.spot = None;
    }

    /// It is woken; only the first wake-up of a wait counts, and a second report of the same one adds the waker's
    /// stack.
    pub fn wake(&mut self, time_ns: u64, by: OtherThread) {
        const SAME_NS: u64 = 100_000;
        match self.timeline.pending_wake() {
            Some((at, known)) if known.tid == by.tid && time_ns.saturating_sub(at) < SAME_NS => {
                if known.chain.is_empty() {
                    known.chain = by.chain;
                }
            }
            Some(_) => {}
            None => self.timeline.wake(time_ns, by),
        }
    }

    /// When it was woken, if it has not had a CPU since.
    pub fn woken_ns(&mut self) -> Option<u64> {
        self.timeline.pending_wake().map(|(time_ns, _)| time_ns)
    }

    /// It gets a CPU: the wait is over. Returns the intervals that are worth a sample.
    pub fn enter(&mut self, at: Moment, period_ns: u64) -> Vec<EndedInterval> {
        let wait = self.timeline.enter(at.time_ns);
        let ended = self.end_wait(wait, period_ns, 0);
        if self.cpu.is_some_and(|before| before != at.cpu) {
            self.migrations += 1;
        }
        self.cpu = Some(at.cpu);
        self.flags &= !(flag::OPEN_LEFT | flag::NEW);
        self.spot = None;
        ended
    }

    /// Records were lost: what it does now is not known until its next switch.
    pub fn lost(&mut self) {
        self.timeline.lose();
    }

    /// The thread's end (`EXITED`), or the recording's (`OPEN_RIGHT`): the open interval, and all sums.
    pub fn finish(
        mut self,
        tid: u32,
        time_ns: u64,
        period_ns: u64,
        how: u32,
    ) -> (Vec<EndedInterval>, EndRecord) {
        let last = self.timeline.finish(time_ns);
        let end_ns = last.end_ns;
        let ended = self.end_wait(last, period_ns, how & flag::OPEN_RIGHT);
        let end = EndRecord {
            start_ns: self.start_ns,
            end_ns,
            total_ns: self.total,
            carry_ns: self.carry,
            switches: self.switches,
            tid,
            pid: self.pid,
            flags: self.flags & flag::KTHREAD | how,
            preemptions: self.preemptions,
            migrations: self.migrations,
            faults: [0; 2],
            comm: Vec::new(),
            queue: Box::new(self.queue),
            life: 0,
            argument: Vec::new(),
        };
        (ended, end)
    }

    /// Adds time that no sample represents: running, or unknown.
    fn add_time(&mut self, time: &SchedInterval<State, OtherThread>) {
        let at = usize::from(STATES.name(time.state).code());
        self.total[at] += time.length_ns();
        self.carry[at] += if time.state == ThreadState::Running { 0 } else { time.length_ns() };
    }

    fn end_wait(
        &mut self,
        wait: SchedInterval<State, OtherThread>,
        period_ns: u64,
        flags: u32,
    ) -> Vec<EndedInterval> {
        if matches!(wait.state, ThreadState::Running | ThreadState::Unknown) {
            self.add_time(&wait);
            return Vec::new();
        }
        let woken = if wait.is_woken() { flag::WOKEN } else { 0 };
        let flags = self.flags | flags | woken;
        let mut other = wait.cause.clone().unwrap_or_default();
        let mut ended = Vec::with_capacity(2);
        for part in wait.parts() {
            ended.extend(self.interval(part, period_ns, flags, &other));
            // The waker's stack belongs to the wait that it ended.
            other.chain = Vec::new();
        }
        ended
    }

    /// Adds an interval to its total. Returns it if it is long or its place is known. Also returns it if it has a stack
    /// and the short intervals since the last one returned add up to a period. Then it represents them all.
    fn interval(
        &mut self,
        part: StatePart<State>,
        period_ns: u64,
        flags: u32,
        other: &OtherThread,
    ) -> Option<EndedInterval> {
        let (state, since_ns, length_ns) = (STATES.name(part.state), part.begin_ns, part.length_ns());
        let at = usize::from(state.code());
        self.total[at] += length_ns;
        match state {
            State::Runnable => self.queue[0].add(length_ns),
            State::Preempted => self.queue[1].add(length_ns),
            _ => {}
        }
        if state == State::Idle {
            return None;
        }
        let spot = self.spot.clone().unwrap_or_default();
        // Where another thread took the CPU is any place.
        let place = spot.place.filter(|_| state != State::Preempted);
        let sum = self.carry[at] + length_ns;
        let weight_ns = match (place, spot.chain.is_empty()) {
            (Some(_), _) => length_ns,
            (None, false) if sum >= period_ns => sum,
            (None, true) if length_ns >= period_ns => length_ns,
            _ => {
                self.carry[at] = sum;
                return None;
            }
        };
        self.carry[at] = sum - weight_ns;
        let (syscall, args, other) = (spot.syscall, spot.args, other.clone());
        let interval = OffCpuInterval {
            state,
            flags,
            since_ns,
            length_ns,
            syscall,
            args,
            sums: None,
            other,
            place: String::new(),
        };
        (weight_ns > 0).then_some(EndedInterval { weight_ns, interval, chain: spot.chain, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(leaf: u64) -> Spot {
        Spot { chain: [leaf].into(), ..Spot::default() }
    }

    fn at(time_ns: u64, cpu: u32) -> Moment {
        Moment { time_ns, cpu, task: PidTid::default() }
    }

    fn waker() -> OtherThread {
        OtherThread { pid: 1, tid: 2, ..OtherThread::default() }
    }

    /// Weights + carry = total for each state but running, and totals = life.
    fn check(ended: &[EndedInterval], end: &EndRecord) {
        assert_eq!(end.total_ns.iter().sum::<u64>(), end.end_ns - end.start_ns, "{end:?}");
        for state in State::ALL.into_iter().skip(1) {
            let weights: u64 =
                ended.iter().filter(|of| of.interval.state == state).map(|of| of.weight_ns).sum();
            let at = usize::from(state.code());
            assert_eq!(weights + end.carry_ns[at], end.total_ns[at], "{state:?}");
        }
    }

    #[test]
    fn waits_are_split_at_the_wake_up_and_short_ones_are_carried() {
        let mut clock = ThreadClock::new(1, 0, State::On, 0);
        let mut ended = Vec::new();
        for (since_ns, length) in [(100, 40), (200, 50), (300, 30)] {
            clock.leave(at(since_ns, 0), State::Sleep, OtherThread::default);
            clock.stands_at(spot(since_ns));
            clock.wake(since_ns + length - 10, waker());
            ended.extend(clock.enter(at(since_ns + length, 1), 70));
        }
        clock.leave(at(400, 1), State::Preempted, waker);
        ended.extend(clock.enter(at(500, 1), 70));
        let (last, end) = clock.finish(7, 600, 70, flag::OPEN_RIGHT);
        ended.extend(last);
        let told: Vec<_> = ended.iter().map(|of| (of.interval.state, of.weight_ns, of.chain.len())).collect();
        // 30 + 40 of sleep at the second wait; the preemption is long enough by itself, and has no stack.
        assert_eq!(told, [(State::Sleep, 70, 1), (State::Preempted, 100, 0)]);
        assert_eq!((end.total_ns[3], end.carry_ns[3], end.total_ns[1], end.migrations), (90, 20, 30, 3));
        assert_eq!((end.switches, end.preemptions), (4, 1));
        check(&ended, &end);
    }

    #[test]
    fn what_a_lost_record_hides_is_unknown_and_a_second_telling_of_a_wake_up_adds_its_stack() {
        let mut clock = ThreadClock::new(1, 0, State::On, 0);
        clock.leave(at(100, 0), State::Sleep, OtherThread::default);
        clock.leave(at(150, 0), State::Disk, OtherThread::default);
        clock.wake(160, waker());
        clock.wake(161, OtherThread { chain: vec![5], ..waker() });
        let mut ended = clock.enter(at(180, 0), 1);
        assert_eq!(ended[0].interval.other.chain, [5]);
        clock.lost();
        clock.leave(at(250, 0), State::Sleep, OtherThread::default);
        let (last, end) = clock.finish(7, 300, 1, flag::OPEN_RIGHT);
        ended.extend(last);
        assert_eq!(end.total_ns, [100, 20, 0, 50, 10, 0, 0, 120]);
        check(&ended, &end);
    }

    #[test]
    fn a_thread_found_ready_ran_if_it_leaves_first_and_waited_if_it_gets_a_cpu_first() {
        let mut waited = ThreadClock::new(1, 0, State::On, flag::OPEN_LEFT);
        assert_eq!(waited.enter(at(50, 0), 10)[0].interval.state, State::Runnable);
        let mut ran = ThreadClock::new(1, 0, State::On, flag::OPEN_LEFT);
        ran.leave(at(50, 0), State::Sleep, OtherThread::default);
        assert_eq!(ran.finish(7, 60, 10, flag::OPEN_RIGHT).1.total_ns[0], 50);
    }
}
