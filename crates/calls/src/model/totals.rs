//! Sums by function from a tracer that doesn't record single calls.

use super::{CallStats, DurationHistogram};

/// Sums of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionTotals {
    /// Finished calls.
    pub count: u64,
    /// Time of all of them, ns.
    pub finished_ns: u64,
    /// Time in it, recursion counted once, ns.
    pub total_ns: u64,
    /// Time in itself, ns.
    pub self_ns: u64,
    /// Shortest call, ns.
    pub min_ns: u64,
    /// Longest call, ns.
    pub max_ns: u64,
    /// Finished without returning.
    pub unwound: u64,
    /// Begun and not finished.
    pub open: u64,
    /// Calls by duration, as [`DurationHistogram`] numbers its buckets: (bucket, calls); none if no call was timed.
    pub buckets: Vec<(usize, u64)>,
}

impl FunctionTotals {
    /// The sums as the views have them; `None` if a bucket is invalid.
    #[must_use]
    pub fn into_stats(self) -> Option<CallStats> {
        let mut histogram = DurationHistogram::default();
        for (bucket, calls) in &self.buckets {
            histogram.add_bucket(*bucket, *calls)?;
        }
        let timed = !self.buckets.is_empty();
        Some(CallStats {
            count: self.count,
            unwound: self.unwound,
            open: self.open,
            total_ns: self.total_ns,
            self_ns: self.self_ns,
            finished_ns: self.finished_ns,
            min_ns: timed.then_some(self.min_ns),
            max_ns: timed.then_some(self.max_ns),
            histogram,
            ..CallStats::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_bucket_give_the_quantiles_of_the_calls() {
        let mut calls = DurationHistogram::default();
        [100, 200, 5000].into_iter().for_each(|ns| calls.add(ns));
        // 100 ns: power 6, part 9 of 16; 200: power 7; 5000: power 12, part 3.
        let buckets = vec![((6 - 3) << 4 | 9, 1), ((7 - 3) << 4 | 9, 1), ((12 - 3) << 4 | 3, 1)];
        let totals =
            FunctionTotals { count: 3, min_ns: 100, max_ns: 5000, buckets, ..FunctionTotals::default() };
        let stats = totals.into_stats().unwrap();
        assert_eq!(stats.histogram, calls);
        assert_eq!((stats.min_ns, stats.max_ns), (Some(100), Some(5000)));
        let bad = FunctionTotals { buckets: vec![(5000, 1)], ..FunctionTotals::default() };
        assert_eq!(bad.into_stats(), None);
    }
}
