//! Two recordings of calls side by side: absolute times and counts, function by function or path by path.
//!
//! Traced calls are exact, so nothing is scaled. Functions are the same when their names are: numbers mean
//! nothing across recordings, and the program's file may have another name.

use profile::grow::Grow as _;
use profile::view::ranking::RankRows as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{CallProfile, CallStats, FunctionId, NodeId};

/// One side's numbers for a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSums {
    /// Calls, those still open at the end included.
    pub count: u64,
    /// Time in them and in all they called, ns.
    pub total_ns: u64,
    /// Time in themselves, ns.
    pub self_ns: u64,
    /// Part of `self_ns` off the CPU, ns.
    pub self_off_ns: u64,
}

impl CallSums {
    fn add(&mut self, stats: &CallStats) {
        self.count.grow(stats.calls());
        self.total_ns.grow(stats.total_ns);
        self.self_ns.grow(stats.self_ns);
        self.self_off_ns.grow(stats.self_off_ns);
    }

    /// Time in themselves on the CPU, ns.
    #[must_use]
    pub const fn self_on_ns(&self) -> u64 {
        self.self_ns.saturating_sub(self.self_off_ns)
    }

    /// Mean total time of a call, ns; `None` without calls.
    #[must_use]
    pub fn avg_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.count)
    }
}

/// One function or path on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffRow {
    /// Names on the path, outermost first; of a function: its own alone.
    pub path: Vec<String>,
    /// Before.
    pub baseline: CallSums,
    /// After.
    pub current: CallSums,
}

impl DiffRow {
    /// How much the self time grew, ns; negative when it shrank.
    #[must_use]
    pub fn self_delta_ns(&self) -> i64 {
        delta(self.baseline.self_ns, self.current.self_ns)
    }

    /// How much the total time grew, ns; negative when it shrank.
    #[must_use]
    pub fn total_delta_ns(&self) -> i64 {
        delta(self.baseline.total_ns, self.current.total_ns)
    }

    /// How many more calls there are; negative for fewer.
    #[must_use]
    pub fn count_delta(&self) -> i64 {
        delta(self.baseline.count, self.current.count)
    }
}

/// The difference of two sums that fit an `i64` in any recording shorter than 292 years.
fn delta(before: u64, after: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before {
        i64::MAX
    } else {
        i64::MIN
    })
}

/// A side: its calls and its functions' names.
pub type Side<'a> = (&'a CallProfile, &'a dyn Fn(FunctionId) -> String);

/// Kind of the rows of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffUnit {
    /// Functions, wherever they are called.
    Functions,
    /// Paths of calls.
    Paths,
}

/// Compares two sides. Largest change of self time first, then by name.
#[must_use]
pub fn diff(baseline: Side<'_>, current: Side<'_>, unit: DiffUnit) -> Vec<DiffRow> {
    let mut rows: BTreeMap<Vec<String>, [CallSums; 2]> = BTreeMap::new();
    for (side, (profile, name)) in [baseline, current].into_iter().enumerate() {
        if unit == DiffUnit::Paths {
            for (id, node) in (0..).map(NodeId).zip(profile.nodes()) {
                let path = profile.path(id).into_iter().map(name).collect();
                rows.entry(path).or_default()[side].add(&node.stats);
            }
        } else {
            for (id, stats) in profile.functions() {
                rows.entry(vec![name(id)]).or_default()[side].add(stats);
            }
        }
    }
    let mut rows: Vec<DiffRow> = rows
        .into_iter()
        .filter(|(_, [baseline, current])| baseline.count > 0 || current.count > 0)
        .map(|(path, [baseline, current])| DiffRow { path, baseline, current })
        .collect();
    rows.rank_by_key(|row| {
        Reverse((row.self_delta_ns().unsigned_abs(), row.total_delta_ns().unsigned_abs()))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Replay, ReplayGate, Step};
    use super::*;

    /// `a` calls `b` this often, each call taking this many ns.
    fn profile(calls: u64, ns: u64, numbers: [u32; 2]) -> CallProfile {
        let [a, b] = numbers.map(FunctionId);
        let mut replay = Replay::new(CallProfile::new(0, 0), ReplayGate::new(None, Asked::default()));
        let mut steps = vec![(0, Step::Enter(a))];
        for i in 0..calls {
            steps.extend([(i * ns, Step::Enter(b)), ((i + 1) * ns, Step::Exit(0))]);
        }
        steps.push((calls * ns + 5, Step::Exit(0)));
        steps.into_iter().for_each(|(at, step)| replay.step(at, step, &mut |_| {}));
        replay.finish(&mut |_| {})
    }

    #[test]
    fn functions_are_matched_by_name_and_told_in_absolute_ns() {
        let before = profile(3, 100, [0, 1]);
        let after = profile(2, 20, [1, 0]);
        let rows = diff(
            (&before, &|id| ["a", "b"][id.0 as usize].to_owned()),
            (&after, &|id| ["b", "a"][id.0 as usize].to_owned()),
            DiffUnit::Functions,
        );
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.path.join(">"), row.total_delta_ns(), row.self_delta_ns(), row.count_delta()))
            .collect();
        assert_eq!(shown, [("b".to_owned(), -260, -260, -1), ("a".to_owned(), -260, 0, 0)]);
    }

    #[test]
    fn a_path_only_one_side_has_is_a_row() {
        let both = diff(
            (&profile(1, 10, [0, 1]), &|id| ["a", "b"][id.0 as usize].to_owned()),
            (&profile(0, 10, [0, 1]), &|id| ["a", "b"][id.0 as usize].to_owned()),
            DiffUnit::Paths,
        );
        let gone = both.iter().find(|row| row.path == ["a", "b"]).expect("a row");
        assert_eq!((gone.baseline.count, gone.current), (1, CallSums::default()));
    }
}
