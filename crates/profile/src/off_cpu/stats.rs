//! Waits from `sched:sched_stat_*`: each at its end, with its length, from kernels that keep schedstats.
//!
//! Only for recordings without `sched_switch`, which has the same data and more.

use super::{OffCpu, OffCpuSource, ThreadTotals, Wait};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::TaskId;
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

/// Kind of `sched:sched_stat_*` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stat {
    /// `sched_stat_sleep`: asleep, until the wake-up.
    Sleep,
    /// `sched_stat_blocked`: uninterruptible, until the wake-up. (`sched_stat_iowait` reports a part of it again.)
    Blocked,
    /// `sched_stat_wait`: ready, until it got a CPU.
    Wait,
    /// `sched_stat_runtime`: on the CPU since the last such event.
    Runtime,
}

impl Stat {
    /// The kind of the event with this name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "sched_stat_sleep" => Self::Sleep,
            "sched_stat_blocked" => Self::Blocked,
            "sched_stat_wait" => Self::Wait,
            "sched_stat_runtime" => Self::Runtime,
            _ => return None,
        })
    }

    /// The thread's state during the interval.
    pub fn state(self) -> State {
        match self {
            Self::Sleep => State::Sleep,
            Self::Blocked => State::Disk,
            Self::Wait => State::Runnable,
            Self::Runtime => State::On,
        }
    }
}

/// All intervals so far.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    waits: Vec<Wait>,
    totals: FxHashMap<TaskId, ThreadTotals>,
    /// Threads in the order of first sight.
    order: Vec<TaskId>,
}

impl Stats {
    /// An interval of a thread that ended at its `since_ns + length_ns`.
    pub fn add(&mut self, wait: Wait) {
        let end_ns = wait.since_ns.saturating_add(wait.length_ns);
        let order = &mut self.order;
        let totals = self.totals.entry(wait.task).or_insert_with(|| {
            order.push(wait.task);
            let start_ns = wait.since_ns;
            ThreadTotals { task: wait.task, start_ns, end_ns, total_ns: [0; 8], switches: 0 }
        });
        totals.start_ns = totals.start_ns.min(wait.since_ns);
        totals.end_ns = totals.end_ns.max(end_ns);
        totals.total_ns[usize::from(wait.state.code())].grow(wait.length_ns);
        if wait.state != State::On {
            self.waits.push(wait);
        }
    }

    /// Hands out all intervals. The time between them has an unknown state.
    pub fn finish(self, off_cpu: &mut OffCpu) {
        let Self { waits, totals, order } = self;
        if order.is_empty() {
            return;
        }
        off_cpu.source = Some(OffCpuSource::Tracepoints);
        off_cpu.waits = waits;
        off_cpu.totals = order.iter().filter_map(|task| totals.get(task).copied()).collect();
        for totals in &mut off_cpu.totals {
            let told: u64 = totals.total_ns.iter().copied().grown_sum();
            totals.total_ns[usize::from(State::Unknown.code())].grow(totals.life_ns().saturating_sub(told));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_make_up_a_threads_life_and_the_gaps_are_unknown() {
        let (mut stats, mut off_cpu) = (Stats::default(), OffCpu::default());
        let of = |name: &str, since_ns, length_ns| {
            let state = Stat::of(name).expect("known").state();
            Wait { state, since_ns, length_ns, ..Wait::of(TaskId(1)) }
        };
        stats.add(of("sched_stat_sleep", 100, 50));
        stats.add(of("sched_stat_wait", 150, 10));
        stats.add(of("sched_stat_runtime", 165, 35));
        stats.add(of("sched_stat_blocked", 200, 40));
        stats.finish(&mut off_cpu);
        assert_eq!(off_cpu.totals[0].total_ns, [35, 10, 0, 50, 40, 0, 0, 5]);
        assert_eq!((off_cpu.totals[0].life_ns(), off_cpu.waits.len()), (140, 3));
        assert_eq!(Stat::of("sched_stat_iowait"), None);
    }
}
