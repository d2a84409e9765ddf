//! The elements of the picture: heading, frames, amounts, legend, foot.

use std::io;
use std::io::Write;

use display::number;
use display::palette::StateClass;
use display::shorten::{columns, shorten};
use profile::view::flame::{FlameCell, FrameKind, Layout, NodeId, NodeNote, Tree, Unit};

use super::change::ChangeLook;
use super::colour::Palette;
use super::small::NameTable;
use super::{BOTTOM, CHAR, ROW, SCRIPT, SIDE, SvgOpts, TOP, colour, samples_of, style, value_of};
use crate::foreign::{harmless, xml};

pub(super) struct Page<'a> {
    pub(super) tree: &'a Tree,
    pub(super) opts: &'a SvgOpts,
    /// In a graph of two recordings.
    pub(super) change: Option<&'a ChangeLook<'a>>,
    pub(super) rows: u32,
    pub(super) total: u64,
    /// px per value.
    pub(super) scale: f64,
    /// px of the narrowest frame that is drawn.
    pub(super) least: f64,
}

impl Page<'_> {
    pub(super) fn head(&self, out: &mut impl Write, layout: &Layout) -> io::Result<()> {
        let folds = self.placed(layout).last().map_or(0, |mark| mark.line);
        let (width, height) = (self.opts.width, TOP + self.rows * ROW + BOTTOM + FOLD * folds);
        let up = if self.opts.icicle { "" } else { " data-up=\"1\"" };
        let folds = if folds > 0 { format!(" data-folds=\"{folds}\"") } else { String::new() };
        let unit = self.tree.unit.name();
        let states = StateClass::ALL.map(StateClass::light).join(" ");
        writeln!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" id=\"flame\" version=\"1.1\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" data-side=\"{SIDE}\" data-char=\"{CHAR}\" \
             data-total=\"{}\" data-unit=\"{}\" data-states=\"{states}\"{up}{folds}>",
            self.total,
            xml(unit)
        )?;
        writeln!(out, "<style>{}</style>", style())?;
        writeln!(
            out,
            "<rect class=\"back\" width=\"100%\" height=\"100%\" fill=\"#fbfaf7\"/>\n<g id=\"frames\">"
        )
    }

    /// Heading, search and the button that zooms out: above the frames, where they stay when the window moves.
    fn heading(&self, out: &mut impl Write) -> io::Result<()> {
        let (middle, right) = (self.opts.width / 2, f64::from(self.opts.width) - SIDE);
        writeln!(
            out,
            "</g>\n<g id=\"head\"><rect class=\"back\" width=\"100%\" height=\"{}\" fill=\"#fbfaf7\"/>",
            TOP - 2
        )?;
        writeln!(out, "<text id=\"title\" x=\"{middle}\" y=\"22\">{}</text>", xml(&self.opts.title))?;
        writeln!(out, "<text id=\"subtitle\" x=\"{middle}\" y=\"38\">{}</text>", xml(&self.opts.subtitle))?;
        writeln!(out, "<text id=\"reset\" class=\"button hide\" x=\"{SIDE}\" y=\"22\">reset zoom</text>")?;
        writeln!(
            out,
            "<text id=\"search\" class=\"button\" text-anchor=\"end\" x=\"{right}\" y=\"22\"></text></g>"
        )
    }

    pub(super) fn frame(
        &self,
        out: &mut impl Write,
        cell: &FlameCell,
        names: &mut NameTable<'_>,
    ) -> io::Result<()> {
        let node = self.tree.node(cell.node);
        let (name, kind) = (harmless(self.tree.name(node.name)), self.tree.kind(node.name));
        let x = SIDE + cell.start as f64 * self.scale;
        let width = cell.value as f64 * self.scale;
        let row = if self.opts.icicle { cell.depth } else { self.rows - 1 - cell.depth };
        let y = TOP + row * ROW;
        let sign = self.change.map_or_else(String::new, |change| change.sign(cell.node));
        let shown = self.shown(cell, &name);
        let label = fitting(&shown, width - CHAR * columns(&sign) as f64);
        self.open_group(out, cell, &sign)?;
        let amount = self.amount(cell);
        let amount = xml(&amount);
        match label {
            Some(_) => write!(out, "><title>{}\n{amount}</title>", xml(&shown))?,
            None => write!(out, " data-n=\"{}\" data-a=\"{amount}\">", names.number(node.name))?,
        }
        let fill = match self.change {
            Some(change) => change.fill(cell.node),
            None => self.opts.palette.colour(&name, kind),
        };
        let (wide, high) = ((width - 0.4).max(0.2), ROW - 1);
        write!(out, "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{high}\" fill=\"{fill}\"/>")?;
        if let Some(label) = label {
            write!(out, "<text x=\"{:.2}\" y=\"{}\">{sign}{}</text>", x + 3.0, y + 12, xml(&label))?;
        }
        writeln!(out, "</g>")
    }

    /// The group of a frame with its place in value units, without the `>`.
    fn open_group(&self, out: &mut impl Write, cell: &FlameCell, sign: &str) -> io::Result<()> {
        let name = self.tree.node(cell.node).name;
        let class = match self.change {
            Some(_) => "f",
            None => class_of(self.tree.name(name), self.tree.kind(name), self.opts.palette),
        };
        write!(out, "<g class=\"{class}\"")?;
        if !sign.is_empty() {
            write!(out, " data-p=\"{sign}\"")?;
        }
        write!(out, " data-s=\"{}\" data-v=\"{}\" data-d=\"{}\"", cell.start, cell.value, cell.depth)
    }

    /// The name, with the number of threads or repeats: `worker ×8`.
    fn shown(&self, cell: &FlameCell, name: &str) -> String {
        match self.tree.note(cell.node) {
            Some(NodeNote::Threads(count) | NodeNote::Repeats(count)) => format!("{name} ×{count}"),
            None => name.to_owned(),
        }
    }

    /// `1.234 s, 1,234 samples, 12.34 %, 8 threads (--tid draws each)`.
    pub(super) fn amount(&self, cell: &FlameCell) -> String {
        let note = match self.tree.note(cell.node) {
            Some(NodeNote::Threads(count)) => format!(", {count} threads (--tid draws each)"),
            Some(NodeNote::Repeats(count)) => format!(", repeats up to {count} times (--all-frames)"),
            None => String::new(),
        };
        self.amount_alone(cell) + &note
    }

    fn amount_alone(&self, cell: &FlameCell) -> String {
        if let Some(change) = self.change {
            return change.amount(cell.node);
        }
        let percent = cell.value as f64 * 100.0 / self.total as f64;
        if let Some(details) = self.tree.details(cell.node) {
            return format!("{details}, {percent:.2} %");
        }
        let samples = samples_of(cell.samples);
        if self.tree.unit == Unit::Samples {
            return format!("{samples}, {percent:.2} %");
        }
        format!("{}, {samples}, {percent:.2} %", value_of(&self.tree.unit, cell.value))
    }

    pub(super) fn foot(&self, out: &mut impl Write, layout: &Layout, names: NameTable<'_>) -> io::Result<()> {
        let y = TOP + self.rows * ROW;
        self.heading(out)?;
        let high = BOTTOM + FOLD * self.placed(layout).last().map_or(0, |mark| mark.line);
        writeln!(
            out,
            "<g id=\"status\"><rect class=\"back\" y=\"{y}\" width=\"100%\" height=\"{high}\" fill=\"#fbfaf7\"/>"
        )?;
        let rest = self.change.and_then(ChangeLook::gone).unwrap_or_else(|| " ".to_owned());
        writeln!(out, "<text id=\"details\" x=\"{SIDE}\" y=\"{}\">{}</text>", y + 16, xml(&rest))?;
        self.legend(out, layout, y + 34)?;
        writeln!(out, "</g>")?;
        names.write(out, layout)?;
        writeln!(out, "<script type=\"text/javascript\"><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
    }

    /// Colours with what they mean, of those that are drawn.
    fn marks(&self, layout: &Layout) -> Vec<(String, &'static str)> {
        if let Some(change) = self.change {
            return change.legend().into();
        }
        let palette = self.opts.palette;
        let mut marks = Vec::new();
        for kind in kinds(self.tree, layout) {
            if kind != FrameKind::Waiting {
                marks.push((palette.colour("", kind), colour::word(kind)));
                continue;
            }
            let names = layout.cells.iter().map(|cell| self.tree.node(cell.node).name);
            let states = names.filter(|&name| self.tree.kind(name) == FrameKind::Waiting);
            let drawn: Vec<_> = states.map(|name| StateClass::of(self.tree.name(name))).collect();
            let classes = StateClass::ALL.iter().filter(|class| drawn.contains(class));
            marks.extend(classes.map(|class| (class.light().to_owned(), class.word())));
        }
        marks
    }

    /// The width asked for, or that of the narrowest frame if there are too many.
    fn least_px(&self) -> String {
        match self.opts.min_width {
            Some(px) => px.to_string(),
            None if self.scale >= 0.1 || self.least < 0.1 + self.scale => "0.1".to_owned(),
            None => format!("{:.2}", self.least),
        }
    }

    /// A square and a word per kind of code (and of waits) in the graph, and how much was too small to draw.
    fn legend(&self, out: &mut impl Write, layout: &Layout, y: u32) -> io::Result<()> {
        let mut end = SIDE;
        for PlacedMark { fill, word, x, line } in self.placed(layout) {
            let y = y + FOLD * line;
            writeln!(
                out,
                "<rect class=\"mark\" x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{fill}\"/>\
                 <text class=\"note\" x=\"{}\" y=\"{y}\">{word}</text>",
                y - 10,
                x + 16.0
            )?;
            end = if line > 0 { f64::INFINITY } else { x + mark_px(word) };
        }
        if layout.hidden == 0 {
            return Ok(());
        }
        let right = f64::from(self.opts.width) - SIDE;
        let hidden = number::count_of(layout.hidden as u64, "frame", "frames");
        let text = format!("{hidden} under {} px not drawn", self.least_px());
        // Where the words of the legend reach so far, it is above them.
        let begins = right - 6.5 * text.len() as f64;
        let y = if end > begins { y - 18 } else { y };
        writeln!(out, "<text class=\"note right\" text-anchor=\"end\" x=\"{right}\" y=\"{y}\">{text}</text>")
    }

    /// The legend in as many lines as the width needs.
    fn placed(&self, layout: &Layout) -> Vec<PlacedMark> {
        let marks = if self.opts.palette == Palette::Kind { self.marks(layout) } else { Vec::new() };
        let (mut next, mut line) = (SIDE, 0);
        let place = |(fill, word): (String, &'static str)| {
            if next > SIDE && next + mark_px(word) - 14.0 > f64::from(self.opts.width) - SIDE {
                (next, line) = (SIDE, line + 1);
            }
            let x = next;
            next += mark_px(word);
            PlacedMark { fill, word, x, line }
        };
        marks.into_iter().map(place).collect()
    }
}

/// A line of the legend, px.
const FOLD: u32 = 16;

/// A square and a word of the legend.
struct PlacedMark {
    fill: String,
    word: &'static str,
    x: f64,
    line: u32,
}

/// px that a square and its word take, with the gap after them.
fn mark_px(word: &str) -> f64 {
    30.0 + 7.0 * word.len() as f64
}

/// The kinds of code in the graph, each once.
fn kinds(tree: &Tree, layout: &Layout) -> Vec<FrameKind> {
    let kind = |node: NodeId| tree.kind(tree.node(node).name);
    let mut kinds: Vec<FrameKind> = layout.cells.iter().map(|cell| kind(cell.node)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Classes of a frame: `w` has light ink, `edge` is between a sleeper and the one that woke it.
fn class_of(name: &str, kind: FrameKind, palette: Palette) -> &'static str {
    match kind {
        FrameKind::Waiting if name.starts_with("[woken by ") => "f edge",
        FrameKind::Waiting if palette == Palette::Kind && StateClass::of(name).has_light_ink() => "f w",
        _ => "f",
    }
}

/// As much of `name` as `width` px hold; `None` if that is less than three characters.
fn fitting(name: &str, width: f64) -> Option<String> {
    shorten(name, ((width - 6.0) / CHAR).max(0.0) as usize)
}
