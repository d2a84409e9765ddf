//! Functions with too little time for a page: they are left out, and their time counts for their callers.
//
// Layout: docs/formats/page.md.

use profile::grow::{Grow as _, GrownSum as _};
use profile::view::flame::{NodeId, Tree};
use profile::view::page::{ItemSet, PageData, PageItem};
use profile::view::wall::{Part, part_name};
use std::collections::BTreeMap;

/// Size of the page of a recording of at most ten seconds, in bytes; a longer one has as much for each second.
const TEN_SECONDS: u64 = 300_000;

/// Bytes for the columns of a page whose other parts take `others`, at most `most`. Pages without threads have no
/// length that could limit them.
#[must_use]
pub fn most_bytes(data: &PageData, others: usize, most: usize) -> usize {
    if data.threads.is_empty() {
        return most;
    }
    let ns = data.ticks.saturating_mul(data.tick_ns);
    let page = u64::max(TEN_SECONDS, (TEN_SECONDS / 10).saturating_mul(ns / 1_000_000_000));
    usize::try_from(page).unwrap_or(most).saturating_sub(others).min(most)
}

/// The functions that are kept, in preorder.
pub(super) struct Order {
    /// Old ids with their depth; the root is the first.
    pub(super) nodes: Vec<(NodeId, u32)>,
    /// By old id: the new one of the node itself, or of the nearest caller that is kept.
    pub(super) place: Vec<u32>,
    /// Number of functions left out.
    pub(super) pruned: usize,
}

impl Order {
    /// Without the functions that have less than `least` by their `shares`, which aren't read for 0.
    pub(super) fn of(data: &PageData, shares: &[f64], least: f64) -> Self {
        let tree = &data.tree;
        let mut below: Vec<Vec<NodeId>> = vec![Vec::new(); tree.len()];
        tree.nodes_with_parents().for_each(|(id, parent)| below[parent.index()].push(id));
        let mut order = Self { nodes: Vec::new(), place: vec![0; tree.len()], pruned: 0 };
        let mut open = vec![(Tree::ROOT, 0u32, 0u32)];
        while let Some((id, depth, caller)) = open.pop() {
            let is_kept = id == Tree::ROOT || least == 0.0 || shares[id.index()] >= least;
            let place = if is_kept { order.nodes.len() as u32 } else { caller };
            order.place[id.index()] = place;
            if is_kept {
                order.nodes.push((id, depth));
            } else {
                order.pruned += 1;
            }
            let depth = depth + u32::from(is_kept);
            open.extend(below[id.index()].iter().rev().map(|&child| (child, depth, place)));
        }
        order
    }
}

/// Each node's largest share of a set, idle time aside. Places of wakers count as a whole: nothing of them is pruned.
pub(super) fn shares(data: &PageData) -> Vec<f64> {
    let mut shares = vec![0.0f64; data.tree.len()];
    let idle = data.states.iter().position(|state| state == part_name(Part::Idle));
    for set in &data.sets {
        let mut totals = vec![0u64; data.tree.len()];
        set.items.iter().for_each(|item| totals[item.node.index()].grow(item.amount));
        sum_up(&data.tree, &mut totals);
        let is_active = |item: &&PageItem| !set.is_wall || Some(usize::from(item.state)) != idle;
        let active = set.items.iter().filter(is_active).map(|item| item.amount).grown_sum();
        let whole = active.max(1) as f64;
        shares.iter_mut().zip(&totals).for_each(|(share, &total)| *share = share.max(total as f64 / whole));
    }
    for waker in &data.wakers {
        let mut node = waker.node;
        while node != Tree::ROOT {
            shares[node.index()] = 1.0;
            node = data.tree.node(node).parent;
        }
    }
    shares
}

/// Adds every node's sum to its callers'.
fn sum_up(tree: &Tree, totals: &mut [u64]) {
    for at in (1..totals.len()).rev() {
        let (parent, total) = (tree.parent_index(at), totals[at]);
        totals[parent].grow(total);
    }
}

/// Ticks of a page that is too large, in those it had.
const COARSER: u64 = 10;

/// The same amounts at times in longer ticks.
pub(super) fn coarser(data: &PageData) -> PageData {
    let mut data = data.clone();
    for item in data.sets.iter_mut().flat_map(|set| &mut set.items) {
        item.since = item.since.map(|since| since / COARSER);
        item.length = item.length.div_ceil(COARSER);
        item.longest /= COARSER;
    }
    for thread in &mut data.threads {
        thread.life = (thread.life.0 / COARSER, thread.life.1.div_ceil(COARSER));
    }
    data.sets.iter_mut().for_each(ItemSet::sort);
    (data.tick_ns, data.ticks) = (data.tick_ns.saturating_mul(COARSER), data.ticks.div_ceil(COARSER));
    data
}

/// Lengths from which the page's buttons select waits, ns.
const SELECTED: [u64; 6] = [100_000, 1_000_000, 5_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// A class of lengths: no selection of the page has only a part of it.
fn class(longest_ns: u64) -> (u32, usize) {
    (
        longest_ns.checked_ilog2().map_or(0, |power| power + 1),
        SELECTED.partition_point(|&ns| ns <= longest_ns),
    )
}

/// A set with one item for all sums of a thread that pruning left in the same place, if their lengths are of a class.
pub(super) fn joined(set: &ItemSet, order: &Order, tick_ns: u64) -> ItemSet {
    let (sums, timed): (Vec<&PageItem>, Vec<&PageItem>) = set.items.iter().partition(|item| is_sum(item));
    let mut joined: BTreeMap<_, PageItem> = BTreeMap::new();
    for item in sums {
        let place = (item.thread, order.place[item.node.index()], item.state, item.waker);
        let class = class(item.longest.saturating_mul(tick_ns));
        let sum = joined.entry((place, class)).or_insert(PageItem { amount: 0, count: 0, ..*item });
        sum.amount.grow(item.amount);
        sum.count.grow(item.count);
        sum.longest = sum.longest.max(item.longest);
    }
    let items = joined.into_values().chain(timed.into_iter().copied()).collect();
    let mut set = ItemSet { items, ..set.clone() };
    set.sort();
    set
}

/// Without a time.
fn is_sum(item: &PageItem) -> bool {
    item.since.is_none() && item.length == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::profile::Sums;
    use profile::view::flame::{FrameKind, Unit};

    /// Callers with few large, and many small functions, in two threads and states; state 1 is idle.
    fn data() -> PageData {
        let mut tree = Tree::new(Unit::Nanoseconds);
        let caller = tree.intern("caller", FrameKind::Program);
        let caller = tree.child(Tree::ROOT, caller);
        let mut items = Vec::new();
        for at in 0..40u64 {
            let name = tree.intern(&format!("f{at}"), FrameKind::Program);
            let node = tree.child(caller, name);
            let (thread, state) = ((at % 2) as u32, (at / 2 % 2) as u8);
            let period = if at < 4 { 1000 } else { 3 };
            let sum = PageItem::of_sum(node, state, Sums { count: 1, period, ..Sums::default() });
            items.push(PageItem { thread, ..sum });
            items.push(PageItem { thread, since: Some(at), ..sum });
        }
        PageData::of_time(tree, &["on CPU", part_name(Part::Idle)], "wall clock", items)
    }

    fn by_thread_and_state(items: &[PageItem]) -> BTreeMap<(u32, u8), (u64, u64)> {
        items.iter().fold(BTreeMap::new(), |mut sums, item| {
            let sum = sums.entry((item.thread, item.state)).or_insert((0, 0));
            (sum.0, sum.1) = (sum.0 + item.amount, sum.1 + item.count);
            sums
        })
    }

    #[test]
    fn small_functions_become_one_sum_of_their_caller_and_all_sums_stay() {
        let data = data();
        let order = Order::of(&data, &shares(&data), 0.01);
        assert_eq!((order.nodes.len(), order.pruned), (6, 36));
        let joined = joined(&data.sets[0], &order, 1000);
        assert_eq!(by_thread_and_state(&joined.items), by_thread_and_state(&data.sets[0].items));
        // Sums: 4 of the caller, 4 of large functions. Samples keep their times.
        let (sums, timed): (Vec<&PageItem>, Vec<&PageItem>) =
            joined.items.iter().partition(|item| is_sum(item));
        assert_eq!((sums.len(), timed.len()), (8, 40));
    }

    #[test]
    fn sums_of_different_lengths_stay_two_where_a_selection_may_have_one_of_them() {
        let mut data = data();
        for (item, longest) in data.sets[0].items.iter_mut().filter(|item| is_sum(item)).zip((0..8).cycle()) {
            item.longest = longest * 1000;
        }
        let order = Order::of(&data, &shares(&data), f64::INFINITY);
        assert_eq!(order.nodes.len(), 1);
        let from = |set: &ItemSet, ticks: u64| -> u64 {
            set.items.iter().filter(|item| item.longest >= ticks).map(|item| item.amount).sum()
        };
        let joined = joined(&data.sets[0], &order, 1000);
        assert!(joined.items.len() < data.sets[0].items.len());
        for ticks in [1, 1000, 5000] {
            assert_eq!(from(&joined, ticks), from(&data.sets[0], ticks));
        }
    }

    #[test]
    fn longer_ticks_keep_times_within_the_page_and_every_amount() {
        let mut data = PageData { tick_ns: 1000, ticks: 41, ..data() };
        data.sets[0].items[1].length = 1;
        let coarse = coarser(&data);
        assert_eq!((coarse.tick_ns, coarse.ticks), (10_000, 5));
        assert_eq!(by_thread_and_state(&coarse.sets[0].items), by_thread_and_state(&data.sets[0].items));
        let last = coarse.sets[0].items.iter().filter_map(|item| item.since).max();
        assert_eq!(last, Some(3));
        // A short wait is still a wait.
        assert_eq!(coarse.sets[0].items.iter().filter(|item| item.length == 1).count(), 1);
    }

    #[test]
    fn idle_time_does_not_make_other_functions_small() {
        let mut data = data();
        let idle = data.sets[0].items.iter_mut().filter(|item| item.state == 1);
        idle.for_each(|item| item.amount *= 1_000_000);
        assert_eq!(Order::of(&data, &shares(&data), 0.01).nodes.len(), 6 + 18);
    }

    #[test]
    fn a_recording_has_bytes_by_its_length() {
        let mut data = PageData { tick_ns: 1000, ticks: 8_000_000, ..data() };
        assert_eq!(most_bytes(&data, 100_000, 5_000_000), 5_000_000);
        data.threads.push(profile::view::page::PageThread {
            pid: 1,
            tid: 1,
            comm: String::new(),
            title: None,
            life: (0, 1),
            is_idle: false,
            strip: Vec::new(),
        });
        assert_eq!(most_bytes(&data, 100_000, 5_000_000), 200_000);
        data.ticks = 60_000_000;
        assert_eq!(most_bytes(&data, 100_000, 5_000_000), 1_700_000);
        data.ticks = 600_000_000;
        assert_eq!(most_bytes(&data, 100_000, 5_000_000), 5_000_000);
    }
}
