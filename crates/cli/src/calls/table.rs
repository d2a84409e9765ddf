//! `tally calls report`: one line per function.

use calls::model::{CallProfile, CallStats, DurationHistogram, FunctionId};
use profile::grow::GrownSum as _;
use std::cmp::Reverse;
use std::io::{self, Write};

use crate::terminal::out::harmless;
use calls::recording::functions::Functions;
use calls::recording::kernel;
use calls::view::live_changes::LiveChanges;
use display::change_columns::ChangeColumns;
use display::number;
use display::term::{self, Paint, paint};

/// Sort key of the lines, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Key {
    /// Time in the function and what it called.
    #[default]
    Total,
    /// Time in the function itself.
    #[value(name = "self")]
    Own,
    /// Number of calls.
    Calls,
    /// Mean time of a call.
    Avg,
    /// Shortest call.
    Min,
    /// Time off the CPU.
    Off,
    /// Median time of a call.
    P50,
    /// Time that 99 % of its calls do not exceed.
    P99,
    /// Longest call.
    Max,
    /// The name, alphabetically.
    Name,
}

fn rank(stats: &CallStats, key: Key) -> u64 {
    match key {
        Key::Total => stats.total_ns,
        Key::Own => stats.self_ns,
        Key::Calls => stats.calls(),
        Key::Avg => stats.average_ns().unwrap_or(0),
        Key::Min => stats.min_ns.unwrap_or(0),
        Key::Off => stats.off_ns,
        Key::P50 => stats.quantile_ns(0.5).unwrap_or(0),
        Key::P99 => stats.quantile_ns(0.99).unwrap_or(0),
        Key::Max => stats.max_ns.unwrap_or(0),
        Key::Name => 0,
    }
}

/// A column of times: its head and the time of a row, ns.
type Column = (&'static str, fn(&CallStats) -> Option<u64>);

/// The columns left and right of the count.
const LEFT: [Column; 2] = [
    ("Total", |stats| stats.is_timed().then_some(stats.total_ns)),
    ("Self", |stats| stats.is_timed().then_some(stats.self_ns)),
];
const RIGHT: [Column; 6] = [
    ("Avg", CallStats::average_ns),
    ("Min", |stats| stats.min_ns),
    ("p50", |stats| stats.quantile_ns(0.5)),
    ("p90", |stats| stats.quantile_ns(0.9)),
    ("p99", |stats| stats.quantile_ns(0.99)),
    ("Max", |stats| stats.max_ns),
];
/// The total's two halves, where switches between threads were recorded.
const SPLIT: [Column; 2] = [("On CPU", |stats| Some(stats.on_ns())), ("Off CPU", |stats| Some(stats.off_ns))];

/// Columns that go first where there is no room for all.
const LESS_TOLD: [&str; 5] = ["Min", "p90", "p50", "Avg", "Self"];
/// Least columns of the screen for names.
const NAME_WIDTH: usize = 16;
/// Columns of the screen for a time.
const TIME_WIDTH: usize = 10;
/// Columns of the screen for the count, with the spaces around it.
const COUNT_WIDTH: usize = 14;

/// Prints the table; only the first `rows` rows where that is given.
///
/// # Errors
/// If writing fails.
pub fn write(
    out: &mut impl Write,
    sum: &CallProfile,
    functions: &Functions,
    key: Key,
    rows: Option<usize>,
) -> io::Result<()> {
    write_within(out, sum, functions, TableOpts { key, rows, width: usize::MAX, changes: None })
}

/// Order and size of a table.
#[derive(Clone, Copy)]
pub struct TableOpts<'a> {
    /// Highest first.
    pub key: Key,
    /// Only the first rows; `None`: all.
    pub rows: Option<usize>,
    /// Columns of the screen.
    pub width: usize,
    /// Changes since the table before; `None`: there is none, or this is the last.
    pub changes: Option<&'a LiveChanges>,
}

/// The columns of times for which this width has room; the least useful ones go first.
fn fitting(mut left: Vec<Column>, width: usize) -> (Vec<Column>, Vec<Column>) {
    let mut right = RIGHT.to_vec();
    for name in LESS_TOLD {
        let taken = (left.len() + right.len()) * TIME_WIDTH + COUNT_WIDTH + NAME_WIDTH;
        if taken > width {
            left.retain(|(head, _)| *head != name);
            right.retain(|(head, _)| *head != name);
        }
    }
    (left, right)
}

/// The same, no line being longer than `width`: columns that do not fit are left out, names are cut.
///
/// # Errors
/// If writing fails.
pub fn write_within(
    out: &mut impl Write,
    sum: &CallProfile,
    functions: &Functions,
    opts: TableOpts<'_>,
) -> io::Result<()> {
    let TableOpts { key, rows, width, changes } = opts;
    let extra = changes.map_or(ChangeColumns::None, |_| ChangeColumns::fitting(width));
    let width = width.saturating_sub(extra.width());
    let mut lines: Vec<(FunctionId, &CallStats)> = sum.functions().collect();
    lines.sort_by_cached_key(|(id, stats)| (Reverse(rank(stats, key)), functions.of(*id).name.clone()));
    lines.truncate(rows.unwrap_or(usize::MAX));
    let split: &[Column] = if sum.has_off_cpu() { &SPLIT } else { &[] };
    let (left, right) = fitting([&LEFT[..1], split, &LEFT[1..]].concat(), width);
    let name_width = width.saturating_sub((left.len() + right.len()) * TIME_WIDTH + COUNT_WIDTH);
    let heads =
        |columns: &[Column]| columns.iter().map(|(head, _)| format!("{head:>9} ")).collect::<String>();
    writeln!(out, "{}{:>12} {} {}Function", heads(&left), "Calls", heads(&right), extra.head())?;
    for (id, stats) in lines {
        let lasts = !kernel::is_moment(functions.of(id));
        let cells = |columns: &[Column]| -> String {
            let time =
                |ns: Option<u64>| ns.filter(|_| lasts).map_or_else(|| "-".to_owned(), number::duration_ns);
            columns.iter().map(|(_, of)| format!("{:>9} ", time(of(stats)))).collect()
        };
        let count = number::grouped(stats.calls());
        let name: String = harmless(&functions.of(id).name).chars().take(name_width).collect();
        let change = changes.and_then(|changes| changes.of(id));
        let is_still = change.as_ref().is_some_and(|change| change.calls_per_s == 0.0);
        let change = change
            .map_or_else(String::new, |change| extra.cells(change.calls_per_s, change.percent, &change.p99s));
        let line = format!("{}{count:>12} {} {change}{name}", cells(&left), cells(&right));
        // Functions without new calls are dim in a table that is drawn again and again.
        writeln!(out, "{}", paint(&line, Paint::Dim, is_still && term::colours_stdout()))?;
    }
    Ok(())
}

/// Prints the slowest calls with their time and path.
///
/// # Errors
/// If writing fails.
pub fn write_slowest(
    out: &mut impl Write,
    sum: &CallProfile,
    functions: &Functions,
    start_ns: u64,
) -> io::Result<()> {
    writeln!(out, "{:>9} {:>12} {:>8}  Call", "Took", "At", "Thread")?;
    for slow in sum.slowest() {
        let path: Vec<_> =
            sum.path(slow.call.node).into_iter().map(|id| functions.of(id).name.as_str()).collect();
        writeln!(
            out,
            "{:>9} {:>12} {:>8}  {}",
            number::duration_ns(slow.call.total_ns),
            format!("{:.6} s", slow.call.start_ns.saturating_sub(start_ns) as f64 / 1e9),
            slow.thread,
            harmless(&path.join(" > "))
        )?;
    }
    Ok(())
}

/// Prints how long calls took, a line per bucket of a power of two.
///
/// # Errors
/// If writing fails.
pub fn write_histogram(out: &mut impl Write, name: &str, histogram: &DurationHistogram) -> io::Result<()> {
    const BAR: usize = 40;
    let rows = histogram.by_powers_of_two();
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1);
    writeln!(out, "{}: {} calls", harmless(name), number::grouped(histogram.count()))?;
    for (low, count) in rows {
        let bar = "#".repeat((count as f64 / most as f64 * BAR as f64).ceil() as usize);
        let (from, to) = (number::duration_ns(low), number::duration_ns((low * 2).max(1)));
        writeln!(out, "{from:>10} - {to:>10} {:>12} |{bar:<BAR$}|", number::grouped(count))?;
    }
    Ok(())
}

/// Reports what the numbers do not hold: lost, open and damaged.
pub fn footer(sum: &CallProfile) -> String {
    let (calls, parts) = footer_parts(sum, "still open at the end (not in avg, p50, p99, max)");
    std::iter::once(calls).chain(parts).collect::<Vec<_>>().join("; ")
}

/// The same while it runs, no longer than `width`: what does not fit is left out, what is lost least of all.
pub fn footer_within(sum: &CallProfile, width: usize) -> String {
    let (mut text, mut parts) = footer_parts(sum, "open");
    parts.reverse();
    for part in parts {
        if text.chars().count() + part.chars().count() + 2 <= width {
            text += "; ";
            text += &part;
        }
    }
    text
}

/// The count of calls, and what it does not hold, the usual first; `open`: notes about calls that have not ended.
fn footer_parts(sum: &CallProfile, open_words: &str) -> (String, Vec<String>) {
    let calls = sum.calls();
    let total = |of: fn(&CallStats) -> u64| sum.functions().map(|(_, stats)| of(stats)).grown_sum();
    let (unwound, open) = (total(|stats| stats.unwound), total(|stats| stats.open));
    let parts = [
        (unwound, "left by longjmp or exception"),
        (open, open_words),
        (sum.lost, "lost"),
        (sum.returns_without_call, "returns from calls before the start"),
        (sum.backwards, "times ran backwards"),
        (sum.gaps, "holes in the trace"),
    ];
    let some = parts.into_iter().filter(|(count, _)| *count > 0);
    let some = some.map(|(count, what)| format!("{} {what}", number::grouped(count)));
    (format!("{} calls", number::grouped(calls)), some.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_table_that_changes_says_as_much_as_fits_and_losses_first() {
        let mut sum = CallProfile::new(0, 0);
        let stats = CallStats { count: 5220, unwound: 5220, open: 3, ..CallStats::default() };
        sum.add_function(FunctionId(0), &stats);
        sum.lost = 7;
        assert_eq!(
            footer_within(&sum, 79),
            "5,223 calls; 7 lost; 3 open; 5,220 left by longjmp or exception"
        );
        assert_eq!(footer_within(&sum, 30), "5,223 calls; 7 lost; 3 open");
        assert_eq!(footer_within(&sum, 5), "5,223 calls");
        assert!(footer(&sum).ends_with("; 7 lost"));
    }

    #[test]
    fn of_the_columns_those_that_tell_least_go_first_where_the_screen_is_narrow() {
        let heads = |width: usize| {
            let (left, right) = fitting(LEFT.to_vec(), width);
            [left, right].concat().iter().map(|(head, _)| *head).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(heads(80), "Total Self Avg p99 Max");
        assert_eq!(heads(100), "Total Self Avg p50 p90 p99 Max");
        assert_eq!(heads(160), "Total Self Avg Min p50 p90 p99 Max");
        assert_eq!(heads(10), "Total p99 Max");
    }
}
