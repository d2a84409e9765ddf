//! Call trees and callers in few lines, from folded stacks.

use crate::import::folded;
use profile::view::flame::{FrameKind, NodeId, Tree, Unit};
use std::fmt::Write as _;

/// Share of the whole, in percent, below which a function is left out.
const LEAST_PERCENT: f64 = 1.0;
/// Deepest level that is indented further.
const DEEPEST: usize = 40;

/// The call tree from the outside in: total and own share of each function. A chain of single calls is one line.
pub fn call_tree(text: &str) -> String {
    drawn(&folded::read(text.as_bytes()).tree, "total    own  function")
}

/// Callers of the functions whose name is or begins with `function`, from them outwards.
pub fn callers(text: &str, function: &str) -> String {
    let source = folded::read(text.as_bytes()).tree;
    let totals = source.totals();
    let is_it = |name: &str| {
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
        list.sort_by_key(|id| std::cmp::Reverse(totals[id.index()]));
    }
    let mut text = format!("{heading}\n");
    let whole = totals[0].max(1) as f64;
    let percent = |value: u64| value as f64 * 100.0 / whole;
    let shown = |id: NodeId| percent(totals[id.index()]) >= LEAST_PERCENT;
    let mut open: Vec<(NodeId, usize)> =
        children[0].iter().rev().map(|&id| (id, 0)).filter(|(id, _)| shown(*id)).collect();
    while let Some((first, depth)) = open.pop() {
        let (mut at, mut names) = (first, tree.name(tree.node(first).name).to_owned());
        // As long as one callee has all the time, it is on the same line.
        while tree.node(at).own == 0
            && let [only] = children[at.index()].as_slice()
        {
            at = *only;
            let _ = write!(names, " > {}", tree.name(tree.node(at).name));
        }
        let (total, own) = (percent(totals[at.index()]), percent(tree.node(at).own));
        let _ =
            writeln!(text, "{total:5.1}  {own:5.1}  {:width$}{names}", "", width = 2 * depth.min(DEEPEST));
        open.extend(children[at.index()].iter().rev().filter(|id| shown(**id)).map(|&id| (id, depth + 1)));
    }
    text
}
