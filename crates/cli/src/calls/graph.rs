//! `tally calls graph`: who called whom, how often and for how long.

use calls::model::{CallProfile, NodeId};
use calls::view::callees::CalleeLists;
use profile::grow::GrownSum as _;
use std::io::{self, Write};

use crate::terminal::out::harmless;
use calls::recording::functions::Functions;
use calls::recording::kernel;
use display::number;

/// Prints the tree.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, sum: &CallProfile, functions: &Functions) -> io::Result<()> {
    let children = CalleeLists::new(sum);
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
