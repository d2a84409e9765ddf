//! Keeps the books while recording: time on and off the CPU per thread, losses, how the stacks ended.
//!
//! Pure: records in, numbers out. Conservation: for every thread, on + off = life; for the stacks,
//! complete + joined + Σ stopped = stacks.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use perfdata::off_cpu::Totals;
use perfdata::stack_notes::{StackCause, StackEnd, StackNotes, StackStop};

use crate::clocks::Clocks;
use crate::summary::{CounterValue, Loss, StackQuality, StopReason, StoppedStacks, ThreadUse};

/// All that is counted while recording.
#[derive(Debug, Default)]
pub struct Account {
    threads: FxHashMap<u32, Watched>,
    /// Threads that have ended (their tids may be used again).
    ended: Vec<ThreadUse>,
    comms: FxHashMap<u32, Arc<str>>,
    quality: StackQuality,
    stops: FxHashMap<Stopped, FxHashMap<u32, u64>>,
    notes: StackNotes,
    /// Stacks, and complete ones, that notes have been taken of.
    noted: (u64, u64),
    causes: FxHashMap<(StackEnd, Option<Arc<str>>), u32>,
    loss: Loss,
    lost_by: FxHashMap<u32, u64>,
    start_ns: u64,
    end_ns: Option<u64>,
    /// Forks may have been missed.
    has_lost: bool,
    /// Of threads whose time the off-CPU engine has told.
    clocks: Clocks,
}

/// Why a stack ended early, and in which DSO.
type Stopped = (StopReason, Option<Arc<str>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not told yet: the first switch tells what it was before.
    Unknown,
    On,
    Blocked,
    Preempted,
}

#[derive(Debug)]
struct Watched {
    total: ThreadUse,
    state: State,
    since_ns: u64,
    /// Its end was told; on the way out it still runs until it is switched off the CPU for good.
    has_exited: bool,
}

impl Account {
    /// Nothing counts until [`Account::start`] says from when on.
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
        self.ended.retain(|thread| thread.life_ns > 0);
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
        // Of those listed by /proc, the first switch tells.
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

    /// A thread left (`out`) or got a CPU.
    pub fn switch(&mut self, pid: u32, tid: u32, out: bool, preempted: bool, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        if is_nobody(tid) {
            return;
        }
        let watched = self.watch(pid, tid, time_ns);
        if watched.state == State::Unknown {
            watched.state = if out { State::On } else { State::Blocked };
        }
        watched.charge_until(time_ns);
        watched.state = match (out, preempted) {
            (false, _) => State::On,
            (true, true) => State::Preempted,
            (true, false) => State::Blocked,
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
        let Some(watched) = self.threads.get_mut(&tid) else { return };
        watched.charge_until(time_ns);
        watched.has_exited = true;
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

    /// The off-CPU engine tells a thread's whole life: that is exact, and holds in place of what switches told.
    pub fn totals(&mut self, (pid, tid): (u32, u32), totals: &Totals) {
        let mut samples = self.threads.remove(&tid).map_or(0, |watched| watched.total.samples);
        self.ended.retain(|thread| {
            samples += if thread.tid == tid { thread.samples } else { 0 };
            thread.tid != tid
        });
        self.clocks.add((pid, tid), samples, totals);
    }

    /// What the engine's totals say of the whole target, as perf's counters would; empty without engine.
    #[must_use]
    pub fn counters(&self) -> Vec<CounterValue> {
        self.clocks.counters()
    }

    /// How a sample's user stack ended; `dso` is where its last frame lies.
    pub fn stack(&mut self, tid: u32, time_ns: u64, end: StackEnding) {
        self.quality.stacks += 1;
        self.note(tid, time_ns, &end);
        match end {
            StackEnding::Complete => self.quality.complete += 1,
            StackEnding::Joined => self.quality.joined += 1,
            StackEnding::Stopped(reason, dso) => {
                *self.stops.entry((reason, dso)).or_default().entry(tid).or_default() += 1;
            }
        }
    }

    /// Writes down how a stack that is not complete by itself ended.
    fn note(&mut self, tid: u32, time_ns: u64, end: &StackEnding) {
        let (end, dso) = match end {
            StackEnding::Complete => return,
            StackEnding::Joined => (StackEnd::Joined, None),
            StackEnding::Stopped(reason, dso) => ((*reason).into(), dso.clone()),
        };
        let causes = &mut self.notes.causes;
        let cause = *self.causes.entry((end, dso)).or_insert_with_key(|(end, dso)| {
            let dso = dso.as_ref().map_or_else(Vec::new, |d| d.as_bytes().to_vec());
            causes.push(StackCause { end: *end, dso });
            (causes.len() - 1) as u32
        });
        self.notes.stops.push(StackStop { time_ns, tid, cause });
    }

    /// The notes for the appendix of a file, on all stacks since the last call; `None` if none was unwound.
    #[must_use]
    pub fn notes(&mut self) -> Option<StackNotes> {
        let (stacks_before, complete_before) = self.noted;
        self.noted = (self.quality.stacks, self.quality.complete);
        let (stacks, complete) = (self.noted.0 - stacks_before, self.noted.1 - complete_before);
        self.causes.clear();
        let notes = std::mem::take(&mut self.notes);
        (stacks > 0).then_some(StackNotes { stacks, complete, ..notes })
    }

    /// The kernel dropped so many samples and records after it last told of any: nobody knows whose.
    pub fn lost_at_end(&mut self, records: u64) {
        self.loss.lost_samples += records;
    }

    /// Records that the kernel told to be lost so far.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.loss.lost_records
    }

    /// So many of the samples counted are not in the file.
    pub fn leave_out(&mut self, samples: u64) {
        self.loss.samples -= samples.min(self.loss.samples);
    }

    /// The kernel dropped so many records of a ring while `tid` was writing to it. Switches and ends may be among
    /// them: what a thread does now, its next switch tells. Since its last switch or sample, it is not known to have
    /// run, and not taken to.
    pub fn lost(&mut self, tid: u32, records: u64, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        self.has_lost = true;
        for watched in self.threads.values_mut() {
            watched.state = State::Unknown;
            watched.charge_until(time_ns);
        }
        self.loss.lost_records += records;
        *self.lost_by.entry(tid).or_default() += records;
    }

    /// The kernel dropped so many samples.
    pub fn lost_samples(&mut self, tid: u32, samples: u64) {
        self.loss.lost_samples += samples;
        *self.lost_by.entry(tid).or_default() += samples;
    }

    /// The kernel throttled an event.
    pub fn throttled(&mut self) {
        self.loss.throttled += 1;
    }

    /// Closes the books at `end_ns`: threads by descending on-CPU time, what was lost, how stacks ended.
    #[must_use]
    pub fn finish(mut self, end_ns: u64) -> (Vec<ThreadUse>, Loss, StackQuality) {
        let comms = std::mem::take(&mut self.comms);
        let name_of = |tid: u32, ended: &[ThreadUse]| {
            comms
                .get(&tid)
                .map(|n| n.to_string())
                .or_else(|| ended.iter().rev().find(|t| t.tid == tid).map(|t| t.comm.clone()))
        };
        let mut threads = self.ended;
        for (_, mut watched) in self.threads.drain() {
            if !watched.has_exited {
                watched.charge_until(end_ns);
            }
            threads.push(watched.total);
        }
        if !self.clocks.threads().is_empty() {
            // The engine knows all threads: one it does not tell of is not the target's, or its totals are lost.
            threads.retain(|thread| thread.samples > 0 && thread.pid != std::process::id());
            threads.extend_from_slice(self.clocks.threads());
        }
        threads.sort_by(|a, b| b.on_ns.cmp(&a.on_ns).then(a.tid.cmp(&b.tid)));
        let name = |tid| name_of(tid, &threads).unwrap_or_default();
        let mut loss = self.loss;
        loss.by_thread = self.lost_by.into_iter().map(|(tid, n)| (tid, name(tid), n)).collect();
        loss.by_thread.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        let mut quality = self.quality;
        quality.stopped = self.stops.into_iter().map(|(key, tids)| stopped(key, &tids, name)).collect();
        quality.stopped.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
        (threads, loss, quality)
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

/// The idle task (0), and tasks at their very end, which have no number any more (−1).
fn is_nobody(tid: u32) -> bool {
    tid == 0 || tid == u32::MAX
}

/// How a user stack ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackEnding {
    /// At the thread's start.
    Complete,
    /// At the thread's start, with the outer part taken from another moment.
    Joined,
    /// Early: why, and in which DSO the last frame lies.
    Stopped(StopReason, Option<Arc<str>>),
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

fn stopped(
    (reason, dso): Stopped,
    tids: &FxHashMap<u32, u64>,
    name: impl Fn(u32) -> String,
) -> StoppedStacks {
    let most = tids.iter().max_by_key(|(tid, n)| (**n, u32::MAX - **tid)).map_or(0, |(tid, _)| *tid);
    StoppedStacks {
        reason,
        dso: dso.map(|d| d.to_string()),
        thread: (most, name(most)),
        count: tids.values().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_told_from_before_the_start_lives_from_the_start_on() {
        let mut account = Account::default();
        account.fork(7, 7, 1, 0);
        account.start(1000);
        account.exec(7, 7, 1010);
        account.switch(7, 7, true, false, 1100);
        let (threads, _, _) = account.finish(1300);
        assert_eq!((threads[0].life_ns, threads[0].on_ns, threads[0].off_ns), (300, 90, 210));
    }

    #[test]
    fn what_comes_after_the_end_of_a_thread_is_not_another_thread() {
        let mut account = Account::default();
        account.start(100);
        account.fork(7, 7, 1, 150);
        account.comm(7, b"sleep");
        account.switch(7, 7, false, false, 160);
        account.exit(7, 190);
        account.sample(7, 7, 195);
        account.switch(u32::MAX, u32::MAX, true, false, 197);
        account.fork(7, 7, 1, 300);
        account.comm(7, b"next");
        let (threads, _, _) = account.finish(400);
        let shown: Vec<_> = threads.iter().map(|t| (&*t.comm, t.on_ns, t.life_ns)).collect();
        assert_eq!(shown, [("sleep", 35, 45), ("next", 0, 100)]);
    }

    #[test]
    fn what_happens_before_the_start_tells_the_state_but_counts_no_time() {
        let mut account = Account::on_hold();
        account.fork(7, 7, 1, 0);
        account.fork(7, 8, 7, 40);
        account.switch(7, 8, false, false, 50);
        account.start(100);
        account.switch(7, 8, true, false, 130);
        account.switch(7, 7, true, false, 150);
        let (threads, _, _) = account.finish(200);
        assert_eq!(
            threads.iter().map(|t| (t.tid, t.on_ns, t.off_ns)).collect::<Vec<_>>(),
            [(7, 50, 50), (8, 30, 70)]
        );
    }

    #[test]
    fn after_a_loss_a_thread_is_not_taken_to_run_for_ever() {
        let mut account = Account::default();
        account.start(100);
        account.switch(7, 7, false, false, 150);
        account.switch(8, 8, false, false, 150);
        account.sample(8, 8, 170);
        account.lost(7, 12, 200);
        account.switch(8, 8, true, false, 260);
        account.switch(9, 9, true, false, 300);
        let (threads, loss, _) = account.finish(1000);
        let shown: Vec<_> = threads.iter().map(|t| (t.tid, t.on_ns, t.life_ns)).collect();
        assert_eq!(shown, [(8, 80, 900), (7, 0, 900), (9, 0, 700)]);
        assert_eq!(loss.by_thread, [(7, String::new(), 12)]);
    }

    #[test]
    fn on_and_off_add_up_to_the_life_of_a_thread() {
        let mut account = Account::default();
        account.start(100);
        account.exec(7, 7, 100);
        account.comm(7, b"main");
        account.fork(7, 8, 7, 150);
        account.switch(7, 7, true, false, 200);
        account.switch(7, 8, false, false, 210);
        account.switch(7, 8, true, true, 260);
        account.switch(7, 8, false, false, 300);
        account.exit(8, 340);
        account.switch(7, 7, false, false, 345);
        let (threads, _, _) = account.finish(400);
        let by = |tid| threads.iter().find(|t| t.tid == tid).expect("watched");
        let (main, child) = (by(7), by(8));
        assert_eq!((main.life_ns, main.on_ns, main.off_ns), (300, 155, 145));
        assert_eq!((main.voluntary_switches, main.involuntary_switches), (1, 0));
        assert_eq!((child.life_ns, child.on_ns, child.off_ns, child.preempted_ns), (190, 90, 100, 100));
        assert_eq!(child.comm, "main");
    }

    #[test]
    fn a_thread_first_seen_leaving_was_on_since_the_start() {
        let mut account = Account::default();
        account.start(1000);
        account.switch(3, 3, true, false, 1600);
        account.switch(4, 4, false, false, 1500);
        let (threads, _, _) = account.finish(2000);
        assert_eq!(threads[0].tid, 3);
        assert_eq!((threads[0].on_ns, threads[0].off_ns), (600, 400));
        assert_eq!((threads[1].on_ns, threads[1].off_ns), (500, 500));
    }

    #[test]
    fn stacks_are_conserved_over_their_endings() {
        let mut account = Account::default();
        account.comm(5, b"worker");
        account.stack(5, 0, StackEnding::Complete);
        account.stack(5, 0, StackEnding::Joined);
        let dso: Arc<str> = "/lib/y.so".into();
        account.stack(6, 0, StackEnding::Stopped(StopReason::NoUnwindInfo, Some(dso.clone())));
        account.stack(5, 0, StackEnding::Stopped(StopReason::NoUnwindInfo, Some(dso.clone())));
        account.stack(5, 0, StackEnding::Stopped(StopReason::NoUnwindInfo, Some(dso)));
        let notes = account.notes().expect("there were stacks");
        assert_eq!(notes.stacks, notes.complete + notes.stops.len() as u64);
        assert_eq!(notes.causes.len(), 2);
        let (_, _, quality) = account.finish(0);
        let stopped: u64 = quality.stopped.iter().map(|s| s.count).sum();
        assert_eq!(quality.stacks, quality.complete + quality.joined + stopped);
        assert_eq!(quality.stopped[0].thread, (5, "worker".to_owned()));
    }
}
