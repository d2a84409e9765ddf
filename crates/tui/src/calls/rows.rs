//! The table of functions.

use super::{CallBrowser, CallRow};
use crate::style::canvas::Canvas;
use display::bar::{eighths, of_eighths};
use display::fit::cut;
use display::number::{count_of, duration_ns, grouped};
use perfdata::text::harmless;
use profile::view::ranking::RankRows as _;
use std::cmp::Reverse;

/// Order of the rows, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallOrder {
    #[default]
    Total,
    Own,
    Calls,
    Average,
    P99,
    Longest,
}

impl CallOrder {
    /// The next one, in the order of the columns; after the last, the first.
    pub fn next(self) -> Self {
        match self {
            Self::Total => Self::Own,
            Self::Own => Self::Calls,
            Self::Calls => Self::Average,
            Self::Average => Self::P99,
            Self::P99 => Self::Longest,
            Self::Longest => Self::Total,
        }
    }

    fn rank(self, row: &CallRow) -> u64 {
        match self {
            Self::Total => row.total_ns,
            Self::Own => row.self_ns,
            Self::Calls => row.calls,
            Self::Average => row.average_ns.unwrap_or(0),
            Self::P99 => row.p99_ns.unwrap_or(0),
            Self::Longest => row.max_ns.unwrap_or(0),
        }
    }
}

/// A column of numbers: its head, its width with the blank before it, the order that it shows, and a row's text.
struct Column {
    head: &'static str,
    width: usize,
    order: Option<CallOrder>,
    text: fn(&CallRow) -> String,
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration_ns)
}

const fn column(
    head: &'static str,
    width: usize,
    order: Option<CallOrder>,
    text: fn(&CallRow) -> String,
) -> Column {
    Column { head, width, order, text }
}

const COLUMNS: [Column; 7] = [
    column("total", 10, Some(CallOrder::Total), |row| duration_ns(row.total_ns)),
    column("self", 10, Some(CallOrder::Own), |row| duration_ns(row.self_ns)),
    column("calls", 12, Some(CallOrder::Calls), |row| grouped(row.calls)),
    column("avg", 10, Some(CallOrder::Average), |row| time(row.average_ns)),
    column("p50", 10, None, |row| time(row.p50_ns)),
    column("p99", 10, Some(CallOrder::P99), |row| time(row.p99_ns)),
    column("max", 10, Some(CallOrder::Longest), |row| time(row.max_ns)),
];
/// Columns that go first where the screen is narrow.
const LESS_NEEDED: [&str; 4] = ["p50", "avg", "self", "max"];
/// Columns of the screen for a bar.
const BAR: usize = 8;
/// Least columns of the screen for names.
const NAME: usize = 24;

/// The columns for which this width has room.
fn fitting(width: usize) -> Vec<&'static Column> {
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    for name in LESS_NEEDED {
        if columns.iter().map(|column| column.width).sum::<usize>() + BAR + NAME > width {
            columns.retain(|column| column.head != name);
        }
    }
    columns
}

/// All numbers of a function in one line; `whole` is the time of all calls.
pub fn details(row: &CallRow, whole: u64) -> String {
    let share = row.total_ns as f64 * 100.0 / whole.max(1) as f64;
    let total = format!("{} ({share:.1} %)", duration_ns(row.total_ns));
    let mut parts = vec![total, format!("self {}", duration_ns(row.self_ns))];
    parts.push(count_of(row.calls, "call", "calls"));
    let lengths = [("avg", row.average_ns), ("p50", row.p50_ns), ("p99", row.p99_ns), ("max", row.max_ns)];
    parts.extend(lengths.iter().filter_map(|(name, ns)| Some(format!("{name} {}", duration_ns((*ns)?)))));
    parts.extend((row.off_ns > 0).then(|| format!("off CPU {}", duration_ns(row.off_ns))));
    format!("{} · {}", parts.join(" · "), harmless(&row.name))
}

impl CallBrowser {
    /// Puts the rows that contain the search in order.
    pub(super) fn arrange(&mut self) {
        let (rows, order) = (&self.table.rows, self.order);
        let is_found = |row: &CallRow| row.name.to_lowercase().contains(&self.find);
        let mut shown: Vec<usize> = (0..rows.len()).filter(|&at| is_found(&rows[at])).collect();
        shown.rank_by(|&a, &b| {
            let key = |at: usize| (Reverse(order.rank(&rows[at])), &rows[at].name);
            key(a).cmp(&key(b))
        });
        self.shown = shown;
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
    }

    /// Time of all calls.
    pub(super) fn whole(&self) -> u64 {
        self.table.tree.totals()[0].0
    }

    /// Draws the table; the text is about the function under the cursor.
    pub(super) fn draw_functions(&mut self, canvas: &mut Canvas<'_>) -> String {
        let (area, theme, whole) = (canvas.area, canvas.theme, self.whole());
        let width = usize::from(area.width);
        let columns = fitting(width);
        let mark = |column: &Column| if column.order == Some(self.order) { "▾" } else { "" };
        let head: String = (columns.iter())
            .map(|column| format!("{:>1$}", format!("{}{}", mark(column), column.head), column.width))
            .collect();
        canvas.text(0, format!("{head}  {:<BAR$} FUNCTION", ""), theme.heading());
        self.height = usize::from(area.height.saturating_sub(1));
        self.top = self.top.min(self.cursor).max((self.cursor + 1).saturating_sub(self.height));
        let most =
            self.shown.iter().map(|&at| self.order.rank(&self.table.rows[at])).max().unwrap_or(0).max(1);
        for (line, at) in (1..area.height).zip(self.top..self.shown.len()) {
            let row = &self.table.rows[self.shown[at]];
            let numbers: String =
                columns.iter().map(|column| format!("{:>1$}", (column.text)(row), column.width)).collect();
            let share = self.order.rank(row) as f64 * 100.0 / most as f64;
            let bar = of_eighths(eighths(share, BAR as f64));
            let used = numbers.chars().count() as u16;
            let name = cut(&harmless(&row.name), width.saturating_sub(usize::from(used) + BAR + 3));
            canvas.text(line, format!("{numbers}  {bar:<BAR$} {name}"), ratatui::style::Style::new());
            let place = canvas.row(line);
            let bar_place = ratatui::layout::Rect { x: place.x + used + 2, width: BAR as u16, ..place };
            canvas.buffer.set_style(bar_place.intersection(place), theme.rank_bar(at < 5));
            if at == self.cursor {
                canvas.buffer.set_style(place, theme.selected_line());
            }
        }
        self.row().map_or_else(|| "no function has this in its name".to_owned(), |row| details(row, whole))
    }
}
