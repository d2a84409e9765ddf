//! A call graph drawn with lines and dashes, in perf's form.
//!
//! ```text
//!             ---main
//!                |
//!                |--47.20%--mid
//!                |
//!                 --17.08%--leaf
//! ```
//
// Source: linux v6.1 tools/perf/ui/stdio/hist.c prints this form; scripts and people know it.

use profile::view::report::{GraphMode, GraphNode};
use std::fmt::Write as _;

/// Unit of the numbers in the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphNumber {
    /// Share of the total.
    Percent,
    /// Sum of the periods.
    Period,
    /// Number of samples.
    Count,
}

/// How a call graph is drawn.
#[derive(Clone, Copy, Debug)]
pub struct GraphStyle {
    /// The form.
    pub mode: GraphMode,
    /// The numbers.
    pub value: GraphNumber,
    /// At most this many entries per level; 0 is no limit.
    pub limit: usize,
    /// Leave out the first frame: it is the row's own symbol.
    pub skip_first: bool,
}

/// Whole that the chains of a row are a part of.
#[derive(Clone, Copy, Debug)]
pub struct ChainBase {
    /// Period of the whole profile.
    pub total: u64,
    /// Period of the row.
    pub row: u64,
    /// Samples of the row.
    pub row_count: u64,
}

/// Draws the chains of one row; `name` gives the text of an entry.
pub fn draw(
    out: &mut String,
    roots: &[GraphNode],
    whole: ChainBase,
    style: GraphStyle,
    name: &dyn Fn(u32) -> String,
) {
    let mut pen = Pen { out, margin: 0, style, name };
    match style.mode {
        GraphMode::Graph | GraphMode::Fractal => pen.tree(roots, whole),
        GraphMode::Flat => pen.flat(roots, whole.total),
        GraphMode::Folded => pen.folded(roots, whole.total),
    }
}
/// One level of the tree: nodes with a common caller.
struct Level<'a> {
    nodes: &'a [GraphNode],
    /// 1 for the outermost.
    depth: usize,
    /// Bit i: a line runs down in column i.
    mask: u32,
    /// Value of 100 %.
    total: u64,
    /// Samples of the level, hidden ones included.
    count: u64,
}

struct Pen<'a> {
    out: &'a mut String,
    margin: usize,
    style: GraphStyle,
    name: &'a dyn Fn(u32) -> String,
}

impl Pen<'_> {
    fn tree(&mut self, roots: &[GraphNode], whole: ChainBase) {
        let before = self.out.len();
        let mut level = Level { nodes: roots, depth: 1, mask: 1, total: whole.total, count: whole.row_count };
        if let [only] = roots
            && only.cumulative == whole.row
        {
            self.stem(&only.entries);
            level.nodes = &only.children;
            level.count = only.cumulative_count - only.own_count;
        }
        if self.style.mode == GraphMode::Fractal {
            level.total = whole.row;
        }
        self.level(&level);
        if self.out.len() > before {
            self.out.push('\n');
        }
    }

    fn indent(&mut self) {
        self.out.push_str(&" ".repeat(12 + self.margin));
    }

    /// The frames all chains of the row begin with.
    fn stem(&mut self, entries: &[u32]) {
        let limit = if self.style.limit == 0 { usize::MAX } else { self.style.limit };
        for (i, &entry) in entries.iter().skip(usize::from(self.style.skip_first)).take(limit).enumerate() {
            if i == 0 {
                self.indent();
                self.out.push_str("|\n");
                self.indent();
                self.out.push_str("---");
                self.margin += 3;
            } else {
                self.indent();
            }
            let _ = writeln!(self.out, "{}", (self.name)(entry));
        }
    }

    fn level(&mut self, level: &Level<'_>) {
        let mut mask = level.mask;
        let mut remaining = level.total;
        let fractal = self.style.mode == GraphMode::Fractal;
        for (i, node) in level.nodes.iter().enumerate() {
            remaining = remaining.saturating_sub(node.cumulative);
            let last = i + 1 == level.nodes.len();
            if last && (!fractal || remaining == 0) {
                mask &= !bit(level.depth - 1);
            }
            self.separator(level.depth, level.mask);
            for (k, &entry) in node.entries.iter().enumerate() {
                let value = (k == 0).then(|| self.value(node, level.total));
                self.entry(&(self.name)(entry), value.as_deref(), level.depth, mask);
            }
            let total = if fractal { node.children_period() } else { level.total };
            let (depth, mask) = (level.depth + 1, mask | bit(level.depth));
            self.level(&Level {
                nodes: &node.children,
                depth,
                mask,
                total,
                count: node.cumulative_count - node.own_count,
            });
            if i + 1 == self.style.limit {
                break;
            }
        }
        if fractal && remaining > 0 && remaining != level.total {
            self.rest(level, remaining, mask);
        }
    }

    /// Sum of chains too small to be kept: `--3.45%--[...]`.
    fn rest(&mut self, level: &Level<'_>, remaining: u64, mask: u32) {
        let shown: u64 = level.nodes.iter().map(|node| node.cumulative_count).sum();
        let count = level.count.saturating_sub(shown);
        if self.style.value == GraphNumber::Count && count == 0 {
            return;
        }
        let hidden = GraphNode { cumulative: remaining, cumulative_count: count, ..GraphNode::default() };
        let value = self.value(&hidden, level.total);
        self.entry("[...]", Some(&value), level.depth, mask & !bit(level.depth - 1));
    }

    fn separator(&mut self, depth: usize, mask: u32) {
        self.indent();
        for column in 0..depth {
            self.out.push_str(if mask & bit(column) == 0 { "           " } else { "|          " });
        }
        self.out.push('\n');
    }

    fn entry(&mut self, label: &str, value: Option<&str>, depth: usize, mask: u32) {
        self.indent();
        for column in 0..depth {
            self.out.push(if mask & bit(column) == 0 { ' ' } else { '|' });
            match value {
                Some(value) if column + 1 == depth => {
                    let _ = write!(self.out, "--{value}--");
                }
                _ => self.out.push_str("          "),
            }
        }
        self.out.push_str(label);
        self.out.push('\n');
    }

    fn flat(&mut self, chains: &[GraphNode], total: u64) {
        for chain in self.limited(chains) {
            let value = self.value(chain, total);
            let _ = writeln!(self.out, "           {value}");
            for &entry in &chain.entries {
                let _ = writeln!(self.out, "                {}", (self.name)(entry));
            }
            self.out.push('\n');
        }
    }

    fn folded(&mut self, chains: &[GraphNode], total: u64) {
        for chain in self.limited(chains) {
            let names: Vec<String> = chain.entries.iter().map(|&entry| (self.name)(entry)).collect();
            let value = value_text(self.style.value, chain.own, chain.own_count, total);
            let _ = writeln!(self.out, "{value} {}", names.join(";"));
        }
    }

    fn limited<'n>(&self, nodes: &'n [GraphNode]) -> &'n [GraphNode] {
        let limit = if self.style.limit == 0 { nodes.len() } else { self.style.limit.min(nodes.len()) };
        &nodes[..limit]
    }

    fn value(&self, node: &GraphNode, total: u64) -> String {
        value_text(self.style.value, node.cumulative, node.cumulative_count, total)
    }
}

/// perf keeps the lines of the columns in 32 bits and starts again beyond.
fn bit(column: usize) -> u32 {
    1u32.wrapping_shl(column as u32)
}

fn value_text(value: GraphNumber, hits: u64, count: u64, total: u64) -> String {
    match value {
        GraphNumber::Percent if total == 0 => "0.00%".to_owned(),
        GraphNumber::Percent => format!("{:.2}%", hits as f64 * 100.0 / total as f64),
        GraphNumber::Period => hits.to_string(),
        GraphNumber::Count => count.to_string(),
    }
}
