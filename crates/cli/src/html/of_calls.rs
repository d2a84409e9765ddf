//! The page of traced calls: exact time by path, how long the calls of each function took, and the slowest calls.

use super::about::About;
use crate::terminal::foreign::harmless;
use calls::model::{CallProfile, CallStats, FunctionId, SlowCall};
use calls::view::View;
use calls::view::page::{PathLengths, page_data, paths_by_function};
use display::number::{count_of, duration_ns};
use profile::grow::GrownSum as _;
use profile::view::page::PageData;
use profile::view::ranking::RankRows as _;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Functions with a histogram, by total time.
const FUNCTIONS: usize = 500;
/// Slowest calls that a page lists.
pub const SLOWEST: usize = 200;

/// Data and text of the page of a sum of calls with its slowest ones.
#[must_use]
pub fn of_calls(sum: &CallProfile, view: &View<'_>, title: &str) -> (PageData, About) {
    let data = page_data(sum, &view.functions);
    let whole: u64 = data.sets.iter().flat_map(|set| &set.items).map(|item| item.amount).grown_sum();
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

fn functions(sum: &CallProfile, view: &View<'_>) -> Vec<Value> {
    let mut paths = paths_by_function(sum);
    let name = |&id: &FunctionId| harmless(&view.functions.of(id).name).into_owned();
    let path = |of: PathLengths| json!([of.path.iter().map(name).collect::<Vec<String>>(), of.lengths]);
    let mut all: Vec<(FunctionId, &CallStats)> = sum.functions().collect();
    all.rank_by_key(|(_, stats)| Reverse(stats.total_ns));
    let mut row = |(id, stats): (FunctionId, &CallStats)| {
        let paths: Vec<Value> = paths.remove(&id).unwrap_or_default().into_iter().map(path).collect();
        json!({
            "name": harmless(&view.functions.of(id).name), "count": stats.calls(), "total": stats.total_ns,
            "own": stats.self_ns, "off": stats.off_ns, "avg": stats.average_ns(), "min": stats.min_ns, "max": stats.max_ns,
            "p50": stats.quantile_ns(0.5), "p99": stats.quantile_ns(0.99), "rows": stats.histogram.by_powers_of_two(),
            "paths": paths,
        })
    };
    all.into_iter().take(FUNCTIONS).map(&mut row).collect()
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
