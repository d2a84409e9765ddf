//! Folded stacks, written: one line per path, sorted, `root;caller;leaf COUNT`.

use perfdata::text::harmless;
use profile::view::flame::Tree;
use std::fmt::Write as _;

/// The stacks of `tree` as folded text. Paths are sorted by their text (byte order); equal ones are one line.
pub fn to_text(tree: &Tree) -> String {
    let mut lines: Vec<(String, u64)> = Vec::new();
    for leaf in tree.leaves().filter(|&leaf| leaf != Tree::ROOT && tree.node(leaf).own > 0) {
        let names: Vec<&str> = tree.path(leaf).into_iter().map(|name| tree.name(name)).collect();
        lines.push((harmless(&names.join(";")).into_owned(), tree.node(leaf).own));
    }
    lines.sort();
    lines.dedup_by(|next, kept| {
        let equal = next.0 == kept.0;
        if equal {
            kept.1 = kept.1.saturating_add(next.1);
        }
        equal
    });
    let mut text = String::new();
    for (path, count) in lines {
        let _ = writeln!(text, "{path} {count}");
    }
    text
}
