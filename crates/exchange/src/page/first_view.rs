//! Picture that a page shows before its script has unpacked anything: time by state, or the widest frames.

use crate::foreign::xml;
use crate::svg::Palette;
use display::palette::StateClass;
use display::shorten::shorten;
use profile::grow::{Grow as _, GrownSum as _};
use profile::view::flame::{NodeId, Tree};
use profile::view::page::{ItemSet, PageData};
use profile::view::ranking::RankRows as _;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Height of a row, as on the page, px.
const ROW: usize = 19;
/// Rows of frames.
const ROWS: usize = 12;
/// Frames; each takes about 120 bytes of a page.
const FRAMES: usize = 40;
/// Least share of a frame.
const LEAST: f64 = 0.01;
/// Characters of a label on the whole width, about.
const CHARS: f64 = 160.0;

/// An SVG element as wide as the window; empty for a comparison, and where samples have threads but no states.
#[must_use]
pub fn first_view(data: &PageData) -> String {
    match data.sets.first() {
        Some(set) if set.is_wall => state_bar(data, set),
        Some(set) if data.states.len() == 1 && data.threads.is_empty() => frames(data, set),
        _ => String::new(),
    }
}

/// Thread time by state, without idle, most first.
fn state_bar(data: &PageData, set: &ItemSet) -> String {
    let mut sums = vec![0u64; data.states.len()];
    set.items.iter().for_each(|item| sums[usize::from(item.state)].grow(item.amount));
    let mut shown: Vec<(u64, &String)> = sums
        .into_iter()
        .zip(&data.states)
        .filter(|(_, state)| StateClass::of(state) != StateClass::Idle)
        .collect();
    shown.rank_by_key(|(sum, _)| Reverse(*sum));
    let whole = shown.iter().map(|(sum, _)| *sum).grown_sum().max(1) as f64;
    let (mut cells, mut at) = (String::new(), 0.0);
    for (sum, state) in shown {
        let share = sum as f64 / whole;
        let class = StateClass::of(state);
        let ink = if class.has_light_ink() { " fill=\"#fff\"" } else { "" };
        cells += &Cell { left: at, share, row: 0, name: state, colour: class.light(), ink }.text();
        at += share;
    }
    element(1, &cells)
}

/// Rows below the root, widest frames first, as the page's flame graph shows them.
fn frames(data: &PageData, set: &ItemSet) -> String {
    let tree = &data.tree;
    let totals = totals(tree, set);
    let whole = totals[0].max(1) as f64;
    let mut below = vec![Vec::new(); tree.len()];
    for (node, parent) in tree.nodes_with_parents().filter(|(node, _)| *node != Tree::ROOT) {
        if totals[node.index()] as f64 >= whole * LEAST {
            below[parent.index()].push(node);
        }
    }
    let (mut cells, mut deepest, mut row) = (String::new(), 0, vec![(Tree::ROOT, 0.0)]);
    let mut left = FRAMES;
    for at in 0..ROWS {
        let mut next = Vec::new();
        for (node, start) in row {
            let share = totals[node.index()] as f64 / whole;
            cells += &cell(tree, node).at(start, share, at).text();
            (deepest, left) = (at + 1, left.saturating_sub(1));
            let callees = &mut below[node.index()];
            callees.rank_by_key(|callee| Reverse(totals[callee.index()]));
            let mut from = start;
            for &callee in callees.iter() {
                next.push((callee, from));
                from += totals[callee.index()] as f64 / whole;
            }
        }
        if next.is_empty() || next.len() > left {
            break;
        }
        row = next;
    }
    element(deepest, &cells)
}

/// Amounts of frames with all below them.
fn totals(tree: &Tree, set: &ItemSet) -> Vec<u64> {
    let mut totals = vec![0u64; tree.len()];
    set.items.iter().for_each(|item| totals[item.node.index()].grow(item.amount));
    for node in (1..tree.len()).rev() {
        let below = totals[node];
        totals[tree.parent_index(node)].grow(below);
    }
    totals
}

fn cell(tree: &Tree, node: NodeId) -> Cell<'_, String> {
    if node == Tree::ROOT {
        let colour = Palette::Kind.colour("", tree.kind(tree.node(node).name));
        return Cell { left: 0.0, share: 0.0, row: 0, name: "all", colour, ink: "" };
    }
    let of = tree.node(node).name;
    let name = tree.name(of);
    Cell { left: 0.0, share: 0.0, row: 0, name, colour: Palette::Kind.colour(name, tree.kind(of)), ink: "" }
}

/// A rectangle with a name. `left` and `share` are of the width, from 0 to 1.
struct Cell<'a, C> {
    left: f64,
    share: f64,
    row: usize,
    name: &'a str,
    colour: C,
    /// Attribute of the name's colour, where it isn't that of other text.
    ink: &'static str,
}

impl<C: AsRef<str>> Cell<'_, C> {
    fn at(self, left: f64, share: f64, row: usize) -> Self {
        Self { left, share, row, ..self }
    }

    /// An element of its own, which cuts the name at its end.
    fn text(&self) -> String {
        let [left, width] = [self.left, self.share].map(|part| (part * 10_000.0).round() / 100.0);
        let (y, most) = (self.row * ROW, (self.share * CHARS) as usize);
        let mut text = format!(
            "<svg x=\"{left}%\" y=\"{y}\" width=\"{width}%\" height=\"18\"><rect width=\"100%\" height=\"18\" fill=\"{}\"/>",
            self.colour.as_ref()
        );
        if let Some(name) = shorten(self.name, most) {
            let _ = write!(text, "<text x=\"4\" y=\"13\"{}>{}</text>", self.ink, xml(&name));
        }
        text + "</svg>"
    }
}

fn element(rows: usize, cells: &str) -> String {
    format!(
        "<svg role=\"img\" aria-label=\"where the time went\" width=\"100%\" height=\"{}\">{cells}</svg>",
        rows * ROW
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::profile::Sums;
    use profile::view::page::PageItem;

    fn of_folded(text: &[u8]) -> String {
        first_view(&PageData::of_tree(crate::import::folded::read(text).tree, "e"))
    }

    #[test]
    fn frames_are_as_wide_as_their_share_widest_first() {
        let text = of_folded(b"p;small 1\np;large;leaf 3\n");
        let [all, p, large, small, leaf] =
            ["all", "p", "large", "small", "leaf"].map(|name| text.find(&format!(">{name}<")).expect(name));
        assert!(all < p && p < large && large < small && small < leaf);
        assert!(text.contains("<svg x=\"75%\" y=\"38\" width=\"25%\""), "{text}");
        assert!(text.contains("<svg x=\"0%\" y=\"57\" width=\"75%\""), "{text}");
    }

    #[test]
    fn states_are_as_wide_as_their_share_most_first_without_idle() {
        let mut tree = Tree::new(profile::view::flame::Unit::Nanoseconds);
        let name = tree.intern("f", profile::view::flame::FrameKind::Program);
        let f = tree.child(Tree::ROOT, name);
        let item = |state, period| PageItem::of_sum(f, state, Sums { count: 1, period, ..Sums::default() });
        let items = vec![item(0, 1), item(1, 3), item(2, 100)];
        let text = first_view(&PageData::of_time(tree, &["on CPU", "futex", "idle"], "wall clock", items));
        assert!(text.contains("<svg x=\"0%\" y=\"0\" width=\"75%\""), "{text}");
        assert!(text.find(">futex<") < text.find(">on CPU<") && !text.contains("idle"), "{text}");
    }

    #[test]
    fn names_stay_text() {
        let text = of_folded(b"<b>;</svg><script> 1\n");
        assert!(text.contains("&lt;b&gt;") && !text.contains("<script"), "{text}");
    }

    #[test]
    fn a_row_with_too_many_frames_ends_the_picture() {
        let wide: String = (0..60).map(|at| format!("p;f{at} 1\n")).collect();
        assert_eq!(of_folded(wide.as_bytes()).matches("<rect").count(), 2);
    }
}
