//! The thread that ran while another one waited for a CPU, by samples: the recorded switch shows only the thread that came
//! first, or last. That one may have had the CPU for a moment only.

use super::{OffCpu, RelatedThread, RunSample, Wait};
use crate::profile::{Task, TaskId};
use perfdata::off_cpu::{State, flag};
use rustc_hash::FxHashMap;

/// Samples that show who had a CPU.
const LEAST_SAMPLES: usize = 3;

/// Names, for waits for a CPU, the thread that most samples of that CPU show, where they are from at least half of the
/// wait. All other waits stay as recorded.
pub(crate) fn name_longest_runners(off_cpu: &mut OffCpu, tasks: &[Task]) {
    let by_cpu = ByCpu::of(&off_cpu.seen_running);
    for wait in off_cpu.waits.iter_mut().filter(|wait| is_for_cpu(wait)) {
        let Some(task) = by_cpu.longest_runner(wait).filter(|&task| task != wait.task) else { continue };
        let of = &tasks[task.index()];
        let (pid, tid) = (of.pid.cast_unsigned(), of.tid.cast_unsigned());
        if wait.other.is_some_and(|other| other.tid != tid) {
            wait.other = Some(RelatedThread { pid, tid, comm: of.comm, callsite: None });
        }
    }
}

/// True for a wait whose other thread had the CPU that the thread waited for.
pub(crate) fn is_for_cpu(wait: &Wait) -> bool {
    wait.state == State::Preempted || wait.state == State::Runnable && wait.flags & flag::RAN_INSTEAD != 0
}

/// Samples of running by CPU, in order of time.
struct ByCpu {
    samples: FxHashMap<u32, Vec<(u64, TaskId)>>,
}

impl ByCpu {
    fn of(runs: &[RunSample]) -> Self {
        let mut samples: FxHashMap<u32, Vec<(u64, TaskId)>> = FxHashMap::default();
        for run in runs {
            if let Some(cpu) = run.cpu {
                samples.entry(cpu).or_default().push((run.time_ns, run.task));
            }
        }
        samples.values_mut().for_each(|of| of.sort_unstable());
        Self { samples }
    }

    /// The thread with most samples during a wait on the CPU where it ended; `None` if they show too little of it.
    fn longest_runner(&self, wait: &Wait) -> Option<TaskId> {
        let all = self.samples.get(&wait.cpu?)?;
        let end_ns = wait.since_ns.saturating_add(wait.length_ns);
        let from = all.partition_point(|(time, _)| *time < wait.since_ns);
        let to = all.partition_point(|(time, _)| *time < end_ns);
        let seen = all.get(from..to).filter(|seen| seen.len() >= LEAST_SAMPLES)?;
        let mut counts: FxHashMap<TaskId, Seen> = FxHashMap::default();
        for &(time, task) in seen {
            let of = counts.entry(task).or_insert(Seen { count: 0, first_ns: time, last_ns: time });
            of.count += 1;
            of.last_ns = time;
        }
        let (task, of) = counts.into_iter().find(|(_, of)| of.count * 2 > seen.len())?;
        (of.count >= LEAST_SAMPLES && of.last_ns - of.first_ns >= wait.length_ns / 2).then_some(task)
    }
}

/// Samples of one thread.
struct Seen {
    count: usize,
    first_ns: u64,
    last_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{CallsiteId, StringId};

    fn task(id: i32) -> Task {
        Task { pid: 1, tid: id, process: 0, comm: StringId::from_index(0) }
    }

    fn named(state: State, flags: u32, runs: &[(u64, usize)]) -> Option<u32> {
        let run = |&(time_ns, task): &(u64, usize)| RunSample {
            task: TaskId::from_index(task),
            time_ns,
            callsite: CallsiteId::from_index(0),
            period: 1,
            cpu: Some(time_ns as u32 % 2),
        };
        let comm = StringId::from_index(0);
        let first = RelatedThread { pid: 1, tid: 1, comm, callsite: None };
        let (task0, cpu) = (TaskId::from_index(0), Some(0));
        let wait =
            Wait { state, flags, since_ns: 100, length_ns: 100, cpu, other: Some(first), ..Wait::of(task0) };
        let mut of =
            OffCpu { waits: vec![wait], seen_running: runs.iter().map(run).collect(), ..OffCpu::default() };
        name_longest_runners(&mut of, &[task(10), task(1), task(2)]);
        of.waits[0].other.map(|other| other.tid)
    }

    #[test]
    fn the_thread_that_most_samples_show_had_the_cpu() {
        let seen = [(102, 1), (110, 2), (150, 2), (190, 2), (151, 1), (153, 1), (155, 1), (157, 1)];
        assert_eq!(named(State::Preempted, 0, &seen), Some(2));
        assert_eq!(named(State::Runnable, flag::RAN_INSTEAD, &seen), Some(2));
        // A waker, and samples of another CPU, of other times, of a part of the wait, or of several threads.
        assert_eq!(named(State::Runnable, 0, &seen), Some(1));
        assert_eq!(named(State::Preempted, 0, &[(111, 2), (151, 2), (191, 2)]), Some(1));
        assert_eq!(named(State::Preempted, 0, &[(90, 2), (110, 2), (190, 2)]), Some(1));
        assert_eq!(named(State::Preempted, 0, &[(110, 2), (112, 2), (114, 2)]), Some(1));
        assert_eq!(named(State::Preempted, 0, &[(110, 2), (112, 1), (114, 1), (190, 2)]), Some(1));
    }
}
