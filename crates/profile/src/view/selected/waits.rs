//! Waits of a selection by state and innermost function outside the kernel, each named by the first caller in which it
//! differs from the others.

use super::Selected;
use super::functions::caller_of_kernel;
use crate::grow::Grow as _;
use crate::view::flame::{FrameKind, NodeId, Tree};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Waits in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitGroup {
    /// Index of the state.
    pub state: u8,
    /// The innermost place outside the kernel.
    pub node: NodeId,
    /// `wait < … < what it has in common with others < what tells it apart`.
    pub label: String,
    /// The first function that only this place has on its stack; the innermost one without others.
    pub distinct: String,
    /// ns waited.
    pub total: u64,
    /// Number of waits, those that others represent included; 0 if not known.
    pub count: u64,
    /// Half of the waits took no longer, ns; a wait that represents others counts with their mean.
    pub p50_ns: u64,
    /// The longest that was kept, ns.
    pub max_ns: u64,
    /// ns by the name of the thread that ended the waits, most first; only where that is known.
    pub wakers: Vec<(String, u64)>,
}

/// Sums of one place while they are made.
#[derive(Default)]
struct Sums {
    total: u64,
    count: u64,
    max_ns: u64,
    /// Length and number of waits.
    lengths: Vec<(u64, u64)>,
    wakers: BTreeMap<String, u64>,
}

/// Frames of a label.
const SHOWN: usize = 4;
/// Callers looked at to tell places apart.
const DEEPEST: usize = 60;

impl Selected<'_> {
    /// Waits by place, most time first.
    #[must_use]
    pub fn waits(&self) -> Vec<WaitGroup> {
        let mut places: BTreeMap<(u8, NodeId), Sums> = BTreeMap::new();
        let tree = &self.data.tree;
        for (item, amount) in self.items().filter(|(item, _)| self.set.is_wall && item.state != 0) {
            let sums = places.entry((item.state, caller_of_kernel(tree, item.node))).or_default();
            sums.total.grow(amount);
            if let Some(waker) = (item.waker as usize).checked_sub(1).and_then(|at| self.data.wakers.get(at))
            {
                sums.wakers.entry(waker.name.clone()).or_default().grow(amount);
            }
            if item.length > 0 {
                let length = item.length.saturating_mul(self.data.tick_ns);
                let mean = item.amount.checked_div(item.count).unwrap_or(length).min(length);
                sums.count.grow(item.count);
                sums.max_ns = sums.max_ns.max(length);
                sums.lengths.push((mean, item.count));
            }
        }
        let mut groups: Vec<WaitGroup> =
            places.into_iter().map(|((state, node), sums)| group(state, node, sums)).collect();
        name(tree, &mut groups);
        groups.rank_by(|a, b| b.total.cmp(&a.total).then_with(|| a.label.cmp(&b.label)));
        groups
    }
}

fn group(state: u8, node: NodeId, mut sums: Sums) -> WaitGroup {
    sums.lengths.sort_unstable();
    let mut before = 0u64;
    let half = sums.lengths.iter().find(|(_, count)| {
        before.grow(*count);
        before.saturating_mul(2) >= sums.count
    });
    let mut wakers: Vec<_> = sums.wakers.into_iter().collect();
    wakers.rank_by_key(|(_, ns)| Reverse(*ns));
    WaitGroup {
        state,
        node,
        label: String::new(),
        distinct: String::new(),
        total: sums.total,
        count: sums.count,
        p50_ns: half.map_or(0, |(length, _)| *length),
        max_ns: sums.max_ns,
        wakers,
    }
}

/// Names of a stack, innermost first, without the kernel's if there are others.
fn stack(tree: &Tree, node: NodeId) -> Vec<&str> {
    let path = tree.path(node);
    let user: Vec<_> = path.iter().filter(|&&name| tree.kind(name) != FrameKind::Kernel).collect();
    let shown = if user.is_empty() { path.iter().collect() } else { user };
    shown.into_iter().rev().map(|&name| tree.name(name)).collect()
}

/// Splits the places by one caller after the other until each is alone.
fn name(tree: &Tree, groups: &mut [WaitGroup]) {
    let stacks: Vec<Vec<&str>> = groups.iter().map(|group| stack(tree, group.node)).collect();
    let mut open: Vec<(Vec<usize>, usize)> = Vec::new();
    let mut by_leaf: FxHashMap<(u8, &str), Vec<usize>> = FxHashMap::default();
    for (at, group) in groups.iter().enumerate() {
        by_leaf.entry((group.state, stacks[at].first().copied().unwrap_or_default())).or_default().push(at);
    }
    open.extend(by_leaf.into_values().map(|members| (members, 0)));
    while let Some((members, depth)) = open.pop() {
        if members.len() == 1 || depth > DEEPEST {
            for at in members {
                groups[at].label = label(&stacks[at], depth);
                groups[at].distinct = distinct(&stacks[at], depth);
            }
            continue;
        }
        let mut next: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in members {
            next.entry(stacks[at].get(depth + 1).copied().unwrap_or_default()).or_default().push(at);
        }
        open.extend(next.into_values().map(|members| (members, depth + 1)));
    }
}

/// The function at `depth` of a stack, or the outermost one.
fn distinct(stack: &[&str], depth: usize) -> String {
    stack.get(depth).or(stack.last()).copied().unwrap_or_default().to_owned()
}

/// `wait < … < common < distinct`: the innermost function, the one at `depth`, which only this place has, with the named
/// one inside of it; where its name is only an address also the first caller with a name, and in an interpreter the function of Python.
fn label(stack: &[&str], depth: usize) -> String {
    if stack.is_empty() {
        return "[no stack]".to_owned();
    }
    let at = depth.min(stack.len() - 1);
    let shown = if at < SHOWN {
        (0..stack.len().min(SHOWN.max(at + 2))).collect()
    } else {
        let inside = (1..at).rev().find(|&at| is_named(stack[at])).unwrap_or(at - 1);
        vec![0, inside, at]
    };
    let last = *shown.last().expect("invariant: at least the innermost function");
    let after = |is: fn(&str) -> bool| (last + 1..stack.len()).find(|&at| is(stack[at]));
    let has_python = shown.iter().any(|&at| is_python(stack[at]));
    let python = if has_python { None } else { after(is_python) };
    let caller = python.or_else(|| after(is_named).filter(|_| !is_named(stack[last])));
    let mut text = stack[0].to_owned();
    let all: Vec<usize> = shown.into_iter().chain(caller).collect();
    for pair in all.windows(2) {
        text += if pair[1] > pair[0] + 1 { " < … < " } else { " < " };
        text += stack[pair[1]];
    }
    text
}

/// A function of Python, below which are those of its interpreter: `run (work.py)`.
fn is_python(name: &str) -> bool {
    name.ends_with(".py)")
}

/// It has more of a name than its file and address.
fn is_named(name: &str) -> bool {
    !name.starts_with("function 0x") && !name.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_goes_on_to_a_caller_with_a_name() {
        let deep = [
            "epoll_wait",
            "a",
            "b",
            "c",
            "Lock",
            "function 0x10",
            "function 0x20",
            "function 0x30",
            "run",
            "main",
        ];
        assert_eq!(label(&deep, 6), "epoll_wait < … < Lock < … < function 0x20 < … < run");
        assert_eq!(label(&deep, 8), "epoll_wait < … < Lock < … < run");
        let flat = ["read", "function 0x1", "function 0x2", "function 0x3", "function 0x4", "load", "main"];
        assert_eq!(label(&flat, 0), "read < function 0x1 < function 0x2 < function 0x3 < … < load");
        assert_eq!(label(&["read", "load", "main"], 0), "read < load < main");
        let python = ["futex", "take", "eval", "call", "loop", "run (work.py)", "main (work.py)"];
        assert_eq!(label(&python, 0), "futex < take < eval < call < … < run (work.py)");
        assert_eq!(label(&[], 0), "[no stack]");
    }
}
