//! The lines of numbers: time, counters, how complete the stacks are, what was lost, what recording cost.

use std::fmt::Write as _;

use record::summary::{RunSummary, StackQuality, StopReason, StoppedStacks, ThreadUse};
use record::sys::ExitKind;

use crate::terminal::out::harmless;
use display::number::{bytes, count_of, duration_ns, grouped};
use display::signal::signal_name;

pub(super) fn time_text(summary: &RunSummary) -> String {
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

/// Counters that were counted, those of the time line left out.
pub(super) fn counters_text(summary: &RunSummary) -> String {
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
        parts.push(count_of(switches, "switch", "switches") + &switch_kinds(summary));
    }
    const OTHERS: [(&str, &str, &str); 3] = [
        ("cpu-migrations", "migration", "migrations"),
        ("minor-faults", "minor fault", "minor faults"),
        ("major-faults", "major fault", "major faults"),
    ];
    for (name, one, many) in OTHERS {
        parts.extend(value(name).map(|count| count_of(count, one, many)));
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
    let more = &summary.more_threads;
    let own = sum(|t| t.voluntary_switches) + more.voluntary_switches;
    let forced = sum(|t| t.involuntary_switches) + more.involuntary_switches;
    if own + forced == 0 {
        return String::new();
    }
    format!(" ({} waiting, {} preempted)", grouped(own), grouped(forced))
}

pub(super) fn quality_text(quality: &StackQuality) -> String {
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
pub(super) fn exact_percent(part: u64, whole: u64) -> String {
    match share(part, whole) {
        _ if part == whole => "100%".to_owned(),
        p if p > 99.9 => "> 99.9%".to_owned(),
        p if p < 0.1 && part > 0 => "< 0.1%".to_owned(),
        p => format!("{p:.1}%"),
    }
}

/// Why stacks are not complete: `no unwind info in busybox`.
pub fn stop_text(stopped: &StoppedStacks) -> String {
    let dso = stopped.dso.as_deref().map_or("unknown code", short_path);
    let thread = harmless(&stopped.thread.1).into_owned();
    match stopped.reason {
        StopReason::CopyEnd(size) => {
            format!("longer than the {} KB recorded in thread {thread}", size.div_ceil(1024))
        }
        StopReason::NoUnwindInfo if dso == "anon" => "cut in JIT code".to_owned(),
        StopReason::NoUnwindInfo => format!("no unwind info in {}", harmless(dso)),
        StopReason::NoMapping => format!("left all mappings in thread {thread}"),
        StopReason::Bad => format!("unwind info or stack unusable in {}", harmless(dso)),
        StopReason::NoObjectFile => format!("{} could not be opened", harmless(dso)),
        StopReason::TooDeep => format!("deeper than a record holds in thread {thread}"),
        StopReason::Behind => "kept short, the recorder was behind".to_owned(),
        StopReason::NoRegisters => format!("no registers in thread {thread}"),
        StopReason::Loop => format!("endless loop of frames in {}", harmless(dso)),
        StopReason::FileShrank => format!("{} became shorter while it was read", harmless(dso)),
        StopReason::OtherStack => format!("changed stacks in {}", harmless(dso)),
        StopReason::InterruptedStack => "in signal handlers with their own stack".to_owned(),
        StopReason::PythonUnread => "with Python functions that could not be read".to_owned(),
        StopReason::Other(_) => stopped.reason.to_string(),
    }
}

pub(super) fn loss_text(summary: &RunSummary) -> String {
    let loss = &summary.lost;
    let lost = loss.lost_records + loss.lost_samples;
    let mut text = format!("{} of {} samples", grouped(lost), grouped(loss.samples + lost));
    for (_, comm, records) in loss.by_thread.iter().take(3) {
        let _ = write!(text, "; {} in {}", grouped(*records), harmless(comm));
    }
    if loss.throttled > 0 {
        let _ = write!(text, "; throttled {} by the kernel", count_of(loss.throttled, "time", "times"));
    }
    text
}

pub(super) fn recorder_text(summary: &RunSummary) -> String {
    let used = &summary.recorder;
    let cpu = used.user_ns + used.system_ns;
    let rate = summary.frequency_hz.map_or(String::new(), |hz| format!(" at {hz} Hz"));
    let event = if summary.event.is_empty() { String::new() } else { format!("{}{rate} · ", summary.event) };
    let per_sample = Some(used.sample_bytes).filter(|&bytes| bytes > 0);
    let per_sample = per_sample.and_then(|bytes| bytes.checked_div(summary.lost.samples));
    let per_sample = per_sample.map_or(String::new(), |each| format!(" ({each} bytes a sample)"));
    // The recorder's start takes the same time however short the recording: not a price per second.
    const LONG_NS: u64 = 1_000_000_000;
    let price = match summary.wall_ns {
        LONG_NS.. => format!("({:.1}% of the wall time)", share(cpu, summary.wall_ns)),
        _ => "(its start included)".to_owned(),
    };
    let programs = match used.programs_ns {
        0 => String::new(),
        ns => format!(", {} more in its BPF programs", duration_ns(ns)),
    };
    let parts = [
        format!("{event}{} CPU {price}{programs}", duration_ns(cpu)),
        format!("{} memory", bytes(used.peak_memory_bytes)),
        format!("{} written{per_sample}", bytes(used.file_bytes)),
    ];
    joined(&parts)
}

/// Percent; 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
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
