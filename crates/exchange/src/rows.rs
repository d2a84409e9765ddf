//! Rows of views for scripts, as JSON. Names of members and their meaning stay as they are while [`SCHEMA_VERSION`]
//! does; members may be added.
//
// Layout: docs/formats/json.md.

mod blame;
mod diff;
mod flame;
mod io;
mod row_sample;
mod spans;
mod timeline;
mod wall;

pub use blame::{blame, critical_path};
pub use diff::diff;
pub use flame::flame;
pub use io::io;
pub use row_sample::RowSample;
pub use spans::spans;
#[cfg(test)]
pub(crate) use timeline::tests::two_threads;
pub use timeline::timeline;
pub use wall::{label_times, locks, wall};

use profile::profile::{Profile, Sums};
use profile::table::SymbolId;
use profile::view::report::{Report, ReportRow, ReportSection, SortValue};
use serde_json::{Map, Value, json};

/// Version of the JSON of all views with rows.
pub const SCHEMA_VERSION: u32 = 1;

/// A report's sections with at most `most` rows each (0: all), and what the others add up to.
#[must_use]
pub fn report(profile: &Profile, report: &Report, most: usize) -> Value {
    let sections: Vec<Value> =
        report.sections.iter().map(|section| section_value(profile, section, most)).collect();
    json!({ "schema_version": SCHEMA_VERSION, "view": "report", "sections": sections })
}

/// Number of rows, stacks, paths and lines of source that a value of this module leaves out.
#[must_use]
pub fn left_out(value: &Value) -> u64 {
    const KEYS: [&str; 4] = ["rows_left_out", "stacks_left_out", "paths_left_out", "lines_left_out"];
    match value {
        Value::Object(members) => {
            let own = KEYS.iter().filter_map(|key| members.get(*key)?.as_u64());
            own.sum::<u64>() + members.values().map(left_out).sum::<u64>()
        }
        Value::Array(list) => list.iter().map(left_out).sum(),
        _ => 0,
    }
}

/// The first `most` rows (0: all), and the others.
fn split<T>(rows: &[T], most: usize) -> (&[T], &[T]) {
    rows.split_at(if most == 0 { rows.len() } else { rows.len().min(most) })
}

fn section_value(profile: &Profile, section: &ReportSection, most: usize) -> Value {
    let first = |sums: &[Sums]| sums.first().copied().unwrap_or_default();
    let (total, shown) = (first(&section.totals), first(&section.shown));
    let (rows, others) = split(&section.rows, most);
    let mut left_out = Sums::default();
    others.iter().for_each(|row| left_out.add(first(&row.own)));
    let rows: Vec<Value> = rows.iter().map(|row| row_value(profile, section, row)).collect();
    json!({
        "event": section.event_names(profile),
        "samples": total.count, "period": total.period,
        "shown_samples": shown.count, "shown_period": shown.period,
        "keys": section.keys.iter().map(|key| key.name()).collect::<Vec<_>>(),
        "rows": rows,
        "rows_left_out": others.len(), "left_out_self_period": left_out.period,
    })
}

fn row_value(profile: &Profile, section: &ReportSection, row: &ReportRow) -> Value {
    let base = section.base_periods.first().copied().unwrap_or(0);
    let share = |period: u64| if base == 0 { 0.0 } else { period as f64 / base as f64 };
    let of = |sums: &[Sums]| {
        let sums = sums.first().copied().unwrap_or_default();
        let mut value = sums_value(&sums);
        value["share"] = share(sums.period).into();
        value
    };
    let mut members = Map::new();
    members.insert("self".to_owned(), of(&row.own));
    members.insert("total".to_owned(), of(&row.children));
    for (key, value) in section.keys.iter().zip(&row.values) {
        members.insert(key.name().to_owned(), key_value(profile, value));
    }
    Value::Object(members)
}

/// Key that a row is grouped by; null where samples have no such thing.
fn key_value(profile: &Profile, value: &SortValue) -> Value {
    let text = |id| profile.strings.of(id);
    match value {
        SortValue::None => Value::Null,
        SortValue::Text(id) => text(*id).into(),
        SortValue::Dso(id) => profile.dsos.of(*id).short_name.as_str().into(),
        SortValue::Symbol { symbol, addr, .. } => symbol_value(profile, *symbol, *addr),
        SortValue::Task { id, comm } => json!({ "id": id, "comm": text(*comm) }),
        SortValue::Number(number) => (*number).into(),
        SortValue::Address(addr) => format!("{addr:#x}").into(),
        SortValue::Line { file, line } => format!("{}:{line}", text(*file)).into(),
        SortValue::Time(ns) => (*ns).into(),
        SortValue::Flag(flag) => (*flag).into(),
    }
}

/// A function's name; its address if it has none.
fn symbol_value(profile: &Profile, symbol: Option<SymbolId>, addr: u64) -> Value {
    match symbol {
        Some(symbol) => profile.strings.of(profile.symbols.of(symbol).name).into(),
        None => format!("{addr:#x}").into(),
    }
}

/// Number of samples and their period.
#[must_use]
pub fn sums_value(sums: &Sums) -> Value {
    json!({ "samples": sums.count, "period": sums.period })
}
