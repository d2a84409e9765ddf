//! The order of rows: perf's, key by key.

use super::field::{Field, SortKey};
use super::row::{ReportRow, Section, Value};
use super::{GraphOrder, ReportOpts};
use crate::profile::SampleWord;
use crate::profile::{Profile, Sums};
use crate::table::SymbolId;
use perfdata::DataSource;
use std::cmp::Ordering;

/// Sorts the rows of a section; rows that tie in all of `--sort` keep the order of their addresses.
pub(super) fn sort_rows(profile: &Profile, opts: &ReportOpts, section: &mut Section) {
    let order = opts.row_order();
    let keys = section.keys.clone();
    let caller = opts.graph.is_some_and(|graph| graph.order == GraphOrder::Caller);
    let position = |key: &SortKey| keys.iter().position(|k| k == key);
    section.rows.sort_by(|a, b| {
        for field in &order {
            let by = match field {
                Field::Key(key) => match position(key) {
                    Some(at) => compare_values(profile, key, &a.values[at], &b.values[at]),
                    None => Ordering::Equal,
                },
                Field::OverheadChildren => by_children(a, b, caller, opts.graph.is_some()),
                number => by_number(number, opts.group_sort, a, b),
            };
            if by != Ordering::Equal {
                return by;
            }
        }
        let ties = a.values.iter().zip(&b.values);
        ties.fold(Ordering::Equal, |by, (a, b)| by.then_with(|| compare_places(profile, a, b)))
    });
}

/// Puts callers before (caller order) or after their callees when both have the same period.
///
/// perf does so only for rows first seen in the same thread. That isn't an order: a before b before c before a is
/// possible, and the result depends on how its tree was balanced. tally does it for all rows.
fn by_children(a: &ReportRow, b: &ReportRow, caller: bool, graph: bool) -> Ordering {
    let by = periods(&b.children).cmp(periods(&a.children));
    if by != Ordering::Equal || !graph {
        return by;
    }
    if caller { b.max_depth.cmp(&a.max_depth) } else { a.max_depth.cmp(&b.max_depth) }
}

/// By the number of the event at `first` of the group, then by those of all.
fn by_number(field: &Field, first: usize, a: &ReportRow, b: &ReportRow) -> Ordering {
    let of_first = |row: &ReportRow| row.own.get(first).map_or(0, |sums| sums.period);
    match field {
        Field::Overhead | Field::Period => {
            of_first(b).cmp(&of_first(a)).then_with(|| periods(&b.own).cmp(periods(&a.own)))
        }
        Field::Samples => b.own.iter().map(|s| s.count).cmp(a.own.iter().map(|s| s.count)),
        Field::OverheadSys => b.by_mode[0].cmp(&a.by_mode[0]),
        Field::OverheadUs => b.by_mode[1].cmp(&a.by_mode[1]),
        Field::OverheadGuestSys => b.by_mode[2].cmp(&a.by_mode[2]),
        Field::OverheadGuestUs => b.by_mode[3].cmp(&a.by_mode[3]),
        Field::OverheadChildren | Field::Key(_) => Ordering::Equal,
    }
}

fn periods(sums: &[Sums]) -> impl Iterator<Item = u64> + '_ {
    sums.iter().map(|s| s.period)
}

/// perf's order of one key's values.
fn compare_values(profile: &Profile, key: &SortKey, a: &Value, b: &Value) -> Ordering {
    match (key, a, b) {
        (SortKey::Memory(part), Value::Number(a), Value::Number(b)) => {
            let bits = |word: i64| part.bits(DataSource(word.cast_unsigned()));
            bits(*a).cmp(&bits(*b))
        }
        (SortKey::AddrFrom | SortKey::AddrTo, _, _) => compare_places(profile, a, b),
        (SortKey::SymbolFrom | SortKey::SymbolTo, _, _) => compare_places(profile, a, b),
        (SortKey::SrcLine | SortKey::SrcLineFrom | SortKey::SrcLineTo, _, _) => {
            profile.value_text(key, a).cmp(&profile.value_text(key, b))
        }
        (_, Value::Symbol { symbol: a, .. }, Value::Symbol { symbol: b, .. }) => match (a, b) {
            (Some(a), Some(b)) => name_of(profile, *a).cmp(name_of(profile, *b)),
            (None, None) => Ordering::Equal,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        },
        (_, Value::Task { id: a, .. }, Value::Task { id: b, .. }) => a.cmp(b),
        // perf has these two the other way round.
        (SortKey::DsoFrom | SortKey::DsoTo, _, _) => {
            profile.value_text(key, b).cmp(&profile.value_text(key, a))
        }
        (SortKey::Cycles, Value::Number(a), Value::Number(b)) => b.cmp(a),
        (
            SortKey::Weight
            | SortKey::LocalWeight
            | SortKey::SymbolSize
            | SortKey::DsoSize
            | SortKey::Word(SampleWord::InstructionLatency | SampleWord::StageCycles)
            | SortKey::WordTotal(_),
            Value::Number(a),
            Value::Number(b),
        ) => b.cmp(a),
        (_, Value::Number(a), Value::Number(b)) => a.cmp(b),
        (_, Value::Address(a), Value::Address(b)) | (_, Value::Time(a), Value::Time(b)) => a.cmp(b),
        (_, Value::None, Value::None) => Ordering::Equal,
        (_, Value::None, _) => Ordering::Greater,
        (_, _, Value::None) => Ordering::Less,
        _ => profile.value_text(key, a).cmp(&profile.value_text(key, b)),
    }
}

/// By address: the sort key of perf's input tree, and so the order of ties.
fn compare_places(profile: &Profile, a: &Value, b: &Value) -> Ordering {
    let start = |symbol: SymbolId| {
        let symbol = profile.symbols.of(symbol);
        (symbol.start, symbol.size)
    };
    match (a, b) {
        (Value::Symbol { symbol: Some(a), .. }, Value::Symbol { symbol: Some(b), .. }) => {
            start(*a).cmp(&start(*b))
        }
        (Value::Symbol { symbol: None, addr: a, .. }, Value::Symbol { symbol: None, addr: b, .. }) => {
            a.cmp(b)
        }
        (Value::Symbol { symbol: None, .. }, Value::Symbol { symbol: Some(_), .. }) => Ordering::Greater,
        (Value::Symbol { symbol: Some(_), .. }, Value::Symbol { symbol: None, .. }) => Ordering::Less,
        _ => Ordering::Equal,
    }
}

fn name_of(profile: &Profile, symbol: SymbolId) -> &str {
    profile.strings.of(profile.symbols.of(symbol).name)
}
