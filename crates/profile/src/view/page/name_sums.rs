//! A page's amounts by function.

use super::{ItemSet, PageData};
use crate::grow::{Grow as _, GrownSum as _};
use crate::view::flame::{NodeId, Tree};
use crate::view::ranking::RankRows as _;
use std::cmp::Reverse;

/// A function's amounts in all places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameSum {
    /// Name.
    pub name: String,
    /// Where it is innermost.
    pub own: u64,
    /// With what it calls; recursion counts once.
    pub total: u64,
}

/// A function's own amounts by state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSums {
    /// Name.
    pub name: String,
    /// In the first and the second state of the page.
    pub own: [u64; 2],
}

/// Functions with an amount of their own, most first.
#[must_use]
pub fn name_sums(data: &PageData, set: &ItemSet) -> Vec<NameSum> {
    let tree = &data.tree;
    let mut own = vec![0u64; tree.len()];
    set.items.iter().for_each(|item| own[item.node.index()].grow(item.amount));
    let sum = |(name, _): (&str, _)| NameSum { name: name.to_owned(), own: 0, total: 0 };
    let mut rows: Vec<NameSum> = tree.names().map(sum).collect();
    let mut seen = vec![usize::MAX; rows.len()];
    for at in (0..tree.len()).filter(|&at| own[at] > 0) {
        let mut node = NodeId::from_index(at);
        rows[tree.node(node).name.index()].own.grow(own[at]);
        while node != Tree::ROOT {
            let name = tree.node(node).name.index();
            if std::mem::replace(&mut seen[name], at) != at {
                rows[name].total.grow(own[at]);
            }
            node = tree.node(node).parent;
        }
    }
    rows.retain(|row| row.own > 0);
    rows.rank_by_key(|row| Reverse(row.own));
    rows
}

/// The set without idle time, and how much that is.
#[must_use]
pub fn without_idle(data: &PageData, set: &ItemSet) -> (ItemSet, u64) {
    let idle = data.states.iter().position(|state| state == "idle");
    let mut active = set.clone();
    active.items.retain(|item| Some(usize::from(item.state)) != idle);
    let sum = |set: &ItemSet| set.items.iter().map(|item| item.amount).grown_sum();
    let left_out = sum(set).saturating_sub(sum(&active));
    (active, left_out)
}

/// Functions with any amount by two states, greatest difference first.
#[must_use]
pub fn state_sums(data: &PageData, set: &ItemSet) -> Vec<StateSums> {
    let row = |(name, _): (&str, _)| StateSums { name: name.to_owned(), own: [0; 2] };
    let mut rows: Vec<StateSums> = data.tree.names().map(row).collect();
    for item in &set.items {
        let name = data.tree.node(item.node).name.index();
        rows[name].own[usize::from(item.state & 1)].grow(item.amount);
    }
    rows.retain(|row| row.own != [0, 0]);
    rows.rank_by_key(|row| Reverse(row.own[0].abs_diff(row.own[1])));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Sums;
    use crate::view::flame::{FrameKind, Unit};
    use crate::view::page::PageItem;

    /// `main` has 1, `main → f` 2 and then 3 before and after, `main → f → f` 4.
    fn page() -> PageData {
        let mut tree = Tree::new(Unit::Nanoseconds);
        let (main, f) = (tree.intern("main", FrameKind::Program), tree.intern("f", FrameKind::Program));
        let main = tree.child(Tree::ROOT, main);
        let outer = tree.child(main, f);
        let inner = tree.child(outer, f);
        let item =
            |node, state, period| PageItem::of_sum(node, state, Sums { count: 1, period, ..Sums::default() });
        let items = vec![item(main, 0, 1), item(outer, 0, 2), item(outer, 1, 3), item(inner, 0, 4)];
        PageData::of_time(tree, &["before", "after"], "time", items)
    }

    #[test]
    fn recursion_counts_once_in_a_functions_total() {
        let data = page();
        let rows = name_sums(&data, &data.sets[0]);
        let rows: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.own, row.total)).collect();
        assert_eq!(rows, [("f", 9, 9), ("main", 1, 10)]);
    }

    #[test]
    fn idle_time_is_left_out_and_counted() {
        let data = PageData { states: vec!["on CPU".to_owned(), "idle".to_owned()], ..page() };
        let (active, idle) = without_idle(&data, &data.sets[0]);
        assert_eq!((active.items.len(), idle), (3, 3));
        let (all, none) = without_idle(&page(), &data.sets[0]);
        assert_eq!((all.items.len(), none), (4, 0));
    }

    #[test]
    fn functions_with_the_greatest_change_come_first() {
        let data = page();
        let rows = state_sums(&data, &data.sets[0]);
        let rows: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.own)).collect();
        assert_eq!(rows, [("f", [6, 3]), ("main", [1, 0])]);
    }
}
