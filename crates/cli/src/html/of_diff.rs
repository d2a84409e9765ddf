//! The page of a comparison: its sentences, and the judgement of each function's change.

use super::about::About;
use crate::reading::load;
use crate::terminal::foreign::harmless;
use crate::text::diff::{DiffText, sentences, word};
use display::number::{count_of, grouped};
use profile::grow::GrownSum as _;
use profile::profile::{Profile, Sums};
use profile::view::diff::{Diff, DiffRow, DiffSection, Norm};
use profile::view::page::{self, DiffScale, PageData};
use profile::view::report::SortValue as Cell;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Rows whose judgement is on the page, greatest change first.
const ROWS: usize = 3000;

/// The recordings of both sides.
#[derive(Clone, Copy, Debug)]
pub struct ComparedFiles<'a> {
    /// Files of the baseline.
    pub before: &'a [PathBuf],
    /// Files of the current side.
    pub after: &'a [PathBuf],
}

/// Data and text of the page of a diff whose profiles have callchains.
#[must_use]
pub fn of_diff(diff: &Diff, style: &DiffText, compared: ComparedFiles<'_>) -> (PageData, About) {
    let (data, scales) = page::of_diff(diff, &style.norm);
    (data, about(diff, style, &scales, compared))
}

fn about(diff: &Diff, style: &DiffText, scales: &[DiffScale], compared: ComparedFiles<'_>) -> About {
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
        diff.sections.iter().zip(scales).map(|(section, scale)| value(diff, style, section, scale));
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
fn value(diff: &Diff, style: &DiffText, section: &DiffSection, scale: &DiffScale) -> Value {
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
