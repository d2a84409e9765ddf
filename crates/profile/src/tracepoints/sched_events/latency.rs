//! How long threads that were ready to run waited for a CPU.

use super::{SchedAction, SchedEvent, TaskState};
use crate::grow::Grow as _;
use rustc_hash::FxHashMap;

/// CPU time and waits of one thread, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// CPU time in ns, as the kernel's `sched_stat_runtime` reports it.
    pub ran_ns: u64,
    /// How often it got a CPU.
    pub count: u64,
    /// Waits for a CPU, in ns.
    pub waited_ns: u64,
    /// The longest of them; 0 if it never waited.
    pub longest_ns: u64,
    /// The longest wait's begin and end, in ns of the recording's clock.
    pub longest_at_ns: (u64, u64),
}

impl Latency {
    /// Mean wait in ns; 0 if it never got a CPU.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.waited_ns.checked_div(self.count).unwrap_or(0)
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.ran_ns.grow(other.ran_ns);
        self.count.grow(other.count);
        self.waited_ns.grow(other.waited_ns);
        if other.longest_ns > self.longest_ns {
            (self.longest_ns, self.longest_at_ns) = (other.longest_ns, other.longest_at_ns);
        }
    }

    fn add_wait(&mut self, since_ns: u64, now_ns: u64) {
        let wait_ns = now_ns.saturating_sub(since_ns);
        self.count.grow(1);
        self.waited_ns.grow(wait_ns);
        if wait_ns > self.longest_ns {
            (self.longest_ns, self.longest_at_ns) = (wait_ns, (since_ns, now_ns));
        }
    }
}

/// State of a thread off the CPU.
#[derive(Clone, Copy, Debug, Default)]
enum Wait {
    #[default]
    Running,
    /// Waits for an event since then.
    Asleep(u64),
    /// Waits for a CPU since then.
    Ready(u64),
}

/// Waits for a CPU by thread, from events in time order.
#[derive(Debug, Default)]
pub struct SchedLatencies {
    threads: FxHashMap<i32, (Latency, Wait)>,
}

impl SchedLatencies {
    /// Adds the next event.
    pub fn push(&mut self, event: &SchedEvent) {
        let now_ns = event.time_ns;
        match event.action {
            SchedAction::Switch { prev, state, next } => {
                self.threads.entry(prev).or_default().1 = wait_in(state, now_ns);
                // For a thread not seen before, the time since which it was ready is unknown.
                let (latency, wait) =
                    self.threads.entry(next).or_insert_with(|| (Latency::default(), Wait::Ready(now_ns)));
                if let Wait::Ready(since_ns) = *wait {
                    latency.add_wait(since_ns, now_ns);
                    *wait = Wait::Running;
                }
            }
            SchedAction::Wake { tid } => {
                let (_, wait) =
                    self.threads.entry(tid).or_insert_with(|| (Latency::default(), Wait::Asleep(now_ns)));
                // A thread on its way to sleep may be woken while it still runs: it never waits then.
                if matches!(*wait, Wait::Asleep(since_ns) if since_ns <= now_ns) {
                    *wait = Wait::Ready(now_ns);
                }
            }
            SchedAction::Ran { tid, ns } => {
                let (latency, _) =
                    self.threads.entry(tid).or_insert_with(|| (Latency::default(), Wait::Ready(now_ns)));
                latency.ran_ns.grow(ns);
            }
            SchedAction::Migrate { .. } => {}
        }
    }

    /// Threads with their waits, in no order.
    pub fn threads(&self) -> impl Iterator<Item = (i32, Latency)> {
        self.threads.iter().map(|(&tid, &(latency, _))| (tid, latency))
    }
}

fn wait_in(state: TaskState, now_ns: u64) -> Wait {
    if state.is_runnable() { Wait::Ready(now_ns) } else { Wait::Asleep(now_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(time_ns: u64, (prev, state): (i32, char), next: i32) -> SchedEvent {
        let action = SchedAction::Switch { prev, state: TaskState(state), next };
        SchedEvent { time_ns, cpu: 0, action }
    }

    fn of(latencies: &SchedLatencies, tid: i32) -> Latency {
        latencies.threads().find(|(of, _)| *of == tid).expect("a known thread").1
    }

    #[test]
    fn a_thread_waits_from_its_wake_up_to_its_next_switch_in() {
        let mut latencies = SchedLatencies::default();
        latencies.push(&switch(100, (7, 'S'), 8));
        latencies.push(&SchedEvent { time_ns: 150, cpu: 1, action: SchedAction::Wake { tid: 7 } });
        // A second wake-up doesn't begin the wait again.
        latencies.push(&SchedEvent { time_ns: 160, cpu: 1, action: SchedAction::Wake { tid: 7 } });
        latencies.push(&switch(190, (8, 'R'), 7));
        latencies.push(&switch(250, (7, 'S'), 8));
        let (seven, eight) = (of(&latencies, 7), of(&latencies, 8));
        assert_eq!((seven.count, seven.waited_ns, seven.longest_at_ns), (1, 40, (150, 190)));
        assert_eq!((eight.count, eight.waited_ns, eight.mean_ns()), (2, 60, 30));
    }

    #[test]
    fn a_wake_up_of_a_running_thread_is_no_wait() {
        let mut latencies = SchedLatencies::default();
        latencies.push(&switch(100, (0, 'R'), 7));
        latencies.push(&SchedEvent { time_ns: 150, cpu: 1, action: SchedAction::Wake { tid: 7 } });
        latencies.push(&switch(200, (7, 'S'), 0));
        assert_eq!(of(&latencies, 7).waited_ns, 0);
    }

    #[test]
    fn merged_threads_keep_the_longest_wait_of_all() {
        let mut sum = Latency { count: 1, waited_ns: 5, longest_ns: 5, longest_at_ns: (0, 5), ran_ns: 1 };
        let other = Latency { count: 2, waited_ns: 9, longest_ns: 8, longest_at_ns: (3, 11), ran_ns: 2 };
        sum.merge(&other);
        let all = Latency { count: 3, waited_ns: 14, longest_ns: 8, longest_at_ns: (3, 11), ran_ns: 3 };
        assert_eq!(sum, all);
    }
}
