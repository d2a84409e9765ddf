//! Call trees and callers in few lines, from folded stacks.

use crate::import::folded;
use profile::view::flame::{FrameKind, NodeId, Tree, Unit};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;

/// Share of the whole, in percent, below which a function is left out.
const LEAST_PERCENT: f64 = 1.0;
/// The same for functions of the kernel: what they do inside is seldom the cause.
const LEAST_KERNEL_PERCENT: f64 = 5.0;
/// Mark of the kernel's functions.
const KERNEL: &str = "_[k]";
/// The way into the kernel, the same for all system calls.
const ENTRY: &str = ";entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];";
/// Share of a function's time, in percent, from which the kernel has most of it.
const MOST_PERCENT: u64 = 90;
/// Share of a function's time, in percent, from which a callee is on its line.
const CHAIN_PERCENT: u64 = 98;
/// Deepest level that is indented further.
const DEEPEST: usize = 40;

/// The call tree from the outside in: total and own share of each function. A chain of single calls is one line
/// with the total of the first and the own share of the last.
pub fn call_tree(text: &str) -> String {
    drawn(&read(text), "total    own  function")
}

fn read(text: &str) -> Tree {
    folded::read(text.replace(ENTRY, ";").as_bytes()).tree
}

/// A function of the program or its libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HottestFunction {
    /// Its name.
    pub name: String,
    /// Nearly all of its time is in the system calls that it makes.
    pub is_in_kernel: bool,
}

/// The function with most time of its own, the kernel's for it included; `None` if no stack has one.
pub fn hottest(text: &str) -> Option<HottestFunction> {
    let mut sums: FxHashMap<&str, (u64, u64)> = FxHashMap::default();
    for (stack, value) in text.lines().filter_map(folded::parse_line) {
        // The first name is that of the thread.
        let frames = stack.split_once(';').map_or("", |(_, frames)| frames);
        let Some(own) = frames.rsplit(';').find(|frame| !frame.ends_with(KERNEL)) else { continue };
        let sum = sums.entry(own).or_default();
        sum.0 += value;
        sum.1 += if stack.ends_with(KERNEL) { value } else { 0 };
    }
    let is_named = |name: &str| !name.starts_with('[') && !name.ends_with(']');
    let named = sums.into_iter().filter(|(name, _)| is_named(name));
    let (name, (all, kernel)) = named.max_by_key(|(name, (all, _))| (*all, std::cmp::Reverse(*name)))?;
    let is_in_kernel = kernel.saturating_mul(100) >= all.saturating_mul(MOST_PERCENT);
    Some(HottestFunction { name: name.to_owned(), is_in_kernel })
}

/// Callers of the functions whose name is or begins with `function`, from them outwards.
pub fn callers(text: &str, function: &str) -> String {
    let source = read(text);
    let totals = source.totals();
    let is_it = |name: &str| {
        let name = name.trim_end_matches(KERNEL);
        name == function
            || name.strip_prefix(function).is_some_and(|rest| rest.starts_with(['(', '<', '@', ' ']))
    };
    let mut callers = Tree::new(Unit::Samples);
    let mut inside = vec![false; source.len()];
    for (id, parent) in source.nodes_with_parents() {
        let (node, above) = (source.node(id), inside[parent.index()]);
        let matches = is_it(source.name(node.name));
        inside[id.index()] = above || matches;
        // Recursion counts once, at its outermost call.
        if !matches || above {
            continue;
        }
        let mut path = Vec::new();
        let mut at = id;
        while at != Tree::ROOT {
            let name = source.node(at).name;
            if source.kind(name) != FrameKind::Task || path.is_empty() {
                path.push(callers.intern(source.name(name), source.kind(name)));
            }
            at = source.node(at).parent;
        }
        callers.add_path(&path, totals[id.index()].0, 1);
    }
    if callers.is_empty() {
        return format!("no function {function} in the stacks\n");
    }
    let share = callers.totals()[0].0 as f64 * 100.0 / totals[0].0.max(1) as f64;
    format!("{function}: {share:.1} % of all\n{}", drawn(&callers, "share    end  caller"))
}

fn drawn(tree: &Tree, heading: &str) -> String {
    let totals: Vec<u64> = tree.totals().iter().map(|(total, _)| *total).collect();
    let mut children: Vec<Vec<NodeId>> = vec![Vec::new(); tree.len()];
    for (id, parent) in tree.nodes_with_parents() {
        if id != Tree::ROOT {
            children[parent.index()].push(id);
        }
    }
    for list in &mut children {
        list.rank_by_key(|id| std::cmp::Reverse(totals[id.index()]));
    }
    let mut text = format!("{heading}\n");
    let whole = totals[0].max(1) as f64;
    let percent = |value: u64| value as f64 * 100.0 / whole;
    let shown = |id: NodeId| {
        let is_kernel = tree.kind(tree.node(id).name) == FrameKind::Kernel;
        percent(totals[id.index()]) >= if is_kernel { LEAST_KERNEL_PERCENT } else { LEAST_PERCENT }
    };
    let shown_of = |id: NodeId| children[id.index()].iter().copied().filter(|&id| shown(id));
    let mut open: Vec<(NodeId, usize)> = shown_of(Tree::ROOT).rev().map(|id| (id, 0)).collect();
    while let Some((first, depth)) = open.pop() {
        let name = |id: NodeId| tree.name(tree.node(id).name).trim_end_matches(KERNEL);
        let (mut at, mut names) = (first, name(first).to_owned());
        // As long as one callee has nearly all the time, it is on the same line.
        while let [only] = shown_of(at).collect::<Vec<_>>()[..]
            && totals[only.index()].saturating_mul(100) >= totals[at.index()].saturating_mul(CHAIN_PERCENT)
        {
            at = only;
            let _ = write!(names, " > {}", name(at));
        }
        let (total, own) = (percent(totals[first.index()]), percent(tree.node(at).own));
        let _ =
            writeln!(text, "{total:5.1}  {own:5.1}  {:width$}{names}", "", width = 2 * depth.min(DEEPEST));
        open.extend(shown_of(at).rev().map(|id| (id, depth + 1)));
    }
    text
}
