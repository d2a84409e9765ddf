//! Tier B: all followed threads' clocks, kept by the switches and wake-ups of whole CPUs.
//!
//! Pure: events in the order of time in, ended intervals and totals out, in the same form as tier A's.

use perfdata::off_cpu::{OtherThread, State, flag};
use rustc_hash::{FxHashMap, FxHashSet};

use super::layout::EndRecord;
use super::place_waits::PlaceWaits;
use super::site_chains::SiteChains;
use super::thread_clock::{EndedInterval, Moment, Spot, ThreadClock};
use super::tracepoints::SwitchPayload;
use perfdata::PidTid;

/// The threads whose clocks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockedThreads {
    /// Every thread's but those of this process, our own.
    AllBut(u32),
    /// Threads that are passed to [`Switches::begin`] or started by such a thread's process.
    Processes,
    /// The same, but started by such a thread.
    Threads,
    /// Threads of a command that begins with the exec of this process.
    Command(u32),
}

/// A result for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockResult {
    /// An interval of a thread that ended, and where.
    Interval(Moment, EndedInterval),
    /// A thread's life.
    End(EndRecord),
}

/// The clocks.
#[derive(Debug)]
pub struct Switches {
    whose: ClockedThreads,
    period_ns: u64,
    clocks: FxHashMap<u32, ThreadClock>,
    /// Names of all threads that were seen switching.
    names: FxHashMap<u32, Box<[u8]>>,
    /// By CPU.
    last: FxHashMap<u32, LastSwitch>,
    /// In a pid namespace of our own, payloads have other ids than samples and records.
    ids: Option<Ids>,
    /// Threads that have ended; later events of them belong to their exit.
    gone: FxHashSet<u32>,
    started_ns: Option<u64>,
    has_lost: bool,
    switches: u64,
    /// Stacks by place, and by thread the waits without one.
    chains: SiteChains,
    waits: FxHashMap<u32, PlaceWaits>,
    told: Vec<ClockResult>,
}

/// The last switch of a CPU.
#[derive(Debug)]
struct LastSwitch {
    /// The thread that left and the one that came.
    pair: (u32, u32),
    time_ns: u64,
    /// Reported without a stack, and with one.
    reported: [bool; 2],
}

impl LastSwitch {
    /// Longest time between the two reports of a switch. Copying a stack takes microseconds, in an emulated machine up to
    /// 15 ms. Another switch of the same pair would have one in between, or be reported in the same way once more.
    const SAME_NS: u64 = 100_000_000;

    /// True if a report is the other one of this switch.
    fn is_again(&self, time_ns: u64, pair: (u32, u32), has_stack: bool) -> bool {
        let soon = time_ns.saturating_sub(self.time_ns) < Self::SAME_NS;
        self.pair == pair && soon && !self.reported[usize::from(has_stack)]
    }
}

/// Ids of threads in the first pid namespace, and ours.
#[derive(Debug, Default)]
struct Ids {
    own: FxHashMap<u32, u32>,
    /// Threads that got a CPU before it was known who they are.
    came: FxHashMap<u32, Moment>,
}

impl Switches {
    /// No clock runs yet. A sample represents at least `period_ns`.
    #[must_use]
    pub fn new(whose: ClockedThreads, period_ns: u64) -> Self {
        Self {
            whose,
            period_ns,
            clocks: FxHashMap::default(),
            names: FxHashMap::default(),
            last: FxHashMap::default(),
            ids: None,
            gone: FxHashSet::default(),
            started_ns: None,
            has_lost: false,
            switches: 0,
            chains: SiteChains::default(),
            waits: FxHashMap::default(),
            told: Vec::new(),
        }
    }

    /// Payloads have ids of the initial pid namespace, which is not ours.
    #[must_use]
    pub fn nested(mut self, nested: bool) -> Self {
        self.ids = nested.then(Ids::default);
        self
    }

    /// Our id of the thread that a payload names; `None` while that is not known.
    #[must_use]
    pub fn own_id(&self, told: u32) -> Option<u32> {
        match &self.ids {
            None => Some(told),
            Some(ids) => ids.own.get(&told).copied(),
        }
    }

    /// True if this thread's time is counted.
    #[must_use]
    pub fn follows(&self, tid: u32) -> bool {
        matches!(self.whose, ClockedThreads::AllBut(_)) || self.clocks.contains_key(&tid)
    }

    /// Results since the last call.
    pub fn take_finished(&mut self) -> std::vec::Drain<'_, ClockResult> {
        self.told.drain(..)
    }

    /// Switches seen, of whomever.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.switches
    }

    /// A thread was found in this state: one that lived before, or in a long wait. If it has a clock already, only its
    /// stack is new.
    pub fn begin(&mut self, task: PidTid, time_ns: u64, state: State, spot: Option<Spot>) {
        let PidTid { pid, tid } = task;
        let is_early = matches!(self.whose, ClockedThreads::Command(_)) && !self.clocks.contains_key(&tid);
        if tid == 0 || is_early || self.gone.contains(&tid) || self.whose == ClockedThreads::AllBut(pid) {
            return;
        }
        let clock =
            self.clocks.entry(tid).or_insert_with(|| ThreadClock::new(pid, time_ns, state, flag::OPEN_LEFT));
        clock.pid = pid;
        if let Some(spot) = spot {
            clock.stands_at(spot);
        }
    }

    /// A thread is born of the thread `parent`, and waits for a CPU.
    pub fn fork(&mut self, task: PidTid, parent: u32, time_ns: u64) {
        let PidTid { pid, tid } = task;
        self.gone.remove(&tid);
        let is_ours = match self.whose {
            ClockedThreads::AllBut(own) => pid != own,
            ClockedThreads::Processes => true,
            ClockedThreads::Threads => self.clocks.contains_key(&parent),
            ClockedThreads::Command(_) => self.started_ns.is_some(),
        };
        if is_ours {
            self.clocks.insert(tid, ThreadClock::new(pid, time_ns, State::Runnable, flag::NEW));
        }
    }

    /// A process runs a new program: the command's clock begins.
    pub fn exec(&mut self, task: PidTid, time_ns: u64) {
        if self.whose == ClockedThreads::Command(task.pid) && self.started_ns.is_none() {
            self.started_ns = Some(time_ns);
            self.clocks.insert(task.tid, ThreadClock::new(task.pid, time_ns, State::On, 0));
        }
    }

    /// The command ran by `time_ns`. If its exec is not known, the record of it was lost: what it does is not known
    /// until its next switch.
    pub fn runs_since(&mut self, time_ns: u64) {
        let ClockedThreads::Command(pid) = self.whose else { return };
        if !self.has_lost || self.started_ns.is_some() || self.gone.contains(&pid) {
            return;
        }
        self.exec(PidTid::leader(pid), time_ns);
        self.clocks.get_mut(&pid).into_iter().for_each(ThreadClock::lost);
    }

    /// A thread has this name.
    pub fn name(&mut self, tid: u32, name: &[u8]) {
        if self.names.get(&tid).is_none_or(|known| **known != *name) {
            self.names.insert(tid, name.into());
        }
    }

    /// A CPU passes from one thread, which is at `spot`, to another. The same switch may be reported
    /// twice, once with a stack.
    pub fn switched(&mut self, at: Moment, switch: &SwitchPayload<'_>, spot: Option<Spot>, has_stack: bool) {
        let pair = (switch.prev, switch.next);
        let mut before = self.last.remove(&at.cpu);
        let again = before.take_if(|last| last.is_again(at.time_ns, pair, has_stack));
        let is_told = again.is_some();
        let mut last = again.unwrap_or(LastSwitch { pair, time_ns: at.time_ns, reported: [false; 2] });
        last.reported[usize::from(has_stack)] = true;
        self.last.insert(at.cpu, last);
        let (prev, next) =
            if is_told { (self.own_id(switch.prev).unwrap_or(0), 0) } else { self.ids_of(at, switch) };
        if !is_told {
            self.switches += 1;
            self.name(prev, switch.prev_comm);
            self.name(next, switch.next_comm);
            if before.is_some_and(|before| before.pair.1 == 0) {
                self.came_unreported(prev, at);
            }
            self.leave(prev, next, at, switch);
        }
        if let (Some(spot), Some(clock)) = (spot, self.clocks.get_mut(&prev)) {
            clock.stands_at(spot);
        }
        if !is_told && switch.dies {
            self.end(prev, at.time_ns, flag::EXITED);
            self.gone.insert(prev);
        }
        if !is_told {
            self.enter(next, at);
        }
    }

    /// Our ids of the thread that leaves and of the one that comes; 0 where there is none. In another namespace, a
    /// thread's id becomes known at its first switch-out; its first switch-in is assigned to it then.
    fn ids_of(&mut self, at: Moment, switch: &SwitchPayload<'_>) -> (u32, u32) {
        let Some(ids) = &mut self.ids else { return (switch.prev, switch.next) };
        let visible = Some(at.task.tid).filter(|&tid| tid != 0 && tid != u32::MAX);
        let prev = visible.or_else(|| ids.own.get(&switch.prev).copied()).unwrap_or(0);
        let came = ids.came.remove(&switch.prev);
        if switch.dies {
            ids.own.remove(&switch.prev);
        } else if prev != 0 {
            ids.own.insert(switch.prev, prev);
        }
        let next = ids.own.get(&switch.next).copied().unwrap_or(0);
        if next == 0 && switch.next != 0 {
            ids.came.insert(switch.next, at);
        }
        if let Some(came) = came.filter(|_| prev != 0) {
            self.enter(prev, came);
        }
        (prev, next)
    }

    fn leave(&mut self, prev: u32, next: u32, at: Moment, switch: &SwitchPayload<'_>) {
        let Some(clock) = self.clock(prev, at.task.pid, at.time_ns, State::On) else { return };
        clock.leave(at, switch.state, || OtherThread {
            tid: next,
            comm: String::from_utf8_lossy(switch.next_comm).into_owned(),
            ..OtherThread::default()
        });
    }

    fn enter(&mut self, tid: u32, at: Moment) {
        let period_ns = self.period_ns;
        let Some(clock) = self.clock(tid, 0, at.time_ns, State::Runnable) else { return };
        let at = Moment { task: PidTid { pid: clock.pid, tid }, ..at };
        for ended in clock.enter(at, period_ns) {
            self.settle(at, ended);
        }
    }

    /// A wait with a stack shows where the others of its place are. Those without are reported with it if there is no
    /// doubt; else they wait for the thread's end.
    fn settle(&mut self, at: Moment, mut ended: EndedInterval) {
        let tid = at.task.tid;
        let Some(place) = ended.place else { return self.told.push(ClockResult::Interval(at, ended)) };
        let site = place.site(tid);
        if ended.chain.is_empty() {
            ended.chain = self.chains.only(site).unwrap_or_default().into();
        } else if ended.interval.state != State::Runnable {
            self.chains.saw(site, &ended.chain, ended.weight_ns);
        }
        let is_whole = ended.interval.length_ns >= self.period_ns && !ended.chain.is_empty();
        let left = if is_whole { Some(ended) } else { self.waits.entry(tid).or_default().add(ended, place) };
        self.told.extend(left.map(|ended| ClockResult::Interval(at, ended)));
    }

    /// A thread leaves a CPU that was idle. Some kernels don't report switches away from the idle task: then the thread
    /// came when it was woken, for nobody was in its way.
    fn came_unreported(&mut self, tid: u32, at: Moment) {
        let Some(clock) = self.clocks.get_mut(&tid) else { return };
        let Some(woken_ns) = clock.woken_ns() else { return };
        let at = Moment { task: PidTid { pid: clock.pid, tid }, ..at };
        for ended in clock.enter(Moment { time_ns: woken_ns, ..at }, self.period_ns) {
            self.settle(at, ended);
        }
    }

    /// The clock of a thread; of the whole system, one that is seen for the first time gets one.
    fn clock(&mut self, tid: u32, pid: u32, time_ns: u64, state: State) -> Option<&mut ThreadClock> {
        if let ClockedThreads::AllBut(own) = self.whose {
            let is_none = tid == 0 || tid == u32::MAX || pid == own || self.gone.contains(&tid);
            if !is_none && !self.clocks.contains_key(&tid) {
                self.clocks.insert(tid, ThreadClock::new(pid, time_ns, state, flag::OPEN_LEFT));
            }
        }
        let clock = self.clocks.get_mut(&tid)?;
        if clock.pid == 0 {
            clock.pid = pid;
        }
        Some(clock)
    }

    /// A thread is woken by whoever runs at this moment, or by an interrupt; `chain` is the waker's stack.
    pub fn woken(&mut self, at: Moment, tid: u32, by_interrupt: bool, chain: &[u64]) {
        let PidTid { pid, tid: waker } = at.task;
        let names = &self.names;
        let Some(clock) = self.clocks.get_mut(&tid) else { return };
        let name =
            || names.get(&waker).map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned());
        let chain = chain.to_vec();
        let by = if by_interrupt || waker == 0 {
            OtherThread { comm: "irq".to_owned(), chain, ..OtherThread::default() }
        } else {
            OtherThread { pid, tid: waker, comm: name(), chain }
        };
        clock.wake(at.time_ns, by);
    }

    /// The kernel dropped records.
    pub fn lost(&mut self) {
        self.has_lost = true;
        self.clocks.values_mut().for_each(ThreadClock::lost);
        self.last.clear();
    }

    /// The recording ends: every clock stops.
    pub fn finish(&mut self, time_ns: u64) {
        let mut tids: Vec<u32> = self.clocks.keys().copied().collect();
        tids.sort_unstable();
        tids.into_iter().for_each(|tid| self.end(tid, time_ns, flag::OPEN_RIGHT));
    }

    fn end(&mut self, tid: u32, time_ns: u64, how: u32) {
        let Some(clock) = self.clocks.remove(&tid) else { return };
        let at = Moment { time_ns, cpu: 0, task: PidTid { pid: clock.pid, tid } };
        let (ended, mut end) = clock.finish(tid, time_ns, self.period_ns, how);
        end.comm = self.names.get(&tid).map_or_else(Vec::new, |name| name.to_vec());
        ended.into_iter().for_each(|of| self.settle(at, of));
        let sums = self.waits.remove(&tid).unwrap_or_default().shared(tid, &self.chains);
        self.told.extend(sums.into_iter().map(|of| ClockResult::Interval(at, of)));
        self.chains.forget(tid);
        self.told.push(ClockResult::End(end));
    }
}

#[cfg(test)]
mod tests;
