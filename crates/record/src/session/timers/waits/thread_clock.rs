//! One thread's wall clock: what each look adds to its CPU time, its queue time and its waits.

use perfdata::PidTid;
use perfdata::off_cpu::State;

use crate::machine::proc;
use crate::off_cpu::Encoder;
use crate::off_cpu::convert::WaitPart;
use crate::off_cpu::layout::{EndRecord, KIND_COUNT, OffCpuRecordKind, flag};
use crate::off_cpu::proc_sampler as look;
use crate::off_cpu::proc_sampler::{Memories, ProcSample, ThreadFiles};
use crate::sys::time::Clock;

/// CPU time without a sample after which a timer is silent, ns: twelve of its periods.
const SILENT_NS: u64 = 48_000_000;

#[derive(Debug)]
pub(super) struct ThreadClock {
    pub(super) pid: u32,
    pub(super) start_ns: u64,
    /// CPU time before the start.
    pub(super) cpu_before_ns: u64,
    /// CPU time as last read.
    pub(super) cpu_ns: u64,
    /// CPU time at the last sample.
    pub(super) sampled_ns: u64,
    /// A timer inside reports it.
    pub(super) has_timer: bool,
    /// Its timer has not reported it for long: the program blocks the timer's signal, or there was no room.
    pub(super) is_silent: bool,
    /// Time in the run queue, at the first and the last look.
    pub(super) queue_ns: Option<(u64, u64)>,
    pub(super) runs: (u64, u64),
    /// Last moment at which it was seen.
    pub(super) seen_ns: u64,
    pub(super) files: Option<ThreadFiles>,
    /// The part of its queue time that is known to be of preemptions or of wake-ups.
    pub(super) split: QueueSplit,
    /// Blocked time that is in waits, and queue time after wake-ups.
    pub(super) given_ns: u64,
    pub(super) given_queue_ns: u64,
    pub(super) wait: Option<OpenWait>,
    pub(super) total_ns: [u64; KIND_COUNT],
}

/// Time in the run queue, by how the thread got there: it was woken, or another was given its CPU. The kernel sums up
/// the time, and counts both ways apart: each gets its part by number.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct QueueSplit {
    /// Queue time that is divided, ns.
    done_ns: u64,
    /// Part after preemptions, ns.
    pub(super) preempted_ns: u64,
    runs: u64,
    preemptions: u64,
    /// Its preemptions before it was watched.
    preemptions_before: u64,
}

impl QueueSplit {
    /// Less queue time isn't divided yet: counts cost more to read than sums.
    const LEAST_NS: u64 = 1_000_000;

    /// The split of a thread from now on, which has had these runs and preemptions.
    pub(super) fn after(runs: u64, preemptions: u64) -> Self {
        Self { runs, preemptions, preemptions_before: preemptions, ..Self::default() }
    }

    /// Preemptions while it was watched, by the last count that could be read or by `now`.
    fn preemptions(&self, now: Option<u64>) -> u64 {
        now.unwrap_or(self.preemptions).saturating_sub(self.preemptions_before)
    }

    /// Divides the queue time since the last time, for a thread that had `runs` in all and has `preemptions` now;
    /// `None` if that can't be read: then as before.
    pub(super) fn divide(&mut self, queue_ns: u64, runs: u64, preemptions: impl Fn() -> Option<u64>) {
        let new_ns = queue_ns.saturating_sub(self.done_ns);
        if new_ns < Self::LEAST_NS {
            return;
        }
        let now = preemptions();
        let (all, lost) = match now {
            Some(now) => (runs.saturating_sub(self.runs), now.saturating_sub(self.preemptions)),
            None => (self.runs, self.preemptions),
        };
        // A thread that waits in the queue after a preemption has not got its run yet.
        let all = all.max(lost).max(1);
        let part_ns = u128::from(new_ns) * u128::from(lost) / u128::from(all);
        self.preempted_ns += u64::try_from(part_ns).unwrap_or(new_ns);
        self.done_ns = queue_ns;
        if let Some(now) = now {
            (self.runs, self.preemptions) = (runs, now);
        }
    }
}

/// A wait that may go on.
#[derive(Debug)]
pub(super) struct OpenWait {
    pub(super) look: ProcSample,
    pub(super) runs: u64,
    pub(super) weight_ns: u64,
    pub(super) queue_ns: u64,
}

impl ThreadClock {
    pub(super) fn new(task: PidTid, time_ns: u64, cpu_ns: u64) -> Self {
        let PidTid { pid, tid } = task;
        Self {
            pid,
            start_ns: time_ns,
            cpu_before_ns: cpu_ns,
            cpu_ns,
            sampled_ns: cpu_ns,
            has_timer: true,
            is_silent: false,
            queue_ns: None,
            split: QueueSplit::default(),
            runs: (0, 0),
            seen_ns: time_ns,
            files: ThreadFiles::open(pid, tid),
            given_ns: 0,
            given_queue_ns: 0,
            wait: None,
            total_ns: [0; KIND_COUNT],
        }
    }

    pub(super) fn queued(&mut self, queue_ns: u64, runs: u64) {
        let (first_ns, last_ns) = self.queue_ns.unwrap_or((queue_ns, queue_ns));
        self.runs = if self.queue_ns.is_none() { (runs, runs) } else { (self.runs.0, self.runs.1.max(runs)) };
        self.queue_ns = Some((first_ns, last_ns.max(queue_ns)));
    }

    /// On the CPU, in the run queue, and blocked until `now_ns`; together the life.
    pub(super) fn parts(&self, now_ns: u64) -> [u64; 3] {
        let life = now_ns.saturating_sub(self.start_ns);
        let on = self.cpu_ns.saturating_sub(self.cpu_before_ns).min(life);
        let queue = self.queue_ns.map_or(0, |(first, last)| last.saturating_sub(first)).min(life - on);
        [on, queue, life - on - queue]
    }

    /// Reads the kernel's sums; false if the thread is gone.
    pub(super) fn sum_up(&mut self, tid: u32) -> bool {
        let Some([cpu_ns, queue_ns, runs]) = self.files.as_ref().and_then(ThreadFiles::sums) else {
            return self.files.is_none() && proc::is_alive(tid);
        };
        let now_ns = Clock::Monotonic.now_ns();
        self.cpu_ns = self.cpu_ns.max(cpu_ns);
        self.queued(queue_ns, runs);
        self.seen_ns = self.seen_ns.max(now_ns);
        true
    }

    /// True if samples of it have to come from outside.
    pub(super) fn needs_stops(&mut self) -> bool {
        self.is_silent |= self.cpu_ns.saturating_sub(self.sampled_ns) >= SILENT_NS;
        !self.has_timer || self.is_silent
    }

    /// Whether it is still in the wait that was found last.
    pub(super) fn waits_on(&self) -> bool {
        let runs = self.files.as_ref().and_then(ThreadFiles::sums).map(|[_, _, runs]| runs);
        self.wait.as_ref().is_some_and(|wait| runs == Some(wait.runs))
    }

    /// One look at where it is. True if a wait was found that was not known.
    pub(super) fn look(
        &mut self,
        tid: u32,
        is_fair: bool,
        memories: &mut Memories,
        encoder: &Encoder,
        out: &mut Vec<u8>,
    ) -> bool {
        let (runs, now_ns) = (self.runs.1, self.seen_ns);
        self.divide_queue(now_ns);
        if self.wait.as_ref().is_some_and(|wait| wait.runs == runs) {
            self.give(now_ns);
            return false;
        }
        self.flush(tid, now_ns, encoder, out);
        let files = self.files.as_ref().filter(|_| is_fair);
        let Some(look) = files.and_then(|files| look::look(tid, files, runs, memories)) else { return false };
        self.wait = Some(OpenWait { look, runs, weight_ns: 0, queue_ns: 0 });
        self.give(now_ns);
        true
    }

    /// Divides its queue time until `now_ns` into that after wake-ups and that after preemptions.
    fn divide_queue(&mut self, now_ns: u64) {
        let [_, queue_ns, _] = self.parts(now_ns);
        let files = self.files.as_ref();
        self.split.divide(queue_ns, self.runs.1, || files.and_then(ThreadFiles::preemptions));
    }

    /// How often it was preempted while it was watched; of a thread that is gone, until it was last asked.
    fn preemptions(&self) -> u32 {
        let now = self.files.as_ref().and_then(ThreadFiles::preemptions);
        u32::try_from(self.split.preemptions(now)).unwrap_or(u32::MAX)
    }

    /// The blocked time that no wait has yet belongs to the present one, and the queue time after wake-ups.
    pub(super) fn give(&mut self, now_ns: u64) {
        let [_, queue_ns, blocked_ns] = self.parts(now_ns);
        let Some(wait) = &mut self.wait else { return };
        let owed = blocked_ns.saturating_sub(self.given_ns);
        let woken_ns = queue_ns.saturating_sub(self.split.preempted_ns);
        let owed_queue = woken_ns.saturating_sub(self.given_queue_ns);
        (wait.weight_ns, self.given_ns) = (wait.weight_ns + owed, self.given_ns + owed);
        (wait.queue_ns, self.given_queue_ns) = (wait.queue_ns + owed_queue, self.given_queue_ns + owed_queue);
    }

    /// Writes the present wait, which is over.
    fn flush(&mut self, tid: u32, now_ns: u64, encoder: &Encoder, out: &mut Vec<u8>) {
        let Some(wait) = self.wait.take() else { return };
        let kind =
            if wait.look.state == State::Disk { OffCpuRecordKind::Disk } else { OffCpuRecordKind::Sleep };
        self.total_ns[kind as usize] += wait.weight_ns;
        debug_assert_eq!(wait.look.tid, tid);
        for (state, length_ns) in [(wait.look.state, wait.weight_ns), (State::Runnable, wait.queue_ns)] {
            encoder.encode_wait(&wait.look, &WaitPart { state, length_ns, time_ns: now_ns }, out);
        }
    }

    pub(super) fn close(
        &mut self,
        tid: u32,
        end_ns: u64,
        how: u32,
        encoder: Option<&Encoder>,
        out: &mut Vec<u8>,
    ) -> EndRecord {
        self.divide_queue(end_ns);
        if how == flag::OPEN_RIGHT {
            self.give(end_ns);
        }
        if let Some(encoder) = encoder {
            self.flush(tid, end_ns, encoder, out);
        }
        let [on, queue, blocked] = self.parts(end_ns);
        let mut total_ns = self.total_ns;
        let mut carry_ns = [0; KIND_COUNT];
        // A clock that ran behind at a look is corrected here: what was given too much is not taken back from samples.
        let left = blocked.saturating_sub(self.given_ns);
        let surplus = self.given_ns.saturating_sub(blocked);
        total_ns[OffCpuRecordKind::Sleep as usize] += left;
        carry_ns[OffCpuRecordKind::Sleep as usize] = left;
        total_ns[OffCpuRecordKind::On as usize] = on.saturating_sub(surplus);
        // Time that is in waits already stays there.
        let preempted = self.split.preempted_ns.min(queue.saturating_sub(self.given_queue_ns));
        let woken = queue - preempted;
        total_ns[OffCpuRecordKind::Runnable as usize] = woken;
        carry_ns[OffCpuRecordKind::Runnable as usize] = woken.saturating_sub(self.given_queue_ns);
        total_ns[OffCpuRecordKind::Preempted as usize] = preempted;
        carry_ns[OffCpuRecordKind::Preempted as usize] = preempted;
        EndRecord {
            start_ns: self.start_ns,
            end_ns,
            total_ns,
            carry_ns,
            switches: self.runs.1.saturating_sub(self.runs.0),
            tid,
            pid: self.pid,
            flags: how,
            preemptions: self.preemptions(),
            migrations: 0,
            faults: [0; 2],
            comm: proc::status(tid).map_or_else(Vec::new, |status| status.comm),
            queue: Box::default(),
            life: 0,
            argument: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_time_is_divided_by_how_often_a_thread_was_woken_and_preempted() {
        let mut split = QueueSplit::default();
        split.divide(900_000, 3, || panic!("too little to ask"));
        split.divide(4_000_000, 4, || Some(1));
        assert_eq!(split.preempted_ns, 1_000_000);
        // Three runs more, all after preemptions.
        split.divide(10_000_000, 7, || Some(4));
        assert_eq!(split.preempted_ns, 7_000_000);
        // It can't be asked any more: as over its life, 4 of 7.
        split.divide(17_000_000, 9, || None);
        assert_eq!(split.preempted_ns, 11_000_000);
    }

    #[test]
    fn preemptions_count_from_the_begin_of_watching() {
        let mut split = QueueSplit::after(20, 5);
        split.divide(2_000_000, 24, || Some(7));
        assert_eq!(split.preempted_ns, 1_000_000, "2 of 4 runs");
        assert_eq!(split.preemptions(Some(8)), 3);
        assert_eq!(split.preemptions(None), 2, "it has ended: as last read");
    }

    #[test]
    fn a_thread_that_waits_after_a_preemption_has_no_run_for_it_yet() {
        let mut split = QueueSplit::default();
        split.divide(2_000_000, 0, || Some(1));
        assert_eq!(split.preempted_ns, 2_000_000);
    }
}
