//! Frames too small to draw, as data for the script: a search counts them.

use crate::terminal::foreign::{harmless, json, xml};
use profile::view::flame::{Layout, Small, Tree};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::io::{self, Write};

/// Frames written at most. A search prints "at least" where there are more.
const MOST: usize = 400_000;

/// Writes them as JSON in an element that is not shown: `at` has the drawn frames, `below` what each has below it, in
/// preorder: the number of the name, the depth, the value.
pub(super) fn write(out: &mut impl Write, tree: &Tree, layout: &Layout) -> io::Result<()> {
    if layout.small.is_empty() {
        return Ok(());
    }
    let kept = &layout.small[..layout.small.len().min(MOST)];
    let mut names: Vec<String> = Vec::new();
    let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
    let mut number = |small: &Small| {
        let name = tree.node(small.node).name;
        *numbers.entry(name.index()).or_insert_with(|| {
            names.push(harmless(tree.name(name)).into_owned());
            names.len() - 1
        })
    };
    let mut by_cell: FxHashMap<usize, Vec<u64>> = FxHashMap::default();
    for small in kept {
        let frame = [number(small) as u64, small.below.into(), small.value];
        by_cell.entry(small.cell).or_default().extend(frame);
    }
    let mut cells: Vec<(usize, Vec<u64>)> = by_cell.into_iter().collect();
    cells.sort_unstable_by_key(|(cell, _)| *cell);
    let (at, below): (Vec<usize>, Vec<Vec<u64>>) = cells.into_iter().unzip();
    let data = json!({ "names": names, "at": at, "below": below, "more": layout.small.len() > MOST });
    writeln!(out, "<metadata id=\"small\">{}</metadata>", xml(&json(&data)))
}
