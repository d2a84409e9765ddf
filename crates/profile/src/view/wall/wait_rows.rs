//! Waits as a reader sees them: those that read the same are one row.

use super::place_texts::{functions, place_texts};
use super::{Histogram, Part, Wall, part_name};
use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::hash::Hash;

/// All waits with one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// `poll: epoll_wait < serve < main`, `convert waits for /tmp/in.png`.
    pub text: String,
    /// ns waited.
    pub total_ns: u64,
    /// How long each took.
    pub lengths: Histogram,
}

/// The first `most` rows of a list, and the number of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitRows {
    /// Most time first.
    pub rows: Vec<WaitRow>,
    /// Rows left out.
    pub others: usize,
}

/// Waits by reason and user functions. Of two stacks that are cut to the same text, the time is in one row.
#[must_use]
pub fn place_rows(profile: &Profile, wall: &Wall, most: usize) -> WaitRows {
    let key = |at: usize| (wall.places[at].part, functions(profile, wall.places[at].callsite));
    let of_place = |at: usize| (wall.places[at].total_ns, &wall.places[at].lengths);
    let stacks = sums((0..wall.places.len()).map(|at| (key(at), at, of_place(at))));
    let first: Vec<_> = stacks.iter().take(most).map(|stack| wall.places[stack.first].clone()).collect();
    let texts = place_texts(profile, &first);
    let text = |part: Part, text: &str| format!("{}: {text}", part_name(part));
    let shown =
        stacks.iter().zip(first.iter().zip(&texts)).enumerate().map(|(at, (stack, (place, words)))| {
            (text(place.part, words), at, (stack.total_ns, &stack.lengths))
        });
    WaitRows { rows: sums(shown).into_iter().map(row).collect(), others: stacks.len().saturating_sub(most) }
}

/// Waits by what they were for, and by the name of the threads, whatever they did with it: reading, syncing.
#[must_use]
pub fn target_rows(wall: &Wall, most: usize) -> WaitRows {
    let text = |at: usize| format!("{} waits for {}", wall.targets[at].thread, wall.targets[at].name);
    let of_target = |at: usize| (wall.targets[at].total_ns, &wall.targets[at].lengths);
    let mut rows = sums((0..wall.targets.len()).map(|at| (text(at), at, of_target(at))));
    let others = rows.len().saturating_sub(most);
    rows.truncate(most);
    WaitRows { rows: rows.into_iter().map(row).collect(), others }
}

struct Sum<K> {
    key: K,
    /// Number of the first that was added.
    first: usize,
    total_ns: u64,
    lengths: Histogram,
}

fn row(sum: Sum<String>) -> WaitRow {
    WaitRow { text: sum.key, total_ns: sum.total_ns, lengths: sum.lengths }
}

/// Adds up those with one key; most time first, in the order given where the time is the same.
fn sums<'h, K: Hash + Eq + Clone>(
    parts: impl Iterator<Item = (K, usize, (u64, &'h Histogram))>,
) -> Vec<Sum<K>> {
    let mut index: FxHashMap<K, usize> = FxHashMap::default();
    let mut sums: Vec<Sum<K>> = Vec::new();
    for (key, first, (ns, lengths)) in parts {
        let at = *index.entry(key.clone()).or_insert(sums.len());
        if at == sums.len() {
            sums.push(Sum { key, first, total_ns: 0, lengths: Histogram::default() });
        }
        sums[at].total_ns.grow(ns);
        sums[at].lengths.add_all(lengths);
    }
    sums.rank_by_key(|sum| (Reverse(sum.total_ns), sum.first));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::WaitReason;
    use crate::view::wall::WaitTarget;

    fn target(reason: WaitReason, name: &str, total_ns: u64) -> WaitTarget {
        let mut lengths = Histogram::default();
        lengths.add(total_ns, 1);
        let (thread, name) = ("convert".to_owned(), name.to_owned());
        WaitTarget { part: Part::Blocked(reason), thread, name, has_name: true, total_ns, lengths }
    }

    #[test]
    fn a_file_that_is_read_and_synced_is_one_row() {
        let targets = vec![
            target(WaitReason::Fsync, "/disk.tmp", 50),
            target(WaitReason::Pipe, "pipe to gzip", 40),
            target(WaitReason::Disk, "/disk.tmp", 30),
        ];
        let wall = Wall { targets, ..Wall::default() };
        let shown = target_rows(&wall, 1);
        assert_eq!((shown.rows.len(), shown.others), (1, 1));
        let file = &shown.rows[0];
        assert_eq!((&file.text[..], file.total_ns), ("convert waits for /disk.tmp", 80));
        assert_eq!((file.lengths.count(), file.lengths.max_ns()), (2, 50));
    }
}
