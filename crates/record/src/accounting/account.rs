//! Keeps the books while recording: time on and off the CPU per thread, losses, how the stacks ended.
//!
//! Pure: records in, numbers out. Conservation: for every thread, on + off = life.

mod ended_threads;
mod losses;
mod stack_book;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use perfdata::appendix::stack_notes::StackNotes;
use perfdata::off_cpu::OffCpuTotals;
use perfdata::record::Switch;

use crate::accounting::summary::{CounterValue, Loss, MoreThreads, StackQuality, ThreadUse};
use crate::accounting::thread_totals::Clocks;
use perfdata::PidTid;

pub use ended_threads::EndedThreads;
pub use stack_book::StackEnding;

use stack_book::StackBook;

/// Number of exited threads that may still be seen: on their way out, system-wide events show them.
const EXITING: usize = 1024;

/// The closed books.
#[derive(Debug)]
pub struct Closed {
    /// Threads by descending on-CPU time.
    pub threads: Vec<ThreadUse>,
    /// Those that are not listed.
    pub more_threads: MoreThreads,
    /// Lost samples and records.
    pub loss: Loss,
    /// How stacks ended.
    pub quality: StackQuality,
}

/// All that is counted while recording.
#[derive(Debug, Default)]
pub struct Account {
    threads: FxHashMap<u32, Watched>,
    /// Threads that have ended (their tids may be used again).
    ended: EndedThreads,
    /// Threads of `threads` that exited lately, in the order of their exits: on the way out they are still seen.
    exited: VecDeque<u32>,
    comms: FxHashMap<u32, Arc<str>>,
    stacks: StackBook,
    loss: Loss,
    lost_by: FxHashMap<u32, u64>,
    start_ns: u64,
    end_ns: Option<u64>,
    /// Forks may have been missed.
    has_lost: bool,
    /// Clocks of threads whose time the off-CPU engine has reported.
    clocks: Clocks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not known yet: the first switch shows the state before it.
    Unknown,
    On,
    Blocked,
    Preempted,
}

/// A context switch, as seen by one of the two threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchKind {
    /// The thread got a CPU.
    In,
    /// It left its CPU, and could have gone on.
    OutReady,
    /// It left its CPU, and waits.
    OutBlocked,
}

impl SwitchKind {
    /// That of the kernel's record.
    #[must_use]
    pub fn of(switch: &Switch) -> Self {
        match (switch.out, switch.preempt) {
            (false, _) => Self::In,
            (true, true) => Self::OutReady,
            (true, false) => Self::OutBlocked,
        }
    }
}

#[derive(Debug)]
struct Watched {
    total: ThreadUse,
    state: State,
    since_ns: u64,
    /// Its end was reported; on the way out it still runs until it is switched off the CPU for good.
    has_exited: bool,
}

impl Account {
    /// Nothing counts until [`Account::start`] sets the start time.
    #[must_use]
    pub fn on_hold() -> Self {
        Self { start_ns: u64::MAX, ..Self::default() }
    }

    /// Watching began: threads that live already count from here on, in the state they were in.
    pub fn start(&mut self, time_ns: u64) {
        self.start_ns = time_ns;
        for watched in self.threads.values_mut() {
            watched.since_ns = time_ns;
            (watched.total.voluntary_switches, watched.total.involuntary_switches) = (0, 0);
        }
        // Ended while we attached.
        self.threads.retain(|_, watched| !watched.has_exited);
        self.ended.drop_empty();
    }

    /// Nothing counts after `time_ns`, the end of watching; 0 while that is not known.
    pub fn end_at(&mut self, time_ns: u64) {
        self.end_ns = (time_ns != 0).then_some(time_ns);
    }

    /// A thread has this name now.
    pub fn comm(&mut self, tid: u32, name: &[u8]) {
        let name: Arc<str> = String::from_utf8_lossy(name).into();
        if let Some(watched) = self.threads.get_mut(&tid) {
            watched.total.comm = name.to_string();
        }
        self.comms.insert(tid, name);
    }

    /// A thread was started by `parent`; it waits for a CPU.
    pub fn fork(&mut self, pid: u32, tid: u32, parent: u32, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        if let Some(name) = self.comms.get(&parent).cloned() {
            self.comms.insert(tid, name);
        }
        if let Some(before) = self.threads.remove(&tid)
            && before.total.life_ns > 0
        {
            // The number is used again, or this thread was already listed by /proc.
            self.ended.push(before.total);
        }
        let since_ns = time_ns.max(self.start_ns);
        let started = self.watch(pid, tid, time_ns);
        started.since_ns = since_ns;
        // For threads listed by /proc, the first switch shows the state.
        started.state = if time_ns == 0 { State::Unknown } else { State::Preempted };
    }

    /// A process runs a new program: the thread is on a CPU. Its life under watch begins here if it was unknown.
    pub fn exec(&mut self, pid: u32, tid: u32, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        let known = self.threads.contains_key(&tid);
        let since_ns = time_ns.max(self.start_ns);
        let watched = self.watch(pid, tid, time_ns);
        if known {
            watched.charge_until(time_ns);
        } else {
            watched.since_ns = since_ns;
        }
        watched.state = State::On;
    }

    /// A thread left or got a CPU.
    pub fn switch(&mut self, task: PidTid, kind: SwitchKind, time_ns: u64) {
        let PidTid { pid, tid } = task;
        let time_ns = self.until_end(time_ns);
        if is_nobody(tid) {
            return;
        }
        let watched = self.watch(pid, tid, time_ns);
        if watched.state == State::Unknown {
            watched.state = if kind == SwitchKind::In { State::Blocked } else { State::On };
        }
        watched.charge_until(time_ns);
        watched.state = match kind {
            SwitchKind::In => State::On,
            SwitchKind::OutReady => State::Preempted,
            SwitchKind::OutBlocked => State::Blocked,
        };
        match watched.state {
            State::Preempted => watched.total.involuntary_switches += 1,
            State::Blocked => watched.total.voluntary_switches += 1,
            _ => {}
        }
    }

    /// A thread ended. System-wide events go on to see it for a moment.
    pub fn exit(&mut self, tid: u32, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        if let Some(watched) = self.threads.get_mut(&tid) {
            watched.charge_until(time_ns);
            watched.has_exited = true;
        }
        self.exited.push_back(tid);
        if self.exited.len() > EXITING
            && let Some(gone) = self.exited.pop_front()
        {
            self.forget(gone);
        }
    }

    /// Nothing is seen any more of a thread that exited long ago, unless its number is used again.
    fn forget(&mut self, tid: u32) {
        if self.threads.get(&tid).is_some_and(|watched| !watched.has_exited) {
            return;
        }
        if let Some(watched) = self.threads.remove(&tid) {
            self.ended.push(watched.total);
        }
        self.comms.remove(&tid);
    }

    /// A sample was taken in a thread.
    pub fn sample(&mut self, pid: u32, tid: u32, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        self.loss.samples += 1;
        if is_nobody(tid) {
            return;
        }
        let watched = self.watch(pid, tid, time_ns);
        watched.total.samples += 1;
        if watched.state == State::Unknown {
            watched.state = State::On;
        }
        watched.charge_until(time_ns);
    }

    /// Takes a thread's totals from the off-CPU engine. They are exact and replace those from switches.
    pub fn totals(&mut self, task: PidTid, totals: &OffCpuTotals) {
        let mut samples = self.threads.remove(&task.tid).map_or(0, |watched| watched.total.samples);
        samples += self.ended.take_samples(task.tid);
        self.clocks.add(task, samples, totals);
    }

    /// The engine's totals of the whole target, in the form of perf's counters; empty without engine.
    #[must_use]
    pub fn counters(&self) -> Vec<CounterValue> {
        self.clocks.counters()
    }

    /// How a sample's user stack ended.
    pub fn stack(&mut self, tid: u32, time_ns: u64, end: StackEnding) {
        self.stacks.add(tid, time_ns, end);
    }

    /// The notes for the appendix of a file, on all stacks since the last call; `None` if none was unwound.
    #[must_use]
    pub fn notes(&mut self) -> Option<StackNotes> {
        self.stacks.notes()
    }

    /// Closes the books at `end_ns`: threads by descending on-CPU time, what was lost, how stacks ended.
    #[must_use]
    pub fn finish(mut self, end_ns: u64) -> Closed {
        let comms = std::mem::take(&mut self.comms);
        let name_of = |tid: u32, ended: &[ThreadUse]| {
            comms
                .get(&tid)
                .map(|n| n.to_string())
                .or_else(|| ended.iter().rev().find(|t| t.tid == tid).map(|t| t.comm.clone()))
        };
        let (mut threads, mut more_threads) = self.ended.into_parts();
        for (_, mut watched) in self.threads.drain() {
            if !watched.has_exited {
                watched.charge_until(end_ns);
            }
            threads.push(watched.total);
        }
        if !self.clocks.is_empty() {
            // The engine knows all threads: one that it does not report is not the target's, or its totals are lost.
            threads.retain(|thread| thread.samples > 0 && thread.pid != std::process::id());
            let (mut reported, more_reported) = self.clocks.into_threads();
            join_late_samples(&mut reported, &mut threads);
            threads.extend(reported);
            more_threads = more_reported;
        }
        threads.sort_by(|a, b| b.on_ns.cmp(&a.on_ns).then(a.tid.cmp(&b.tid)));
        let name = |tid| name_of(tid, &threads).unwrap_or_default();
        let mut loss = self.loss;
        loss.by_thread = self.lost_by.into_iter().map(|(tid, n)| (tid, name(tid), n)).collect();
        loss.by_thread.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        let quality = self.stacks.finish(name);
        Closed { threads, more_threads, loss, quality }
    }

    fn until_end(&self, time_ns: u64) -> u64 {
        self.end_ns.map_or(time_ns, |end_ns| time_ns.min(end_ns))
    }

    /// A thread first seen in the middle of its life was there from the start on, unless its fork may be lost.
    fn watch(&mut self, pid: u32, tid: u32, time_ns: u64) -> &mut Watched {
        let since_ns = if self.has_lost { time_ns.max(self.start_ns) } else { self.start_ns };
        let comm = || self.comms.get(&tid).map_or_else(String::new, |n| n.to_string());
        self.threads.entry(tid).or_insert_with(|| Watched {
            total: ThreadUse { pid, tid, comm: comm(), ..ThreadUse::default() },
            state: State::Unknown,
            since_ns,
            has_exited: false,
        })
    }
}

/// A sample that was read after its thread's totals counts there: it makes no second thread, which would have run since
/// the start.
fn join_late_samples(reported: &mut [ThreadUse], seen: &mut Vec<ThreadUse>) {
    let last: FxHashMap<u32, usize> =
        reported.iter().enumerate().map(|(at, thread)| (thread.tid, at)).collect();
    seen.retain(|thread| {
        let known = last.get(&thread.tid);
        known.iter().for_each(|&&at| reported[at].samples += thread.samples);
        known.is_none()
    });
}

/// The idle task (0), and tasks at their very end, which have no number any more (−1).
fn is_nobody(tid: u32) -> bool {
    tid == 0 || tid == u32::MAX
}

impl Watched {
    fn charge_until(&mut self, time_ns: u64) {
        let ns = time_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(time_ns);
        self.total.life_ns += ns;
        match self.state {
            State::On => self.total.on_ns += ns,
            State::Preempted => {
                self.total.off_ns += ns;
                self.total.preempted_ns += ns;
            }
            State::Blocked | State::Unknown => self.total.off_ns += ns,
        }
    }
}

#[cfg(test)]
mod tests;
