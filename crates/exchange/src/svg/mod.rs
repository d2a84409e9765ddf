//! The flame graph as one SVG file: readable as it is, and with zoom, search and details where scripts run.

mod change;
mod colour;
pub mod heat;
mod page;
mod small;

pub use colour::Palette;

use change::ChangeLook;
use display::number;
use display::palette::StateClass;
use page::Page;
use profile::view::flame::{ChangeOpts, ComparedTree, Layout, LayoutOpts, Tree, Unit};
use profile::view::ranking::RankRows as _;
use small::NameTable;
use std::io::{self, Write};

/// The script in every graph: plain JavaScript without dependencies, see `assets/flame.js`.
const SCRIPT: &str = include_str!("../../assets/flame.js");

/// How a flame graph is drawn.
#[derive(Clone, Debug)]
pub struct SvgOpts {
    /// The heading.
    pub title: String,
    /// Text under the heading, smaller.
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

impl SvgOpts {
    /// As a graph is drawn that nobody gave options for.
    #[must_use]
    pub fn plain(title: String, subtitle: String) -> Self {
        Self { title, subtitle, width: 1200, min_width: None, icicle: false, palette: Palette::Kind }
    }
}

/// Light and dark by the reader's choice.
const STYLE: &str = "\
    text{font:12px ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;fill:#1a1a1a}\
    #title{font:600 17px system-ui,sans-serif;text-anchor:middle}\
    #subtitle,.note{font:12px system-ui,sans-serif;fill:#555}#subtitle{text-anchor:middle}\
    .f{cursor:pointer}.f text{pointer-events:none}.f:hover rect,.cursor rect{stroke:#000;stroke-width:1.5}\
    .f rect{rx:2}.w text{fill:#fff}.edge rect{stroke:#1a1a1a;stroke-dasharray:4 2}\
    .off rect{fill-opacity:.45}.off text{fill:#1a1a1a}.hide{display:none}\
    .hit rect{fill:#e33df0;stroke:#1a1a1a}.hit text{fill:#1a1a1a}\
    .button{font:12px system-ui,sans-serif;cursor:pointer;fill:#06c}\
    @media(prefers-color-scheme:dark){svg:root{background:#14171b}.back{fill:#14171b}#title,#details{fill:#e8eaed}\
    #subtitle,.note{fill:#9aa1ac}.button{fill:#6cb0ff}.f:hover rect,.cursor rect{stroke:#fff}\
    .f text{fill:#f2f3f5}.f rect,.mark{opacity:.44}.lit .f rect,.lit .mark{opacity:1}.edge rect{stroke:#9aa1ac}";

/// The end of the dark style: it has precedence over the colours of states.
const STYLE_END: &str = "\
    .f.hit rect{fill:#e33df0;opacity:1}.f.hit rect+text{fill:#1a1a1a}.f.off rect+text{fill:#e8eaed}}";

/// All rules. In the dark, states have colours of their own; the script gives other frames theirs, and without it they
/// are mixed with the ground.
fn style() -> String {
    let rule = |class: &StateClass| {
        let (light, dark) = (class.light(), class.dark());
        let ink = if *class == StateClass::Idle { "#e6e8ec" } else { "#101317" };
        format!("rect[fill=\"{light}\"]{{fill:{dark};opacity:1}}.f rect[fill=\"{light}\"]+text{{fill:{ink}}}")
    };
    let states: String = StateClass::ALL.iter().map(rule).collect();
    format!("{STYLE}{states}{STYLE_END}")
}

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

/// Size of a file at most, in bytes, where no width was asked for.
const MOST_BYTES: usize = 3_000_000;
/// Frames drawn at most at first, where no width was asked for: with names of usual length they take 2 MB.
const MOST_FRAMES: usize = 12_000;
/// Frames drawn in any case, however long their names are.
const LEAST_FRAMES: usize = 1_000;

/// Draws fewer frames until the file has the size; frames that aren't drawn stay in the sums and in the search.
fn draw(out: &mut impl Write, tree: &Tree, opts: &SvgOpts, change: Option<ChangeLook<'_>>) -> io::Result<()> {
    let mut frames = MOST_FRAMES;
    loop {
        let mut svg = Vec::new();
        let drawn = draw_widest(&mut svg, tree, opts, change.as_ref(), frames)?;
        if svg.len() <= MOST_BYTES || opts.min_width.is_some() || frames <= LEAST_FRAMES {
            return out.write_all(&svg);
        }
        // A frame that isn't drawn still takes some bytes, so that a tenth more have to go.
        let excess = (svg.len() - MOST_BYTES) * drawn.frames / drawn.bytes.max(1);
        let fewer = drawn.frames.min(frames).saturating_sub(excess + excess / 10 + 100);
        frames = fewer.max(LEAST_FRAMES);
    }
}

/// Size of the frames of a graph.
struct Drawn {
    frames: usize,
    bytes: usize,
}

/// Draws about `most` frames, the widest ones, or those that are wide enough for the options.
fn draw_widest(
    out: &mut Vec<u8>,
    tree: &Tree,
    opts: &SvgOpts,
    change: Option<&ChangeLook<'_>>,
    most: usize,
) -> io::Result<Drawn> {
    let total = tree.totals()[0].0;
    let inner = f64::from(opts.width) - 2.0 * SIDE;
    let min_value = least_value(tree, opts, inner / total.max(1) as f64, most);
    let layout = Layout::new(tree, LayoutOpts { root: Tree::ROOT, min_value });
    let (rows, scale) = (layout.rows, inner / total.max(1) as f64);
    let least = min_value as f64 * scale;
    let page = Page { tree, opts, change, rows, total: total.max(1), scale, least };
    let mut names = NameTable::new(tree);
    page.head(out, &layout)?;
    let begin = out.len();
    for cell in &layout.cells {
        page.frame(out, cell, &mut names)?;
    }
    let drawn = Drawn { frames: layout.cells.len(), bytes: out.len() - begin };
    page.foot(out, &layout, names)?;
    Ok(drawn)
}

/// The value of the smallest frame to draw, at `scale` px a value, for `most` frames.
fn least_value(tree: &Tree, opts: &SvgOpts, scale: f64, most: usize) -> u64 {
    let least = |px: f64| (px / scale).ceil() as u64;
    if let Some(px) = opts.min_width {
        return least(px);
    }
    let mut values: Vec<u64> = tree.totals().into_iter().map(|(value, _)| value).collect();
    values.rank_by_key(|value| std::cmp::Reverse(*value));
    let too_many = values.get(most).map_or(0, |value| value.saturating_add(1));
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

#[cfg(test)]
mod tests;
