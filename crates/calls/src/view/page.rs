//! A sum of calls as the data of the page: exact time by path, on and off the CPU.

use crate::model::{CallNode, CallProfile, CallStats, FunctionId, NodeId as CallNodeId};
use crate::recording::function::Function;
use crate::recording::functions::Functions;
use profile::grow::Grow as _;
use profile::profile::Sums;
use profile::view::flame::{FrameKind, NodeId, Tree, Unit};
use profile::view::page::{PageData, PageItem};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// States of the page's amounts.
const STATES: [&str; 2] = ["on CPU", "off CPU"];

/// The page's data.
#[must_use]
pub fn page_data(sum: &CallProfile, functions: &Functions) -> PageData {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let mut places: Vec<NodeId> = Vec::with_capacity(sum.nodes().len());
    let mut items = Vec::new();
    let own = own_times(sum);
    for CallNode { parent, function, stats } in sum.nodes() {
        let of = functions.of(*function);
        let kind = if is_wait(own.get(function)) { FrameKind::Waiting } else { kind_of(of) };
        let name = tree.intern(&of.name, kind);
        let above = parent.map_or(Tree::ROOT, |CallNodeId(id)| places[id as usize]);
        let node = tree.child(above, name);
        places.push(node);
        items.extend(own_time(node, stats));
    }
    PageData::of_time(tree, &STATES, "traced calls", items)
}

/// Paths listed for a function, and functions listed of each: recursion may be deep.
const PATHS: usize = 12;
const FRAMES: usize = 40;

/// One of the paths by which a function was called, and how long its calls took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathLengths {
    /// From the outermost function, of at most 40, to the function itself.
    pub path: Vec<FunctionId>,
    /// Numbers of finished calls by length, in powers of two.
    pub lengths: Vec<(u64, u64)>,
}

fn innermost(path: Vec<FunctionId>) -> Vec<FunctionId> {
    path[path.len().saturating_sub(FRAMES)..].to_vec()
}

/// By function: the paths with most time, most first.
#[must_use]
pub fn paths_by_function(sum: &CallProfile) -> FxHashMap<FunctionId, Vec<PathLengths>> {
    let mut places: FxHashMap<FunctionId, Vec<(u64, u32)>> = FxHashMap::default();
    for (node, id) in sum.nodes().iter().zip(0..) {
        if node.stats.count > 0 {
            places.entry(node.function).or_default().push((node.stats.finished_ns, id));
        }
    }
    let lengths = |(_, id): (u64, u32)| PathLengths {
        path: innermost(sum.path(CallNodeId(id))),
        lengths: sum.nodes()[id as usize].stats.histogram.by_powers_of_two(),
    };
    let first = |mut places: Vec<(u64, u32)>| {
        places.rank_by_key(|&(ns, id)| (Reverse(ns), id));
        places.into_iter().take(PATHS).map(lengths).collect()
    };
    places.into_iter().map(|(function, places)| (function, first(places))).collect()
}

/// Functions that a library has, or that are called in one, look like a library's.
#[must_use]
pub fn kind_of(function: &Function) -> FrameKind {
    let is_library = function.imported || function.dso.contains(".so");
    if is_library { FrameKind::Library } else { FrameKind::Program }
}

/// Own time of all calls of each function: on the CPU, off it.
fn own_times(sum: &CallProfile) -> FxHashMap<FunctionId, (u64, u64)> {
    let mut own: FxHashMap<FunctionId, (u64, u64)> = FxHashMap::default();
    for CallNode { function, stats, .. } in sum.nodes() {
        let times = own.entry(*function).or_default();
        times.0.grow(stats.self_on_ns());
        times.1.grow(stats.self_off_ns);
    }
    own
}

/// Nine tenths of its own time are off the CPU: `usleep`, `pthread_join`.
fn is_wait(own: Option<&(u64, u64)>) -> bool {
    own.is_some_and(|&(on, off)| off > 0 && off / 9 >= on)
}

/// Own time on and off the CPU of the calls of one path.
fn own_time(node: NodeId, stats: &CallStats) -> impl Iterator<Item = PageItem> + use<> {
    let on = Sums { count: stats.calls(), period: stats.self_on_ns(), ..Sums::default() };
    let off = Sums { period: stats.self_off_ns, ..Sums::default() };
    let items = [PageItem::of_sum(node, 0, on), PageItem::of_sum(node, 1, off)];
    items.into_iter().filter(|item| item.amount > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_are_off_the_cpu_nine_tenths_of_their_own_time_are_waits() {
        assert!(is_wait(Some(&(100, 900))) && is_wait(Some(&(0, 50))));
        assert!(!is_wait(Some(&(100, 800))) && !is_wait(Some(&(0, 0))) && !is_wait(None));
    }
}
