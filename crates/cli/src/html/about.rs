//! Everything on the page that is text: head, findings, locks, notes about the recording.

use super::Code;
use crate::cmd::locks::lock_value;
use crate::cmd::why::input;
use crate::reading::wall::WaitArgs;
use crate::terminal::foreign::harmless;
use crate::{reading::load, terminal::interrupts_off};
use display::number::{bytes, count_of, duration_ns, grouped};
use exchange::page::{followed, harmless_all};
use exchange::perf_header::date::iso_utc_minute;
use exchange::text::shown_time::subtitle;
use perfdata::PerfData;
use perfdata::appendix::findings_note;
use profile::view::locks::{contended, locks};
use profile::view::subject;
use profile::view::wall::{Histogram, Wall, WallOpts};
use serde_json::{Value, json};
use std::path::Path;
use symbols::Recording;
use symbols::data_symbols::DataSymbols;

/// Locks listed.
const LOCKS: usize = 100;

/// A recording, open.
#[derive(Clone, Copy)]
pub struct PageSource<'a> {
    /// Path.
    pub path: &'a Path,
    /// Bytes.
    pub bytes: &'a [u8],
    /// The same, parsed.
    pub file: &'a PerfData<'a>,
    /// The same, read.
    pub recording: &'a Recording,
}

/// Text of a page.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The command, without tally's own options; else the file's name.
    pub title: String,
    /// Threads whose time it is, and how much of it is idle.
    pub subtitle: String,
    /// CPUs, kernel, host.
    pub machine: String,
    /// Samples, losses, stacks.
    pub quality: String,
    /// Nothing lost, and nearly all stacks complete.
    pub is_good: bool,
    /// At most three, as `tally why --json` prints them.
    pub findings: Vec<Value>,
    /// Why there are none.
    pub no_verdict: Option<String>,
    /// Label and value pairs about the recording.
    pub facts: Vec<(String, String)>,
    /// Limits of the recording, and how to mend them.
    pub notes: Vec<String>,
    /// Locks, most waited for first.
    pub locks: Vec<Value>,
    /// Causes of the main thread's waits, as `tally report --blame --json` prints them; null without waits.
    pub blame: Value,
    /// Its critical path; null without waits.
    pub critical_path: Value,
    /// Lengths of waits by state.
    pub lengths: Vec<Value>,
    /// The page's begin, ns of the recording's clock.
    pub begin_ns: u64,
    /// Number of CPUs; 0 if not known.
    pub cpus: u32,
    /// The option that names the recording.
    pub input: String,
    /// Functions as source and machine code.
    pub code: Code,
    /// Traced calls: lengths by function, and the slowest.
    pub calls: Value,
    /// Requests to disks, as `tally io --json` prints them.
    pub io: Value,
    /// Comparison of two recordings.
    pub compare: Value,
}

impl About {
    /// Text about a recording.
    #[must_use]
    pub fn of(source: PageSource<'_>, wall: &Wall, opts: &WallOpts) -> Self {
        let profile = &source.recording.profile;
        let features = &source.recording.features;
        let note = note_of(&source, wall);
        let (quality, is_good) = quality(source.recording);
        let begin = profile.time_span_ns.map_or(0, |(begin, _)| begin);
        let input = input(source.path);
        let (blame, critical_path) = followed(profile, wall);
        Self {
            title: title(&source, &note),
            subtitle: whole(source.recording, wall),
            machine: machine(source.recording),
            quality,
            is_good,
            findings: findings(&note, &input),
            no_verdict: note["no_verdict"].as_str().map(str::to_owned),
            facts: facts(&source),
            notes: notes(source.recording),
            locks: lock_rows(&source, opts),
            blame,
            critical_path,
            lengths: if wall.is_observed() { lengths(wall) } else { Vec::new() },
            begin_ns: if wall.is_observed() { wall.begin_ns } else { begin },
            cpus: features.nr_cpus.map_or(0, |cpus| cpus.online),
            input,
            code: super::code(source.recording),
            calls: Value::Null,
            io: Value::Null,
            compare: Value::Null,
        }
    }

    /// As the page reads it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let text = |text: &str| harmless(text).into_owned();
        let function = |of: &Value| json!({ "name": of["name"], "file": of["file"], "share": of["share"] });
        let code: Vec<Value> = self.code.functions.iter().map(function).collect();
        let facts: Vec<Value> = self.facts.iter().map(|(label, value)| json!([label, text(value)])).collect();
        json!({
            "version": 1,
            "title": text(&self.title), "subtitle": text(&self.subtitle), "machine": text(&self.machine),
            "quality": text(&self.quality), "good": self.is_good,
            "findings": self.findings, "no_verdict": self.no_verdict,
            "facts": facts, "notes": self.notes.iter().map(|note| text(note)).collect::<Vec<_>>(),
            "locks": self.locks, "blame": self.blame, "path": self.critical_path, "lengths": self.lengths,
            // More than 2^53 ns since boot is possible, and no number of a script.
            "begin_ns": self.begin_ns.to_string(), "cpus": self.cpus, "input": text(&self.input),
            "sources": code, "no_code": self.code.missing, "calls": self.calls, "io": self.io, "compare": self.compare,
        })
    }
}

/// The findings with which the recording was made, else those of judging it now.
fn note_of(source: &PageSource<'_>, wall: &Wall) -> Value {
    let note = findings_note::read(source.bytes);
    let note = note.and_then(|text| serde_json::from_slice::<Value>(text).ok());
    let judged = || crate::cmd::why::judge(source.recording).filter(|_| wall.is_observed());
    note.or_else(judged).unwrap_or_default()
}

/// The head of a recording and its findings, for other views than the page.
#[must_use]
pub fn head(source: &PageSource<'_>, wall: &Wall) -> (String, Vec<Value>) {
    let note = note_of(source, wall);
    let title = format!("{}   {}", title(source, &note), whole(source.recording, wall));
    (title, findings(&note, &input(source.path)))
}

/// The recorded command, without tally's own options.
fn title(source: &PageSource<'_>, note: &Value) -> String {
    let noted = note["command"].as_str().filter(|command| !command.is_empty() && !command.contains("tally "));
    let words = source.recording.features.cmdline.as_ref();
    let command = noted.map(str::to_owned).or_else(|| words.map(|words| recorded_command(words)));
    let command = command.unwrap_or_else(|| load::name_of(source.path));
    subject(&source.recording.profile, command, words.map_or(&[], Vec::as_slice))
}

/// The command after the recorder's own words.
#[must_use]
pub fn recorded_command(words: &[String]) -> String {
    let own = words.iter().position(|word| word == "--").map(|at| words[at + 1..].join(" "));
    own.filter(|command| !command.is_empty()).unwrap_or_else(|| words.join(" "))
}

/// Threads whose time it is, and how much.
fn whole(recording: &Recording, wall: &Wall) -> String {
    let profile = &recording.profile;
    if wall.is_observed() {
        return subtitle(profile, &WaitArgs::default().opts(0)).replace(" (--idle)", "");
    }
    // Imported sums have no times.
    let span = profile.time_span_ns.map(|(from, to)| to.saturating_sub(from)).filter(|span| *span > 0);
    span.map_or_else(
        || "time on the CPU only".to_owned(),
        |span| format!("{} recorded, time on the CPU only", duration_ns(span)),
    )
}

fn machine(recording: &Recording) -> String {
    let features = &recording.features;
    let cpus = features.nr_cpus.map(|cpus| count_of(cpus.online.into(), "CPU", "CPUs"));
    let kernel = features.os_release.as_ref().map(|release| format!("Linux {release}"));
    let host = features.hostname.clone();
    let date =
        features.clock_data.map(|clock| format!("{} UTC", iso_utc_minute(clock.wall_ns / 1_000_000_000)));
    [cpus, kernel, host, date].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn quality(recording: &Recording) -> (String, bool) {
    let found = &recording.profile.diagnostics;
    let lost = found.lost_records.saturating_add(found.lost_samples);
    let percent = found.complete_percent();
    let mut text =
        format!("{} · {} lost", count_of(found.samples_attributed, "sample", "samples"), grouped(lost));
    if let Some(percent) = percent {
        text += &format!(" · stacks {percent} % complete");
    }
    (text, lost == 0 && percent.is_none_or(|percent| percent >= 95))
}

fn findings(note: &Value, input: &str) -> Vec<Value> {
    let mut findings: Vec<Value> = note["findings"].as_array().cloned().unwrap_or_default();
    for finding in &mut findings {
        crate::verdict::name_input(finding, input);
        harmless_all(finding);
    }
    findings.truncate(3);
    findings
}

fn facts(source: &PageSource<'_>) -> Vec<(String, String)> {
    let (recording, features) = (source.recording, &source.recording.features);
    let found = &recording.profile.diagnostics;
    let mut facts = vec![
        ("file".to_owned(), load::name_of(source.path)),
        ("size".to_owned(), bytes(source.bytes.len() as u64)),
    ];
    let mut add = |label: &str, value: Option<String>| {
        facts.extend(value.map(|value| (label.to_owned(), value)));
    };
    add("recorded by", features.cmdline.as_ref().map(|words| words.join(" ")));
    add("host", features.hostname.clone());
    add("kernel", features.os_release.clone());
    add("CPU", features.cpu_desc.clone());
    add("recorder", features.version.clone());
    for event in &recording.profile.events {
        let how = if event.by_frequency { "Hz" } else { "per sample" };
        add("event", Some(format!("{} ({} {how})", event.name, grouped(event.period_or_hz))));
    }
    for (end, count) in &found.stack_ends {
        add("stacks", Some(format!("{end}: {}", grouped(*count))));
    }
    for (why, count) in recording.profile.missing_names() {
        add("frames without a name", Some(format!("{why}: {}", grouped(count))));
    }
    add("lost records", Some(grouped(found.lost_records.saturating_add(found.lost_samples))));
    facts
}

fn notes(recording: &Recording) -> Vec<String> {
    let found = &recording.profile.diagnostics;
    let mut notes: Vec<String> = recording.diagnostics.problems.iter().map(|p| p.to_string()).collect();
    if found.lost_records > 0 {
        notes.push(format!(
            "{} records were lost: record with larger rings (-m)",
            grouped(found.lost_records)
        ));
    }
    for (reason, count) in &found.dropped {
        notes.push(format!("{} samples are left out: {reason}", grouped(*count)));
    }
    if found.throttled > 0 {
        notes.push(format!("the kernel throttled sampling {} times", grouped(found.throttled)));
    }
    notes.extend(interrupts_off::note(&recording.profile));
    notes
}

fn lock_rows(source: &PageSource<'_>, opts: &WallOpts) -> Vec<Value> {
    let profile = &source.recording.profile;
    if profile.off_cpu.source.is_none() && profile.off_cpu.contentions.is_empty() {
        return Vec::new();
    }
    let data = DataSymbols::of(source.file);
    let name = |row: &profile::view::locks::LockRow| {
        row.address.and_then(|address| data.name(profile, &source.recording.files, row.pid, address))
    };
    let slept = locks(profile, opts).into_iter().take(LOCKS);
    let spun = contended(profile, opts).into_iter().take(LOCKS);
    slept.chain(spun).map(|row| lock_value(profile, &row, name(&row).as_deref())).collect()
}

fn lengths(wall: &Wall) -> Vec<Value> {
    let row = |name: &str, of: &Histogram| {
        json!({
            "state": name, "count": of.count(), "mean": of.mean_ns(), "max": of.max_ns(),
            "p50": of.percentile_ns(50.0), "p99": of.percentile_ns(99.0),
            "rows": of.rows().collect::<Vec<_>>(),
        })
    };
    let mut rows = vec![row("runnable", &wall.run_queue), row("preempted", &wall.preempted)];
    rows.extend(wall.waits.iter().map(|(reason, of)| row(reason.name(), of)));
    rows.retain(|row| row["count"].as_u64().unwrap_or(0) > 0);
    rows
}
