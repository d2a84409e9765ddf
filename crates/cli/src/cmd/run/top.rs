//! The functions and the path that the screen shows.

mod hot_lines;

use crate::text::run_screen::FunctionShare;
use hot_lines::HotLines;
use profile::profile::Profile;
use profile::table::{DsoId, SymbolId};
use profile::view::flame::{FrameKind, Tree};
use profile::view::hot_functions::is_start_code;
use profile::view::ranking::RankRows as _;
use profile::view::report::{FunctionUnit, ReportOpts, ReportRow, ReportSection, SortKey, SortValue, report};

/// Part of its caller's time that a callee on the hot path has at least.
const LEAST_PART: f64 = 0.4;
/// Part of all time that every step of the hot path has at least.
const LEAST_OF_ALL: f64 = 0.05;
/// Functions per list that are worth keeping.
const KEPT: usize = 50;

/// Top functions by their own period, each with its hottest line.
pub fn by_own(profile: &Profile, event: usize) -> Vec<FunctionShare> {
    let own = |row: &ReportRow| row.own.first().map_or(0, |sums| sums.period);
    let mut functions = functions(profile, event, false, &own);
    let lines = HotLines::of(profile, event);
    for function in &mut functions {
        function.line = lines.hottest(&function.dso, &function.name);
    }
    functions
}

/// Top functions with all they call; those every program starts with are left out.
pub fn by_children(profile: &Profile, event: usize) -> Vec<FunctionShare> {
    let children = |row: &ReportRow| row.children.first().map_or(0, |sums| sums.period);
    let mut functions = functions(profile, event, true, &children);
    functions.retain(|function| !is_start_code(&function.name));
    functions
}

fn functions(
    profile: &Profile,
    event: usize,
    children: bool,
    period: &dyn Fn(&ReportRow) -> u64,
) -> Vec<FunctionShare> {
    let opts = ReportOpts {
        sort: vec![SortKey::Dso, SortKey::Symbol],
        children,
        inlines: true,
        unit: FunctionUnit::Inlined,
        ..ReportOpts::default()
    };
    let report = report(profile, &opts);
    let Some(section) = report.sections.iter().find(|section| section.events == [event]) else {
        return Vec::new();
    };
    let total = section.totals.first().map_or(0, |total| total.period).max(1);
    let mut rows: Vec<&ReportRow> = section.rows.iter().filter(|row| period(row) > 0).collect();
    // Stable: rows of equal period keep the report's order.
    rows.rank_by_key(|row| std::cmp::Reverse(period(row)));
    let mut functions: Vec<FunctionShare> = Vec::new();
    for row in rows {
        let Some((symbol, dso)) = function_of(section, row) else { continue };
        let name = match symbol {
            Some(symbol) => profile.strings.of(profile.symbols.of(symbol).name).to_owned(),
            // Shares of several places with their callees would overlap.
            None if children => continue,
            // Called by its file, as in graphs and on the page.
            None => profile.dsos.of(dso).bracketed_name(),
        };
        let (dso, percent) =
            (profile.dsos.of(dso).short_name.clone(), period(row) as f64 * 100.0 / total as f64);
        let is_same = |known: &&mut FunctionShare| symbol.is_none() && known.name == name && known.dso == dso;
        match functions.iter_mut().find(is_same) {
            Some(known) => known.percent += percent,
            None => functions.push(FunctionShare { name, dso, percent, line: None }),
        }
    }
    functions.rank_by(|a, b| b.percent.total_cmp(&a.percent));
    functions.truncate(KEPT);
    functions
}

/// The function of a row, `None` for code without a symbol, and its file.
fn function_of(section: &ReportSection, row: &ReportRow) -> Option<(Option<SymbolId>, DsoId)> {
    let at = section.keys.iter().position(|key| *key == SortKey::Symbol)?;
    match row.values[at] {
        SortValue::Symbol { symbol, dso, .. } => Some((symbol, dso)),
        _ => None,
    }
}

/// From the roots down along the heaviest callee, as long as it has a good part of its caller's time: after a fork
/// into many, no path is hot. Shares are of all; the process's name is left out.
pub fn hottest_path(tree: &mut Tree) -> Vec<FunctionShare> {
    let totals = tree.totals();
    let all = totals[0].0.max(1);
    let mut heaviest = vec![None; tree.len()];
    for (id, node) in tree.nodes_with_parents() {
        let best: &mut Option<profile::view::flame::NodeId> = &mut heaviest[node.index()];
        if best.is_none_or(|best| totals[best.index()].0 < totals[id.index()].0) {
            *best = Some(id);
        }
    }
    let mut path = Vec::new();
    let mut at = Tree::ROOT;
    while let Some(next) = heaviest[at.index()] {
        let (total, next_total) = (totals[at.index()].0, totals[next.index()].0);
        let is_inside = !path.is_empty();
        let least = (total as f64 * LEAST_PART).max(all as f64 * LEAST_OF_ALL);
        if tree.node(at).own >= next_total || (is_inside && (next_total as f64) < least) {
            break;
        }
        at = next;
        let name = tree.node(at).name;
        if tree.kind(name) != FrameKind::Task {
            let percent = totals[at.index()].0 as f64 * 100.0 / all as f64;
            path.push(FunctionShare {
                name: tree.name(name).to_owned(),
                dso: String::new(),
                percent,
                line: None,
            });
        }
    }
    path
}

/// Gives each step of a path the file its function is in; a step without a name is called by its file.
pub fn name_files(path: &mut [FunctionShare], profile: &Profile, event: usize) {
    let children = |row: &ReportRow| row.children.first().map_or(0, |sums| sums.period);
    let known = functions(profile, event, true, &children);
    for step in path {
        let file =
            known.iter().find(|function| function.name == step.name).map(|function| function.dso.clone());
        let own = || step.name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).map(str::to_owned);
        step.dso = file.or_else(own).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hot_path_ends_where_no_callee_stands_out() {
        let text = b"p;main;hot;a 30\np;main;hot;b 29\np;main;hot;c 31\np;main;cold 10\n";
        let mut tree = exchange::import::folded::read(text).tree;
        let path: Vec<_> =
            hottest_path(&mut tree).into_iter().map(|step| (step.name, step.percent)).collect();
        assert_eq!(path, [("main".to_owned(), 100.0), ("hot".to_owned(), 90.0)]);
    }

    #[test]
    fn the_hot_path_ends_where_little_time_is_left() {
        // Each function has half of its time in the next one, and a quarter in each of two others.
        let (mut path, mut lines, mut left) = ("p;main".to_owned(), String::new(), 1024);
        while left >= 16 {
            path += ";f";
            lines += &format!("{path};a {0}\n{path};b {0}\n", left / 4);
            left /= 2;
        }
        let mut tree = exchange::import::folded::read(lines.as_bytes()).tree;
        let shares: Vec<f64> = hottest_path(&mut tree).into_iter().map(|step| step.percent).collect();
        assert_eq!(shares.len(), 6, "main, f and 50, 25, 13 and 6 %: {shares:?}");
    }
}
