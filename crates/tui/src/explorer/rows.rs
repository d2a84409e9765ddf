//! The lines of the tabs.

use super::{Explorer, Tab};
use crate::Theme;
use display::fit::{cut, wrap};
use display::number::{count_of, duration_ns, grouped};
use display::palette::StateClass;
use display::shorten::shorten_stack;
use perfdata::text::harmless;
use profile::view::ranking::RankRows as _;
use profile::view::selected::{Selected, WaitGroup};
use profile::view::timeline::Column;
use profile::view::wall::part_name;
use ratatui::layout::Size;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Subject of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// Index of a finding.
    Finding(usize),
    /// Index of a thread.
    Thread(u32),
    /// A wait by its state, and a function that only its stacks have.
    Wait {
        /// The state's name.
        state: String,
        /// The function's.
        function: String,
    },
    /// A function by its name.
    Function(String),
}

/// One line.
pub(super) struct Row {
    pub(super) line: Line<'static>,
    /// `None` for headings.
    pub(super) pick: Option<Pick>,
    /// In full, for the line at the foot.
    pub(super) details: String,
}

/// Columns of the screen, and lines a list may have.
#[derive(Clone, Copy)]
struct Room {
    width: usize,
    most: usize,
}

/// Threads and waits of the overview on a high screen.
const MOST_THREADS: usize = 10;
const MOST_WAITS: usize = 8;
/// Threads and waits of the overview on any screen; below `LOW` lines there are no threads.
const LEAST_THREADS: usize = 2;
const LEAST_WAITS: usize = 3;
const LOW: usize = 16;
/// From these widths on, waits have their lengths and counts.
const WIDE: usize = 100;
const NARROW: usize = 60;
/// Columns of a thread's name, and of its amounts.
const NAME: usize = 18;
const AMOUNTS: usize = 18;
/// A mixed column: eighths of the time of its first state.
const EIGHTHS: [char; 8] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// The function a line is about.
pub(super) fn function_name(pick: Pick) -> Option<String> {
    match pick {
        Pick::Function(name) | Pick::Wait { function: name, .. } => Some(name),
        Pick::Finding(_) | Pick::Thread(_) => None,
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

impl Explorer {
    /// The lines of the shown tab on a screen of a width and a height.
    pub(super) fn make_rows(&mut self, size: Size, theme: Theme) {
        if self.rows.as_ref().is_some_and(|(of, _)| *of == size) {
            return;
        }
        let width = usize::from(size.width);
        let mut rows = Vec::new();
        match self.tab {
            Tab::Overview => self.overview(&mut rows, size, theme),
            Tab::Functions => self.functions(&mut rows, theme),
            Tab::Waits => self.waits(&mut rows, Room { width, most: usize::MAX }, theme),
            Tab::Timeline => self.threads(&mut rows, Room { width, most: usize::MAX }, theme),
            Tab::Flame => {}
        }
        let place = &mut self.places[self.tab as usize];
        let is_target = |row: &Row| row.pick.is_some();
        if !rows.get(place.0).is_some_and(is_target) {
            place.0 = rows.iter().position(is_target).unwrap_or(0);
        }
        self.rows = Some((size, rows));
    }

    /// Each list has the lines that fit the screen, so that the largest waits are seen without scrolling.
    fn overview(&mut self, rows: &mut Vec<Row>, size: Size, theme: Theme) {
        /// Headings, lines that count what is left out, and a line between the lists.
        const OTHERS: usize = 5;
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let is_low = height < LOW;
        self.findings(rows, Room { width, most: usize::MAX }, theme);
        if is_low || rows.len() * 2 >= height {
            rows.clear();
            self.findings(rows, Room { width, most: 1 }, theme);
        }
        self.states(rows, width, theme);
        if is_low {
            rows.retain(|row| row.line.width() > 0);
            return self.waits(rows, Room { width, most: MOST_WAITS }, theme);
        }
        let left = height.saturating_sub(rows.len() + OTHERS);
        let most = left.saturating_sub(LEAST_WAITS).clamp(LEAST_THREADS, MOST_THREADS);
        self.threads(rows, Room { width, most }, theme);
        let left = height.saturating_sub(rows.len() + 2);
        self.waits(rows, Room { width, most: left.clamp(LEAST_WAITS, MOST_WAITS) }, theme);
    }

    /// Claims of at most `most` lines. With one line there is no remedy.
    fn findings(&self, rows: &mut Vec<Row>, Room { width, most }: Room, theme: Theme) {
        for (at, finding) in self.text.findings.iter().enumerate() {
            let claim = harmless(&finding.claim);
            let room = width.saturating_sub(2);
            let lines = if most == 1 { vec![cut(&claim, room)] } else { wrap(&claim, room) };
            for (line, part) in lines.into_iter().enumerate() {
                let pick = (line == 0).then_some(Pick::Finding(at));
                let details = format!("{}   w: evidence", harmless(&finding.detail));
                let line = Line::styled(format!("  {part}"), theme.heading());
                rows.push(Row { line, pick, details });
            }
            if !finding.fix.is_empty() && most > 1 {
                let fix = format!("  → {}", harmless(&finding.fix));
                rows.push(plain(cut(&fix, width), Style::new()));
            }
        }
        if !rows.is_empty() {
            rows.push(plain(String::new(), Style::new()));
        }
    }

    /// Words and shares, and a bar of all.
    fn states(&self, rows: &mut Vec<Row>, width: usize, theme: Theme) {
        let selected = self.selected();
        let mut parts: Vec<(&str, u64)> = Vec::new();
        for (name, &ns) in self.page.states.iter().zip(&selected.states) {
            if ns > 0 && (name != "idle" || self.selection.with_idle) {
                parts.push((name, ns));
            }
        }
        parts.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let mut words: Vec<Span<'static>> = vec![Span::raw("  ")];
        let mut used = 2;
        for &(name, ns) in &parts {
            let class = StateClass::of(name);
            let word = format!("{} {name} {:.1} %   ", class.letter(), percent(ns, selected.whole));
            used += word.chars().count();
            if used <= width {
                words.push(Span::styled(word, theme.state(class)));
            }
        }
        let mut bar: Vec<Span<'static>> = vec![Span::raw("  ")];
        bar.extend(state_bar(&parts, selected.whole, width.saturating_sub(4), theme));
        for spans in [words, bar] {
            rows.push(Row { line: Line::from(spans), pick: None, details: String::new() });
        }
        rows.push(plain(String::new(), Style::new()));
    }

    fn threads(&mut self, rows: &mut Vec<Row>, room: Room, theme: Theme) {
        let Room { width, most } = room;
        let columns = width.saturating_sub(NAME + AMOUNTS + 4).max(8);
        let (sums, whole) = {
            let selected = self.selected();
            (selected.threads, selected.whole)
        };
        let on_cpu = self.on_cpu();
        let chosen = self.selection.threads.clone();
        let with_idle = self.selection.with_idle || self.selection.states.iter().any(|state| state == "idle");
        let view = self.strips(columns);
        let span = duration_ns(view.span_ns.1.saturating_sub(view.span_ns.0));
        let head = format!("THREADS over {span}");
        let mut lines = Vec::new();
        let mut hidden = 0;
        for (at, row) in view.rows.iter().enumerate() {
            if (row.is_idle && !with_idle) || lines.len() >= most {
                hidden += 1;
                continue;
            }
            let sum = sums.get(at).copied().unwrap_or(0);
            let share = format!("{:.1}%", percent(on_cpu.get(at).copied().unwrap_or(0), sum));
            let mark = if chosen.contains(&(at as u32)) { '▸' } else { ' ' };
            let name = format!("{} {}", cut(&harmless(&row.label), NAME - 8), row.tid);
            let mut spans = vec![Span::raw(format!("{mark} {name:<NAME$} "))];
            spans.extend(row.columns.iter().map(|column| cell(column, theme)));
            spans.push(Span::raw(format!("{:>10}{share:>7}", duration_ns(sum))));
            let details = format!(
                "{} of {name}, {share} of it on CPU; {:.1} % of all",
                duration_ns(sum),
                percent(sum, whole)
            );
            lines.push(Row { line: Line::from(spans), pick: Some(Pick::Thread(at as u32)), details });
        }
        let room = NAME + columns + 3;
        let head = format!("{head:<room$}{:>10}{:>7}", "selected", "on CPU");
        rows.push(plain(head, theme.heading()));
        rows.append(&mut lines);
        if hidden > 0 {
            let more = count_of(hidden, "more thread", "more threads");
            rows.push(plain(format!("  {more}, idle or less busy (i: idle, 5: all)"), theme.dim()));
        }
        rows.push(plain(String::new(), Style::new()));
    }

    /// By thread: the selected time on a CPU.
    fn on_cpu(&self) -> Vec<u64> {
        let mut selection = self.selection.clone();
        selection.states.retain(|state| state == "on CPU");
        if selection.states.len() != self.selection.states.len().min(1) {
            return vec![0; self.page.threads.len()];
        }
        selection.states = vec!["on CPU".to_owned()];
        Selected::of(&self.page, self.set(), &selection).threads
    }

    fn waits(&self, rows: &mut Vec<Row>, room: Room, theme: Theme) {
        let Room { width, most } = room;
        let is_wide = width >= WIDE;
        let selected = self.selected();
        let waits = selected.waits();
        let lengths = if is_wide { format!(" {:>9} {:>9}", "p50", "longest") } else { String::new() };
        let counted = |text: &str| if width < NARROW { String::new() } else { format!(" {text:>9}") };
        let head = format!("{:>10} {:>6}{}{lengths}  where", "WAITS", "", counted("count"));
        rows.push(plain(head, theme.heading()));
        let is_shown = |wait: &&WaitGroup| self.is_found(&wait.label);
        for wait in waits.iter().filter(is_shown).take(most) {
            let state = self.page.states[usize::from(wait.state)].clone();
            let class = StateClass::of(&state);
            let share = percent(wait.total, selected.whole);
            let (label, known) = (harmless(&wait.label).into_owned(), wait.count > 0);
            let number = |text: String| if known { text } else { "·".to_owned() };
            let length = |ns: u64| format!(" {:>9}", number(duration_ns(ns)));
            let lengths = if is_wide { length(wait.p50_ns) + &length(wait.max_ns) } else { String::new() };
            let count = counted(&number(grouped(wait.count)));
            let numbers = format!("{:>10} {share:>5.1}%{count}{lengths}  ", duration_ns(wait.total));
            let mark = Span::styled(format!("{} {state}", class.letter()), theme.state(class));
            let used = numbers.chars().count() + state.chars().count() + 4;
            let shown = shorten_stack(&label, width.saturating_sub(used));
            let line = Line::from(vec![Span::raw(numbers), mark, Span::raw(format!("  {shown}"))]);
            let wakers = wait.wakers.iter().filter(|(_, ns)| percent(*ns, wait.total) >= 0.5);
            let wakers: Vec<String> = (wakers.take(3))
                .map(|(name, ns)| format!("{} {:.0} %", harmless(name), percent(*ns, wait.total)))
                .collect();
            let ended =
                if wakers.is_empty() { String::new() } else { format!(" · ended by {}", wakers.join(", ")) };
            let details = format!("{} · {share:.1} %{ended} · {state}: {label}", duration_ns(wait.total));
            let function = wait.distinct.clone();
            rows.push(Row { line, pick: Some(Pick::Wait { state, function }), details });
        }
        if waits.len() > most {
            let more = count_of((waits.len() - most) as u64, "more place", "more places");
            rows.push(plain(format!("  {more} (4)"), theme.dim()));
        }
    }

    fn functions(&self, rows: &mut Vec<Row>, theme: Theme) {
        /// Columns of a bar.
        const BAR: usize = 16;
        let selected = self.selected();
        let head = format!("{:>10} {:>10} {:>6}  {:<16}  FUNCTION", "self", "total", "", "total by state");
        rows.push(plain(head, theme.heading()));
        let mut functions = selected.functions();
        if !self.by_total {
            functions.rank_by_key(|row| std::cmp::Reverse(row.own));
        }
        for row in functions {
            let name = self.page.tree.name(row.name);
            if !self.is_found(name) {
                continue;
            }
            let share = percent(row.total, selected.total);
            let numbers =
                format!("{:>10} {:>10} {share:>5.1}%  ", duration_ns(row.own), duration_ns(row.total));
            let mut spans = vec![Span::raw(numbers)];
            let states = self.page.states.iter().map(String::as_str).zip(row.states.iter().copied());
            let mut states: Vec<(&str, u64)> = states.filter(|(_, ns)| *ns > 0).collect();
            states.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
            let bar = state_bar(&states, selected.total, BAR, theme);
            let drawn: usize = bar.iter().map(|part| part.content.chars().count()).sum();
            spans.extend(bar);
            let pad = " ".repeat(BAR.saturating_sub(drawn));
            let file = self.page.name_files.get(row.name.index()).map_or(0, |&at| at as usize);
            let file = self.page.files.get(file).map_or("", String::as_str);
            let shown = harmless(name).into_owned();
            spans.push(Span::raw(format!("{pad}  {shown}  ")));
            spans.push(Span::styled(harmless(file).into_owned(), theme.dim()));
            let details = format!("{} · {share:.1} % · {shown}  {}", duration_ns(row.total), harmless(file));
            rows.push(Row { line: Line::from(spans), pick: Some(Pick::Function(name.to_owned())), details });
        }
    }

    fn is_found(&self, text: &str) -> bool {
        self.find.is_empty() || text.to_lowercase().contains(&self.find)
    }
}

/// The states side by side, each as long as its share of `whole`; together they are as long as their sum's.
fn state_bar(states: &[(&str, u64)], whole: u64, columns: usize, theme: Theme) -> Vec<Span<'static>> {
    let (mut sum, mut before) = (0u64, 0usize);
    let part = |&(name, ns): &(&str, u64)| {
        let class = StateClass::of(name);
        sum = sum.saturating_add(ns);
        let end = (percent(sum, whole) / 100.0 * columns as f64).round() as usize;
        let long = end.saturating_sub(before);
        before = before.max(end);
        Span::styled(class.letter().to_string().repeat(long), theme.state_block(class))
    };
    states.iter().map(part).collect()
}

fn plain(text: String, style: Style) -> Row {
    Row { line: Line::styled(text, style), pick: None, details: String::new() }
}

/// A column of a strip: the letter of the state that took three quarters of it; else a block as high as the share of
/// its first state, before the colour of its second.
fn cell(column: &Column, theme: Theme) -> Span<'static> {
    if column.is_empty() {
        return Span::raw(" ");
    }
    if let Some(part) = column.main() {
        let class = StateClass::of(part_name(part));
        return Span::styled(class.letter().to_string(), theme.state_block(class));
    }
    let parts = column.parts();
    let class =
        |at: usize| parts.get(at).map_or(StateClass::Other, |(part, _)| StateClass::of(part_name(*part)));
    let eighths = (percent(parts[0].1, column.total_ns()) / 12.5).round() as usize;
    if theme.colour {
        let block = EIGHTHS[eighths.min(7)].to_string();
        return Span::styled(block, theme.two_states(class(0), class(1)));
    }
    // Without colour a lower mixture has the letter of its first state, too.
    Span::raw(class(0).letter().to_string())
}
