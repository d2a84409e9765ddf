//! `tally calls graph`: who called whom, how often and for how long.

use calls::model::{CallProfile, NodeId};
use profile::grow::GrownSum as _;
use std::cmp::Reverse;
use std::io::{self, Write};

use crate::terminal::out::harmless;
use calls::recording::functions::Functions;
use calls::recording::kernel;
use display::number;

/// The tree's children by node, the largest total first; and the roots.
struct Children {
    of: Vec<Vec<NodeId>>,
    roots: Vec<NodeId>,
}

impl Children {
    fn new(sum: &CallProfile) -> Self {
        let mut children = Self { of: vec![Vec::new(); sum.nodes().len()], roots: Vec::new() };
        let shown = shown(sum);
        for (id, node) in (0..).map(NodeId).zip(sum.nodes()) {
            if !shown[id.0 as usize] {
                continue;
            }
            match node.parent {
                Some(NodeId(parent)) => children.of[parent as usize].push(id),
                None => children.roots.push(id),
            }
        }
        let total = |id: &NodeId| Reverse(sum.nodes()[id.0 as usize].stats.total_ns);
        children.of.iter_mut().for_each(|list| list.sort_by_key(total));
        children.roots.sort_by_key(total);
        children
    }
}

/// Prints the tree.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, sum: &CallProfile, functions: &Functions) -> io::Result<()> {
    let children = Children::new(sum);
    let whole = children.roots.iter().map(|id| sum.nodes()[id.0 as usize].stats.total_ns).grown_sum();
    // The part of the total off the CPU, where that was recorded.
    let split = sum.has_off_cpu();
    let off = |text: &str| if split { format!(" {text:>9}") } else { String::new() };
    writeln!(out, "{:>9}{} {:>9} {:>12} {:>7}  Function", "Total", off("Off CPU"), "Self", "Calls", "Share")?;
    // Depth-first without recursion: paths may be a million calls deep.
    let mut stack: Vec<(NodeId, String, &str)> =
        children.roots.iter().rev().map(|id| (*id, String::new(), "")).collect();
    while let Some((id, indent, branch)) = stack.pop() {
        let node = &sum.nodes()[id.0 as usize];
        let function = functions.of(node.function);
        let time = |ns| if kernel::is_moment(function) { "-".to_owned() } else { number::duration_ns(ns) };
        writeln!(
            out,
            "{:>9}{} {:>9} {:>12} {:>6.2}%  {indent}{branch}{}",
            time(node.stats.total_ns),
            off(&time(node.stats.off_ns)),
            time(node.stats.self_ns),
            number::grouped(node.stats.calls()),
            node.stats.total_ns as f64 / whole.max(1) as f64 * 100.0,
            harmless(&function.name),
        )?;
        let inner = match branch {
            "├─ " => format!("{indent}│  "),
            "└─ " => format!("{indent}   "),
            _ => indent,
        };
        let list = &children.of[id.0 as usize];
        for (at, child) in list.iter().enumerate().rev() {
            let branch = if at + 1 == list.len() { "└─ " } else { "├─ " };
            stack.push((*child, inner.clone(), branch));
        }
    }
    Ok(())
}

/// Which nodes have calls, or lead to such: of some all calls were left out, by their time or by where they lead.
fn shown(sum: &CallProfile) -> Vec<bool> {
    let mut shown = vec![false; sum.nodes().len()];
    for (at, node) in sum.nodes().iter().enumerate().rev() {
        shown[at] |= node.stats.calls() > 0;
        if let (true, Some(NodeId(parent))) = (shown[at], node.parent) {
            shown[parent as usize] = true;
        }
    }
    shown
}
