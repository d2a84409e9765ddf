//! A comparison of two sides as JSON.

use super::{SCHEMA_VERSION, key_value, split, sums_value, symbol_value};
use profile::profile::{Profile, Sums};
use profile::view::diff::{Change, ComparedValue, Diff, DiffPath, DiffRow, DiffSection, Norm};
use serde_json::{Map, Value, json};

/// A section for each event that both sides have, with at most `most` rows and paths (0: all).
#[must_use]
pub fn diff(diff: &Diff, norm: &Norm, most: usize) -> Value {
    let sections: Vec<Value> =
        diff.sections.iter().map(|section| section_value(diff, section, most)).collect();
    json!({
        "schema_version": SCHEMA_VERSION, "view": "diff", "values": unit(norm), "sections": sections,
        "unmatched_events": diff.unmatched_events,
    })
}

/// Unit of the values.
fn unit(norm: &Norm) -> String {
    match norm {
        Norm::Share => "percent of the side".to_owned(),
        Norm::Time => "per second".to_owned(),
        Norm::Work(event) => format!("per {event}"),
        Norm::Run => "per run".to_owned(),
    }
}

fn section_value(diff: &Diff, section: &DiffSection, most: usize) -> Value {
    let (rows, others) = split(&section.rows, most);
    let (paths, other_paths) = split(&section.paths, most);
    let rows: Vec<Value> = rows.iter().map(|row| row_value(&diff.profile, section, row)).collect();
    let paths: Vec<Value> = paths.iter().map(|path| path_value(diff, path)).collect();
    let runs = |runs: &[Sums]| runs.iter().map(sums_value).collect::<Vec<_>>();
    json!({
        "event": section.event,
        "keys": section.keys.iter().map(|key| key.name()).collect::<Vec<_>>(),
        "total": compared(&section.total),
        "baseline_runs": runs(&section.runs.0), "current_runs": runs(&section.runs.1),
        "noise_floor": section.noise_floor, "judged": section.judged, "marked": section.marked(),
        "rows": rows, "rows_left_out": others.len(),
        "paths": paths, "paths_left_out": other_paths.len(),
    })
}

fn row_value(profile: &Profile, section: &DiffSection, row: &DiffRow) -> Value {
    let mut members = Map::new();
    for (key, value) in section.keys.iter().zip(&row.values) {
        members.insert(key.name().to_owned(), key_value(profile, value));
    }
    members.insert("own".to_owned(), compared(&row.own));
    members.insert("baseline".to_owned(), sums_value(&row.sums.0));
    members.insert("current".to_owned(), sums_value(&row.sums.1));
    Value::Object(members)
}

fn path_value(diff: &Diff, path: &DiffPath) -> Value {
    let name = |&at: &u32| {
        let entry = &diff.chain_entries[at as usize];
        symbol_value(&diff.profile, entry.symbol, entry.avma)
    };
    json!({
        "frames": path.entries.iter().map(name).collect::<Vec<_>>(), "own": compared(&path.own),
        "baseline": sums_value(&path.sums.0), "current": sums_value(&path.sums.1),
    })
}

fn compared(value: &ComparedValue) -> Value {
    json!({
        "baseline": value.baseline, "current": value.current, "delta": value.delta,
        "low": value.interval.map(|interval| interval.low), "high": value.interval.map(|interval| interval.high),
        "chance": value.chance, "change": change(value.change),
    })
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Unclear => "unclear",
        Change::More => "more",
        Change::Less => "less",
        Change::New => "new",
        Change::Vanished => "vanished",
    }
}
