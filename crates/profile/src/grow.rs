//! Sums of numbers that a file names: times, periods, counts of lost records. They stop at the largest number, where
//! they would wrap or panic.

/// A sum that grows.
pub trait Grow {
    /// Adds, up to the largest number.
    fn grow(&mut self, by: Self);
}

impl Grow for u64 {
    #[inline]
    fn grow(&mut self, by: Self) {
        *self = self.saturating_add(by);
    }
}

/// Numbers to be summed.
pub trait GrownSum {
    /// Sum, or the largest number.
    fn grown_sum(self) -> u64;
}

impl<I: Iterator<Item = u64>> GrownSum for I {
    #[inline]
    fn grown_sum(self) -> u64 {
        self.fold(0, u64::saturating_add)
    }
}

/// The share of a sum that a part of it is; 0 of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_end_at_the_largest_number() {
        let mut sum = u64::MAX - 1;
        sum.grow(5);
        assert_eq!((sum, [u64::MAX, 7].into_iter().grown_sum()), (u64::MAX, u64::MAX));
    }
}
