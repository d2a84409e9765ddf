//! The critical path over time: which thread the run waited for in each column.

use super::Timeline;
use super::strip::Grid;
use crate::grow::Grow as _;
use crate::profile::{Profile, TaskId};
use crate::view::blame::{CriticalOpts, CriticalPiece, critical_path, thread_name};
use crate::view::ranking::RankRows as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The path, cut into the columns of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathStrip {
    /// Names of threads with their time on the path in the time shown, ns, most first. Threads of one name are one.
    pub threads: Vec<(String, u64)>,
    /// By column the thread with most of it, as an index into `threads`; `None` outside of the path.
    pub columns: Vec<Option<usize>>,
}

/// Computes it for the path that ends with `thread`, or with the main one; `None` without a path of two threads or more.
#[must_use]
pub fn path_strip(profile: &Profile, thread: Option<&str>, view: &Timeline) -> Option<PathStrip> {
    let columns = view.rows.first()?.columns.len();
    let begin_ns = profile.off_cpu.totals.iter().map(|totals| totals.start_ns).min()?;
    let opts = CriticalOpts { thread: thread.map(str::to_owned), ..CriticalOpts::default() };
    let path = critical_path(profile, &opts);
    let mut sums: Vec<BTreeMap<&str, u64>> = vec![BTreeMap::new(); columns];
    let mut names: BTreeMap<TaskId, &str> = BTreeMap::new();
    let begin_ns = begin_ns.saturating_add(view.span_ns.0);
    let grid = Grid { begin_ns, column_ns: view.column_ns, columns };
    for piece in &path.pieces {
        let name = *names.entry(piece.task).or_insert_with(|| thread_name(profile, piece.task));
        add(&mut sums, name, piece, grid);
    }
    let mut whole: BTreeMap<&str, u64> = BTreeMap::new();
    sums.iter().flatten().for_each(|(name, ns)| whole.entry(name).or_default().grow(*ns));
    let mut threads: Vec<(String, u64)> = whole.into_iter().map(|(name, ns)| (name.to_owned(), ns)).collect();
    threads.rank_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    let most = |column: &BTreeMap<&str, u64>| {
        let (name, _) = column.iter().max_by_key(|(name, ns)| (**ns, Reverse(**name)))?;
        threads.iter().position(|(of, _)| of == name)
    };
    let columns = sums.iter().map(most).collect();
    (threads.len() > 1).then_some(PathStrip { threads, columns })
}

/// Adds a piece to the columns.
fn add<'n>(sums: &mut [BTreeMap<&'n str, u64>], name: &'n str, piece: &CriticalPiece, grid: Grid) {
    grid.each(piece.from_ns, piece.to_ns, |at, ns| sums[at].entry(name).or_default().grow(ns));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::blame::BlameEnd;

    #[test]
    fn a_piece_is_in_all_columns_that_it_covers() {
        let mut sums = vec![BTreeMap::new(); 4];
        let task = TaskId::from_index(0);
        let piece =
            |from_ns, to_ns| CriticalPiece { task, state: BlameEnd::Ran, callsite: None, from_ns, to_ns };
        let grid = Grid { begin_ns: 100, column_ns: 50, columns: 4 };
        add(&mut sums, "a", &piece(50, 225), grid);
        add(&mut sums, "b", &piece(225, 900), grid);
        let of = |name: &str| sums.iter().map(|column| column.get(name).copied()).collect::<Vec<_>>();
        assert_eq!(of("a"), [Some(50), Some(50), Some(25), None]);
        assert_eq!(of("b"), [None, None, Some(25), Some(50)]);
    }
}
