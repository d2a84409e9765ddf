//! Folded stacks, written: one line per path, sorted, `root;caller;leaf COUNT`.

use super::samples::SampleSet;
use perfdata::text::harmless;
use profile::grow::Grow as _;
use profile::view::flame::{ComparedTree, NodeId, Tree};
use rayon::prelude::*;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The stacks of `tree` as folded text. Paths are sorted by their text (byte order); equal ones are one line.
pub fn to_text(tree: &Tree) -> String {
    let leaves = tree.leaves().filter(|&leaf| tree.node(leaf).own > 0);
    let lines = sorted_lines(tree, leaves.map(|leaf| (leaf, [tree.node(leaf).own])));
    let mut text = String::new();
    for (path, [count]) in lines {
        let _ = writeln!(text, "{path} {count}");
    }
    text
}

/// Writes the kind of value at `kind`: `process;root;caller;leaf VALUE`, in its unit (ns for times). A state of a wait is
/// the leaf.
///
/// # Errors
/// If writing fails.
pub fn write_samples(mut out: impl Write, samples: &SampleSet<'_>, kind: usize) -> io::Result<()> {
    let stacks = samples.stacks.iter().filter(|stack| stack.kind == kind && stack.value > 0);
    let lines = stacks.map(|stack| {
        let lines = samples.path(stack).flat_map(|at| samples.locations[at].lines.iter());
        let mut names: Vec<String> =
            lines.map(|line| samples.functions[line.function].name.replace(';', ":")).collect();
        names.push(samples.process_name(stack.task).replace(';', ":"));
        names.reverse();
        (harmless(&names.join(";")).into_owned(), [stack.value])
    });
    for (path, [value]) in each_once(lines.collect()) {
        writeln!(out, "{path} {value}")?;
    }
    out.flush()
}

/// The stacks of two recordings, `root;caller;leaf BEFORE AFTER`, as difffolded.pl prints them.
pub fn to_text_of_both(compared: &ComparedTree) -> String {
    let tree = &compared.tree;
    let nodes = (0..tree.len()).map(NodeId::from_index);
    let both = nodes.map(|node| (node, [compared.own_before(node).value, tree.node(node).own]));
    let lines = sorted_lines(tree, both.filter(|(_, sides)| *sides != [0, 0]));
    let mut text = String::new();
    for (path, [before, after]) in lines {
        let _ = writeln!(text, "{path} {before} {after}");
    }
    text
}

/// Paths with their values, each path once.
fn sorted_lines<const N: usize>(
    tree: &Tree,
    leaves: impl Iterator<Item = (NodeId, [u64; N])>,
) -> Vec<(String, [u64; N])> {
    let leaves: Vec<_> = leaves.filter(|(leaf, _)| *leaf != Tree::ROOT).collect();
    let lines = leaves.into_par_iter().map(|(leaf, values)| {
        let names: Vec<&str> = tree.path(leaf).into_iter().map(|name| tree.name(name)).collect();
        (harmless(&names.join(";")).into_owned(), values)
    });
    each_once(lines.collect())
}

/// Sorted lines, those of equal text summed up.
fn each_once<const N: usize>(mut lines: Vec<(String, [u64; N])>) -> Vec<(String, [u64; N])> {
    lines.par_sort_unstable();
    lines.dedup_by(|next, kept| {
        let equal = next.0 == kept.0;
        if equal {
            kept.1.iter_mut().zip(next.1).for_each(|(sum, more)| sum.grow(more));
        }
        equal
    });
    lines
}
