//! Durations of calls: counts by duration, in steps of at most 6 %.
//!
//! Log-linear: each power of two is split into 16 equal parts, so a quantile read from it is within
//! 1/16 of the true one. Only the span of buckets in use is stored.

use profile::grow::{Grow as _, GrownSum as _};

/// Parts each power of two is split into (as a power of two itself).
const SUB_BITS: u32 = 4;

/// Counts of durations in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    first: usize,
    counts: Vec<u64>,
    total: u64,
}

impl DurationHistogram {
    /// A histogram with these counts in the buckets from number `first` on.
    pub(super) fn of_buckets(first: usize, counts: &[u64]) -> Self {
        let used = |count: &u64| *count > 0;
        let (Some(low), Some(high)) = (counts.iter().position(used), counts.iter().rposition(used)) else {
            return Self::default();
        };
        let counts = counts[low..=high].to_vec();
        Self { first: first + low, total: counts.iter().copied().grown_sum(), counts }
    }

    /// Counts one duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(count) => {
                *count += 1;
                self.total += 1;
            }
            None => self.add_to(bucket, 1),
        }
    }

    /// Counts `count` durations of one bucket, numbered from 0; `None` when no duration is so long.
    pub fn add_bucket(&mut self, bucket: usize, count: u64) -> Option<()> {
        if bucket > self::bucket(u64::MAX) {
            return None;
        }
        self.add_to(bucket, count);
        Some(())
    }

    #[cold]
    fn add_to(&mut self, bucket: usize, count: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at].grow(count);
        self.total.grow(count);
    }

    /// Adds all of another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (at, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add_to(other.first + at, *count);
        }
    }

    /// Counts added since this histogram was `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: usize| {
            let at = bucket.checked_sub(earlier.first);
            at.and_then(|at| earlier.counts.get(at)).copied().unwrap_or(0)
        };
        let counts = self.counts.iter().enumerate();
        let counts: Vec<u64> =
            counts.map(|(at, count)| count.saturating_sub(before(self.first + at))).collect();
        Self::of_buckets(self.first, &counts)
    }

    /// Counts by powers of two: the lower end of each, and its durations.
    #[must_use]
    pub fn by_powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for ((from, _), count) in self.buckets() {
            let low = if from < 2 { from } else { 1 << from.ilog2() };
            match rows.last_mut() {
                Some((last, sum)) if *last == low => sum.grow(count),
                _ => rows.push((low, count)),
            }
        }
        rows
    }

    /// Number of durations counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The duration in ns that a share `q` (0 to 1) of all does not exceed; `None` when nothing was counted.
    /// The answer is the middle of a bucket, so within 1/32 of a duration that occurred.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let wanted = (q.clamp(0.0, 1.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets() {
            seen.grow(count);
            if seen >= wanted {
                let (low, high) = bucket;
                return Some(low + (high - low) / 2);
            }
        }
        None
    }

    /// The buckets in use, shortest first: ((from, up to but not including) in ns, count).
    pub fn buckets(&self) -> impl Iterator<Item = ((u64, u64), u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| ((lowest(self.first + at), lowest(self.first + at + 1)), *count))
    }
}

/// The bucket of a duration.
#[inline]
pub(super) fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let power = ns.ilog2();
    let part = (ns >> (power - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    ((power - SUB_BITS + 1) as usize) << SUB_BITS | part
}

/// The shortest duration of a bucket, in ns.
fn lowest(bucket: usize) -> u64 {
    let row = (bucket >> SUB_BITS) as u32;
    let part = (bucket & ((1 << SUB_BITS) - 1)) as u64;
    if row == 0 { part } else { (1 << SUB_BITS | part).checked_shl(row - 1).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_moments_has_only_what_came_between() {
        let mut earlier = DurationHistogram::default();
        [100, 7].into_iter().for_each(|ns| earlier.add(ns));
        let mut now = earlier.clone();
        [3, 5000, 5000].into_iter().for_each(|ns| now.add(ns));
        let since = now.since(&earlier);
        assert_eq!((since.count(), since.quantile(0.0)), (3, Some(3)));
        assert_eq!(since.quantile(1.0), now.quantile(1.0));
        assert_eq!(now.since(&now), DurationHistogram::default());
    }

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for ns in (0..100_000).chain([1 << 40, (1 << 50) + 12345, u64::MAX >> 1]) {
            let b = bucket(ns);
            assert!(lowest(b) <= ns && ns < lowest(b + 1), "{ns} in {b}");
        }
    }

    #[test]
    fn quantiles_are_within_a_sixteenth() {
        let mut h = DurationHistogram::default();
        (1..=1000).for_each(|ns| h.add(ns * 1000));
        for (q, exact) in [(0.5, 500_000.0), (0.9, 900_000.0), (0.99, 990_000.0)] {
            let got = h.quantile(q).unwrap() as f64;
            assert!((got / exact - 1.0).abs() < 1.0 / 16.0, "{q}: {got}");
        }
    }

    #[test]
    fn merging_is_adding() {
        let (mut a, mut b, mut both) =
            (DurationHistogram::default(), DurationHistogram::default(), DurationHistogram::default());
        for ns in [5, 70, 900, 70] {
            a.add(ns);
            both.add(ns);
        }
        for ns in [1, 1 << 30] {
            b.add(ns);
            both.add(ns);
        }
        a.merge(&b);
        assert_eq!(a, both);
        assert_eq!(a.count(), 6);
    }
}
