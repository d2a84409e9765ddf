//! `report --stdio`: perf's text form of a report.
//
// Source: linux v6.1 tools/perf/ui/stdio/hist.c and builtin-report.c print this form; perf 6.1's own
// output on the same files is what the tests compare with. Differences: docs/perf-differences.md.

mod hierarchy;

use super::callgraph::{self, ChainBase, GraphStyle};
use crate::terminal::out::{harmless, shown};
use display::term::{Paint, paint};
use profile::profile::{Profile, Sums};
use profile::view::report::{
    Report, ReportField, ReportOpts, ReportRow, ReportSection, SortKey, SortValue as Cell,
};
use std::io::{self, Write};

/// How a report is printed.
#[derive(Clone, Debug, Default)]
pub struct StdioOpts {
    /// Separates columns in place of blanks (`-t`); then values are not padded to line up percent signs.
    pub separator: Option<char>,
    /// Call graphs; `None` for none.
    pub graph: Option<GraphStyle>,
    /// Rows of a smaller share are not printed.
    pub min_percent: f64,
    /// Rows only: no comments.
    pub quiet: bool,
    /// The rows as a tree, a level for each key, made with these options; `None` for a table.
    pub tree: Option<ReportOpts>,
    /// Colour percentages.
    pub colour: bool,
    /// In the view of memory accesses the keys, for the head; `None` in all others.
    pub memory_keys: Option<String>,
    /// Widths of the columns from left to right, in characters; 0 and what is missing is the width of the content.
    pub widths: Vec<usize>,
    /// Columns not shown because all rows have this one value: (key, perf's word for it, the value).
    pub elided: Vec<(SortKey, &'static str, String)>,
    /// What the totals count: shown rather than all samples (`--percentage relative`).
    pub relative: bool,
    /// Print sections of events without samples.
    pub show_empty: bool,
    /// The events were put together for this report (`--group`), and were not recorded as a group.
    pub forced_group: bool,
    /// Children are shown: the row limit goes by them.
    pub children: bool,
    /// Lost samples to report in the head.
    pub lost_samples: u64,
    /// Replacement for perf's first line (the file's header), each line with `# `; `None` for the hint.
    pub header: Option<String>,
}

/// Prints the whole report.
///
/// # Errors
/// `out` can't be written.
pub fn write(out: &mut dyn Write, profile: &Profile, report: &Report, opts: &StdioOpts) -> io::Result<()> {
    if !opts.quiet {
        write_head(out, opts)?;
    }
    for section in &report.sections {
        let samples: u64 = section.totals.iter().map(|total| total.count).sum();
        if samples == 0 && !opts.show_empty {
            continue;
        }
        let table = Table::new(profile, report, section, opts);
        if !opts.quiet {
            write_section_head(out, profile, section, opts)?;
            out.write_all(table.headings().as_bytes())?;
        }
        if opts.tree.is_some() {
            table.write_tree(out)?
        } else {
            table.write_rows(out)?
        }
        out.write_all(b"\n\n")?;
    }
    Ok(())
}

fn write_head(out: &mut dyn Write, opts: &StdioOpts) -> io::Result<()> {
    match &opts.header {
        Some(header) => out.write_all(header.as_bytes())?,
        None => writeln!(
            out,
            "# To display the perf.data header info, please use --header/--header-only options.\n#"
        )?,
    }
    for (_, word, value) in &opts.elided {
        writeln!(out, "# {word}: {}", harmless(value))?;
    }
    writeln!(out, "#\n# Total Lost Samples: {}\n#", opts.lost_samples)
}

fn write_section_head(
    out: &mut dyn Write,
    profile: &Profile,
    section: &ReportSection,
    opts: &StdioOpts,
) -> io::Result<()> {
    let sums = if opts.relative { &section.shown } else { &section.totals };
    let count = sums.iter().map(|sums| sums.count).sum();
    let period = sums.iter().fold(0u64, |sum, next| sum.wrapping_add(next.period));
    let plural = if section.events.len() > 1 { "s" } else { "" };
    let name = section.event_names(profile);
    let members = name.strip_prefix("anon group { ").and_then(|name| name.strip_suffix(" }"));
    let name = members.filter(|_| opts.forced_group).unwrap_or(&name);
    writeln!(out, "# Samples: {} of event{plural} '{}'", rounded_count(count), harmless(name))?;
    match &opts.memory_keys {
        Some(keys) => writeln!(out, "# Total weight : {period}\n# Sort order   : {keys}\n#"),
        None => writeln!(out, "# Event count (approx.): {period}\n#"),
    }
}

/// `3K`, `7 ` as perf shortens counts.
fn rounded_count(count: u64) -> String {
    const UNITS: [char; 4] = ['K', 'M', 'G', 'T'];
    let (mut value, mut unit) = (count, ' ');
    for next in UNITS {
        if value <= 1000 {
            break;
        }
        value /= 1000;
        unit = next;
    }
    format!("{value}{unit}")
}

/// A section's columns with their widths.
struct Table<'a> {
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
    /// Of a key: its place among the row's values.
    value: Option<usize>,
}

impl<'a> Table<'a> {
    fn new(
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
        let longest = self.section.rows.iter().map(|row| self.value_text(key, row, at).chars().count()).max();
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
            // What hardware gave each sample on the average, times the samples: perf's "global" numbers.
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
    fn headings(&self) -> String {
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

    fn write_rows(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        for row in self.section.rows.iter().filter(|row| self.is_shown(row)) {
            text.clear();
            self.row(&mut text, row);
            if let Some(style) = self.opts.graph {
                self.graph(&mut text, row, style);
            }
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn is_shown(&self, row: &ReportRow) -> bool {
        let sums = if self.opts.children { &row.children } else { &row.own };
        let base = self.section.base_periods.first().copied().unwrap_or(0);
        let period = sums.first().map_or(0, |sums| sums.period);
        percent(period, base) >= self.opts.min_percent
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

    fn count(&self, count: u64) -> String {
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

    fn graph(&self, text: &mut String, row: &ReportRow, style: GraphStyle) {
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
