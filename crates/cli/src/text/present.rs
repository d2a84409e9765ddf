//! Contents of a recording, for those who asked for something else.

use crate::terminal::out::harmless;
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Names shown at most.
const NAMES: usize = 8;

/// Distinct names, most frequent first, the first eight of them: `postgres, psql and 3 more`.
#[must_use]
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut names: Vec<(&str, usize)> = counts.into_iter().collect();
    names.rank_by_key(|&(name, count)| (Reverse(count), name));
    let shown: Vec<_> = names.iter().take(NAMES).map(|(name, _)| harmless(name)).collect();
    match names.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_names_come_first_and_the_rest_is_counted() {
        assert_eq!(listed(["b", "a", "b"].into_iter()), "b, a");
        let many: Vec<String> = (0..10).map(|i| format!("t{i}")).collect();
        assert_eq!(listed(many.iter().map(String::as_str)), "t0, t1, t2, t3, t4, t5, t6, t7 and 2 more");
    }
}
