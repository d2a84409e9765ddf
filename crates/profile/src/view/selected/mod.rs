//! The part of a page's amounts that is looked at: one selection, from which every view is computed.
//!
//! ```text
//!   PageData + Selection ─→ Selected ─┬─ states, threads     sums
//!                                     ├─ functions           self and total, by state
//!                                     ├─ waits               by the first function that tells them apart
//!                                     └─ tree                by caller, by state first, inverted
//! ```

mod functions;
mod proof;
mod stacks;
mod waits;

pub use functions::FunctionTimes;
pub use proof::proof;
pub use stacks::StackOrder;
pub use waits::WaitGroup;

use super::flame::{NodeId, Tree};
use super::page::{ItemSet, PageData, PageItem};
use crate::grow::Grow as _;

/// Name of the state that is left out unless it is asked for.
const IDLE: &str = "idle";

/// Data to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// From and to in ticks; `None` for all time.
    pub span: Option<(u64, u64)>,
    /// Indices of threads; all if empty.
    pub threads: Vec<u32>,
    /// Names of states; all if empty.
    pub states: Vec<String>,
    /// Idle time counts, too.
    pub with_idle: bool,
    /// Only stacks with this function; all if empty.
    pub focus: String,
}

/// An amount that is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedPart {
    /// Index of the item in its set.
    pub item: usize,
    /// The part of its amount that is selected.
    pub amount: u64,
}

/// The amounts of a selection.
#[derive(Clone, Debug)]
pub struct Selected<'d> {
    data: &'d PageData,
    set: &'d ItemSet,
    /// The amounts.
    pub parts: Vec<SelectedPart>,
    /// By state: the amount in the selected time, threads and stacks, whatever states are selected.
    pub states: Vec<u64>,
    /// By thread: the amount in the selected time, states and stacks, whatever threads are selected.
    pub threads: Vec<u64>,
    /// Sum of the selected parts.
    pub total: u64,
    /// The same for any state; idle time only if it counts.
    pub whole: u64,
}

impl<'d> Selected<'d> {
    /// The part of a set that is selected.
    #[must_use]
    pub fn of(data: &'d PageData, set: &'d ItemSet, selection: &Selection) -> Self {
        let (states, threads) = (vec![0; data.states.len()], vec![0; data.threads.len()]);
        let mut selected = Self { data, set, parts: Vec::new(), states, threads, total: 0, whole: 0 };
        let filter = Filter::new(data, selection);
        let mut gap_from = 0;
        for (at, item) in set.items.iter().enumerate() {
            if at == 0 || set.items[at - 1].thread != item.thread {
                gap_from = data.threads.get(item.thread as usize).map_or(0, |thread| thread.life.0);
            }
            let amount = selection.span.map_or(item.amount, |span| inside(data, item, gap_from, span));
            if let (Some(since), true) = (item.since, item.length > 0) {
                gap_from = gap_from.max(since.saturating_add(item.length));
            }
            if amount > 0 && filter.has_stack(item.node) {
                selected.add(at, item, amount, &filter);
            }
        }
        selected
    }

    fn add(&mut self, at: usize, item: &PageItem, amount: u64, filter: &Filter<'_>) {
        let (has_thread, has_state) = (filter.has_thread(item.thread), filter.has_state(item.state));
        if has_state && let Some(sum) = self.threads.get_mut(item.thread as usize) {
            sum.grow(amount);
        }
        if !has_thread {
            return;
        }
        if let Some(sum) = self.states.get_mut(usize::from(item.state)) {
            sum.grow(amount);
        }
        if filter.counts(item.state) {
            self.whole.grow(amount);
        }
        if has_state {
            self.parts.push(SelectedPart { item: at, amount });
            self.total.grow(amount);
        }
    }

    /// Item and amount of each part.
    pub fn items(&self) -> impl Iterator<Item = (&'d PageItem, u64)> {
        let set = self.set;
        self.parts.iter().map(move |part| (&set.items[part.item], part.amount))
    }

    /// The data that it is a part of.
    #[must_use]
    pub fn data(&self) -> &'d PageData {
        self.data
    }
}

/// Ticks that two spans have in common.
fn overlap(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

fn share(amount: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(amount) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The part of an item's amount in a span. A sum is spread over the thread's life. A wait that represents more than
/// itself represents others since the kept wait before, which ended at `gap_from`.
fn inside(data: &PageData, item: &PageItem, gap_from: u64, span: (u64, u64)) -> u64 {
    let Some(since) = item.since else {
        let life = data.threads.get(item.thread as usize).map_or((0, data.ticks), |thread| thread.life);
        return share(item.amount, overlap(life, span), life.1.saturating_sub(life.0));
    };
    let moment = if span.0 <= since && since < span.1 { 1 } else { 0 };
    if item.length == 0 {
        return item.amount * moment;
    }
    let own = item.amount.min(item.length.saturating_mul(data.tick_ns));
    let wait = (since, since.saturating_add(item.length));
    let part = share(own, overlap(wait, span), item.length);
    let rest = item.amount - own;
    let gap = (gap_from.min(since), since);
    let of_others =
        if gap.0 < gap.1 { share(rest, overlap(gap, span), gap.1 - gap.0) } else { rest * moment };
    part.saturating_add(of_others)
}

/// A selection, by index.
struct Filter<'s> {
    selection: &'s Selection,
    states: Vec<bool>,
    idle: Option<u8>,
    /// By node: the focus is in its stack. Empty without a focus.
    focus: Vec<bool>,
}

impl<'s> Filter<'s> {
    fn new(data: &PageData, selection: &'s Selection) -> Self {
        let idle = data.states.iter().position(|state| state == IDLE).and_then(|at| u8::try_from(at).ok());
        let is_in = |state: &String| match selection.states.as_slice() {
            [] => selection.with_idle || state != IDLE,
            wanted => wanted.contains(state),
        };
        let focus = match selection.focus.as_str() {
            "" => Vec::new(),
            name => nodes_with(&data.tree, name),
        };
        Self { selection, states: data.states.iter().map(is_in).collect(), idle, focus }
    }

    fn has_state(&self, state: u8) -> bool {
        self.states.get(usize::from(state)).copied().unwrap_or(false)
    }

    fn counts(&self, state: u8) -> bool {
        Some(state) != self.idle || self.has_state(state)
    }

    fn has_thread(&self, thread: u32) -> bool {
        self.selection.threads.is_empty() || self.selection.threads.contains(&thread)
    }

    fn has_stack(&self, node: NodeId) -> bool {
        self.focus.is_empty() || self.focus[node.index()]
    }
}

/// By node: is it the function `name`, or called by it?
fn nodes_with(tree: &Tree, name: &str) -> Vec<bool> {
    let is_named: Vec<bool> = tree.names().map(|(other, _)| other == name).collect();
    let mut found = vec![false; tree.len()];
    for (node, parent) in tree.nodes_with_parents() {
        found[node.index()] = found[parent.index()] || is_named[tree.node(node).name.index()];
    }
    found
}

#[cfg(test)]
mod tests;
