//! Lengths of waits in powers of two.

use crate::grow::Grow as _;
use crate::off_cpu::Wait;
use perfdata::off_cpu::QueueLengths;

/// Counts by power of two of ns: bucket `i` holds lengths from 2^i up to 2^(i+1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; 64],
    /// Lengths of each bucket added up; estimates where only their sum over several buckets is known.
    bucket_ns: [u64; 64],
    count: u64,
    max_ns: u64,
    total_ns: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; 64], bucket_ns: [0; 64], count: 0, max_ns: 0, total_ns: 0 }
    }
}

impl Histogram {
    /// Adds a length, `many` times.
    pub fn add(&mut self, length_ns: u64, many: u64) {
        let bucket = length_ns.max(1).ilog2() as usize;
        self.buckets[bucket].grow(many);
        self.bucket_ns[bucket].grow(length_ns.saturating_mul(many));
        self.count.grow(many);
        self.max_ns = self.max_ns.max(length_ns);
        self.total_ns += u128::from(length_ns) * u128::from(many);
    }

    /// Adds all waits that `wait` represents: with their counted lengths if the source has them, else each with its
    /// length.
    pub(crate) fn add_wait(&mut self, wait: &Wait) {
        let Some(sums) = &wait.sums else { return self.add(wait.length_ns, wait.stands_for()) };
        self.max_ns = self.max_ns.max(wait.longest_ns());
        self.add_counts(sums.lengths.iter().map(|&many| u64::from(many)), wait.weight_ns);
        self.total_ns += u128::from(wait.weight_ns);
    }

    /// Adds all lengths of another.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, many)| sum.grow(many));
        self.bucket_ns.iter_mut().zip(other.bucket_ns).for_each(|(sum, ns)| sum.grow(ns));
        self.count.grow(other.count);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.total_ns += other.total_ns;
    }

    /// All lengths of these threads, which were counted one by one and add up to `total_ns`.
    #[must_use]
    pub(super) fn of_counts<'a>(of: impl Iterator<Item = &'a QueueLengths>, total_ns: u64) -> Self {
        let mut sum = Self { total_ns: total_ns.into(), ..Self::default() };
        let mut counts = Vec::new();
        for lengths in of {
            counts.resize(counts.len().max(lengths.counts.len()), 0u64);
            counts.iter_mut().zip(&lengths.counts).for_each(|(sum, &many)| sum.grow(u64::from(many)));
            sum.max_ns = sum.max_ns.max(u64::from(lengths.longest_us) * 1000);
        }
        sum.add_counts(counts.into_iter(), total_ns);
        sum
    }

    /// Adds lengths that were counted from [`QueueLengths::FIRST_LOG2`] on, and together are `sum_ns`.
    fn add_counts(&mut self, counts: impl Iterator<Item = u64> + Clone, sum_ns: u64) {
        let middle_ns = |bucket: usize| 1.5 * (1u64 << bucket) as f64;
        let counts = (QueueLengths::FIRST_LOG2 as usize..).zip(counts).filter(|(_, many)| *many > 0);
        let by_middle: f64 = counts.clone().map(|(bucket, many)| many as f64 * middle_ns(bucket)).sum();
        let scale = sum_ns as f64 / by_middle.max(1.0);
        for (bucket, many) in counts {
            self.buckets[bucket].grow(many);
            self.count.grow(many);
            self.bucket_ns[bucket].grow((many as f64 * middle_ns(bucket) * scale) as u64);
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Mean length; 0 when empty.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        u64::try_from(self.total_ns / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// The length that `pct` percent do not exceed, estimated within its power of two from the mean there; 0 when empty.
    #[must_use]
    pub fn percentile_ns(&self, pct: f64) -> u64 {
        let wanted = (self.count as f64 * pct / 100.0).max(1.0);
        let mut before = 0u64;
        for (i, &here) in self.buckets.iter().enumerate().filter(|(_, here)| **here > 0) {
            if (before + here) as f64 >= wanted && wanted < self.count as f64 {
                // The length in the middle of its share of the ranks: of one length, the length.
                let within = ((wanted - before as f64 - 0.5) / here as f64).max(0.0);
                // Sums count all lengths from their last power of two on in one bucket.
                let is_last = before + here >= self.count;
                return self.length_in(i, within, is_last) as u64;
            }
            before.grow(here);
        }
        self.max_ns
    }

    /// The length at `within` (0 to 1) of a bucket's ranks, as if they lay evenly around their mean.
    fn length_in(&self, bucket: usize, within: f64, is_last: bool) -> f64 {
        let (low, max) = ((1u64 << bucket) as f64, self.max_ns as f64);
        let high = if is_last { max } else { (2.0 * low).min(max) }.max(low);
        let mean = (self.bucket_ns[bucket] as f64 / self.buckets[bucket] as f64).clamp(low, high);
        let half = (mean - low).min(high - mean);
        mean + (2.0 * within - 1.0) * half
    }

    /// (lower bound in ns, count) of the buckets from the first to the last used.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = |i: &usize| self.buckets[*i] > 0;
        let first = (0..64).find(used).unwrap_or(0);
        let last = (0..64).rev().find(used).map_or(0, |last| last + 1);
        (first..last).map(|i| (1u64 << i, self.buckets[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_in_their_power_of_two() {
        let mut histogram = Histogram::default();
        histogram.add(1000, 99);
        histogram.add(1_000_000, 1);
        assert_eq!(histogram.percentile_ns(50.0), 1000);
        assert_eq!(histogram.percentile_ns(100.0), 1_000_000);
        assert_eq!((histogram.count(), histogram.max_ns(), histogram.mean_ns()), (100, 1_000_000, 10_990));
        assert_eq!(histogram.rows().map(|(_, n)| n).sum::<u64>(), 100);
        assert_eq!(Histogram::default().percentile_ns(99.0), 0);
    }

    #[test]
    fn a_median_of_equal_lengths_is_their_length() {
        let mut histogram = Histogram::default();
        for length_ns in [8_005_000, 8_010_000, 8_073_000, 8_008_000] {
            histogram.add(length_ns, 1);
        }
        let median = histogram.percentile_ns(50.0);
        assert!((8_000_000..8_030_000).contains(&median), "{median}");
        let mut two = Histogram::default();
        two.add(153_500, 1);
        two.add(3_858_000, 1);
        assert_eq!([50.0, 99.0].map(|pct| two.percentile_ns(pct)), [153_500, 3_858_000]);
    }

    #[test]
    fn sums_of_waits_are_counted_one_by_one_and_not_taken_for_waits_of_one_length() {
        let mut sums = perfdata::off_cpu::WaitSums { count: 4, longest_ns: 9_000_000, ..Default::default() };
        (sums.lengths[0], sums.lengths[13]) = (3, 1);
        let mut wait = Wait::of(crate::profile::TaskId::from_index(0));
        (wait.length_ns, wait.weight_ns, wait.sums) = (500, 9_001_500, Some(Box::new(sums)));
        let mut histogram = Histogram::default();
        histogram.add_wait(&wait);
        assert_eq!((histogram.count(), histogram.max_ns(), histogram.mean_ns()), (4, 9_000_000, 2_250_375));
        assert_eq!(wait.stands_for(), 4);
    }

    #[test]
    fn counts_of_threads_are_added_up() {
        let mut threads = [QueueLengths::default(); 2];
        threads[0].add(3000);
        threads[0].add(100);
        threads[1].add(5_000_000);
        let sum = Histogram::of_counts(threads.iter(), 5_003_100);
        assert_eq!((sum.count(), sum.max_ns(), sum.mean_ns()), (3, 5_000_000, 1_667_700));
        assert_eq!(
            sum.rows().filter(|(_, n)| *n > 0).collect::<Vec<_>>(),
            [(1024, 1), (2048, 1), (4 << 20, 1)]
        );
    }

    #[test]
    fn a_wait_longer_than_the_last_power_of_two_that_is_counted_has_its_own_length() {
        let mut sums =
            perfdata::off_cpu::WaitSums { count: 1, longest_ns: 7_863_000_000, ..Default::default() };
        *sums.lengths.last_mut().expect("lengths") = 1;
        let mut wait = Wait::of(crate::profile::TaskId::from_index(0));
        (wait.weight_ns, wait.sums) = (7_863_000_000, Some(Box::new(sums)));
        let mut histogram = Histogram::default();
        histogram.add_wait(&wait);
        assert_eq!([50.0, 99.0].map(|pct| histogram.percentile_ns(pct)), [7_863_000_000; 2]);
    }
}
