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

use std::fmt::Write as _;

/// A node of a call graph: a run of frames without a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Names of the frames, outermost in drawing order first. Never empty.
    pub labels: Vec<String>,
    /// Period of the chains that end in this run.
    pub hits: u64,
    /// Samples of the chains that end in this run.
    pub count: u64,
    /// What follows, biggest first.
    pub children: Vec<Branch>,
    /// Period that followed but was too small to keep as a child.
    pub hidden_hits: u64,
    /// Samples that followed but were too few to keep as a child.
    pub hidden_count: u64,
}

impl Branch {
    /// Period of this run and all that follows, hidden ones included.
    pub fn total_hits(&self) -> u64 {
        self.hits + self.below_hits()
    }

    /// Samples of this run and all that follows, hidden ones included.
    pub fn total_count(&self) -> u64 {
        self.count + self.hidden_count + self.children.iter().map(Self::total_count).sum::<u64>()
    }

    fn below_hits(&self) -> u64 {
        self.hidden_hits + self.children.iter().map(Self::total_hits).sum::<u64>()
    }
}

/// Which form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A tree, percentages of the whole profile (`graph`).
    Graph,
    /// A tree, percentages of the caller (`fractal`).
    Fractal,
    /// One list per chain (`flat`).
    Flat,
    /// One line per chain (`folded`).
    Folded,
}

/// What the numbers in the graph are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Share of the total.
    Percent,
    /// Sum of the periods.
    Period,
    /// Number of samples.
    Count,
}

/// How a call graph is drawn.
#[derive(Clone, Copy, Debug)]
pub struct GraphOpts {
    /// The form.
    pub shape: Shape,
    /// The numbers.
    pub value: Value,
    /// At most so many entries per level; 0 is no limit.
    pub limit: usize,
    /// Leave out the first frame: it is the row's own symbol.
    pub skip_first: bool,
    /// Columns the graph is moved to the right.
    pub margin: usize,
}

/// What the chains of a row are a part of.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// Period of the whole profile.
    pub total: u64,
    /// Period of the row.
    pub row: u64,
    /// Samples of the row.
    pub row_count: u64,
}

/// Draws the chains of one row.
pub fn draw(out: &mut String, roots: &[Branch], whole: Whole, opts: &GraphOpts) {
    match opts.shape {
        Shape::Graph | Shape::Fractal => draw_tree(out, roots, whole, opts),
        Shape::Flat => draw_flat(out, roots, whole.total, opts),
        Shape::Folded => draw_folded(out, roots, whole.total, opts),
    }
}

fn draw_tree(out: &mut String, roots: &[Branch], whole: Whole, opts: &GraphOpts) {
    let before = out.len();
    let mut pen = Pen { out, margin: opts.margin, opts };
    let mut level = Level { nodes: roots, depth: 1, mask: 1, total: whole.total, count: whole.row_count };
    if let [only] = roots
        && only.total_hits() == whole.row
    {
        pen.stem(&only.labels);
        level.nodes = &only.children;
        level.count = only.total_count() - only.count;
    }
    if opts.shape == Shape::Fractal {
        level.total = whole.row;
    }
    pen.level(&level);
    if out.len() > before {
        out.push('\n');
    }
}

/// One level of the tree: nodes with a common caller.
struct Level<'a> {
    nodes: &'a [Branch],
    /// 1 for the outermost.
    depth: usize,
    /// Bit i: a line runs down in column i.
    mask: u32,
    /// What 100 % is.
    total: u64,
    /// Samples of the level, hidden ones included.
    count: u64,
}

struct Pen<'a> {
    out: &'a mut String,
    margin: usize,
    opts: &'a GraphOpts,
}

impl Pen<'_> {
    fn indent(&mut self) {
        let spaces = 12 + self.margin;
        let _ = write!(self.out, "{:spaces$}", "");
    }

    /// The frames all chains of the row begin with.
    fn stem(&mut self, labels: &[String]) {
        let limit = if self.opts.limit == 0 { usize::MAX } else { self.opts.limit };
        for (i, label) in labels.iter().skip(usize::from(self.opts.skip_first)).take(limit).enumerate() {
            if i == 0 {
                self.indent();
                self.out.push_str("|\n");
                self.indent();
                self.out.push_str("---");
                self.margin += 3;
            } else {
                self.indent();
            }
            self.out.push_str(label);
            self.out.push('\n');
        }
    }

    fn level(&mut self, level: &Level<'_>) {
        let mut mask = level.mask;
        let mut remaining = level.total;
        let fractal = self.opts.shape == Shape::Fractal;
        for (i, node) in level.nodes.iter().enumerate() {
            remaining = remaining.saturating_sub(node.total_hits());
            let last = i + 1 == level.nodes.len();
            if last && (!fractal || remaining == 0) {
                mask &= !bit(level.depth - 1);
            }
            self.separator(level.depth, level.mask);
            for (k, label) in node.labels.iter().enumerate() {
                let value = (k == 0).then(|| self.value(node, level.total));
                self.entry(label, value.as_deref(), level.depth, mask);
            }
            let total = if fractal { node.below_hits() } else { level.total };
            let (depth, mask) = (level.depth + 1, mask | bit(level.depth));
            self.level(&Level {
                nodes: &node.children,
                depth,
                mask,
                total,
                count: node.total_count() - node.count,
            });
            if i + 1 == self.opts.limit {
                break;
            }
        }
        if fractal && remaining > 0 && remaining != level.total {
            self.rest(level, remaining, mask);
        }
    }

    /// What was too small to be kept: `--3.45%--[...]`.
    fn rest(&mut self, level: &Level<'_>, remaining: u64, mask: u32) {
        let shown: u64 = level.nodes.iter().map(Branch::total_count).sum();
        let count = level.count.saturating_sub(shown);
        if self.opts.value == Value::Count && count == 0 {
            return;
        }
        let hidden = Branch { hits: remaining, count, ..Branch::default() };
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

    fn value(&self, node: &Branch, total: u64) -> String {
        value_text(self.opts.value, node.total_hits(), node.total_count(), total)
    }
}

/// perf keeps the lines of the columns in 32 bits and starts again beyond.
fn bit(column: usize) -> u32 {
    1u32.wrapping_shl(column as u32)
}

fn value_text(value: Value, hits: u64, count: u64, total: u64) -> String {
    match value {
        Value::Percent if total == 0 => "0.00%".to_owned(),
        Value::Percent => format!("{:.2}%", hits as f64 * 100.0 / total as f64),
        Value::Period => hits.to_string(),
        Value::Count => count.to_string(),
    }
}

fn draw_flat(out: &mut String, chains: &[Branch], total: u64, opts: &GraphOpts) {
    for chain in limited(chains, opts) {
        let value = value_text(opts.value, chain.total_hits(), chain.total_count(), total);
        let _ = writeln!(out, "           {value}");
        for label in &chain.labels {
            let _ = writeln!(out, "                {label}");
        }
        out.push('\n');
    }
}

fn draw_folded(out: &mut String, chains: &[Branch], total: u64, opts: &GraphOpts) {
    for chain in limited(chains, opts) {
        let value = value_text(opts.value, chain.hits, chain.count, total);
        let _ = writeln!(out, "{value} {}", chain.labels.join(";"));
    }
}

fn limited<'a>(chains: &'a [Branch], opts: &GraphOpts) -> &'a [Branch] {
    let limit = if opts.limit == 0 { chains.len() } else { opts.limit.min(chains.len()) };
    &chains[..limit]
}
