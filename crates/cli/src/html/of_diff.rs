//! The page of a comparison: the amounts of both sides in one tree, each divided as the diff divides them.

use super::about::About;
use crate::reading::load;
use crate::terminal::foreign::harmless;
use crate::text::diff::{DiffText, is_time, sentences, word};
use crate::text::number::{count_of, grouped};
use profile::grow::{Grow as _, GrownSum as _};
use profile::profile::{Profile, Sums};
use profile::view::diff::{Diff, DiffRow, DiffSection, Norm};
use profile::view::flame::{NodeId, Tree, TreeBuilder, TreeOpts, Unit};
use profile::view::page::{ItemSet, PageData, PageItem, files};
use profile::view::report::SortValue as Cell;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// States of the page's amounts: the side of the comparison.
const SIDES: [&str; 2] = ["before", "after"];

/// Rows whose judgement is on the page, greatest change first.
const ROWS: usize = 3000;

/// The recordings of both sides.
#[derive(Clone, Copy, Debug)]
pub struct ComparedFiles<'a> {
    /// Of the baseline.
    pub before: &'a [PathBuf],
    /// Of the current side.
    pub after: &'a [PathBuf],
}

/// Data and text of the page of a diff whose profiles have callchains.
#[must_use]
pub fn of_diff(diff: &Diff, style: &DiffText, compared: ComparedFiles<'_>) -> (PageData, About) {
    let profile = &diff.profile;
    let mut builder = TreeBuilder::new(profile, TreeOpts::default(), Unit::Samples);
    let scales: Vec<Scale> = diff.sections.iter().map(|section| Scale::of(section, &style.norm)).collect();
    let sets =
        diff.sections.iter().zip(&scales).map(|(section, scale)| set(&mut builder, diff, (section, scale)));
    let sets = sets.collect();
    let (files, name_files) = files(&builder);
    let data = PageData {
        name_files,
        files,
        states: SIDES.map(str::to_owned).to_vec(),
        sets,
        ..PageData::of_tree(builder.tree, "")
    };
    (data, about(diff, style, &scales, compared))
}

/// How amounts of a section become the page's whole numbers.
struct Scale {
    /// Multiplies periods of the baseline and the current side.
    sides: [f64; 2],
    /// A value of 1 is this much on the page.
    one: f64,
    unit: String,
}

impl Scale {
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
fn set(builder: &mut TreeBuilder<'_>, diff: &Diff, of: (&DiffSection, &Scale)) -> ItemSet {
    let (section, scale) = of;
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
        let amount = (sum.period as f64 * scale.sides[usize::from(state)]).round() as u64;
        PageItem { thread: 0, node, state, since: None, length: 0, amount, count: sum.count, waker: 0 }
    };
    let items = sums.into_iter().map(item).collect();
    ItemSet { name: section.event.clone(), unit: Unit::Event(scale.unit.clone()), is_wall: false, items }
}

fn about(diff: &Diff, style: &DiffText, scales: &[Scale], compared: ComparedFiles<'_>) -> About {
    let side =
        |paths: &[PathBuf]| paths.iter().map(|path| load::name_of(path)).collect::<Vec<_>>().join(", ");
    let (before, after) = (side(compared.before), side(compared.after));
    let samples = |runs: &[Sums]| runs.iter().map(|sums| sums.count).grown_sum();
    let counts =
        diff.sections.first().map_or((0, 0), |first| (samples(&first.runs.0), samples(&first.runs.1)));
    let divided = match &style.norm {
        Norm::Share => "shares of each side's samples".to_owned(),
        Norm::Time => "per second of each side".to_owned(),
        Norm::Run => "per run".to_owned(),
        Norm::Work(event) => format!("per {event}"),
    };
    let sections =
        diff.sections.iter().zip(scales).map(|(section, scale)| value(diff, style, (section, scale)));
    let unmatched = diff.unmatched_events.iter();
    About {
        title: format!("{before} → {after}"),
        subtitle: divided,
        quality: format!("{} → {}", count_of(counts.0, "sample", "samples"), grouped(counts.1)),
        is_good: true,
        facts: vec![("before".to_owned(), before.clone()), ("after".to_owned(), after.clone())],
        notes: unmatched.map(|event| format!("only one side has the event {event}")).collect(),
        compare: json!({
            "before": harmless(&before), "after": harmless(&after), "sections": sections.collect::<Vec<_>>(),
        }),
        ..About::default()
    }
}

/// A section's sentences and the judgement of its rows, in the page's whole numbers.
fn value(diff: &Diff, style: &DiffText, of: (&DiffSection, &Scale)) -> Value {
    let (section, scale) = of;
    let judged = section.rows.iter().filter(|row| row.own.interval.is_some()).take(ROWS);
    let rows: Vec<Value> = judged.filter_map(|row| judgement(&diff.profile, row, scale.one)).collect();
    let text = sentences(diff, section, style);
    let text: Vec<String> = text.iter().map(|line| harmless(line).replace(" -> ", " → ")).collect();
    json!({ "sentences": text, "floor": section.noise_floor.map(|floor| floor * scale.one), "rows": rows })
}

/// A function's name, the word for its change and half of the interval of its change.
fn judgement(profile: &Profile, row: &DiffRow, one: f64) -> Option<Value> {
    let name = row.values.iter().find_map(|value| match value {
        Cell::Symbol { dso, symbol: None, .. } => Some(profile.dsos.of(*dso).bracketed_name()),
        Cell::Symbol { symbol: Some(symbol), .. } => {
            Some(profile.strings.of(profile.symbols.of(*symbol).name).replace(';', ":"))
        }
        _ => None,
    })?;
    let half = row.own.interval.map(|of| ((of.high - of.low) / 2.0 * one).round());
    Some(json!([harmless(&name), word(row.own.change), half]))
}
