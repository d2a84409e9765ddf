//! Threads' lives as reported by the off-CPU engine: exact, each at its end.

use perfdata::off_cpu::{OffCpuTotals, State, flag};

use crate::accounting::account::EndedThreads;
use crate::accounting::summary::{CounterValue, MoreThreads, ThreadUse};
use perfdata::PidTid;

/// The threads reported so far, and their sums.
#[derive(Debug, Default)]
pub struct Clocks {
    threads: EndedThreads,
    /// In the order of [`COUNTERS`].
    sums: [u64; COUNTERS.len()],
}

/// Those of perf's counters that the totals contain.
const COUNTERS: [&str; 5] =
    ["task-clock", "context-switches", "cpu-migrations", "minor-faults", "major-faults"];

impl Clocks {
    /// A thread's totals, and how many samples were taken in it.
    pub fn add(&mut self, task: PidTid, samples: u64, totals: &OffCpuTotals) {
        let of = |state: State| totals.total_ns[usize::from(state.code())];
        let life_ns = totals.life_ns();
        // perf doesn't count a thread's last switch, from which it does not come back.
        let switches = totals.switches - u64::from(totals.flags & flag::EXITED != 0).min(totals.switches);
        let preemptions = u64::from(totals.preemptions).min(switches);
        self.threads.push(ThreadUse {
            pid: task.pid,
            tid: task.tid,
            comm: totals.comm.clone(),
            title: None,
            life_ns,
            on_ns: of(State::On),
            off_ns: life_ns.saturating_sub(of(State::On)),
            preempted_ns: of(State::Preempted),
            voluntary_switches: switches - preemptions,
            involuntary_switches: preemptions,
            samples,
        });
        let [minor, major] = totals.faults;
        let values = [of(State::On), switches, totals.migrations, minor, major];
        self.sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }

    /// True if no thread was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The threads, and the sums over those that are not listed.
    #[must_use]
    pub fn into_threads(self) -> (Vec<ThreadUse>, MoreThreads) {
        self.threads.into_parts()
    }

    /// The sums over all threads; empty if there are none.
    #[must_use]
    pub fn counters(&self) -> Vec<CounterValue> {
        // Only the engine reports faults.
        let known = match self.sums {
            _ if self.threads.is_empty() => &COUNTERS[..0],
            [.., 0, 0] => &COUNTERS[..3],
            _ => &COUNTERS,
        };
        let counter = |(name, value): (&&str, u64)| CounterValue {
            name: (*name).to_owned(),
            value,
            running_pct: 100.0,
        };
        known.iter().zip(self.sums).map(counter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_become_a_threads_use_and_perfs_counters() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.counters(), []);
        let totals = OffCpuTotals {
            start_ns: 100,
            end_ns: 1100,
            total_ns: [400, 50, 50, 500, 0, 0, 0, 0],
            switches: 9,
            preemptions: 3,
            migrations: 2,
            faults: [7, 1],
            queue: None,
            title: String::new(),
            flags: flag::EXITED,
            comm: "worker".into(),
        };
        clocks.add(PidTid { pid: 1, tid: 2 }, 5, &totals);
        clocks.add(PidTid { pid: 1, tid: 3 }, 0, &OffCpuTotals { flags: 0, ..totals });
        let counters = clocks.counters();
        let (threads, _) = clocks.into_threads();
        let of = &threads[0];
        assert_eq!((of.life_ns, of.on_ns, of.off_ns, of.preempted_ns, of.samples), (1000, 400, 600, 50, 5));
        assert_eq!((of.voluntary_switches, of.involuntary_switches), (5, 3));
        let values: Vec<u64> = counters.iter().map(|counter| counter.value).collect();
        assert_eq!(values, [800, 17, 4, 14, 2]);
    }
}
