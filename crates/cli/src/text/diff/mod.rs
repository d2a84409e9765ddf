//! Diffs as text: perf diff's columns, then what it lacks.

mod compute;

pub use compute::Compute;

use crate::terminal::out::{harmless, shown};
use display::number;
use profile::view::diff::{Change, ComparedValue, Diff, DiffPath, DiffSection, Norm, is_time};
use profile::view::report::SortKey;
use std::fmt::Write as _;

/// How a diff is printed.
#[derive(Clone, Debug)]
pub struct DiffText {
    /// Divisor of the values.
    pub norm: Norm,
    /// Content of the column after the baseline; other than the default only with [`Norm::Share`].
    pub compute: Compute,
    /// Show how it was computed.
    pub formula: bool,
    /// Show periods.
    pub period: bool,
    /// Only rows that the baseline has.
    pub baseline_only: bool,
    /// Rows with change and baseline below this share are left out.
    pub percent_limit: f64,
    /// Between columns; `None` for aligned columns.
    pub separator: Option<char>,
    /// Rows only.
    pub quiet: bool,
}

/// Paths printed at most, and the smallest share worth it.
const PATHS: usize = 30;

/// All sections.
#[must_use]
pub fn write(diff: &Diff, style: &DiffText) -> String {
    let mut out = String::new();
    for (index, section) in diff.sections.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        write_section(&mut out, diff, section, style);
    }
    if !style.quiet && !diff.unmatched_events.is_empty() {
        let _ = writeln!(out, "# Only one side has: {}", diff.unmatched_events.join(", "));
    }
    out
}

/// Did the total grow by more than `limit` percent, beyond what noise explains?
#[must_use]
pub fn grew(total: &ComparedValue, limit: f64) -> bool {
    let beyond = total.relative_pct().is_some_and(|percent| percent > limit);
    beyond && total.interval.is_some_and(|interval| interval.low > 0.0)
}

fn write_section(out: &mut String, diff: &Diff, section: &DiffSection, style: &DiffText) {
    let mut table = vec![headings(section, style)];
    let scale = largest(section);
    for row in &section.rows {
        let weight = row.own.delta.abs().max(row.own.baseline) * 100.0 / scale;
        if (style.baseline_only && row.sums.0.count == 0) || weight < style.percent_limit {
            continue;
        }
        let mut cells = numbers(&row.own, section, style);
        if style.period {
            cells.insert(1, row.sums.0.period.to_string());
            cells.insert(cells.len() - 1, row.sums.1.period.to_string());
        }
        if style.norm == Norm::Share {
            cells[1 + usize::from(style.period)] = style.compute.text(row);
            if style.formula {
                cells.insert(2 + usize::from(style.period), style.compute.formula(row, section));
            }
        }
        for (key, value) in section.keys.iter().zip(&row.values) {
            cells.push(shown(&diff.profile.value_text(key, value)).into_owned());
        }
        table.push(cells);
    }
    if !style.quiet {
        let _ = writeln!(out, "# Event '{}'\n#", harmless(&section.event));
        verdict(out, diff, section, style);
        out.push_str("#\n");
    }
    write_table(out, &table, numeric_columns(style), style);
    if !section.paths.is_empty() {
        write_paths(out, diff, section, style);
    }
}

/// Base of the rows' percentages.
fn largest(section: &DiffSection) -> f64 {
    let sum: f64 = section.rows.iter().map(|row| row.own.baseline.max(0.0)).sum();
    if sum > 0.0 { sum } else { 100.0 }
}

fn numeric_columns(style: &DiffText) -> usize {
    4 + if style.period { 2 } else { 0 } + usize::from(style.formula && style.norm == Norm::Share)
}

fn headings(section: &DiffSection, style: &DiffText) -> Vec<String> {
    let mut names = match style.norm {
        Norm::Share => vec!["Baseline", style.compute.heading(), "95 %"],
        _ => vec!["Baseline", "Current", "Change, 95 %"],
    };
    if style.formula && style.norm == Norm::Share {
        names.insert(2, "Formula");
    }
    if style.period {
        names.insert(1, "Base period");
        names.push("Period");
    }
    names.push("Change");
    let keys = section.keys.iter().map(|key: &SortKey| key.heading().trim().to_owned());
    names.into_iter().map(str::to_owned).chain(keys).collect()
}

fn numbers(own: &ComparedValue, section: &DiffSection, style: &DiffText) -> Vec<String> {
    let half = own.interval.map(|interval| (interval.high - interval.low) / 2.0);
    let mut cells = if style.norm == Norm::Share {
        let baseline = if own.baseline == 0.0 { String::new() } else { format!("{:.2}%", own.baseline) };
        let half = half.map_or(String::new(), |half| format!("±{half:.2}"));
        vec![baseline, format!("{:+.2}%", own.delta), half]
    } else {
        let text = |value: f64| value_text(value, section, style);
        let half = half.filter(|_| own.baseline > 0.0).map(|half| half * 100.0 / own.baseline);
        let half = half.map_or(String::new(), |half| format!(" ±{half:.1}"));
        let relative = own.relative_pct().map_or(String::new(), |percent| format!("{percent:+.1}%{half}"));
        vec![text(own.baseline), text(own.current), relative]
    };
    cells.push(word(own.change).to_owned());
    cells
}

/// The word for a change; empty where noise explains it.
pub(crate) fn word(change: Change) -> &'static str {
    match change {
        Change::Unclear => "",
        Change::More => "more",
        Change::Less => "less",
        Change::New => "new",
        Change::Vanished => "gone",
    }
}

fn value_text(value: f64, section: &DiffSection, style: &DiffText) -> String {
    if is_time(&section.event) && style.norm == Norm::Time {
        return format!("{:.1}% CPU", value / 1e7);
    }
    if is_time(&section.event) {
        return number::duration_ns(value.max(0.0) as u64);
    }
    if value.abs() >= 100.0 { number::grouped(value.round() as u64) } else { format!("{value:.3}") }
}

/// The sentences about a section, without a mark of comments before them.
pub(crate) fn sentences(diff: &Diff, section: &DiffSection, style: &DiffText) -> Vec<String> {
    let mut text = String::new();
    verdict(&mut text, diff, section, style);
    text.lines().map(|line| line.trim_start_matches("# ").to_owned()).collect()
}

/// One sentence on the whole, one on the noise, one on what weighs most.
fn verdict(out: &mut String, diff: &Diff, section: &DiffSection, style: &DiffText) {
    let total = &section.total;
    let unit = match &style.norm {
        Norm::Work(event) => format!(" per {event}"),
        Norm::Time => " per second".to_owned(),
        Norm::Share | Norm::Run => " per run".to_owned(),
    };
    let values = DiffText {
        norm: if style.norm == Norm::Share { Norm::Run } else { style.norm.clone() },
        ..style.clone()
    };
    let text = |value: f64| value_text(value, section, &values);
    let relative = total.relative_pct().map_or(String::new(), |percent| format!(" ({percent:+.1} %"));
    let interval = total
        .relative_interval_pct()
        .map_or(String::new(), |i| format!(", 95 % between {:+.1} and {:+.1}", i.low, i.high));
    let judgement = match (total.change, total.interval) {
        (Change::More, _) => "more than noise explains",
        (Change::Less, _) => "less, beyond the noise",
        (_, Some(_)) => "no difference that noise does not explain",
        (_, None) => "one run a side doesn't show how much runs differ: compare several, A1,A2,A3 : B1,B2,B3",
    };
    let closing = if relative.is_empty() { "" } else { ")" };
    let _ = writeln!(
        out,
        "# Total{unit}: {} -> {}{relative}{interval}{closing}: {judgement}.",
        text(total.baseline),
        text(total.current)
    );
    if let Some(row) = section.most_changed() {
        let names: Vec<String> = (section.keys.iter().zip(&row.values))
            .map(|(key, value)| shown(diff.profile.value_text(key, value).trim()).into_owned())
            .collect();
        let by = if style.norm == Norm::Share {
            format!("{:+.2} points", row.own.delta)
        } else {
            row.own.relative_pct().map_or_else(|| text(row.own.current), |percent| format!("{percent:+.1} %"))
        };
        let _ = writeln!(out, "# Most changed: {} ({by}, {}).", names.join(" "), word(row.own.change));
    } else {
        out.push_str(&few_marked(section, &style.norm));
    }
    if let Some(floor) = section.noise_floor {
        let floor = if style.norm == Norm::Share { format!("{floor:.2} points") } else { text(floor) };
        let _ = writeln!(out, "# Noise floor: 95 % of unchanged rows stay within {floor}.");
    }
}

/// Where no row alone is beyond chance, given how many there are.
fn few_marked(section: &DiffSection, norm: &Norm) -> String {
    let (marked, judged) = (section.marked(), section.judged);
    if judged == 0 {
        return "# Too few samples, or one run a side: no row can be judged.\n".to_owned();
    }
    if marked == 0 {
        // A function that is nearly all of a program has the same share when it takes half of the time.
        return match norm {
            Norm::Share => {
                "# No function's share changed by more than noise explains; to compare times: --norm run.\n"
            }
            _ => "# No function changed by more than noise explains.\n",
        }
        .to_owned();
    }
    let rows = if judged == 1 { "row" } else { "rows" };
    format!("# Marked: {marked} of {judged} {rows}. Chance alone marks up to {}.\n", judged.div_ceil(20))
}

fn write_table(out: &mut String, table: &[Vec<String>], numeric: usize, style: &DiffText) {
    if let Some(separator) = style.separator {
        for row in table.iter().skip(usize::from(style.quiet)) {
            let _ = writeln!(out, "{}", row.join(&separator.to_string()));
        }
        return;
    }
    let columns = table[0].len();
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let gap = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if column < numeric - 1 { gap + cell } else { cell.clone() + &gap }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    for (index, row) in table.iter().enumerate() {
        match (index, style.quiet) {
            (0, true) => {}
            (0, false) => {
                let dots: Vec<String> = widths.iter().map(|&width| ".".repeat(width)).collect();
                let _ = writeln!(out, "# {}\n# {}\n#", line(row).trim_end(), dots.join("  "));
            }
            _ => {
                let _ = writeln!(out, "  {}", line(row).trim_end());
            }
        }
    }
}

fn write_paths(out: &mut String, diff: &Diff, section: &DiffSection, style: &DiffText) {
    let entry =
        |at: &u32| shown(&diff.profile.chain_entry_text(&diff.chain_entries[*at as usize])).into_owned();
    let _ = writeln!(out, "#\n# Paths, root first");
    let known = |path: &&DiffPath| path.own.is_clear();
    for path in section.paths.iter().filter(known).take(PATHS) {
        let names: Vec<String> = path.entries.iter().map(entry).collect();
        let cells = numbers(&path.own, section, style);
        let _ = writeln!(
            out,
            "  {:>8}  {:>9}  {:>7}  {:<4}  {}",
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            names.join(";")
        );
    }
    let clear = section.paths.iter().filter(known).count();
    if clear > PATHS {
        let _ = writeln!(out, "# and {} more", clear - PATHS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::view::diff::ConfidenceInterval;

    #[test]
    fn growth_within_the_noise_does_not_fail() {
        let interval = Some(ConfidenceInterval { low: -1.0, high: 21.0 });
        let total = ComparedValue {
            baseline: 100.0,
            current: 110.0,
            delta: 10.0,
            interval,
            ..ComparedValue::default()
        };
        assert!(!grew(&total, 5.0));
        assert!(!grew(&ComparedValue { interval: None, ..total }, 5.0), "the noise is not known");
        let sure = Some(ConfidenceInterval { low: 6.0, high: 14.0 });
        assert!(grew(&ComparedValue { interval: sure, ..total }, 5.0));
        assert!(!grew(&ComparedValue { interval: sure, ..total }, 10.0));
    }
}
