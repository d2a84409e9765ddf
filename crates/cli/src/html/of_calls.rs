//! The page of traced calls: exact time by path, how long the calls of each function took, and the slowest calls.

use super::about::About;
use crate::terminal::foreign::harmless;
use crate::text::number::{count_of, duration_ns};
use calls::model::{CallNode, CallProfile, CallStats, FunctionId, NodeId as CallNodeId, SlowCall};
use calls::view::View;
use profile::view::flame::{Kind, NodeId, Tree, Unit};
use profile::view::page::{ItemSet, PageData, PageItem};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// States of the page's amounts.
const STATES: [&str; 2] = ["on CPU", "off CPU"];
/// Functions with a histogram, by total time.
const FUNCTIONS: usize = 500;
/// Slowest calls that a page lists.
pub const SLOWEST: usize = 200;

/// Data and text of the page of a sum of calls with its slowest ones.
#[must_use]
pub fn of_calls(sum: &CallProfile, view: &View<'_>, title: &str) -> (PageData, About) {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let mut places: Vec<NodeId> = Vec::with_capacity(sum.nodes().len());
    let mut items = Vec::new();
    for CallNode { parent, function, stats } in sum.nodes() {
        let name = tree.intern(&view.functions.of(*function).name, Kind::Program);
        let above = parent.map_or(Tree::ROOT, |CallNodeId(id)| places[id as usize]);
        let node = tree.child(above, name);
        places.push(node);
        items.extend(node_items(node, stats));
    }
    let whole: u64 = items.iter().map(|item| item.amount).fold(0, u64::saturating_add);
    let set = ItemSet { name: "traced calls".to_owned(), unit: Unit::Nanoseconds, is_wall: true, items };
    let data = PageData {
        states: STATES.map(str::to_owned).to_vec(),
        sets: vec![set],
        ..PageData::of_tree(tree, "")
    };
    let about = About {
        title: title.to_owned(),
        subtitle: format!("{} of calls, exact", duration_ns(whole)),
        quality: format!("{} · {} lost", count_of(sum.calls(), "call", "calls"), sum.lost),
        is_good: sum.lost == 0,
        calls: json!({ "functions": functions(sum, view), "slowest": slowest(sum, view) }),
        ..About::default()
    };
    (data, about)
}

/// Own time on and off the CPU of the calls of one path.
fn node_items(node: NodeId, stats: &CallStats) -> impl Iterator<Item = PageItem> {
    let item = move |(state, amount, count)| PageItem {
        thread: 0,
        node,
        state,
        since: None,
        length: 0,
        amount,
        count,
        waker: 0,
    };
    [(0, stats.self_on_ns(), stats.calls()), (1, stats.self_off_ns, 0)]
        .into_iter()
        .filter(|(_, amount, _)| *amount > 0)
        .map(item)
}

fn functions(sum: &CallProfile, view: &View<'_>) -> Vec<Value> {
    let mut all: Vec<(FunctionId, &CallStats)> = sum.functions().collect();
    all.sort_by_key(|(_, stats)| Reverse(stats.total_ns));
    let row = |(id, stats): (FunctionId, &CallStats)| {
        json!({
            "name": harmless(&view.functions.of(id).name), "count": stats.calls(), "total": stats.total_ns,
            "own": stats.self_ns, "off": stats.off_ns, "min": stats.min_ns, "max": stats.max_ns,
            "p50": stats.histogram.quantile(0.5), "p99": stats.histogram.quantile(0.99), "rows": lengths(stats),
        })
    };
    all.into_iter().take(FUNCTIONS).map(row).collect()
}

/// Number of calls by length: the lower ends of powers of two.
fn lengths(stats: &CallStats) -> Vec<(u64, u64)> {
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for ((from, _), count) in stats.histogram.buckets() {
        let low = if from < 2 { from } else { 1 << from.ilog2() };
        match rows.last_mut() {
            Some((last, sum)) if *last == low => *sum = sum.saturating_add(count),
            _ => rows.push((low, count)),
        }
    }
    rows
}

fn slowest(sum: &CallProfile, view: &View<'_>) -> Vec<Value> {
    let begin = sum.slowest().iter().map(|slow| slow.call.start_ns).min().unwrap_or(0);
    let row = |slow: &SlowCall| {
        let path = sum.path(slow.call.node);
        let names: Vec<String> =
            path.iter().map(|&id| harmless(&view.functions.of(id).name).into_owned()).collect();
        json!({
            "took": slow.call.total_ns, "at": slow.call.start_ns.saturating_sub(begin), "thread": slow.thread,
            "off": slow.call.off_ns, "path": names,
        })
    };
    sum.slowest().iter().map(row).collect()
}
