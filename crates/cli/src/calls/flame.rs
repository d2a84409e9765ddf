//! Calls as a flame graph: widths are exact ns of wall-clock time, on and off the CPU in colours of their own.

use anyhow::Context;
use calls::model::{CallNode, CallProfile, CallStats};
use std::io::Write;
use std::path::PathBuf;

use super::open::{Need, Notes, with_view};
use super::view_args::ViewArgs;
use crate::{html, terminal::out};
use calls::view::View;
use calls::view::page::kind_of;
use display::number;
use exchange::export;
use exchange::svg;
use profile::view::flame::{FrameKind, NodeId, Tree, Unit};

/// The frame of a call's own time off the CPU.
const OFF_CPU: &str = "[off CPU]";

/// How the graph is drawn.
#[derive(Clone, Debug)]
pub struct FlameOpts {
    /// Write here instead of standard output.
    pub output: Option<PathBuf>,
    /// Write a page here instead.
    pub html: Option<PathBuf>,
    /// Folded stacks instead of SVG.
    pub folded: bool,
    /// Names as `func:(count),avg:TIME`.
    pub counts: bool,
    /// Heading, when not made from the command.
    pub title: Option<String>,
    /// px.
    pub width: u32,
    /// px.
    pub min_width: Option<f64>,
    /// Root at the top.
    pub icicle: bool,
    /// Functions that ran at the root, callers above.
    pub reverse: bool,
}

impl Default for FlameOpts {
    fn default() -> Self {
        Self {
            output: None,
            html: None,
            folded: false,
            counts: false,
            title: None,
            width: 1200,
            min_width: None,
            icicle: false,
            reverse: false,
        }
    }
}

/// Draws the recording of `view`.
///
/// # Errors
/// If it can't be read, holds no call, or the output can't be written.
pub fn draw(view: &ViewArgs, opts: &FlameOpts) -> anyhow::Result<()> {
    let slowest = if opts.html.is_some() { html::SLOWEST } else { 0 };
    with_view(view, Need::Sum { slowest }, |view, notes| {
        let sum = view.sum(slowest);
        if let Some(page) = &opts.html {
            anyhow::ensure!(sum.calls() > 0, "no calls left to draw");
            let title = opts.title.clone().unwrap_or_else(|| notes.title.clone());
            let (data, about) = html::of_calls(&sum, view, &title);
            return html::write_file(page, &data, &about);
        }
        let tree = tree(&sum, view, opts.counts);
        anyhow::ensure!(!tree.is_empty(), "no calls left to draw");
        let tree = if opts.reverse { tree.reversed() } else { tree };
        write(&tree, &sum, notes, opts)
    })
}

fn write(tree: &Tree, sum: &CallProfile, notes: &Notes, opts: &FlameOpts) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    if opts.folded {
        bytes = export::folded::to_text(tree).into_bytes();
    } else {
        let calls = sum.calls();
        let svg_opts = svg::SvgOpts {
            title: opts.title.clone().unwrap_or_else(|| format!("Calls of {}", notes.title)),
            subtitle: format!("{} of calls, exact; {}", amount_ns(tree), calls_of(calls)),
            width: opts.width,
            min_width: opts.min_width,
            icicle: opts.icicle,
            palette: svg::Palette::Kind,
        };
        svg::write(&mut bytes, tree, &svg_opts)?;
    }
    let picture =
        if opts.folded || opts.output.is_some() { None } else { out::picture_for_terminal("calls") };
    match opts.output.as_ref().or(picture.as_ref()) {
        Some(path) => {
            ::record::output_file::write_export(path, bytes)
                .with_context(|| format!("can't write {}", path.display()))?;
            picture.iter().for_each(|path| out::note_picture(path));
            Ok(())
        }
        None if opts.folded => out::text(&String::from_utf8_lossy(&bytes)),
        None => {
            let mut to = out::raw_stdout();
            to.write_all(&bytes)?;
            Ok(to.flush()?)
        }
    }
}

fn amount_ns(tree: &Tree) -> String {
    number::duration_ns(tree.totals()[Tree::ROOT.index()].0)
}

fn calls_of(count: u64) -> String {
    number::count_of(count, "call", "calls")
}

/// The calls as a tree to draw: a frame's width is its total ns, its own time off the CPU a frame on it.
pub fn tree(sum: &CallProfile, view: &View<'_>, counts: bool) -> Tree {
    let mut tree = Tree::new(Unit::Nanoseconds);
    let off = tree.intern(OFF_CPU, FrameKind::Waiting);
    let mut drawn: Vec<NodeId> = Vec::with_capacity(sum.nodes().len());
    for CallNode { parent, function, stats, .. } in sum.nodes() {
        let function = view.functions.of(*function);
        let name = &function.name;
        let shown = if counts { labelled(name, stats) } else { name.clone() };
        let id = tree.intern(&shown, kind_of(function));
        let parent = parent.map_or(Tree::ROOT, |calls::model::NodeId(id)| drawn[id as usize]);
        let here = tree.child(parent, id);
        tree.add(here, stats.self_on_ns(), stats.calls());
        tree.describe(here, details(stats));
        if stats.self_off_ns > 0 {
            let waiting = tree.child(here, off);
            tree.add(waiting, stats.self_off_ns, 0);
            tree.describe(
                waiting,
                format!("{} off the CPU in {name}", number::duration_ns(stats.self_off_ns)),
            );
        }
        drawn.push(here);
    }
    tree.describe(Tree::ROOT, format!("{}, {}", amount_ns(&tree), calls_of(sum.calls())));
    tree
}

/// `func:(count),avg:1.68s`.
fn labelled(name: &str, stats: &CallStats) -> String {
    let count = stats.calls();
    let avg = stats.average_ns().map_or_else(String::new, |ns| format!(",avg:{}", number::brief_ns(ns)));
    format!("{name}:({count}){avg}")
}

/// Time, count, averages and the share off the CPU of one frame.
fn details(stats: &CallStats) -> String {
    let mut text = format!("{}, {}", number::duration_ns(stats.total_ns), calls_of(stats.calls()));
    let numbers = [
        ("avg", stats.average_ns()),
        ("p99", stats.quantile_ns(0.99)),
        ("max", stats.max_ns),
        ("off CPU", Some(stats.off_ns).filter(|ns| *ns > 0)),
    ];
    for (name, ns) in numbers {
        if let Some(ns) = ns {
            text.push_str(&format!(", {name} {}", number::duration_ns(ns)));
        }
    }
    text
}
