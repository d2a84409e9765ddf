//! Names for the script, each once: of frames too narrow for a label, and of those too small to draw, which a search counts.

use crate::foreign::{harmless, json, xml};
use profile::view::flame::{Layout, NameId, Tree};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use serde_json::json;
use std::io::{self, Write};

/// Frames too small to draw that are written at most. A search prints "at least" where there are more.
const MOST: usize = 80_000;
/// Bytes of names after which no more frames that are too small to draw are written.
const MOST_NAME_BYTES: usize = 1_000_000;

/// Names by number.
pub(super) struct NameTable<'a> {
    tree: &'a Tree,
    names: Vec<String>,
    /// Size of `names`.
    bytes: usize,
    numbers: FxHashMap<usize, usize>,
}

impl<'a> NameTable<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, names: Vec::new(), bytes: 0, numbers: FxHashMap::default() }
    }

    /// The number of a name.
    pub(super) fn number(&mut self, name: NameId) -> usize {
        *self.numbers.entry(name.index()).or_insert_with(|| {
            let name = harmless(self.tree.name(name)).into_owned();
            self.bytes += name.len();
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// Writes names and small frames as JSON in an element that is not shown: `at` has the drawn frames, `below` what
    /// each has below it, in preorder: the number of the name, the depth, the value.
    pub(super) fn write(mut self, out: &mut impl Write, layout: &Layout) -> io::Result<()> {
        let mut by_cell: FxHashMap<usize, Vec<u64>> = FxHashMap::default();
        let mut kept = 0;
        for small in layout.small.iter().take(MOST) {
            if self.bytes > MOST_NAME_BYTES {
                break;
            }
            kept += 1;
            let name = self.number(self.tree.node(small.node).name);
            let frame = [name as u64, small.below.into(), small.value];
            by_cell.entry(small.cell).or_default().extend(frame);
        }
        if self.names.is_empty() {
            return Ok(());
        }
        let mut cells: Vec<(usize, Vec<u64>)> = by_cell.into_iter().collect();
        cells.rank_by_key(|(cell, _)| *cell);
        let (at, below): (Vec<usize>, Vec<Vec<u64>>) = cells.into_iter().unzip();
        let data =
            json!({ "names": self.names, "at": at, "below": below, "more": layout.small.len() > kept });
        // A quote in a text needs no escape: with one, the names take twice the size.
        let text = xml(&json(&data)).replace("&quot;", "\"");
        writeln!(out, "<metadata id=\"small\">{text}</metadata>")
    }
}
