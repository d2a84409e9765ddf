//! How many calls of a recording would be left if short or deep ones had been left out.

use crate::model::{RawStep, Step, ThreadFile};
use crate::recording::folder::{Folder, RecordedThread};
use rayon::prelude::*;

/// Times and depths whose use as a limit is looked at.
const TIMES: [(&str, u64); 4] = [("1us", 1_000), ("10us", 10_000), ("100us", 100_000), ("1ms", 1_000_000)];
const DEPTHS: usize = 32;
/// A limit is worth naming if it leaves at most one call of this many.
const WORTH: u64 = 10;

/// How many calls would be left by each limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CallsLeft {
    calls: u64,
    /// By [`TIMES`]: calls that took at least so long.
    longer: [u64; TIMES.len()],
    /// Calls with this many around them.
    at_depth: [u64; DEPTHS],
}

impl CallsLeft {
    fn of(file: &ThreadFile<'_>, ns_per_tick: f64) -> Self {
        let mut left = Self::default();
        let mut open: Vec<u64> = Vec::new();
        for (tsc, step) in file.steps() {
            match step {
                RawStep::Enter(_) => {
                    left.calls += 1;
                    left.at_depth[open.len().min(DEPTHS - 1)] += 1;
                    open.push(tsc);
                }
                RawStep::Other(Step::Exit(_) | Step::Unwound(_)) => {
                    let took_ns = open.pop().map_or(0.0, |began| (tsc - began) as f64 * ns_per_tick);
                    let longer = left.longer.iter_mut().zip(TIMES);
                    longer.for_each(|(count, (_, ns))| *count += u64::from(took_ns >= ns as f64));
                }
                _ => {}
            }
        }
        left
    }

    fn plus(mut self, other: &Self) -> Self {
        self.calls += other.calls;
        self.longer.iter_mut().zip(other.longer).for_each(|(a, b)| *a += b);
        self.at_depth.iter_mut().zip(other.at_depth).for_each(|(a, b)| *a += b);
        self
    }

    /// Limits of all calls of a recording; `None` if its times can't be read.
    #[must_use]
    pub fn of_recording(folder: &Folder) -> Option<Self> {
        let clock = folder.clock().ok()?;
        let of = |thread: &RecordedThread| Some(Self::of(&thread.file()?, clock.ns_per_tick));
        Some(folder.threads.par_iter().filter_map(of).reduce(Self::default, |a, b| a.plus(&b)))
    }

    /// The shortest time that leaves few calls, and how many.
    #[must_use]
    pub fn time(&self) -> Option<(&'static str, u64)> {
        let by_time = TIMES.iter().zip(self.longer).map(|((word, _), left)| (*word, left));
        by_time.into_iter().find(|(_, left)| *left > 0 && left * WORTH <= self.calls)
    }

    /// The greatest depth that leaves few, and how many.
    #[must_use]
    pub fn depth(&self) -> Option<(usize, u64)> {
        let sums = self.at_depth.iter().scan(0, |sum, calls| {
            *sum += calls;
            Some(*sum)
        });
        (1..)
            .zip(sums)
            .take_while(|(_, left)| left * WORTH <= self.calls)
            .last()
            .filter(|(_, left)| *left > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_that_leave_few_calls() {
        let mut left = CallsLeft { calls: 1_000, longer: [500, 90, 3, 0], ..CallsLeft::default() };
        left.at_depth[..4].copy_from_slice(&[1, 9, 80, 910]);
        assert_eq!(left.time(), Some(("10us", 90)));
        assert_eq!(left.depth(), Some((3, 90)));
        assert_eq!(CallsLeft { calls: 10, longer: [10, 10, 10, 10], ..CallsLeft::default() }.time(), None);
    }
}
