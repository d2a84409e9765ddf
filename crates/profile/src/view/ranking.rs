//! Sorting of what is printed: lists that are short next to what they were made of.
//!
//! The standard library's sort is compiled again for each type and key, 5 KB each, which were 1.2 of the program's 13 MB.
//! Here one sort of positions serves all; a comparison costs an indirect call more. What is sorted again and again, or has
//! an entry for each sample, takes the library's.

use std::cmp::Ordering;

/// Stable sorts as those of slices.
pub trait RankRows<T> {
    /// As [`slice::sort_by`].
    fn rank_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`].
    fn rank_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K);
}

impl<T> RankRows<T> for [T] {
    fn rank_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        if self.len() > 1 {
            let order = order(self.len(), &|a, b| compare(&self[a], &self[b]));
            put(self, order);
        }
    }

    fn rank_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.rank_by(|a, b| key(a).cmp(&key(b)));
    }
}

/// The positions of `len` items in their order.
fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// Moves each item to its place: the one at `order[n]` to `n`.
fn put<T>(items: &mut [T], mut order: Vec<usize>) {
    for first in 0..order.len() {
        // A place whose item has come points to itself.
        let mut to = first;
        loop {
            let from = std::mem::replace(&mut order[to], to);
            if from == first {
                break;
            }
            items.swap(to, from);
            to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_the_standard_library(keys in prop::collection::vec(0u8..20, 0..60)) {
            let mut items: Vec<(u8, usize)> = keys.into_iter().enumerate().map(|(at, key)| (key, at)).collect();
            let mut by_key = items.clone();
            let mut by = items.clone();
            items.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            by_key.rank_by_key(|(key, _)| std::cmp::Reverse(*key));
            by.rank_by(|a, b| b.0.cmp(&a.0));
            prop_assert_eq!(&by_key, &items);
            prop_assert_eq!(&by, &items);
        }
    }
}
