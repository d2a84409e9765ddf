//! Number of threads that run at a moment, for the report's keys `parallelism` and `latency`.
//!
//! As perf counts by switch records: one more for each thread that gets a CPU, one less for each that leaves.

use perfdata::{Item, Record};

/// Threads that run, while records are read in the order of time.
#[derive(Debug)]
pub(super) struct RunningThreads {
    /// Below 0 where records are out of order or lost.
    count: i64,
}

impl Default for RunningThreads {
    /// As perf: a thread that runs when the recording begins has no record of getting its CPU.
    fn default() -> Self {
        Self { count: 1 }
    }
}

impl RunningThreads {
    /// A record that isn't a sample.
    pub fn note(&mut self, item: &Item<'_>) {
        let tid = item.sample_id.and_then(|id| id.pid_tid).map_or(0, |(_, tid)| tid);
        match &item.record {
            Record::Switch(switch) if tid != 0 => self.count += if switch.out { -1 } else { 1 },
            // It doesn't leave its CPU before.
            Record::Exit(_) => self.count -= 1,
            _ => {}
        }
    }

    /// How many run; at least the sampled one.
    pub fn now(&self) -> u64 {
        u64::try_from(self.count).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampled_thread_runs_even_where_switches_were_lost() {
        assert_eq!(RunningThreads::default().now(), 1);
        assert_eq!(RunningThreads { count: 3 }.now(), 3);
        assert_eq!(RunningThreads { count: -2 }.now(), 1);
    }
}
