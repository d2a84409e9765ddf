//! Names for the script, each once: of frames too narrow for a label, and of those too small to draw, which a search counts.

use crate::foreign::{harmless, json, xml};
use profile::view::flame::{Layout, NameId, Tree};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::io::{self, Write};

/// Frames too small to draw that are written at most. A search prints "at least" where there are more.
const MOST: usize = 80_000;

/// Names by number.
pub(super) struct NameTable<'a> {
    tree: &'a Tree,
    names: Vec<String>,
    numbers: FxHashMap<usize, usize>,
}

impl<'a> NameTable<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, names: Vec::new(), numbers: FxHashMap::default() }
    }

    /// The number of a name.
    pub(super) fn number(&mut self, name: NameId) -> usize {
        *self.numbers.entry(name.index()).or_insert_with(|| {
            self.names.push(harmless(self.tree.name(name)).into_owned());
            self.names.len() - 1
        })
    }

    /// Writes names and small frames as JSON in an element that is not shown: `at` has the drawn frames, `below` what
    /// each has below it, in preorder: the number of the name, the depth, the value.
    pub(super) fn write(mut self, out: &mut impl Write, layout: &Layout) -> io::Result<()> {
        let kept = &layout.small[..layout.small.len().min(MOST)];
        let mut by_cell: FxHashMap<usize, Vec<u64>> = FxHashMap::default();
        for small in kept {
            let name = self.number(self.tree.node(small.node).name);
            let frame = [name as u64, small.below.into(), small.value];
            by_cell.entry(small.cell).or_default().extend(frame);
        }
        if self.names.is_empty() {
            return Ok(());
        }
        let mut cells: Vec<(usize, Vec<u64>)> = by_cell.into_iter().collect();
        cells.sort_unstable_by_key(|(cell, _)| *cell);
        let (at, below): (Vec<usize>, Vec<Vec<u64>>) = cells.into_iter().unzip();
        let data =
            json!({ "names": self.names, "at": at, "below": below, "more": layout.small.len() > MOST });
        writeln!(out, "<metadata id=\"small\">{}</metadata>", xml(&json(&data)))
    }
}
