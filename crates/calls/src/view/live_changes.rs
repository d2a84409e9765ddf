//! Changes from one moment of a running program to the next: rates, shares of the time, p99 of the last intervals.

use crate::model::{CallProfile, CallStats, DurationHistogram, FunctionId};
use std::collections::{HashMap, VecDeque};

/// Number of intervals that the p99s go back.
const TREND: usize = 9;

/// A function in the last intervals.
#[derive(Default)]
struct FunctionTrend {
    calls: u64,
    total_ns: u64,
    histogram: DurationHistogram,
    new_calls: u64,
    new_ns: u64,
    p99s: VecDeque<Option<u64>>,
}

/// Change of a function since the moment before.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionChange {
    /// Calls that ended or left, per second of the interval.
    pub calls_per_s: f64,
    /// Time in it and its callees, in percent of the interval; more than 100 of several threads.
    pub percent: f64,
    /// p99 of each of the last intervals in ns, latest last; `None`: no call ended in it.
    pub p99s: Vec<Option<u64>>,
}

/// Changes of all functions.
#[derive(Default)]
pub struct LiveChanges {
    functions: HashMap<FunctionId, FunctionTrend>,
    /// The last moment, and the time from the one before, in seconds.
    at_s: f64,
    seconds: f64,
}

impl LiveChanges {
    /// Takes the sums so many seconds after the begin.
    pub fn take(&mut self, sum: &CallProfile, at_s: f64) {
        self.seconds = (at_s - self.at_s).max(1e-3);
        self.at_s = at_s;
        for (id, stats) in sum.functions() {
            self.functions.entry(id).or_default().take(stats);
        }
    }

    /// The change of a function; `None` of an unknown one.
    #[must_use]
    pub fn of(&self, id: FunctionId) -> Option<FunctionChange> {
        let trend = self.functions.get(&id)?;
        Some(FunctionChange {
            calls_per_s: trend.new_calls as f64 / self.seconds,
            percent: trend.new_ns as f64 / 1e7 / self.seconds,
            p99s: trend.p99s.iter().copied().collect(),
        })
    }
}

impl FunctionTrend {
    fn take(&mut self, stats: &CallStats) {
        let new = stats.histogram.since(&self.histogram);
        self.new_calls = stats.calls().saturating_sub(self.calls);
        self.new_ns = stats.total_ns.saturating_sub(self.total_ns);
        (self.calls, self.total_ns) = (stats.calls(), stats.total_ns);
        self.histogram = stats.histogram.clone();
        self.p99s.push_back(new.quantile(0.99));
        if self.p99s.len() > TREND {
            self.p99s.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(calls: &[u64]) -> CallProfile {
        let mut stats = CallStats { count: calls.len() as u64, ..CallStats::default() };
        for &ns in calls {
            stats.histogram.add(ns);
            stats.total_ns += ns;
        }
        let mut sum = CallProfile::new(0, 0);
        sum.add_function(FunctionId(0), &stats);
        sum
    }

    #[test]
    fn changes_are_those_since_the_moment_before() {
        let mut changes = LiveChanges::default();
        changes.take(&sum(&[8; 4]), 2.0);
        let first = FunctionChange { calls_per_s: 2.0, percent: 0.0, p99s: vec![Some(8)] };
        let of = |changes: &LiveChanges| changes.of(FunctionId(0)).expect("known");
        assert_eq!(FunctionChange { percent: 0.0, ..of(&changes) }, first);
        changes.take(&sum(&[&[8; 4][..], &[500_000_000; 2]].concat()), 4.0);
        let second = of(&changes);
        assert_eq!((second.calls_per_s, second.percent.round()), (1.0, 50.0));
        assert!(second.p99s[1].is_some_and(|ns| ns.abs_diff(500_000_000) < 20_000_000), "{second:?}");
        changes.take(&sum(&[8; 4]), 6.0);
        assert_eq!((of(&changes).calls_per_s, of(&changes).p99s[2]), (0.0, None));
        assert_eq!(changes.of(FunctionId(1)), None);
    }
}
