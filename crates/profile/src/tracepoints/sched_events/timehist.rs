//! For each switch: how long the thread that leaves had waited before, and how long it ran.

use super::{IDLE, SchedAction, SchedEvent, TaskState};
use crate::grow::Grow as _;
use rustc_hash::FxHashMap;

/// A thread; the idle threads, which all have number 0, by CPU.
pub type ThreadKey = (i32, Option<u32>);

/// A thread leaves its CPU: what it did since it left the one before. All times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Off the CPU: asleep, blocked, or preempted.
    pub wait_ns: u64,
    /// Part of that: ready, waiting for a CPU, after a wake-up that was seen or after being preempted.
    pub delay_ns: u64,
    /// On the CPU.
    pub run_ns: u64,
}

/// CPU times of one thread, turn by turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Turns.
    pub count: u64,
    /// CPU time in ns.
    pub total_ns: u64,
    /// The shortest turn.
    pub min_ns: u64,
    /// The longest turn.
    pub max_ns: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl RunStats {
    // Welford's method: the mean and the squares grow with each value, without a second pass.
    fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count.grow(1);
        self.total_ns.grow(ns);
        let distance = ns as f64 - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (ns as f64 - self.mean);
    }

    /// Mean turn in ns; 0 without turns.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.mean as u64
    }

    /// Standard error of the mean, in percent of the mean; 0 for fewer than two turns.
    #[must_use]
    pub fn error_percent(&self) -> f64 {
        if self.count < 2 || self.mean <= 0.0 {
            return 0.0;
        }
        let variance = self.squares / (self.count - 1) as f64;
        (variance / self.count as f64).sqrt() * 100.0 / self.mean
    }
}

#[derive(Debug, Default)]
struct ThreadTimes {
    left_ns: Option<u64>,
    ready_ns: Option<u64>,
    stats: RunStats,
}

/// Turns from events in time order.
#[derive(Debug, Default)]
pub struct Timehist {
    /// By CPU: time of its last switch.
    switched_ns: FxHashMap<u32, u64>,
    threads: FxHashMap<ThreadKey, ThreadTimes>,
    span_ns: Option<(u64, u64)>,
    /// Begin and end of what counts; `None` for all.
    within_ns: Option<(u64, u64)>,
}

impl Timehist {
    /// Only time between these two counts, in ns of the recording's clock.
    #[must_use]
    pub fn within(span_ns: Option<(u64, u64)>) -> Self {
        Self { within_ns: span_ns, ..Self::default() }
    }

    /// Adds the next event; for a switch, the turn that ends, unless it is outside of the time that counts.
    pub fn push(&mut self, event: &SchedEvent) -> Option<Turn> {
        match event.action {
            SchedAction::Wake { tid } => {
                self.thread(tid, event.cpu).ready_ns.get_or_insert(event.time_ns);
                None
            }
            SchedAction::Migrate { tid } => {
                self.thread(tid, event.cpu).stats.migrations.grow(1);
                None
            }
            SchedAction::Switch { prev, state, .. } => self.switch(event, prev, state),
            SchedAction::Ran { .. } => None,
        }
    }

    fn thread(&mut self, tid: i32, cpu: u32) -> &mut ThreadTimes {
        self.threads.entry((tid, (tid == IDLE).then_some(cpu))).or_default()
    }

    fn switch(&mut self, event: &SchedEvent, prev: i32, state: TaskState) -> Option<Turn> {
        let now_ns = event.time_ns;
        let came_ns = self.switched_ns.insert(event.cpu, now_ns);
        let (from_ns, to_ns) = self.within_ns.unwrap_or((0, u64::MAX));
        let counts = now_ns >= from_ns && came_ns.is_none_or(|came| came <= to_ns);
        if counts {
            let end = now_ns.min(to_ns);
            self.span_ns = Some((self.span_ns.map_or(end, |(begin, _)| begin), end));
        }
        let thread = self.thread(prev, event.cpu);
        let turn = came_ns.map_or(Turn::default(), |came_ns| {
            let since = |ns: Option<u64>| ns.map_or(0, |ns| came_ns.saturating_sub(ns));
            let (begin, end) = (came_ns.max(from_ns), now_ns.min(to_ns));
            Turn {
                wait_ns: since(thread.left_ns),
                delay_ns: since(thread.ready_ns),
                run_ns: end.saturating_sub(begin),
            }
        });
        if counts {
            thread.stats.add(turn.run_ns);
        }
        (thread.left_ns, thread.ready_ns) = (Some(now_ns), state.is_runnable().then_some(now_ns));
        counts.then_some(turn)
    }

    /// CPU times of threads that left a CPU, in no order.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadKey, &RunStats)> {
        self.threads
            .iter()
            .filter(|(_, times)| times.stats.count > 0)
            .map(|(&key, times)| (key, &times.stats))
    }

    /// Time from the first switch that counts to the last, in ns; 0 without switches.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.span_ns.map_or(0, |(begin, end)| end.saturating_sub(begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(time_ns: u64, prev: i32, next: i32) -> SchedEvent {
        SchedEvent { time_ns, cpu: 1, action: SchedAction::Switch { prev, state: TaskState('S'), next } }
    }

    #[test]
    fn a_turn_has_the_wait_before_it_the_delay_in_that_and_its_run() {
        let mut timehist = Timehist::default();
        timehist.push(&switch(100, 7, 8));
        timehist.push(&SchedEvent { time_ns: 130, cpu: 0, action: SchedAction::Wake { tid: 7 } });
        assert_eq!(timehist.push(&switch(150, 8, 7)), Some(Turn { wait_ns: 0, delay_ns: 0, run_ns: 50 }));
        assert_eq!(timehist.push(&switch(175, 7, 0)), Some(Turn { wait_ns: 50, delay_ns: 20, run_ns: 25 }));
        // The wake-up belongs to the turn before.
        timehist.push(&switch(180, 0, 7));
        assert_eq!(timehist.push(&switch(190, 7, 0)), Some(Turn { wait_ns: 5, delay_ns: 0, run_ns: 10 }));
        assert_eq!(timehist.span_ns(), 90);
    }

    #[test]
    fn a_preempted_thread_is_ready_all_the_time() {
        let mut timehist = Timehist::default();
        let action = SchedAction::Switch { prev: 7, state: TaskState('R'), next: 8 };
        timehist.push(&SchedEvent { time_ns: 100, cpu: 1, action });
        timehist.push(&switch(150, 8, 7));
        assert_eq!(timehist.push(&switch(160, 7, 8)), Some(Turn { wait_ns: 50, delay_ns: 50, run_ns: 10 }));
    }

    #[test]
    fn the_first_switch_of_a_cpu_ends_a_turn_of_unknown_length() {
        assert_eq!(Timehist::default().push(&switch(100, 7, 8)), Some(Turn::default()));
    }

    #[test]
    fn only_the_part_of_a_turn_within_the_time_asked_for_counts() {
        let mut timehist = Timehist::within(Some((120, 180)));
        assert_eq!(timehist.push(&switch(100, 0, 7)), None);
        assert_eq!(timehist.push(&switch(150, 7, 8)).map(|turn| turn.run_ns), Some(30));
        assert_eq!(timehist.push(&switch(200, 8, 7)).map(|turn| turn.run_ns), Some(30));
        assert_eq!(timehist.push(&switch(300, 7, 8)), None);
        assert_eq!(timehist.span_ns(), 30);
    }

    #[test]
    fn the_error_of_the_mean_is_that_of_the_textbook() {
        let mut stats = RunStats::default();
        [2, 4, 9].into_iter().for_each(|ns| stats.add(ns));
        assert_eq!(
            (stats.count, stats.total_ns, stats.min_ns, stats.max_ns, stats.mean_ns()),
            (3, 15, 2, 9, 5)
        );
        // Variance (9 + 1 + 16) / 2 = 13; √(13 / 3) / 5.
        assert!((stats.error_percent() - 41.633).abs() < 0.001, "{}", stats.error_percent());
    }
}
