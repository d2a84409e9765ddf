//! All numbers of `tally run -v`: where the time went, and how far the numbers can be trusted.
//!
//! Values in, text out; at most 80 columns unless the terminal is wider.

pub(crate) mod thread_rows;
mod words;

pub use words::stop_text;

use crate::terminal::interrupts_off::{FOOTNOTE, enables_interrupts};
use crate::terminal::out::harmless;
use display::bar::{eighths, heat, of_eighths};
use display::fit::{cut, cut_name, wrap};
use display::number::{count_of, duration_ns, grouped};
use display::palette::StateClass;
use display::term::{Paint, paint};
use record::summary::{MoreThreads, RunSummary, ThreadUse};
use std::fmt::Write as _;
use thread_rows::ThreadRow;
use words::{counters_text, loss_text, quality_text, recorder_text, share, time_text};

/// A function with its share.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionShare {
    /// Name.
    pub name: String,
    /// Short name of its file.
    pub dso: String,
    /// Percent of all samples' period.
    pub percent: f64,
    /// The line that most of its own samples hit.
    pub line: Option<SourceLine>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// From the debug information.
    pub file: String,
    /// From 1.
    pub line: u32,
}

impl SourceLine {
    /// `t.cpp:14`.
    fn brief(&self) -> String {
        format!("{}:{}", profile::machine::file_name(&self.file), self.line)
    }
}

/// All the screen shows.
#[derive(Clone, Debug)]
pub struct RunScreen<'a> {
    /// Command as typed.
    pub title: String,
    /// The recorder's numbers.
    pub summary: &'a RunSummary,
    /// Samples that the shares are of.
    pub samples: u64,
    /// Notes in full.
    pub verbose: bool,
    /// Top functions by their own time, biggest first.
    pub own: Vec<FunctionShare>,
    /// Top functions with all they call, biggest first.
    pub with_callees: Vec<FunctionShare>,
    /// The hottest path, root first, each with the share of all that runs below it.
    pub path: Vec<FunctionShare>,
    /// Command that would record better; `None` if nothing is to be bettered.
    pub better: Option<String>,
    /// The samples come by a timer's interrupt, which waits where interrupts are off.
    pub is_by_timer: bool,
    /// Files that lack names or lines, and how to get them.
    pub name_hints: Vec<String>,
    /// Files written in addition to perf.data, with their purpose.
    pub files: Vec<(String, String)>,
}

/// How the screen is drawn.
#[derive(Clone, Copy, Debug)]
pub struct ScreenOpts {
    /// Columns.
    pub width: usize,
    /// With colours?
    pub colour: bool,
    /// At most this many threads and functions per list.
    pub rows: usize,
}

/// The screen as text, with a line end after each line.
pub fn draw(screen: &RunScreen<'_>, opts: ScreenOpts) -> String {
    let mut pen = Pen { text: String::new(), opts };
    pen.head(screen);
    pen.threads(&screen.summary.threads, &screen.summary.more_threads);
    pen.functions(screen);
    if screen.samples >= FEW_SAMPLES {
        pen.path(&screen.path);
    }
    pen.trust(screen);
    pen.files(screen);
    pen.text
}

/// Fewest samples for percentages.
const FEW_SAMPLES: u64 = profile::verdict::FEW_SAMPLES;
/// Width of the column with the headings.
const LABEL: usize = 10;
/// Width of a bar.
const BAR: usize = 10;

struct Pen {
    text: String,
    opts: ScreenOpts,
}

impl Pen {
    fn paint(&self, text: &str, colour: Paint) -> String {
        paint(text, colour, self.opts.colour)
    }

    /// One line with a heading in its own column (empty for following lines). `text` is wrapped at blanks.
    fn line(&mut self, label: &str, text: &str) {
        let room = self.opts.width.saturating_sub(LABEL + 1).max(20);
        for (i, part) in wrap(text, room).into_iter().enumerate() {
            let label = format!("{:<LABEL$}", if i == 0 { label } else { "" });
            let label = self.paint(&label, Paint::Bold);
            let _ = writeln!(self.text, "{label} {part}");
        }
    }

    fn head(&mut self, screen: &RunScreen<'_>) {
        let summary = screen.summary;
        self.text.push('\n');
        self.line("command", &cut(&harmless(&screen.title), self.opts.width.saturating_sub(LABEL + 1)));
        self.line("time", &time_text(summary));
        let counters = counters_text(summary);
        if !counters.is_empty() {
            self.line("counters", &counters);
        }
        for notice in &summary.notices {
            self.line("note", &if screen.verbose { notice.to_string() } else { notice.brief() });
        }
        self.text.push('\n');
    }

    fn threads(&mut self, threads: &[ThreadUse], more: &MoreThreads) {
        if threads.is_empty() {
            return;
        }
        let rows = thread_rows::rows(threads);
        let shown = &rows[..rows.len().min(self.opts.rows)];
        let longest = shown.iter().map(|row| row.label().chars().count()).max().unwrap_or(0);
        // The other columns take 60.
        let room = longest.clamp(16, self.opts.width.saturating_sub(60).clamp(16, 48));
        let bar = format!("  {:<BAR$}", "on CPU");
        let bar = if self.has_bars() { bar.as_str() } else { "" };
        let head = format!(
            "{:<room$}{:>8} {:>10} {:>10}{bar} {:>6} {:>10}",
            "thread", "tid", "life", "CPU", "on", "switches"
        );
        self.text.push_str(&self.paint(head.trim_end(), Paint::Bold));
        self.text.push('\n');
        for row in shown {
            self.thread(row, room);
        }
        let hidden = &rows[shown.len()..];
        let count = hidden.iter().map(|row| row.threads).sum::<u64>() + more.threads;
        let on_ns = hidden.iter().map(|row| row.on_ns).sum::<u64>() + more.on_ns;
        if count > 0 {
            let _ = writeln!(
                self.text,
                "… {}, {} on CPU",
                count_of(count, "more thread", "more threads"),
                duration_ns(on_ns)
            );
        }
        self.text.push('\n');
    }

    /// Bars have room next to all numbers of a thread.
    fn has_bars(&self) -> bool {
        self.opts.width >= 76
    }

    fn thread(&mut self, row: &ThreadRow, room: usize) {
        let on = share(row.on_ns, row.all_life_ns);
        let bar = format!("  {}", self.paint(&bar(on), Paint::State(StateClass::On)));
        let bar = if self.has_bars() { bar.as_str() } else { "" };
        let _ = writeln!(
            self.text,
            "{:<room$}{:>8} {:>10} {:>10}{bar} {on:>5.1}% {:>10}",
            cut(&harmless(&row.label()), room),
            row.tid.map_or_else(String::new, |tid| tid.to_string()),
            duration_ns(row.life_ns),
            duration_ns(row.on_ns),
            grouped(row.switches),
        );
    }

    fn functions(&mut self, screen: &RunScreen<'_>) {
        if screen.own.is_empty() {
            let why = RunSummary::why_unsampled(screen.summary.cpu_ns());
            let _ = writeln!(self.text, "No samples: {why}.\n");
            return;
        }
        if screen.samples < FEW_SAMPLES {
            return self.few_functions(screen);
        }
        self.function_list("self", "functions by their own time", screen, &screen.own);
        if !screen.with_callees.is_empty() {
            self.function_list("total", "functions with all they call", screen, &screen.with_callees);
        }
    }

    /// Functions of a handful of samples, without percentages.
    fn few_functions(&mut self, screen: &RunScreen<'_>) {
        let samples = if screen.samples == 1 { "sample" } else { "samples" };
        let head = format!("{} {samples}, too few for percentages; they were taken in", screen.samples);
        self.text.push_str(&self.paint(&head, Paint::Bold));
        self.text.push('\n');
        for function in screen.own.iter().take(self.opts.rows) {
            let dso = cut(&harmless(&function.dso), 24);
            let room = self.opts.width.saturating_sub(2 + 2 + dso.chars().count()).max(12);
            let name = cut_name(&harmless(&function.name), room);
            let _ = writeln!(self.text, "  {name}  {}", self.paint(&dso, Paint::Dim));
        }
        self.text.push('\n');
    }

    fn function_list(
        &mut self,
        number: &str,
        what: &str,
        screen: &RunScreen<'_>,
        functions: &[FunctionShare],
    ) {
        let head = format!("{number:>7}  {:<BAR$}  {what}", "");
        self.text.push_str(&self.paint(&head, Paint::Bold));
        self.text.push('\n');
        let shown = &functions[..functions.len().min(self.opts.rows)];
        let dso_width = shown.iter().map(|f| f.dso.chars().count().min(24)).max().unwrap_or(0);
        let room = self.opts.width.saturating_sub(7 + 2 + BAR + 2 + 2 + dso_width).max(12);
        let is_late = |function: &FunctionShare| {
            let is_kernel = function.dso == "[kernel.kallsyms]";
            number == "self" && screen.is_by_timer && is_kernel && enables_interrupts(&function.name)
        };
        for function in shown {
            let colour = heat(function.percent);
            let percent = self.paint(&format!("{:>6.2}%", function.percent), colour);
            let bar = self.paint(&bar(function.percent), colour);
            let dso = cut(&harmless(&function.dso), 24);
            let (mut name, line) = name_and_line(function, room);
            if is_late(function) && name.chars().count() + line.chars().count() + 2 <= room {
                name.push_str(" *");
            }
            let gap = " ".repeat(room - name.chars().count() - line.chars().count());
            let (line, dso) = (self.paint(&line, Paint::Dim), self.paint(&dso, Paint::Dim));
            let _ = writeln!(self.text, "{percent}  {bar}  {name}{line}{gap}  {dso}");
        }
        if shown.iter().any(is_late) {
            let note = self.paint(&format!("* {FOOTNOTE}"), Paint::Dim);
            let _ = writeln!(self.text, "{:7}  {note}", "");
        }
        self.text.push('\n');
    }

    fn path(&mut self, path: &[FunctionShare]) {
        let Some(leaf) = path.last() else { return };
        let names: Vec<String> = folded_names(path);
        let mut text = String::new();
        for (i, name) in names.iter().enumerate() {
            let _ = write!(text, "{}{name}", if i == 0 { "" } else { " → " });
        }
        self.line("hot path", &format!("{:.1}% of the time in", leaf.percent));
        self.line("", &text);
        self.text.push('\n');
    }

    fn trust(&mut self, screen: &RunScreen<'_>) {
        let summary = screen.summary;
        self.line("stacks", &quality_text(&summary.quality));
        self.line("lost", &loss_text(summary));
        if let Some(better) = &screen.better {
            self.line("better", better);
        }
        for (i, hint) in screen.name_hints.iter().enumerate() {
            self.line(if i == 0 { "names" } else { "" }, &harmless(hint));
        }
        self.line("recorder", &recorder_text(summary));
    }

    fn files(&mut self, screen: &RunScreen<'_>) {
        for (i, (path, what)) in screen.files.iter().enumerate() {
            let text = format!("{} ({what})", harmless(path));
            self.line(if i == 0 { "files" } else { "" }, &text);
        }
    }
}

/// The name and its hottest line, with room for both; a long name leaves at least its begin.
fn name_and_line(function: &FunctionShare, room: usize) -> (String, String) {
    let line = function.line.as_ref().map_or_else(String::new, |line| format!("  {}", line.brief()));
    let line = cut_name(&harmless(&line), room / 2);
    let name = cut_name(&harmless(&function.name), room - line.chars().count());
    (name, line)
}

/// Names along a path; equal neighbours become one with `×N`.
fn folded_names(path: &[FunctionShare]) -> Vec<String> {
    let mut names: Vec<(String, usize)> = Vec::new();
    for step in path {
        let name = cut_name(&harmless(&step.name), 60);
        match names.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => names.push((name, 1)),
        }
    }
    let with_count = |(name, count)| if count > 1 { format!("{name} ×{count}") } else { name };
    names.into_iter().map(with_count).collect()
}

/// Ten columns for 0 to 100 percent.
fn bar(percent: f64) -> String {
    format!("{:<BAR$}", of_eighths(eighths(percent, BAR as f64)))
}

#[cfg(test)]
mod tests;
