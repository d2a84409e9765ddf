//! Times of a thread inside calls and outside timed waits: there it ran, or waited in waits that are known by their sums
//! only.

/// Such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub from: u64,
    pub to: u64,
    /// Number of the call.
    pub call: usize,
}

/// Disjoint intervals in order of time, with the sum of their lengths up to each.
#[derive(Default)]
pub(super) struct GapLengths {
    intervals: Vec<(u64, u64)>,
    before: Vec<u64>,
}

impl GapLengths {
    /// Takes gaps in order of their begins; where calls overlap (several stacks on one thread), each moment counts once.
    pub fn of(gaps: &[Gap]) -> Self {
        let mut of = Self::default();
        let mut sum = 0;
        for gap in gaps {
            let end = of.intervals.last().map_or(0, |(_, to)| *to);
            let from = gap.from.max(end);
            if from < gap.to {
                of.intervals.push((from, gap.to));
                of.before.push(sum);
                sum += gap.to - from;
            }
        }
        of
    }

    /// ns before a moment.
    fn until(&self, moment: u64) -> u64 {
        let next = self.intervals.partition_point(|(from, _)| *from < moment);
        let Some(last) = next.checked_sub(1) else { return 0 };
        let (from, to) = self.intervals[last];
        self.before[last] + (to.min(moment) - from)
    }

    /// ns in an interval.
    pub fn within(&self, from: u64, to: u64) -> u64 {
        self.until(to).saturating_sub(self.until(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_union() {
        let gap = |from, to| Gap { from, to, call: 0 };
        let of = GapLengths::of(&[gap(10, 20), gap(15, 30), gap(40, 50)]);
        assert_eq!((of.within(0, 100), of.within(12, 45), of.within(31, 39)), (30, 23, 0));
    }
}
