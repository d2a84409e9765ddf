//! The one screen of `tally run`: where the time went, and how far the numbers can be trusted.
//!
//! Values in, text out; at most 80 columns unless the terminal is wider.

use super::number::{bytes, duration_ns, grouped};
use crate::out::harmless;
use crate::term::{Paint, paint};
use record::summary::{RunSummary, StackQuality, StopReason, StoppedStacks, ThreadUse};
use record::sys::ExitKind;
use std::fmt::Write as _;

/// A function with its share.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionShare {
    /// Its name.
    pub name: String,
    /// File it lies in, short.
    pub dso: String,
    /// Percent of all samples' period.
    pub percent: f64,
}

/// All the screen shows.
#[derive(Clone, Debug)]
pub struct RunScreen<'a> {
    /// What was run, as typed.
    pub title: String,
    /// The recorder's numbers.
    pub summary: &'a RunSummary,
    /// Top functions by their own time, biggest first.
    pub own: Vec<FunctionShare>,
    /// Top functions with all they call, biggest first.
    pub with_callees: Vec<FunctionShare>,
    /// The hottest path, root first, each with the share of all that runs below it.
    pub path: Vec<FunctionShare>,
    /// Command that would record better; `None` if nothing is to be bettered.
    pub better: Option<String>,
    /// Files written beside perf.data, with what they are.
    pub files: Vec<(String, String)>,
}

/// How the screen is drawn.
#[derive(Clone, Copy, Debug)]
pub struct ScreenOpts {
    /// Columns.
    pub width: usize,
    /// With colours?
    pub colour: bool,
    /// At most so many threads and functions per list.
    pub rows: usize,
}

/// The screen as text, with a line end behind each line.
pub fn draw(screen: &RunScreen<'_>, opts: ScreenOpts) -> String {
    let mut pen = Pen { text: String::new(), opts };
    pen.head(screen);
    pen.threads(&screen.summary.threads);
    pen.functions(screen);
    pen.path(&screen.path);
    pen.trust(screen);
    pen.files(screen);
    pen.text
}

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
        let title = cut(&harmless(&screen.title), self.opts.width.saturating_sub(LABEL + 1));
        self.line("command", &title);
        self.line("time", &time_text(summary));
        let counters = counters_text(summary);
        if !counters.is_empty() {
            self.line("counters", &counters);
        }
        for notice in &summary.notices {
            self.line("note", &notice.to_string());
        }
        self.text.push('\n');
    }

    fn threads(&mut self, threads: &[ThreadUse]) {
        if threads.is_empty() {
            return;
        }
        let head = format!(
            "{:<16}{:>8} {:>10}  {:<BAR$} {:>6} {:>6} {:>10}",
            "thread", "tid", "life", "on CPU", "on", "off", "switches"
        );
        self.text.push_str(&self.paint(head.trim_end(), Paint::Bold));
        self.text.push('\n');
        for thread in threads.iter().take(self.opts.rows) {
            self.thread(thread);
        }
        if let Some(rest) = threads.get(self.opts.rows..).filter(|rest| !rest.is_empty()) {
            let on: u64 = rest.iter().map(|thread| thread.on_ns).sum();
            let _ = writeln!(
                self.text,
                "… {} more {}, {} on CPU",
                grouped(rest.len() as u64),
                if rest.len() == 1 { "thread" } else { "threads" },
                duration_ns(on)
            );
        }
        self.text.push('\n');
    }

    fn thread(&mut self, thread: &ThreadUse) {
        let on = share(thread.on_ns, thread.life_ns);
        let switches = thread.voluntary_switches + thread.involuntary_switches;
        let bar = self.paint(&bar(on), Paint::Green);
        let _ = writeln!(
            self.text,
            "{:<16}{:>8} {:>10}  {bar} {:>5.1}% {:>5.1}% {:>10}",
            cut(&harmless(&thread.comm), 16),
            thread.tid,
            duration_ns(thread.life_ns),
            on,
            share(thread.off_ns, thread.life_ns),
            grouped(switches),
        );
    }

    fn functions(&mut self, screen: &RunScreen<'_>) {
        if screen.own.is_empty() {
            let _ = writeln!(self.text, "No samples: the program used too little CPU time to be sampled.\n");
            return;
        }
        self.function_list("self", "functions by their own time", &screen.own);
        if !screen.with_callees.is_empty() {
            self.function_list("total", "functions with all they call", &screen.with_callees);
        }
    }

    fn function_list(&mut self, number: &str, what: &str, functions: &[FunctionShare]) {
        let head = format!("{number:>7}  {:<BAR$}  {what}", "");
        self.text.push_str(&self.paint(&head, Paint::Bold));
        self.text.push('\n');
        let shown = &functions[..functions.len().min(self.opts.rows)];
        let dso_width = shown.iter().map(|f| f.dso.chars().count().min(24)).max().unwrap_or(0);
        let room = self.opts.width.saturating_sub(7 + 2 + BAR + 2 + 2 + dso_width).max(12);
        for function in shown {
            let colour = heat(function.percent);
            let percent = self.paint(&format!("{:>6.2}%", function.percent), colour);
            let bar = self.paint(&bar(function.percent), colour);
            let dso = cut(&harmless(&function.dso), 24);
            let name = cut(&harmless(&function.name), room);
            let dso = self.paint(&dso, Paint::Dim);
            let _ = writeln!(self.text, "{percent}  {bar}  {name:<room$}  {dso}");
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
        self.line("recorder", &recorder_text(summary));
    }

    fn files(&mut self, screen: &RunScreen<'_>) {
        for (i, (path, what)) in screen.files.iter().enumerate() {
            let text = format!("{} ({what})", harmless(path));
            self.line(if i == 0 { "files" } else { "" }, &text);
        }
    }
}

fn time_text(summary: &RunSummary) -> String {
    let wall = duration_ns(summary.wall_ns);
    let cpu = duration_ns(summary.cpu_ns());
    let ended = summary.exit.map(exit_text).unwrap_or_default();
    format!("{wall} wall · {cpu} CPU · {:.2} CPUs used{ended}", summary.cpus_used())
}

/// How the command ended, if it is worth a word.
fn exit_text(exit: ExitKind) -> String {
    match exit {
        ExitKind::Code(0) => String::new(),
        ExitKind::Code(code) => format!(" · exit status {code}"),
        ExitKind::Signal(number) => format!(" · killed by signal {number}{}", signal_name(number)),
    }
}

/// What a signal's number means, in parentheses; nothing for one that programs seldom end by.
#[must_use]
pub fn signal_name(number: i32) -> &'static str {
    match number {
        2 => " (interrupt)",
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (arithmetic error)",
        9 => " (kill)",
        11 => " (segmentation fault)",
        13 => " (broken pipe)",
        15 => " (terminate)",
        _ => "",
    }
}

/// Counters that were counted, those of the time line left out.
fn counters_text(summary: &RunSummary) -> String {
    let value = |name: &str| summary.counter(name).map(|counter| counter.value);
    let mut parts = Vec::new();
    if let (Some(cycles), Some(task)) = (value("cycles"), value("task-clock")) {
        parts.push(format!("{} cycles ({:.2} GHz)", short(cycles), cycles as f64 / task.max(1) as f64));
    }
    if let Some(instructions) = value("instructions") {
        let ipc = value("cycles").filter(|&cycles| cycles > 0);
        let ipc = ipc.map(|cycles| format!(" ({:.2} a cycle)", instructions as f64 / cycles as f64));
        parts.push(format!("{} instructions{}", short(instructions), ipc.unwrap_or_default()));
    }
    if let Some(switches) = value("context-switches") {
        parts.push(format!("{} switches{}", grouped(switches), switch_kinds(summary)));
    }
    const OTHERS: [(&str, &str); 3] =
        [("cpu-migrations", "migration"), ("minor-faults", "minor fault"), ("major-faults", "major fault")];
    for (name, word) in OTHERS {
        if let Some(count) = value(name) {
            parts.push(format!("{} {word}{}", grouped(count), if count == 1 { "" } else { "s" }));
        }
    }
    joined(&parts)
}

/// The parts with ` · ` between them, to be broken there only.
fn joined(parts: &[String]) -> String {
    let whole: Vec<String> = parts.iter().map(|part| part.replace(' ', "\u{a0}")).collect();
    whole.join("\u{a0}· ")
}

fn switch_kinds(summary: &RunSummary) -> String {
    let sum = |count: fn(&ThreadUse) -> u64| summary.threads.iter().map(count).sum::<u64>();
    let (own, forced) = (sum(|t| t.voluntary_switches), sum(|t| t.involuntary_switches));
    if own + forced == 0 {
        return String::new();
    }
    format!(" ({} waiting, {} preempted)", grouped(own), grouped(forced))
}

fn quality_text(quality: &StackQuality) -> String {
    if quality.stacks == 0 {
        return "no user stacks were taken".to_owned();
    }
    let whole = quality.complete + quality.joined;
    let mut text = format!(
        "{} of {} reach the thread's start",
        exact_percent(whole, quality.stacks),
        grouped(quality.stacks)
    );
    if quality.joined > 0 {
        let _ = write!(text, " ({} joined to earlier ones)", exact_percent(quality.joined, quality.stacks));
    }
    // Some causes read the same for several places.
    let mut causes: Vec<(String, u64)> = Vec::new();
    for stopped in &quality.stopped {
        let cause = stop_text(stopped);
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += stopped.count,
            None => causes.push((cause, stopped.count)),
        }
    }
    for (cause, count) in causes.iter().take(4) {
        let _ = write!(text, "; {} {cause}", exact_percent(*count, quality.stacks));
    }
    if let Some(rest) = causes.get(4..).filter(|rest| !rest.is_empty()) {
        let rest: u64 = rest.iter().map(|(_, count)| count).sum();
        let _ = write!(text, "; {} for other reasons", exact_percent(rest, quality.stacks));
    }
    text
}

/// Percent with one digit, but never 100 when something is missing nor 0 when there is something.
fn exact_percent(part: u64, whole: u64) -> String {
    let percent = share(part, whole);
    match percent {
        _ if part == whole => "100%".to_owned(),
        p if p > 99.9 => "> 99.9%".to_owned(),
        p if p < 0.1 && part > 0 => "< 0.1%".to_owned(),
        p => format!("{p:.1}%"),
    }
}

fn stop_text(stopped: &StoppedStacks) -> String {
    let dso = stopped.dso.as_deref().map_or("unknown code", short_path);
    let thread = harmless(&stopped.thread.1).into_owned();
    match stopped.reason {
        StopReason::CopyEnd(size) => format!("cut at {} KB in thread {thread}", size.div_ceil(1024)),
        StopReason::NoUnwindInfo => format!("no unwind info in {}", harmless(dso)),
        StopReason::NoMapping => format!("left all mappings in thread {thread}"),
        StopReason::Bad => format!("unwind info or stack unusable in {}", harmless(dso)),
        StopReason::NoObjectFile => format!("{} could not be opened", harmless(dso)),
        StopReason::TooDeep => format!("deeper than a record holds in thread {thread}"),
        StopReason::Behind => "kept short, the recorder was behind".to_owned(),
        StopReason::NoRegisters => format!("no registers in thread {thread}"),
        StopReason::Other(_) => stopped.reason.to_string(),
    }
}

fn loss_text(summary: &RunSummary) -> String {
    let loss = &summary.lost;
    let lost = loss.lost_records + loss.lost_samples;
    let mut text = format!("{} of {} samples", grouped(lost), grouped(loss.samples + lost));
    for (_, comm, records) in loss.by_thread.iter().take(3) {
        let _ = write!(text, "; {} in {}", grouped(*records), harmless(comm));
    }
    if loss.throttled > 0 {
        let _ = write!(text, "; throttled {} times by the kernel", grouped(loss.throttled));
    }
    text
}

fn recorder_text(summary: &RunSummary) -> String {
    let used = &summary.recorder;
    let cpu = used.user_ns + used.system_ns;
    let rate = summary.frequency_hz.map_or(String::new(), |hz| format!(" at {hz} Hz"));
    let event = if summary.event.is_empty() { String::new() } else { format!("{}{rate} · ", summary.event) };
    let per_sample = Some(used.sample_bytes).filter(|&bytes| bytes > 0);
    let per_sample = per_sample.and_then(|bytes| bytes.checked_div(summary.lost.samples));
    let per_sample = per_sample.map_or(String::new(), |each| format!(" ({each} bytes a sample)"));
    let parts = [
        format!("{event}{} CPU ({:.1}% of the wall time)", duration_ns(cpu), share(cpu, summary.wall_ns)),
        format!("{} memory", bytes(used.peak_memory_bytes)),
        format!("{} written{per_sample}", bytes(used.file_bytes)),
    ];
    joined(&parts)
}

/// Names along a path; equal neighbours become one with `×N`.
fn folded_names(path: &[FunctionShare]) -> Vec<String> {
    let mut names: Vec<(String, usize)> = Vec::new();
    for step in path {
        let name = cut(&harmless(&step.name), 60);
        match names.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => names.push((name, 1)),
        }
    }
    let with_count = |(name, count)| if count > 1 { format!("{name} ×{count}") } else { name };
    names.into_iter().map(with_count).collect()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn heat(percent: f64) -> Paint {
    match percent {
        p if p >= 20.0 => Paint::Red,
        p if p >= 5.0 => Paint::Yellow,
        _ => Paint::Green,
    }
}

/// Ten columns for 0 to 100 percent, in eighths.
fn bar(percent: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (percent.clamp(0.0, 100.0) / 100.0 * (BAR * 8) as f64).round() as usize;
    let bar = format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8]);
    format!("{bar:<BAR$}")
}

fn short(value: u64) -> String {
    match value {
        0..10_000 => grouped(value),
        10_000..1_000_000 => format!("{:.1} k", value as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} M", value as f64 / 1e6),
        _ => format!("{:.2} G", value as f64 / 1e9),
    }
}

fn short_path(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}

/// The first `width` characters of `text`, the last of them `…` if more follow.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `text` in lines of at most `width` characters, broken at blanks where there are any.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("invariant: there is always a line");
        let (have, more) = (line.chars().count(), word.chars().count());
        if have == 0 {
            line.push_str(word);
        } else if have + 1 + more <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

#[cfg(test)]
mod tests;
