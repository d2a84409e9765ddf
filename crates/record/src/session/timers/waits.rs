//! Each thread's wall clock: CPU time and time in the run queue from the kernel's sums, the rest blocked. Looks show
//! where: the blocked time since the look before belongs to the wait that a look finds.

mod thread_clock;

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::proc;
use crate::off_cpu::layout::flag;
use crate::off_cpu::proc_sampler::{Memories, ThreadFiles};
use crate::off_cpu::{Encoder, OffCpuRecord};
use crate::runtimes::python::{PythonReader, StackMoment};
use crate::sys::time::{self, Clock};
use perfdata::PidTid;

use super::Roots;
use super::stop_sampler::StopCandidate;
use thread_clock::{QueueSplit, ThreadClock};

/// A look this much after its time is late.
const LATE: Duration = Duration::from_millis(2);
/// After this many late looks the next begins waits all the same.
const MOST_LATE: u32 = 4;
const SEARCH_EVERY: Duration = Duration::from_millis(50);
/// More threads have no waits.
const MAX_THREADS: usize = 16_384;

/// The clocks of all threads.
#[derive(Debug)]
pub(super) struct ThreadClocks {
    encoder: Option<Encoder>,
    clocks: FxHashMap<u32, ThreadClock>,
    memories: Memories,
    looked: Option<Instant>,
    searched: Option<Instant>,
    /// Threads without a clock at the last search: the record of their start may be on its way.
    unknown: FxHashSet<u32>,
    /// The last of [`Self::some_processes`].
    asked_last: u32,
    interval: Duration,
    /// Looks that came late, one after another.
    late: u32,
    /// Reads Python's frames of threads that wait.
    python: Option<PythonReader>,
}

impl ThreadClocks {
    /// Waits are written with `encoder`; without, there are none.
    pub(super) fn new(encoder: Option<Encoder>) -> Self {
        Self {
            encoder,
            clocks: FxHashMap::default(),
            memories: Memories::default(),
            looked: None,
            searched: None,
            unknown: FxHashSet::default(),
            asked_last: 0,
            interval: super::MIN_INTERVAL,
            late: 0,
            python: None,
        }
    }

    /// Waits get the frames that `python` reads.
    pub(super) fn read_python(&mut self, python: PythonReader) {
        self.python = Some(python);
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    pub(super) fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= self.interval)
    }

    /// A thread begins with this CPU time used already. False if it has a clock.
    pub(super) fn begin(&mut self, task: PidTid, time_ns: u64, cpu_ns: u64) -> bool {
        if self.clocks.contains_key(&task.tid) {
            return false;
        }
        self.clocks.insert(task.tid, ThreadClock::new(task, time_ns, cpu_ns));
        true
    }

    /// A thread that lived before it was found.
    pub(super) fn begin_found(&mut self, task: PidTid, time_ns: u64) {
        let clock = ThreadClock::new(task, time_ns, 0);
        let files = clock.files.as_ref();
        let [cpu_ns, _, runs] = files.and_then(ThreadFiles::sums).unwrap_or_default();
        let split = QueueSplit::after(runs, files.and_then(ThreadFiles::preemptions).unwrap_or(0));
        self.clocks.insert(
            task.tid,
            ThreadClock {
                cpu_before_ns: cpu_ns,
                cpu_ns,
                sampled_ns: cpu_ns,
                has_timer: false,
                split,
                ..clock
            },
        );
    }

    /// Some processes that have a clock, others at each call.
    pub(super) fn some_processes(&mut self) -> Vec<u32> {
        /// Reading a line about each takes 0.3 ms.
        const AT_A_TIME: usize = 32;
        let mut pids: Vec<u32> =
            self.clocks.iter().filter(|(tid, clock)| **tid == clock.pid).map(|(tid, _)| *tid).collect();
        pids.sort_unstable();
        let at = pids.partition_point(|&pid| pid <= self.asked_last);
        pids.rotate_left(at);
        pids.truncate(AT_A_TIME);
        self.asked_last = pids.last().copied().unwrap_or(0);
        pids
    }

    /// The timer of a process's main thread is gone: it runs another program.
    pub(super) fn lost_timer(&mut self, pid: u32) {
        self.clocks.get_mut(&pid).into_iter().for_each(|clock| clock.has_timer = false);
    }

    /// True for a thread that was found before a timer in it reported.
    pub(super) fn is_found(&self, tid: u32) -> bool {
        self.clocks.get(&tid).is_some_and(|clock| !clock.has_timer)
    }

    /// Living threads that no timer samples, with their CPU time now.
    pub(super) fn without_timer(&mut self) -> Vec<StopCandidate> {
        let untimed =
            self.clocks.iter_mut().filter_map(|(tid, clock)| clock.needs_stops().then_some((tid, clock)));
        let candidate = |(&tid, clock): (&u32, &mut ThreadClock)| {
            let task = PidTid { pid: clock.pid, tid };
            let candidate = |clock: &ThreadClock| StopCandidate {
                task,
                cpu_ns: clock.cpu_ns,
                sampled_ns: clock.sampled_ns,
                is_silent: clock.is_silent && clock.has_timer,
            };
            clock.sum_up(tid).then(|| candidate(clock))
        };
        untimed.filter_map(candidate).collect()
    }

    /// A thread's CPU time at a moment.
    pub(super) fn seen(&mut self, tid: u32, time_ns: u64, cpu_ns: u64) {
        let Some(clock) = self.clocks.get_mut(&tid) else { return };
        clock.seen_ns = clock.seen_ns.max(time_ns);
        clock.cpu_ns = clock.cpu_ns.max(cpu_ns);
    }

    /// A thread's time in the run queue and number of runs, as it has read them itself.
    pub(super) fn queued(&mut self, tid: u32, [queue_ns, runs]: [u64; 2]) {
        let Some(clock) = self.clocks.get_mut(&tid).filter(|_| runs > 0) else { return };
        clock.queued(queue_ns, runs);
    }

    /// A sample was taken: the CPU time since the one before.
    pub(super) fn ran(&mut self, task: PidTid, time_ns: u64, cpu_ns: u64) -> u64 {
        self.begin(task, time_ns, cpu_ns.saturating_sub(super::PERIOD_NS));
        self.seen(task.tid, time_ns, cpu_ns);
        let Some(clock) = self.clocks.get_mut(&task.tid) else { return super::PERIOD_NS };
        let weight_ns = cpu_ns.saturating_sub(clock.sampled_ns);
        clock.sampled_ns = clock.sampled_ns.max(cpu_ns);
        weight_ns.max(1)
    }

    /// An exec has ended the other threads of a process.
    pub(super) fn only(&mut self, pid: u32, tid: u32, time_ns: u64, out: &mut Vec<u8>) {
        let is_other = |(other, clock): &(&u32, &ThreadClock)| clock.pid == pid && **other != tid;
        let others: Vec<u32> = self.clocks.iter().filter(is_other).map(|(other, _)| *other).collect();
        others.into_iter().for_each(|other| self.close(other, time_ns, flag::EXITED, out));
    }

    /// A thread has ended by itself.
    pub(super) fn end(&mut self, tid: u32, time_ns: u64, cpu_ns: u64, out: &mut Vec<u8>) {
        self.seen(tid, time_ns, cpu_ns);
        self.close(tid, time_ns, flag::EXITED, out);
    }

    /// A process has ended, with all its threads, which are returned.
    pub(super) fn end_process(&mut self, pid: u32, time_ns: u64, out: &mut Vec<u8>) -> Vec<PidTid> {
        let its = self.clocks.iter().filter(|(_, clock)| clock.pid == pid);
        let mut tids: Vec<u32> = its.map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        tids.iter().for_each(|&tid| self.close(tid, time_ns, flag::EXITED, out));
        tids.into_iter().map(|tid| PidTid { pid, tid }).collect()
    }

    /// All clocks stop: of the command, and of threads that live, at the end, others when they were seen last. Threads of
    /// processes that have ended are returned.
    pub(super) fn finish(mut self, roots: &Roots, end_ns: u64, out: &mut Vec<u8>) -> Vec<PidTid> {
        let mut open: Vec<(u32, u32, u64)> =
            self.clocks.iter().map(|(tid, clock)| (*tid, clock.pid, clock.seen_ns)).collect();
        open.sort_unstable();
        for &(tid, pid, seen_ns) in &open {
            if roots.is_command(pid) || proc::is_alive(tid) {
                self.close(tid, end_ns, flag::OPEN_RIGHT, out);
            } else {
                self.close(tid, seen_ns.min(end_ns), flag::EXITED, out);
            }
        }
        open.retain(|(_, pid, _)| !proc::is_alive(*pid));
        open.into_iter().map(|(tid, pid, _)| PidTid { pid, tid }).collect()
    }

    fn close(&mut self, tid: u32, end_ns: u64, how: u32, out: &mut Vec<u8>) {
        let Some(mut clock) = self.clocks.remove(&tid) else { return };
        let end = clock.close(tid, end_ns, how, self.encoder.as_ref(), out);
        if let Some(encoder) = &self.encoder {
            encoder.encode(&OffCpuRecord::End(Box::new(end)), out);
        }
    }

    /// Threads of `roots` that have no clock, at two searches.
    /// `None` between two searches.
    pub(super) fn search(&mut self, roots: &Roots) -> Option<Vec<PidTid>> {
        if self.searched.is_some_and(|searched| searched.elapsed() < SEARCH_EVERY) {
            return None;
        }
        self.searched = Some(Instant::now());
        let found = roots.tasks().into_iter();
        let room = MAX_THREADS.saturating_sub(self.clocks.len());
        let found = found.filter(|thread| !self.clocks.contains_key(&thread.tid)).take(room);
        let (again, new): (Vec<_>, Vec<_>) = found.partition(|thread| self.unknown.contains(&thread.tid));
        self.unknown = new.iter().map(|thread| thread.tid).collect();
        Some(again)
    }

    /// A thread has ended unseen: its life is until it was seen last, which is returned. `None` if it has no clock.
    pub(super) fn end_unseen(&mut self, tid: u32, out: &mut Vec<u8>) -> Option<u64> {
        let seen_ns = self.clocks.get(&tid)?.seen_ns;
        self.close(tid, seen_ns, flag::EXITED, out);
        Some(seen_ns)
    }

    /// A round of looks; the threads that have ended unseen.
    pub(super) fn look(&mut self, out: &mut Vec<u8>) -> Vec<PidTid> {
        let (begin, begin_cpu_ns) = (Instant::now(), time::thread_cpu_ns());
        // Where CPUs are short, tally runs when the target stops running: looks at that moment would show the beginnings
        // of waits only. So looks that come late begin no wait, unless all do.
        let is_late = self.looked.is_some_and(|looked| begin - looked > self.interval + LATE);
        self.late = if is_late { self.late + 1 } else { 0 };
        let is_fair = !is_late || self.late > MOST_LATE;
        self.looked = Some(begin);
        let mut gone = Vec::new();
        for (&tid, clock) in &mut self.clocks {
            let alive = clock.sum_up(tid);
            if alive && let Some(encoder) = &self.encoder {
                let begins = clock.look(tid, is_fair, &mut self.memories, encoder, out);
                if let Some(python) = self.python.as_ref().filter(|_| begins) {
                    let moment = StackMoment::Wait { since_ns: 0, time_ns: Clock::Monotonic.now_ns() };
                    python.read_resting(PidTid { pid: clock.pid, tid }, moment, &|| clock.waits_on());
                }
            }
            if !alive {
                gone.push(PidTid { pid: clock.pid, tid });
            }
        }
        self.memories.retain(|pid, _| gone.iter().all(|task| task.tid != *pid));
        self.interval = super::rest_after(begin_cpu_ns);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::thread_clock::OpenWait;
    use super::*;
    use crate::off_cpu::OffCpuRecordKind;
    use crate::off_cpu::proc_sampler::ProcSample;
    use perfdata::off_cpu::State;

    /// No such thread: the test supplies all that is known of it.
    const TASK: PidTid = PidTid { pid: 4_194_303, tid: 4_194_303 };

    fn clock() -> ThreadClock {
        let mut clock = ThreadClock::new(TASK, 1_000, 50);
        clock.cpu_ns = 350;
        clock.queued(10, 1);
        clock.queued(110, 4);
        clock
    }

    fn look(state: State) -> ProcSample {
        ProcSample::of_state(TASK.pid, TASK.tid, 1_500, state)
    }

    #[test]
    fn a_threads_parts_add_up_to_its_life() {
        let mut clock = clock();
        assert_eq!(clock.parts(2_000), [300, 100, 600]);
        assert_eq!(clock.parts(1_350), [300, 50, 0], "sums that are ahead of the clock");
        let end = clock.close(TASK.tid, 2_000, flag::EXITED, None, &mut Vec::new());
        assert_eq!(end.total_ns.iter().sum::<u64>(), end.end_ns - end.start_ns);
        assert_eq!(
            (end.total_ns[OffCpuRecordKind::Sleep as usize], end.carry_ns[OffCpuRecordKind::Sleep as usize]),
            (600, 600)
        );
        assert_eq!(end.switches, 3);
    }

    #[test]
    fn blocked_time_belongs_to_the_wait_that_a_look_finds() {
        let mut clock = clock();
        clock.wait = Some(OpenWait { look: look(State::Disk), runs: 4, weight_ns: 0, queue_ns: 0 });
        clock.give(1_700);
        clock.give(1_900);
        let given = clock.wait.as_ref().map(|wait| (wait.weight_ns, wait.queue_ns));
        assert_eq!(given, Some((500, 100)));
        let encoder = Encoder::new(crate::off_cpu::convert::snapshot_attr(&perfdata::Attr::default(), 0));
        let mut out = Vec::new();
        let end = clock.close(TASK.tid, 2_000, flag::EXITED, Some(&encoder), &mut out);
        assert!(!out.is_empty());
        assert_eq!(end.total_ns[OffCpuRecordKind::Disk as usize], 500);
        assert_eq!(end.carry_ns[OffCpuRecordKind::Sleep as usize], 100, "blocked after the last look");
        assert_eq!(end.total_ns.iter().sum::<u64>(), 1_000);
    }
}
