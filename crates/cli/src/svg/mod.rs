//! The flame graph as one SVG file: readable as it is, and with zoom, search and details where scripts run.

mod change;
mod colour;
pub mod heat;
mod small;

pub use colour::Palette;

use crate::terminal::foreign::{harmless, xml};
use change::ChangeLook;
use display::number;
use display::palette::StateClass;
use display::shorten::{columns, shorten};
use profile::view::flame::{
    ChangeOpts, ComparedTree, FlameCell, Kind, Layout, LayoutOpts, NodeId, Tree, Unit,
};
use small::NameTable;
use std::io::{self, Write};

/// The script in every graph: plain JavaScript without dependencies, see `assets/flame.js`.
const SCRIPT: &str = include_str!("../../assets/flame.js");

/// How a flame graph is drawn.
#[derive(Clone, Debug)]
pub struct SvgOpts {
    /// The heading.
    pub title: String,
    /// What is under the heading, smaller.
    pub subtitle: String,
    /// Width in px.
    pub width: u32,
    /// Frames narrower than this many px are left out; `None`: than 0.1 px, or than more where there are many frames.
    pub min_width: Option<f64>,
    /// Root at the top instead of the bottom.
    pub icicle: bool,
    /// Meaning of colours.
    pub palette: Palette,
}

/// Light and dark by the reader's choice; the frames keep their colours, on which dark ink is read.
const STYLE: &str = "\
    text{font:12px ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;fill:#1a1a1a}\
    #title{font:600 17px system-ui,sans-serif;text-anchor:middle}\
    #subtitle,.note{font:12px system-ui,sans-serif;fill:#555}#subtitle{text-anchor:middle}\
    .f{cursor:pointer}.f text{pointer-events:none}.f:hover rect,.cursor rect{stroke:#000;stroke-width:1.5}\
    .f rect{rx:2}.w text{fill:#fff}.edge rect{stroke:#1a1a1a;stroke-dasharray:4 2}\
    .off rect{fill-opacity:.45}.off text{fill:#1a1a1a}.hide{display:none}\
    .hit rect{fill:#e33df0;stroke:#1a1a1a}.hit text{fill:#1a1a1a}\
    .button{font:12px system-ui,sans-serif;cursor:pointer;fill:#06c}\
    @media(prefers-color-scheme:dark){.back{fill:#14171b}#title,#details{fill:#e8eaed}\
    #subtitle,.note{fill:#9aa1ac}.button{fill:#6cb0ff}.f:hover rect,.cursor rect{stroke:#fff}\
    .f rect{opacity:.88}.off text{fill:#e8eaed}}";

const ROW: u32 = 17;
const TOP: u32 = 46;
const BOTTOM: u32 = 44;
const SIDE: f64 = 10.0;
/// Width of a character of the frames' font (12 px monospace).
const CHAR: f64 = 7.2;

/// Writes `tree` as SVG.
///
/// # Errors
/// `out` can't be written.
pub fn write(out: &mut impl Write, tree: &Tree, opts: &SvgOpts) -> io::Result<()> {
    draw(out, tree, opts, None)
}

/// Writes the current side of `compared` as SVG, with the change of each frame.
///
/// # Errors
/// `out` can't be written.
pub fn write_compared(
    out: &mut impl Write,
    compared: &ComparedTree,
    opts: &SvgOpts,
    change: ChangeOpts,
) -> io::Result<()> {
    draw(out, &compared.tree, opts, Some(ChangeLook::new(compared, change)))
}

fn draw(out: &mut impl Write, tree: &Tree, opts: &SvgOpts, change: Option<ChangeLook<'_>>) -> io::Result<()> {
    let total = tree.totals()[0].0;
    let inner = f64::from(opts.width) - 2.0 * SIDE;
    let min_value = least_value(tree, opts, inner / total.max(1) as f64);
    let layout = Layout::new(tree, LayoutOpts { root: Tree::ROOT, min_value });
    let (rows, scale) = (layout.rows, inner / total.max(1) as f64);
    let least = min_value as f64 * scale;
    let page = Page { tree, opts, change, rows, total: total.max(1), scale, least };
    let mut names = NameTable::new(tree);
    page.head(out)?;
    for cell in &layout.cells {
        page.frame(out, cell, &mut names)?;
    }
    page.foot(out, &layout, names)
}

/// Frames drawn at most, where no width was asked for: the file has 3 MB then.
const MOST_FRAMES: usize = 12_000;

/// The value of the smallest frame to draw, at `scale` px a value.
fn least_value(tree: &Tree, opts: &SvgOpts, scale: f64) -> u64 {
    let least = |px: f64| (px / scale).ceil() as u64;
    if let Some(px) = opts.min_width {
        return least(px);
    }
    let mut values: Vec<u64> = tree.totals().into_iter().map(|(value, _)| value).collect();
    values.sort_unstable_by_key(|value| std::cmp::Reverse(*value));
    let too_many = values.get(MOST_FRAMES).map_or(0, |value| value.saturating_add(1));
    least(0.1).max(too_many)
}

/// How much a graph shows, for the line below its heading: `1.234 s, 1,234 samples`.
pub fn amount(tree: &Tree) -> String {
    let (total, samples) = tree.totals()[0];
    let samples = samples_of(samples);
    match &tree.unit {
        Unit::Nanoseconds if tree.is_waiting() => {
            format!("{} off the CPU, {samples}", number::duration_ns(total))
        }
        Unit::Nanoseconds => format!("{}, {samples}", number::duration_ns(total)),
        Unit::Samples => samples_of(total),
        Unit::Event(name) => format!("{} {name}, {samples}", number::grouped(total)),
    }
}

/// `1.234 s`, `1,234 cycles`, `12 samples`.
pub fn value_of(unit: &Unit, value: u64) -> String {
    match unit {
        Unit::Nanoseconds => number::duration_ns(value),
        Unit::Event(name) => format!("{} {name}", number::grouped(value)),
        Unit::Samples => samples_of(value),
    }
}

fn samples_of(count: u64) -> String {
    number::count_of(count, "sample", "samples")
}

struct Page<'a> {
    tree: &'a Tree,
    opts: &'a SvgOpts,
    /// In a graph of two recordings.
    change: Option<ChangeLook<'a>>,
    rows: u32,
    total: u64,
    /// px per value.
    scale: f64,
    /// px of the narrowest frame that is drawn.
    least: f64,
}

impl Page<'_> {
    fn height(&self) -> u32 {
        TOP + self.rows * ROW + BOTTOM
    }

    fn head(&self, out: &mut impl Write) -> io::Result<()> {
        let (width, height) = (self.opts.width, self.height());
        let up = if self.opts.icicle { "" } else { " data-up=\"1\"" };
        let unit = match &self.tree.unit {
            Unit::Nanoseconds => "ns".to_owned(),
            Unit::Samples => "samples".to_owned(),
            Unit::Event(name) => name.clone(),
        };
        writeln!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" id=\"flame\" version=\"1.1\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" data-side=\"{SIDE}\" data-char=\"{CHAR}\" \
             data-total=\"{}\" data-unit=\"{}\"{up}>",
            self.total,
            xml(&unit)
        )?;
        writeln!(out, "<style>{STYLE}</style>")?;
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

    fn frame(&self, out: &mut impl Write, cell: &FlameCell, names: &mut NameTable<'_>) -> io::Result<()> {
        let node = self.tree.node(cell.node);
        let (name, kind) = (harmless(self.tree.name(node.name)), self.tree.kind(node.name));
        let x = SIDE + cell.start as f64 * self.scale;
        let width = cell.value as f64 * self.scale;
        let row = if self.opts.icicle { cell.depth } else { self.rows - 1 - cell.depth };
        let y = TOP + row * ROW;
        let sign = self.change.as_ref().map_or_else(String::new, |change| change.sign(cell.node));
        let label = fitting(&name, width - CHAR * columns(&sign) as f64);
        self.open_group(out, cell, &sign)?;
        let amount = self.amount(cell);
        let amount = xml(&amount);
        match label {
            Some(_) => write!(out, "><title>{}\n{amount}</title>", xml(&name))?,
            None => write!(out, " data-n=\"{}\" data-a=\"{amount}\">", names.number(node.name))?,
        }
        let fill = match &self.change {
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
        let class = match &self.change {
            Some(_) => "f",
            None => class_of(self.tree.name(name), self.tree.kind(name), self.opts.palette),
        };
        write!(out, "<g class=\"{class}\"")?;
        if !sign.is_empty() {
            write!(out, " data-p=\"{sign}\"")?;
        }
        write!(out, " data-s=\"{}\" data-v=\"{}\" data-d=\"{}\"", cell.start, cell.value, cell.depth)
    }

    /// `1.234 s, 1,234 samples, 12.34 %`.
    fn amount(&self, cell: &FlameCell) -> String {
        if let Some(change) = &self.change {
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

    fn foot(&self, out: &mut impl Write, layout: &Layout, names: NameTable<'_>) -> io::Result<()> {
        let y = TOP + self.rows * ROW;
        self.heading(out)?;
        writeln!(
            out,
            "<g id=\"status\"><rect class=\"back\" y=\"{y}\" width=\"100%\" height=\"{BOTTOM}\" fill=\"#fbfaf7\"/>"
        )?;
        let rest = self.change.as_ref().and_then(ChangeLook::gone).unwrap_or_else(|| " ".to_owned());
        writeln!(out, "<text id=\"details\" x=\"{SIDE}\" y=\"{}\">{}</text>", y + 16, xml(&rest))?;
        self.legend(out, layout, y + 34)?;
        writeln!(out, "</g>")?;
        names.write(out, layout)?;
        writeln!(out, "<script type=\"text/javascript\"><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
    }

    /// Colours with what they mean, of those that are drawn.
    fn marks(&self, layout: &Layout) -> Vec<(String, &'static str)> {
        if let Some(change) = &self.change {
            return change.legend().into();
        }
        let palette = self.opts.palette;
        let mut marks = Vec::new();
        for kind in kinds(self.tree, layout) {
            if kind != Kind::Waiting {
                marks.push((palette.colour("", kind), colour::word(kind)));
                continue;
            }
            let names = layout.cells.iter().map(|cell| self.tree.node(cell.node).name);
            let states = names.filter(|&name| self.tree.kind(name) == Kind::Waiting);
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
        let mut x = SIDE;
        let marks = if self.opts.palette == Palette::Kind { self.marks(layout) } else { Vec::new() };
        for (fill, word) in marks {
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{fill}\"/>\
                 <text class=\"note\" x=\"{}\" y=\"{y}\">{word}</text>",
                y - 10,
                x + 16.0
            )?;
            x += 30.0 + 7.0 * word.len() as f64;
        }
        if layout.hidden == 0 {
            return Ok(());
        }
        let right = f64::from(self.opts.width) - SIDE;
        let hidden = number::count_of(layout.hidden as u64, "frame", "frames");
        let text = format!("{hidden} under {} px not drawn", self.least_px());
        // Where the words of the legend reach so far, it is above them.
        let begins = right - 6.5 * text.len() as f64;
        let y = if x > begins { y - 18 } else { y };
        writeln!(out, "<text class=\"note right\" text-anchor=\"end\" x=\"{right}\" y=\"{y}\">{text}</text>")
    }
}

/// The kinds of code in the graph, each once.
fn kinds(tree: &Tree, layout: &Layout) -> Vec<Kind> {
    let kind = |node: NodeId| tree.kind(tree.node(node).name);
    let mut kinds: Vec<Kind> = layout.cells.iter().map(|cell| kind(cell.node)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Classes of a frame: `w` has light ink, `edge` is between a sleeper and the one that woke it.
fn class_of(name: &str, kind: Kind, palette: Palette) -> &'static str {
    match kind {
        Kind::Waiting if name.starts_with("[woken by ") => "f edge",
        Kind::Waiting if palette == Palette::Kind && StateClass::of(name).has_light_ink() => "f w",
        _ => "f",
    }
}

/// As much of `name` as `width` px hold; `None` if that is less than three characters.
fn fitting(name: &str, width: f64) -> Option<String> {
    shorten(name, ((width - 6.0) / CHAR).max(0.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(stacks: &str, icicle: bool) -> String {
        let tree = exchange::import::folded::read(stacks.as_bytes()).tree;
        let opts = SvgOpts {
            title: "T & t".to_owned(),
            subtitle: String::new(),
            width: 1000,
            min_width: None,
            icicle,
            palette: Palette::Kind,
        };
        let mut out = Vec::new();
        write(&mut out, &tree, &opts).expect("writing to memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn names_are_escaped_and_amounts_told() {
        let svg = svg("a;std::vec<int>&\x1b[2J 3\na;c 1\n", false);
        assert!(svg.contains("<title>std::vec&lt;int&gt;&amp;\\x1b[2J\n3 samples, 75.00 %</title>"));
        assert!(svg.contains("T &amp; t"));
        assert!(!svg.contains('\x1b'));
    }

    #[test]
    fn a_search_finds_frames_that_are_too_small_to_draw() {
        let svg = svg("a;tiny;x 1\na;big 100000\n", false);
        assert!(!svg.contains("<title>tiny"), "{svg}");
        let data = "{\"at\":[1],\"below\":[[0,1,1,1,2,1]],\"more\":false,\"names\":[\"tiny\",\"x\"]}";
        assert!(svg.contains(&xml(data)), "{svg}");
    }

    #[test]
    fn an_icicle_has_its_root_at_the_top() {
        let y_of_all = |svg: &str| {
            let at = svg.find("<title>all\n").expect("root");
            let y = &svg[at + svg[at..].find("y=\"").expect("y") + 3..];
            y[..y.find('"').expect("end")].parse::<u32>().expect("number")
        };
        assert_eq!(y_of_all(&svg("a;b;c 1\n", true)), TOP);
        assert_eq!(y_of_all(&svg("a;b;c 1\n", false)), TOP + 3 * ROW);
    }

    #[test]
    fn of_very_many_frames_the_widest_are_drawn() {
        let chain = |at: usize| (0..100).map(|depth| format!(";f{at}_{depth}")).collect::<String>();
        let stacks: String = (0..300).map(|at| format!("a{} {}\n", chain(at), 100 + at)).collect();
        let svg = svg(&stacks, false);
        // All frames of 119 of the 300 chains, with the two frames below them.
        assert_eq!(svg.matches("<g class=\"f\"").count(), 11_902);
        assert!(svg.contains("181 frames under 3.68 px not drawn"), "the note");
        assert!(svg.len() < 3_000_000);
    }

    #[test]
    fn an_empty_input_is_still_a_picture() {
        assert!(svg("", false).ends_with("</svg>\n"));
    }
}
