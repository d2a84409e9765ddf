//! Decides whether a run has enough data for a verdict.

use super::FEW_SAMPLES;
use crate::view::wall::Wall;

/// Amount of data to judge a run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Samples and waits of some length.
    Enough,
    /// Shorter runs are mostly the begin and end of a process.
    ShortRun,
    /// A handful of samples, and waits of hardly a moment.
    Little,
}

impl Evidence {
    /// Shorter runs are not judged, ns.
    const LEAST_WALL_NS: u64 = 10_000_000;
    /// Waits are measured: each of these counts like a sample of a running thread, at about 500 a second.
    const WAIT_LIKE_A_SAMPLE_NS: u64 = 2_000_000;

    /// Evidence in a run with `samples` of running threads.
    #[must_use]
    pub fn of(wall: &Wall, samples: u64) -> Self {
        if wall.wall_ns < Self::LEAST_WALL_NS {
            return Self::ShortRun;
        }
        let waited_ns = wall.whole.total_ns().saturating_sub(wall.whole.on_ns);
        let seen = samples.saturating_add(waited_ns / Self::WAIT_LIKE_A_SAMPLE_NS);
        if seen < FEW_SAMPLES { Self::Little } else { Self::Enough }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::wall::Times;

    #[test]
    fn few_samples_are_enough_next_to_long_waits_only() {
        let of = |wall_ms: u64, waited_ms: u64, samples| {
            let whole = Times { runnable_ns: waited_ms * 1_000_000, ..Times::default() };
            Evidence::of(&Wall { wall_ns: wall_ms * 1_000_000, whole, ..Wall::default() }, samples)
        };
        assert_eq!([of(9, 900, 99), of(10, 0, 20)], [Evidence::ShortRun, Evidence::Enough]);
        assert_eq!(
            [of(22, 9, 3), of(22, 34, 3), of(1000, 1000, 0)],
            [Evidence::Little, Evidence::Enough, Evidence::Enough]
        );
        assert_eq!(of(1000, 0, 19), Evidence::Little);
    }
}
