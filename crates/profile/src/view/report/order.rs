//! The order of rows: perf's, key by key.

use super::field::{ReportField, SortKey};
use super::row::{ReportRow, ReportSection, SortValue};
use super::{GraphOrder, ReportOpts};
use crate::profile::SampleWord;
use crate::profile::{Profile, Sums};
use crate::table::SymbolId;
use perfdata::DataSource;
use rayon::prelude::*;
use std::cmp::Ordering;

/// Sorts the rows of a section; rows that tie in all of `--sort` keep the order of their addresses.
pub(super) fn sort_rows(profile: &Profile, opts: &ReportOpts, section: &mut ReportSection) {
    let order = opts.row_order();
    let keys = section.keys.clone();
    let graph = opts.graph.map(|graph| graph.order);
    let position = |key: &SortKey| keys.iter().position(|k| k == key);
    // Stable, as on one core.
    section.rows.par_sort_by(|a, b| {
        for field in &order {
            let by = match field {
                ReportField::Key(key) => match position(key) {
                    Some(at) => compare_values(profile, key, &a.values[at], &b.values[at]),
                    None => Ordering::Equal,
                },
                ReportField::OverheadChildren => by_children(a, b, graph),
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
fn by_children(a: &ReportRow, b: &ReportRow, graph: Option<GraphOrder>) -> Ordering {
    let by = periods(&b.children).cmp(periods(&a.children));
    by.then_with(|| match graph {
        None => Ordering::Equal,
        Some(GraphOrder::Caller) => b.max_depth.cmp(&a.max_depth),
        Some(_) => a.max_depth.cmp(&b.max_depth),
    })
}

/// By the number of the event at `first` of the group, then by those of all.
fn by_number(field: &ReportField, first: usize, a: &ReportRow, b: &ReportRow) -> Ordering {
    let of_first = |row: &ReportRow| row.own.get(first).map_or(0, |sums| sums.period);
    match field {
        ReportField::Overhead | ReportField::Period => {
            of_first(b).cmp(&of_first(a)).then_with(|| periods(&b.own).cmp(periods(&a.own)))
        }
        ReportField::Latency => latencies(&b.own).cmp(latencies(&a.own)),
        ReportField::Samples => b.own.iter().map(|s| s.count).cmp(a.own.iter().map(|s| s.count)),
        ReportField::OverheadSys => b.by_mode[0].cmp(&a.by_mode[0]),
        ReportField::OverheadUs => b.by_mode[1].cmp(&a.by_mode[1]),
        ReportField::OverheadGuestSys => b.by_mode[2].cmp(&a.by_mode[2]),
        ReportField::OverheadGuestUs => b.by_mode[3].cmp(&a.by_mode[3]),
        ReportField::OverheadChildren | ReportField::Key(_) => Ordering::Equal,
    }
}

fn latencies(sums: &[Sums]) -> impl Iterator<Item = u64> + '_ {
    sums.iter().map(|s| s.latency)
}

fn periods(sums: &[Sums]) -> impl Iterator<Item = u64> + '_ {
    sums.iter().map(|s| s.period)
}

/// perf's order of one key's values.
fn compare_values(profile: &Profile, key: &SortKey, a: &SortValue, b: &SortValue) -> Ordering {
    match (key, a, b) {
        (SortKey::Memory(part), SortValue::Number(a), SortValue::Number(b)) => {
            let bits = |word: i64| part.bits(DataSource(word.cast_unsigned()));
            bits(*a).cmp(&bits(*b))
        }
        (SortKey::AddrFrom | SortKey::AddrTo, _, _) => compare_places(profile, a, b),
        (SortKey::SymbolFrom | SortKey::SymbolTo, _, _) => compare_places(profile, a, b),
        (SortKey::SrcLine | SortKey::SrcLineFrom | SortKey::SrcLineTo, _, _) => {
            profile.value_text(key, a).cmp(&profile.value_text(key, b))
        }
        (_, SortValue::Symbol { symbol: a, .. }, SortValue::Symbol { symbol: b, .. }) => match (a, b) {
            (Some(a), Some(b)) => name_of(profile, *a).cmp(name_of(profile, *b)),
            (None, None) => Ordering::Equal,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        },
        // These three without making texts.
        (_, a, b) if a == b => Ordering::Equal,
        (_, SortValue::Text(a), SortValue::Text(b)) if *key != SortKey::SrcFile => {
            profile.strings.of(*a).cmp(profile.strings.of(*b))
        }
        (_, SortValue::Dso(a), SortValue::Dso(b)) if !is_reversed(key) => {
            profile.dsos.of(*a).short_name.cmp(&profile.dsos.of(*b).short_name)
        }
        (_, SortValue::Task { id: a, .. }, SortValue::Task { id: b, .. }) => a.cmp(b),
        // perf has these two the other way round.
        (SortKey::DsoFrom | SortKey::DsoTo, _, _) => {
            profile.value_text(key, b).cmp(&profile.value_text(key, a))
        }
        (SortKey::Cycles, SortValue::Number(a), SortValue::Number(b)) => b.cmp(a),
        (
            SortKey::Weight
            | SortKey::LocalWeight
            | SortKey::SymbolSize
            | SortKey::DsoSize
            | SortKey::Word(SampleWord::InstructionLatency | SampleWord::StageCycles)
            | SortKey::WordTotal(_),
            SortValue::Number(a),
            SortValue::Number(b),
        ) => b.cmp(a),
        (_, SortValue::Number(a), SortValue::Number(b)) => a.cmp(b),
        (_, SortValue::Address(a), SortValue::Address(b)) | (_, SortValue::Time(a), SortValue::Time(b)) => {
            a.cmp(b)
        }
        (_, SortValue::None, SortValue::None) => Ordering::Equal,
        (_, SortValue::None, _) => Ordering::Greater,
        (_, _, SortValue::None) => Ordering::Less,
        _ => profile.value_text(key, a).cmp(&profile.value_text(key, b)),
    }
}

/// perf has these two the other way round.
fn is_reversed(key: &SortKey) -> bool {
    matches!(key, SortKey::DsoFrom | SortKey::DsoTo)
}

/// By address: the sort key of perf's input tree, and so the order of ties.
fn compare_places(profile: &Profile, a: &SortValue, b: &SortValue) -> Ordering {
    let start = |symbol: SymbolId| {
        let symbol = profile.symbols.of(symbol);
        (symbol.start, symbol.size)
    };
    match (a, b) {
        (SortValue::Symbol { symbol: Some(a), .. }, SortValue::Symbol { symbol: Some(b), .. }) => {
            start(*a).cmp(&start(*b))
        }
        (
            SortValue::Symbol { symbol: None, addr: a, .. },
            SortValue::Symbol { symbol: None, addr: b, .. },
        ) => a.cmp(b),
        (SortValue::Symbol { symbol: None, .. }, SortValue::Symbol { symbol: Some(_), .. }) => {
            Ordering::Greater
        }
        (SortValue::Symbol { symbol: Some(_), .. }, SortValue::Symbol { symbol: None, .. }) => Ordering::Less,
        _ => Ordering::Equal,
    }
}

fn name_of(profile: &Profile, symbol: SymbolId) -> &str {
    profile.strings.of(profile.symbols.of(symbol).name)
}
