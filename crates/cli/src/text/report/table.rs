//! The table of a report: its columns, their widths, its rows.

mod hierarchy;

use std::io;
use std::io::Write;

use display::term::{Paint, paint};
use profile::profile::{Profile, Sums};
use profile::view::report::SortValue as Cell;
use profile::view::report::{Report, ReportField, ReportRow, ReportSection, SortKey};
use rayon::prelude::*;

use super::super::callgraph;
use super::super::callgraph::{ChainBase, GraphStyle};
use super::StdioOpts;
use crate::terminal::out::{harmless, shown};

/// Rows whose text is made before it is written.
const PIECE: usize = 1024;

/// A section's columns with their widths.
pub(super) struct Table<'a> {
    profile: &'a Profile,
    report: &'a Report,
    section: &'a ReportSection,
    opts: &'a StdioOpts,
    columns: Vec<Column<'a>>,
}

struct Column<'a> {
    field: &'a ReportField,
    heading: String,
    width: usize,
    /// Place of a key among the row's values.
    value: Option<usize>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        profile: &'a Profile,
        report: &'a Report,
        section: &'a ReportSection,
        opts: &'a StdioOpts,
    ) -> Self {
        let mut table = Self { profile, report, section, opts, columns: Vec::new() };
        let both = section.columns.contains(&ReportField::OverheadChildren);
        for field in &section.columns {
            let hidden = |key: &SortKey| opts.elided.iter().any(|(elided, ..)| elided == key);
            let value = match field {
                ReportField::Key(key) if hidden(key) => continue,
                ReportField::Key(key) => section.keys.iter().position(|k| k == key),
                _ => None,
            };
            let heading = match field {
                ReportField::Overhead if both => "Self".to_owned(),
                field => field.heading(),
            };
            let given = opts.widths.get(table.columns.len()).copied().filter(|&width| width > 0);
            let width = given.unwrap_or_else(|| table.width(field, &heading));
            table.columns.push(Column { field, heading, width, value });
        }
        table
    }

    fn width(&self, field: &ReportField, heading: &str) -> usize {
        let least = heading.chars().count();
        let members = self.section.events.len();
        match field {
            ReportField::Samples | ReportField::Period => least.max(12 * members),
            ReportField::OverheadGuestSys | ReportField::OverheadGuestUs => least.max(9 * members),
            ReportField::Key(key) => least.max(self.key_width(key)),
            _ => least.max(8 * members),
        }
    }

    fn key_width(&self, key: &SortKey) -> usize {
        let Some(at) = self.section.keys.iter().position(|k| k == key) else { return 0 };
        let rows = self.section.rows.par_iter();
        let longest = rows.map(|row| self.value_text(key, row, at).chars().count()).max();
        // perf makes room for an address in the column of the DSO when some row has no symbol.
        let unnamed = || self.section.rows.iter().any(|row| row.values.iter().any(is_unnamed));
        let least = match key {
            SortKey::Dso if self.opts.separator.is_none() && self.dso_is_open() && unnamed() => 16,
            SortKey::Cpu => 3,
            key => key.least_width(),
        };
        longest.unwrap_or(0).max(least)
    }

    /// True if no list of DSOs was given.
    fn dso_is_open(&self) -> bool {
        self.opts.elided.iter().all(|(key, ..)| *key != SortKey::Dso)
    }

    fn value_text(&self, key: &SortKey, row: &ReportRow, at: usize) -> String {
        let value = &row.values[at];
        let text = match (key, value) {
            // Mean of the hardware's values, times the samples: perf's "global" numbers.
            (SortKey::Weight | SortKey::WordTotal(_), Cell::Number(each)) => {
                let samples: u64 = row.own.iter().map(|sums| sums.count).sum();
                each.saturating_mul(samples.cast_signed()).to_string()
            }
            _ => self.profile.value_text(key, value),
        };
        match self.opts.separator {
            Some(separator) => harmless(&text).replace(separator, "."),
            None => shown(&text).into_owned(),
        }
    }

    /// The two heading lines and the one below them.
    pub(super) fn headings(&self) -> String {
        if self.opts.tree.is_some() {
            return self.tree_headings();
        }
        let (mut names, mut dots) = (String::from("# "), String::from("# "));
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 {
                self.separate(&mut names);
                dots.push_str("  ");
            }
            let width = column.width;
            let heading: String = column.heading.chars().take(width).collect();
            // Not by the formatter, whose widths have 16 bits.
            let gap = " ".repeat(width.saturating_sub(heading.chars().count()));
            names.push_str(&match column.field {
                ReportField::Key(_) => heading + &gap,
                _ => gap + &heading,
            });
            dots.push_str(&".".repeat(width));
        }
        match self.opts.separator {
            Some(_) => format!("{names}\n"),
            None => format!("{names}\n{dots}\n#\n"),
        }
    }

    fn separate(&self, line: &mut String) {
        match self.opts.separator {
            Some(separator) => line.push(separator),
            None => line.push_str("  "),
        }
    }

    pub(super) fn write_rows(&self, out: &mut dyn Write) -> io::Result<()> {
        let written = |row: &&ReportRow| {
            let mut text = String::new();
            self.row(&mut text, row);
            if let Some(style) = self.opts.graph {
                self.graph(&mut text, row, style);
            }
            text
        };
        let rows: Vec<_> = self.section.rows.iter().filter(|row| self.is_shown(row)).collect();
        rows.chunks(PIECE).try_for_each(|rows| {
            let texts: Vec<String> = rows.par_iter().map(written).collect();
            texts.iter().try_for_each(|text| out.write_all(text.as_bytes()))
        })
    }

    fn is_shown(&self, row: &ReportRow) -> bool {
        let sums = if self.opts.children { &row.children } else { &row.own };
        let base = self.section.base_periods.first().copied().unwrap_or(0);
        percent(sums.first().map_or(0, |sums| sums.period), base) >= self.opts.min_percent
    }

    fn row(&self, text: &mut String, row: &ReportRow) {
        for (i, column) in self.columns.iter().enumerate() {
            if i > 0 || self.opts.separator.is_none() {
                self.separate(text);
            }
            let cell = self.cell(row, column);
            // Colours have no width of their own.
            let length = cell.chars().count();
            match column.field {
                ReportField::Key(_) => text.push_str(&cell),
                field => text.push_str(&self.coloured(row, field, cell)),
            }
            if i + 1 < self.columns.len() {
                text.push_str(&" ".repeat(column.width.saturating_sub(length)));
            }
        }
        text.push('\n');
    }

    fn cell(&self, row: &ReportRow, column: &Column<'_>) -> String {
        let (ReportField::Key(key), Some(at)) = (column.field, column.value) else {
            return self.number(row, column.field);
        };
        let width = column.width;
        let mut text = self.value_text(key, row, at);
        // As perf: only names give way to a width that was asked for. A number that is cut is another number.
        let may_cut = self.opts.separator.is_none() && !is_unnamed(&row.values[at]) && !key.is_number();
        if let Some((end, _)) = text.char_indices().nth(width).filter(|_| may_cut) {
            text.truncate(end);
        }
        let right = matches!(key, SortKey::TraceField(_)) || (key.is_number() && *key != SortKey::Cpu);
        let flush_right = right && self.opts.separator.is_none();
        let gap = width.saturating_sub(text.chars().count());
        if flush_right { " ".repeat(gap) + &text } else { text }
    }

    /// The values of all members of the section's group, one after the other.
    fn number(&self, row: &ReportRow, field: &ReportField) -> String {
        let mut text = String::new();
        for member in 0..self.section.events.len() {
            let base = self.section.base_periods.get(member).copied().unwrap_or(0);
            let share = |period: u64| percent(period, base);
            let own = row.own.get(member).copied().unwrap_or_default();
            let children = row.children.get(member).copied().unwrap_or_default();
            let of_mode = |mode: usize| share(row.by_mode[mode]);
            let percent = match field {
                ReportField::Samples => {
                    text.push_str(&self.count(own.count));
                    continue;
                }
                ReportField::Period => {
                    text.push_str(&self.count(own.period));
                    continue;
                }
                ReportField::OverheadChildren => share(children.period),
                ReportField::Latency => {
                    percent(own.latency, self.section.base_latencies.get(member).copied().unwrap_or(0))
                }
                ReportField::OverheadSys => of_mode(0),
                ReportField::OverheadUs => of_mode(1),
                ReportField::OverheadGuestSys => of_mode(2),
                ReportField::OverheadGuestUs => of_mode(3),
                _ => share(own.period),
            };
            text.push_str(&self.percent(percent, field));
        }
        text
    }

    fn percent(&self, percent: f64, field: &ReportField) -> String {
        let guest = matches!(field, ReportField::OverheadGuestSys | ReportField::OverheadGuestUs);
        let width = if guest { 7 } else { 6 };
        if self.opts.separator.is_some() {
            format!(" {percent:.2}%")
        } else {
            format!(" {percent:>width$.2}%")
        }
    }

    pub(super) fn count(&self, count: u64) -> String {
        if self.opts.separator.is_some() { format!(" {count}") } else { format!(" {count:>11}") }
    }

    /// perf's colours: red from 5 %, green from 0.5 %.
    fn coloured(&self, row: &ReportRow, field: &ReportField, cell: String) -> String {
        if !self.opts.colour || matches!(field, ReportField::Samples | ReportField::Period) {
            return cell;
        }
        let base = self.section.base_periods.first().copied().unwrap_or(0);
        let sums: &[Sums] = if *field == ReportField::OverheadChildren { &row.children } else { &row.own };
        match percent(sums.first().map_or(0, |sums| sums.period), base) {
            p if p >= 5.0 => paint(&cell, Paint::Red, true),
            p if p >= 0.5 => paint(&cell, Paint::Green, true),
            _ => cell,
        }
    }

    pub(super) fn graph(&self, text: &mut String, row: &ReportRow, style: GraphStyle) {
        let sums = if self.opts.children { &row.children } else { &row.own };
        let own = sums.first().copied().unwrap_or_default();
        let total = self.section.totals.first().map_or(0, |total| total.period);
        let whole = ChainBase { total, row: own.period, row_count: own.count };
        let name = |entry: u32| {
            let entry = &self.report.chain_entries[entry as usize];
            shown(&self.profile.chain_entry_text(entry)).into_owned()
        };
        callgraph::draw(text, &row.graph, whole, style, &name);
    }
}

fn is_unnamed(value: &Cell) -> bool {
    matches!(value, Cell::Symbol { symbol: None, .. })
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
