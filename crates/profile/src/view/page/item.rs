//! The amounts on the page: each belongs to a thread, a place, a state and a time.

use crate::profile::Sums;
use crate::view::flame::{NodeId, Tree, Unit};

/// An amount in one place and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageItem {
    /// Index in [`PageData::threads`]; 0 if the page has none.
    pub thread: u32,
    /// Innermost function, in [`PageData::tree`].
    pub node: NodeId,
    /// Index in [`PageData::states`].
    pub state: u8,
    /// Begin, in [`PageData::tick_ns`] since the begin of the page; `None` for a sum over the thread's life.
    pub since: Option<u64>,
    /// Length of a wait, in ticks; 0 for samples and sums.
    pub length: u64,
    /// The longest of the waits that it represents, in whole ticks; 0 for samples and where none is known.
    pub longest: u64,
    /// ns, or occurrences of an event.
    pub amount: u64,
    /// Number of samples or waits.
    pub count: u64,
    /// Index in [`PageData::wakers`], plus 1; 0 if not known.
    pub waker: u32,
}

impl PageItem {
    /// A sum over all threads and times.
    #[must_use]
    pub fn of_sum(node: NodeId, state: u8, sum: Sums) -> Self {
        let Sums { count, period: amount, .. } = sum;
        Self { thread: 0, node, state, since: None, length: 0, longest: 0, amount, count, waker: 0 }
    }
}

/// All amounts of one event, or of the wall clock.
#[derive(Clone, Debug)]
pub struct ItemSet {
    /// Name of the event.
    pub name: String,
    /// Unit of the amounts.
    pub unit: Unit,
    /// Thread time by state, not an event.
    pub is_wall: bool,
    /// Sorted by thread, then by time; sums before all others.
    pub items: Vec<PageItem>,
}

impl ItemSet {
    /// Sorts the items as the page needs them.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|item| (item.thread, item.since.map_or(0, |since| since + 1), item.length));
    }
}

/// One thread of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageThread {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Last name, or the function in which it began ([`crate::view::wall::ThreadRow::short_label`]).
    pub comm: String,
    /// The title of its process, of its first thread, where it says more than the name: `git gc`.
    pub title: Option<String>,
    /// First and last moment, in ticks since the begin of the page.
    pub life: (u64, u64),
    /// Waits for work nearly all its life.
    pub is_idle: bool,
    /// Shares of each column of its strip by state, out of [`super::STRIP_SHARES`]; empty without a strip, as for
    /// threads that only wait for work.
    pub strip: Vec<Vec<(u8, u8)>>,
}

/// A thread that ended waits, in one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waker {
    /// Name, or that of an interrupt.
    pub name: String,
    /// Innermost function of its stack; the root if its stack is not known.
    pub node: NodeId,
}

/// All data of a page.
#[derive(Clone, Debug)]
pub struct PageData {
    /// All paths, without processes. Amounts are in the sets only.
    pub tree: Tree,
    /// File of each name of the tree, as index in [`Self::files`]; 0 if not known.
    pub name_files: Vec<u32>,
    /// Short names of files; the first is empty.
    pub files: Vec<String>,
    /// Names of states.
    pub states: Vec<String>,
    /// Threads; busiest first.
    pub threads: Vec<PageThread>,
    /// Wakers, most frequent first.
    pub wakers: Vec<Waker>,
    /// The wall clock first, if there is one.
    pub sets: Vec<ItemSet>,
    /// Length of a tick of all times, ns.
    pub tick_ns: u64,
    /// Length of the page's time, in ticks.
    pub ticks: u64,
    /// Number of columns of each strip.
    pub columns: usize,
}

impl PageData {
    /// A page without threads and times: stacks with sums.
    #[must_use]
    pub fn of_tree(tree: Tree, name: &str) -> Self {
        let item = |node: NodeId| {
            let of = tree.node(node);
            PageItem::of_sum(node, 0, Sums { count: of.samples, period: of.own, ..Sums::default() })
        };
        let items = tree.leaves().map(item).collect();
        let set = ItemSet { name: name.to_owned(), unit: tree.unit.clone(), is_wall: false, items };
        Self {
            name_files: vec![0; tree.names().count()],
            tree,
            files: vec![String::new()],
            states: vec!["on CPU".to_owned()],
            threads: Vec::new(),
            wakers: Vec::new(),
            sets: vec![set],
            tick_ns: 1000,
            ticks: 0,
            columns: 0,
        }
    }

    /// A page of time spent, by place and state, without threads and times.
    #[must_use]
    pub fn of_time(tree: Tree, states: &[&str], name: &str, items: Vec<PageItem>) -> Self {
        let set = ItemSet { name: name.to_owned(), unit: Unit::Nanoseconds, is_wall: true, items };
        let states = states.iter().map(|&state| state.to_owned()).collect();
        Self { states, sets: vec![set], ..Self::of_tree(tree, "") }
    }
}
