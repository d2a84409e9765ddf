//! The page of a comparison: the amounts of both sides in one tree, each divided as the diff divides them.

use super::gather::files;
use super::{ItemSet, PageData, PageItem};
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::Sums;
use crate::view::diff::{Diff, DiffSection, Norm, is_time};
use crate::view::flame::{NodeId, Tree, TreeBuilder, TreeOpts, Unit};
use std::collections::BTreeMap;

/// States of the page's amounts: the side of the comparison.
const SIDES: [&str; 2] = ["before", "after"];

/// The page's data, and the scale of each section's amounts.
#[must_use]
pub fn of_diff(diff: &Diff, norm: &Norm) -> (PageData, Vec<DiffScale>) {
    let mut builder = TreeBuilder::new(&diff.profile, TreeOpts::default(), Unit::Samples);
    let scales: Vec<DiffScale> = diff.sections.iter().map(|section| DiffScale::of(section, norm)).collect();
    let sections = diff.sections.iter().zip(&scales);
    let sets = sections.map(|(section, scale)| set(&mut builder, diff, section, scale)).collect();
    let (files, name_files) = files(&builder);
    let states = SIDES.map(str::to_owned).to_vec();
    (PageData { name_files, files, states, sets, ..PageData::of_tree(builder.tree, "") }, scales)
}

/// How amounts of a section become the page's whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffScale {
    /// Multiplies periods of the baseline and the current side.
    sides: [f64; 2],
    /// A value of 1 is this much on the page.
    pub one: f64,
    /// The page's unit: `1e7 ns`, ten million of it are 1 ns.
    unit: String,
}

impl DiffScale {
    fn of(section: &DiffSection, norm: &Norm) -> Self {
        let total = &section.total;
        let side = |runs: &[Sums], value: f64| {
            let period: u64 = runs.iter().map(|sums| sums.period).grown_sum();
            let whole = if *norm == Norm::Share { 100.0 } else { value };
            if period == 0 { (0.0, whole) } else { (whole / period as f64, whole) }
        };
        let (before, whole_before) = side(&section.runs.0, total.baseline);
        let (after, whole_after) = side(&section.runs.1, total.current);
        // Ten digits for the whole: rounding is not seen.
        let digits = 9.0 - whole_before.max(whole_after).max(1e-9).log10().floor();
        let digits = digits.clamp(0.0, 18.0);
        let value = match (norm, is_time(&section.event)) {
            (Norm::Share, _) => "%".to_owned(),
            (Norm::Time, true) => "ns/s".to_owned(),
            (Norm::Time, false) => format!("{}/s", section.event),
            (Norm::Run, true) => "ns".to_owned(),
            (Norm::Run, false) => section.event.clone(),
            (Norm::Work(event), true) => format!("ns per {event}"),
            (Norm::Work(event), false) => format!("{} per {event}", section.event),
        };
        let one = 10f64.powi(digits as i32);
        Self { sides: [before * one, after * one], one, unit: format!("1e{digits} {value}") }
    }
}

/// Amounts of both sides of one event, by place.
fn set(builder: &mut TreeBuilder<'_>, diff: &Diff, section: &DiffSection, scale: &DiffScale) -> ItemSet {
    let mut sums: BTreeMap<(NodeId, u8), Sums> = BTreeMap::new();
    for (key, more) in diff.profile.cells() {
        let event = key.event as usize;
        if diff.profile.events[event].name != section.event {
            continue;
        }
        let node = builder.node_below(Tree::ROOT, key.callsite);
        let side = u8::from(!diff.is_baseline.get(event).copied().unwrap_or(false));
        let sum = sums.entry((node, side)).or_default();
        sum.count.grow(more.count);
        sum.period.grow(more.period);
    }
    let item = |((node, state), sum): ((NodeId, u8), Sums)| {
        let period = (sum.period as f64 * scale.sides[usize::from(state)]).round() as u64;
        PageItem::of_sum(node, state, Sums { period, ..sum })
    };
    let items = sums.into_iter().map(item).collect();
    ItemSet { name: section.event.clone(), unit: Unit::Event(scale.unit.clone()), is_wall: false, items }
}
