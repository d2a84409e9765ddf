//! Looks of frames in a graph of two recordings: colour, amounts and sign of each frame's change.

use super::colour;
use crate::foreign::harmless;
use display::number;
use display::shorten::shorten;
use profile::view::flame::{BothSides, ChangeOpts, ChangeScale, ComparedTree, NodeId, SideSum, Unit};

/// Functions named as gone at most.
const GONE: usize = 3;

/// Characters of such a name at most.
const GONE_NAME: usize = 32;

/// Change of every frame of a compared tree.
#[derive(Debug)]
pub(super) struct ChangeLook<'a> {
    compared: &'a ComparedTree,
    sides: Vec<BothSides>,
    opts: ChangeOpts,
}

impl<'a> ChangeLook<'a> {
    pub(super) fn new(compared: &'a ComparedTree, opts: ChangeOpts) -> Self {
        Self { compared, sides: compared.totals(), opts }
    }

    /// Orange for more, blue for less, grey where chance explains the change.
    pub(super) fn fill(&self, node: NodeId) -> String {
        colour::of_change(self.size(node))
    }

    /// Colours with their meaning.
    pub(super) fn legend(&self) -> [(String, &'static str); 4] {
        let mark = |size, word| (colour::of_change(size), word);
        let is_judged = self.opts.is_sampled && self.opts.scale == ChangeScale::Share;
        let same = if is_judged { "no change beyond chance" } else { "no change" };
        [mark(-0.6, "less"), mark(0.0, same), mark(0.5, "more"), mark(1.0, "new")]
    }

    /// Change in front of a label: `+1.8 ` points, or `−12 ms `. Empty where chance explains it.
    pub(super) fn sign(&self, node: NodeId) -> String {
        if self.size(node).abs() < colour::LEAST_CHANGE {
            return String::new();
        }
        let (before, after) = self.values(self.sides[node.index()]);
        let text = self.of_value((after - before).abs());
        let text = text.strip_suffix(" points").unwrap_or(&text);
        format!("{}{text} ", if after > before { '+' } else { '−' })
    }

    /// `12.34 % → 14.10 % (+1.76 points), 1.234 s → 1.500 s`.
    pub(super) fn amount(&self, node: NodeId) -> String {
        let both = self.sides[node.index()];
        let (before, after) = self.values(both);
        let values = format!("{} → {}", self.of_side(both.before), self.of_side(both.after));
        let sign = if after < before { '−' } else { '+' };
        let change = match (both.before.value, both.after.value) {
            (0, _) => "new".to_owned(),
            (_, 0) => "gone".to_owned(),
            _ if before == after => "no change".to_owned(),
            _ if self.opts.scale == ChangeScale::Share => {
                format!("{sign}{}", self.of_value((after - before).abs()))
            }
            _ => format!("{sign}{:.1} %", (after - before).abs() * 100.0 / before),
        };
        let chance = if before != after && self.opts.is_chance(both, self.sides[0]) {
            ", chance explains it"
        } else {
            ""
        };
        if self.opts.scale == ChangeScale::Run {
            return format!("{values} ({change}{chance})");
        }
        format!("{before:.2} % → {after:.2} % ({change}{chance}), {values}")
    }

    /// `gone: parse −3.2 points, lex −1.1 points and 12 more`; `None` if nothing is gone.
    pub(super) fn gone(&self) -> Option<String> {
        let gone = self.compared.gone();
        let name = |(name, own): &(&str, u64)| {
            let (before, _) = self
                .values(BothSides { before: SideSum { value: *own, samples: 0 }, ..BothSides::default() });
            let name = shorten(&harmless(name), GONE_NAME).unwrap_or_default();
            format!("{name} −{}", self.of_value(before))
        };
        let named: Vec<String> = gone.iter().take(GONE).map(name).collect();
        let rest = gone.len().saturating_sub(GONE);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        (!gone.is_empty()).then(|| format!("gone: {}{rest}", named.join(", ")))
    }

    fn size(&self, node: NodeId) -> f64 {
        self.opts.size(self.sides[node.index()], self.sides[0])
    }

    fn values(&self, both: BothSides) -> (f64, f64) {
        self.opts.values(both, self.sides[0])
    }

    /// A value as compared.
    fn of_value(&self, value: f64) -> String {
        match (self.opts.scale, &self.compared.tree.unit) {
            (ChangeScale::Share, _) if value < 0.095 => format!("{value:.2} points"),
            (ChangeScale::Share, _) => format!("{value:.1} points"),
            (ChangeScale::Run, Unit::Nanoseconds) => number::duration_ns(value as u64),
            (ChangeScale::Run, _) => number::grouped(value as u64),
        }
    }

    fn of_side(&self, side: SideSum) -> String {
        super::value_of(&self.compared.tree.unit, side.value)
    }
}
