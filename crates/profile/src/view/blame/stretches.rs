//! The critical path in few enough pieces to draw: neighbours that are short are one stretch, with all their time.

use super::split::split;
use super::{Blame, BlameEnd};
use crate::grow::Grow as _;
use crate::profile::TaskId;
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// Time of one thread in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StretchPart {
    /// The thread that the run waited for.
    pub task: TaskId,
    /// What it did, with the name that most of the time has.
    pub state: BlameEnd,
    /// Its most frequent stack meanwhile; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// ns.
    pub ns: u64,
}

/// One piece of the path, or short ones in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStretch {
    /// Begin, ns of the recording's clock.
    pub from_ns: u64,
    /// End, and begin of the next stretch.
    pub to_ns: u64,
    /// Each thread and kind of state once, most time first. They add up to the stretch: short waits that are known by
    /// their sums have their part of it.
    pub parts: Vec<StretchPart>,
}

/// Time of a path without its length: whose, and what.
type PartKey = (TaskId, BlameEnd, Option<CallsiteId>);

/// Time by thread, state and stack.
#[derive(Default)]
pub(super) struct PartSums {
    sums: BTreeMap<PartKey, u64>,
}

impl PartSums {
    pub fn of(blame: &Blame) -> Self {
        let mut of = Self::default();
        for path in &blame.paths {
            of.add(blame.culprit(path), path.end.clone(), path.callsite, path.ns);
        }
        of
    }

    pub fn add(&mut self, task: TaskId, state: BlameEnd, callsite: Option<CallsiteId>, ns: u64) {
        self.sums.entry((task, state, callsite)).or_default().grow(ns);
    }

    /// Adds `ns`, divided as the time of these parts is.
    pub fn add_like(&mut self, parts: &[StretchPart], ns: u64) {
        let weights: Vec<u64> = parts.iter().map(|part| part.ns).collect();
        for (part, ns) in parts.iter().zip(split(ns, &weights)) {
            self.add(part.task, part.state.clone(), part.callsite, ns);
        }
    }

    /// Each thread and kind of state once, most time first.
    pub fn parts(self) -> Vec<StretchPart> {
        let mut sums: Vec<(PartKey, u64)> = self.sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
        sums.rank_by_key(|(_, ns)| Reverse(*ns));
        let mut parts: Vec<StretchPart> = Vec::new();
        let mut index: BTreeMap<(TaskId, BlameEnd), usize> = BTreeMap::new();
        // The first of a part is the one with most time.
        for ((task, state, callsite), ns) in sums {
            let at = *index.entry((task, state.without_name())).or_insert(parts.len());
            match parts.get_mut(at) {
                Some(part) => part.ns.grow(ns),
                None => parts.push(StretchPart { task, state, callsite, ns }),
            }
        }
        parts.rank_by_key(|part| Reverse(part.ns));
        parts
    }
}

/// Neighbours among pieces of these lengths that are drawn as one, so that there are at most `most`: pieces are joined
/// only as long as each of them, and what is joined so far, is short.
pub(super) fn joined(lengths: &[u64], most: usize) -> Vec<Range<usize>> {
    let mut whole = 0u64;
    lengths.iter().for_each(|&length| whole.grow(length));
    let most = most.max(1);
    let mut least = 0u64;
    loop {
        let found = joined_below(lengths, least);
        if found.len() <= most || least > whole || least == u64::MAX {
            return found;
        }
        least = if least == 0 { whole / most as u64 / 4 + 1 } else { least.saturating_mul(2) };
    }
}

/// Pieces shorter than `least` are joined until they are that long together.
fn joined_below(lengths: &[u64], least: u64) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open = None;
    for (at, &length) in lengths.iter().enumerate() {
        let before = open.filter(|_| length < least);
        match found.last_mut().filter(|_| before.is_some()) {
            Some(last) => last.end = at + 1,
            None => found.push(at..at + 1),
        }
        let sum = before.unwrap_or(0u64).saturating_add(length);
        open = Some(sum).filter(|&sum| length < least && sum < least);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pieces_stay_as_they_are() {
        assert_eq!(joined(&[5, 500, 7], 10), [0..1, 1..2, 2..3]);
        assert!(joined(&[], 10).is_empty());
    }

    #[test]
    fn short_pieces_are_joined_without_a_gap_and_a_long_one_stays_alone() {
        let lengths: Vec<u64> =
            (0..3000).map(|at| if at == 1000 { 9_000_000 } else { 1 + at * 7 % 911 }).collect();
        let found = joined(&lengths, 100);
        assert!(found.len() <= 100 && found.contains(&(1000..1001)), "{found:?}");
        let ends = found.iter().fold(0, |now, of| {
            assert_eq!(of.start, now);
            of.end
        });
        assert_eq!(ends, lengths.len());
        assert!(joined(&vec![10; 3000], 100).len() > 20);
    }
}
