//! The first screen of `tally run` as values: findings, totals, states, functions, hot path, quality.
//!
//! Computed once; [`crate::text::first_screen`] draws it, [`to_json`] hands it to scripts.

pub mod quality;

use crate::text::run_screen::thread_rows;
use crate::verdict::Judgement;
use display::number::duration_ns;
use display::signal::{signal_name, signal_remedy};
use exchange::text::spans::sentences;
use profile::off_cpu::OffCpuSource;
use profile::profile::Profile;
use profile::verdict::{FEW_SAMPLES, Finding, INPUT};
use profile::view::hot_functions::{HotFunctions, MOST_FUNCTIONS, hot_functions};
use profile::view::spans::{SpanOpts, spans};
use profile::view::wall::{ThreadRow as WallRow, Wall};
use record::summary::{Notice, RunSummary};
use record::sys::ExitKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Version of the JSON. It grows when a field changes or goes, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// From this percentage on, idle time is one of the states, unless findings have shares of the rest.
const MOSTLY_IDLE: f64 = 90.0;

/// The whole screen.
#[derive(Clone, Debug, Default)]
pub struct FirstScreen {
    /// At most three, and one more about how the program ended or why nothing is judged.
    pub headlines: Vec<Headline>,
    /// Time, CPUs, threads.
    pub totals: RunTotals,
    /// States of all threads' time in percent, running first, then most first; empty if that was not recorded. Idle is
    /// one of them only if there is hardly anything else.
    pub states: Vec<(&'static str, f64)>,
    /// Percent of thread time that is idle: in none of the states.
    pub idle_percent: f64,
    /// Percent of the states' time in futex waits for other threads' work, not for locks.
    pub futex_for_work_percent: f64,
    /// The reasons of waits are from looks at /proc, not from the kernel's scheduler.
    pub are_reasons_estimated: bool,
    /// Where running time goes.
    pub hot: HotFunctions,
    /// Threads with the CPU time they used in percent of the run's time; empty if they don't differ much.
    pub threads: Vec<(String, f64)>,
    /// How good the recording is: samples, stacks, losses, cost.
    pub quality: Vec<String>,
    /// Defects of the recording, and how to mend them; most important first.
    pub warnings: Vec<String>,
    /// How the recording was made: nothing is to be done about it.
    pub notes: Vec<String>,
    /// Path and size of the recording, and the option that names it.
    pub file: RecordedFile,
}

/// One finding, or another statement that comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    /// The claim.
    pub claim: String,
    /// Numbers, in one line.
    pub detail: String,
    /// Remedy.
    pub fix: String,
    /// Command with the evidence.
    pub why: String,
}

/// Sums over the whole run.
#[derive(Clone, Debug, Default)]
pub struct RunTotals {
    /// From begin to end.
    pub wall_ns: u64,
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// CPUs used on average.
    pub cpus_used: f64,
    /// CPUs of the machine; 0 if unknown.
    pub cpus: u32,
    /// Threads that ran.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// Exit status, if it isn't 0.
    pub exit_code: Option<i32>,
}

/// The recording.
#[derive(Clone, Debug, Default)]
pub struct RecordedFile {
    /// Path.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// ` -i FILE`, or nothing for perf.data.
    pub input: String,
}

/// Parts of the screen, in addition to the profile.
pub struct ScreenSources<'a> {
    /// Numbers of the recorder.
    pub summary: &'a RunSummary,
    /// Findings and states.
    pub judgement: &'a Judgement,
    /// CPUs of the machine; 0 if unknown.
    pub cpus: u32,
    /// A command that records better.
    pub better: Option<&'a str>,
    /// Missing names, and how to get them.
    pub name_hints: &'a [String],
    /// The recording.
    pub file: RecordedFile,
}

impl FirstScreen {
    /// From a recording's event and what was counted.
    #[must_use]
    pub fn of(profile: &Profile, event: usize, sources: ScreenSources<'_>) -> Self {
        let ScreenSources { summary, judgement, .. } = sources;
        let hot = hot_functions(profile, event, MOST_FUNCTIONS);
        let whole = &judgement.wall.whole;
        let idle_percent = whole.idle_ns as f64 * 100.0 / whole.total_ns().max(1) as f64;
        let states = match judgement.wall.source {
            Some(_) if whole.total_ns() > 0 => {
                // Findings and states have shares of the same time.
                let of_rest = judgement.findings.first().is_some_and(|finding| finding.name != "idle");
                crate::text::wall::shares(whole, idle_percent >= MOSTLY_IDLE && !of_rest)
            }
            _ => Vec::new(),
        };
        let mut headlines = headlines(&sources, &hot);
        add_spans(&mut headlines, profile, &sources.file.input);
        Self {
            headlines,
            totals: totals(summary, sources.cpus),
            states,
            idle_percent,
            futex_for_work_percent: judgement.futex_for_work * 100.0,
            are_reasons_estimated: judgement.wall.source == Some(OffCpuSource::Looks),
            threads: thread_shares(summary, &judgement.wall, hot.samples),
            quality: quality::parts(summary, hot.samples),
            warnings: quality::warnings(summary, sources.better, sources.name_hints, Notice::brief),
            notes: quality::notes(summary, Notice::brief),
            hot,
            file: sources.file,
        }
    }
}

fn totals(summary: &RunSummary, cpus: u32) -> RunTotals {
    let processes: BTreeSet<u32> = summary.threads.iter().map(|thread| thread.pid).collect();
    RunTotals {
        wall_ns: summary.wall_ns,
        cpu_ns: summary.cpu_ns(),
        cpus_used: summary.cpus_used(),
        cpus,
        threads: summary.threads.len() as u64 + summary.more_threads.threads,
        processes: processes.len() as u64,
        exit_code: match summary.exit {
            Some(ExitKind::Code(code)) if code != 0 => Some(code),
            _ => None,
        },
    }
}

fn headlines(sources: &ScreenSources<'_>, hot: &HotFunctions) -> Vec<Headline> {
    let ScreenSources { summary, judgement, file, .. } = sources;
    let mut lines = Vec::new();
    if let Some(ExitKind::Signal(number)) = summary.exit {
        let after = duration_ns(summary.wall_ns);
        let claim = format!("Killed by signal {number}{} after {after}", signal_name(number));
        let fix = signal_remedy(number).to_owned();
        lines.push(Headline { claim, fix, ..Headline::default() });
    }
    // A function with much of the time is an answer.
    let is_calm =
        |finding: &Finding| finding.name == "cpu-bound" && !finding.claim.starts_with("CPU bound in ");
    match judgement.findings.as_slice() {
        // The signal is the whole answer.
        [] if !lines.is_empty() && judgement.withheld.is_some() => {}
        [] => {
            let failed = match summary.exit {
                Some(ExitKind::Code(code)) if code != 0 => Some(code),
                _ => None,
            };
            let fix = match (&judgement.withheld, failed) {
                (None, _) => "",
                (Some(_), Some(_)) => "if that is a failure: look at its messages first",
                (Some(_), None) => "give it more work, or repeat it in a loop",
            };
            let status = failed.filter(|_| judgement.withheld.is_some());
            let status =
                status.map_or_else(String::new, |code| format!("; it ended with exit status {code}"));
            let claim = format!("{}{status}", without_finding(judgement, hot));
            lines.push(Headline { claim, fix: fix.to_owned(), ..Headline::default() });
        }
        [only] if is_calm(only) => {
            let mut line = headline(0, only, &file.input);
            line.claim = format!("Nothing stands out: {}", line.claim);
            lines.push(line);
        }
        findings => {
            lines.extend(findings.iter().enumerate().map(|(at, finding)| headline(at, finding, &file.input)))
        }
    }
    lines
}

/// Puts the calls of recorded functions first. The screen has room for three headlines: the least findings give way.
fn add_spans(lines: &mut Vec<Headline>, profile: &Profile, input: &str) {
    const MOST: (usize, usize) = (2, 3);
    let rows = spans(profile, &SpanOpts::default());
    if rows.is_empty() {
        return;
    }
    let line = |row| {
        let [claim, detail] = sentences(row);
        Headline { claim, detail, why: format!("tally report --span{input}"), ..Headline::default() }
    };
    lines.splice(0..0, rows.iter().take(MOST.0).map(line));
    lines.truncate(MOST.1);
}

fn headline(at: usize, finding: &Finding, input: &str) -> Headline {
    Headline {
        claim: finding.claim.clone(),
        detail: finding.detail.clone(),
        fix: finding.fix.replace(INPUT, input),
        why: format!("tally why {}{input}", at + 1),
    }
}

/// The answer where no rule has one.
fn without_finding(judgement: &Judgement, hot: &HotFunctions) -> String {
    if let Some(why) = &judgement.withheld {
        return format!("No verdict: {why}");
    }
    let top = hot.functions.first().filter(|_| hot.samples >= FEW_SAMPLES);
    let top = top.map(|row| format!("{} has {:.0} % of the CPU time", row.name, row.own * 100.0));
    match (judgement.wall.source, top) {
        (None, Some(top)) => format!("Time off the CPU was not recorded; {top}"),
        (None, None) => "Time off the CPU was not recorded".to_owned(),
        (Some(_), Some(top)) => format!("Nothing stands out: {top}"),
        (Some(_), None) => {
            let on = duration_ns(judgement.wall.whole.on_ns);
            format!("Nothing stands out; {on} of CPU time is too little to find where it goes")
        }
    }
}

/// Threads by CPU time, in percent of the run's time, if one is busy and others are not.
fn thread_shares(summary: &RunSummary, wall: &Wall, samples: u64) -> Vec<(String, f64)> {
    /// Percent of the busiest thread, and the difference to the least busy one.
    const BUSY: f64 = 50.0;
    const LEAST_DIFFERENCE: f64 = 30.0;
    /// Shown at most.
    const MOST: usize = 6;
    let mut rows = thread_rows::rows(&summary.threads);
    // Those that were there for a good part of the time.
    rows.retain(|row| row.life_ns >= summary.wall_ns / 2);
    let share = |row: &thread_rows::ThreadRow| row.on_ns as f64 * 100.0 / summary.wall_ns.max(1) as f64;
    let shares = || rows.iter().map(share);
    let (most, least) = (shares().fold(0.0, f64::max), shares().fold(100.0, f64::min));
    if rows.len() < 2 || most < BUSY || most - least < LEAST_DIFFERENCE || samples < FEW_SAMPLES {
        return Vec::new();
    }
    // Threads that share a name are listed with the function in which they began.
    let by_start = |row: &thread_rows::ThreadRow| {
        let of = |thread: &&WallRow| u32::try_from(thread.tid).ok() == row.tid && thread.start.is_some();
        wall.threads.iter().find(of).map(WallRow::own_name)
    };
    let label = |row: &_| by_start(row).unwrap_or_else(|| row.label());
    rows.iter().take(MOST).map(|row| (label(row), share(row))).collect()
}

/// The screen for scripts: percent of 0 to 100, times in ns.
#[must_use]
pub fn to_json(screen: &FirstScreen) -> Value {
    let percent = |share: f64| share * 100.0;
    let headline = |line: &Headline| json!({ "claim": line.claim, "detail": line.detail, "fix": line.fix, "why": line.why });
    let functions = screen.hot.functions.iter().map(|row| {
        json!({
            "function": row.name, "dso": row.dso, "line": row.line(),
            "self_percent": percent(row.own), "total_percent": percent(row.total),
        })
    });
    let states = screen.states.iter().map(|(state, percent)| json!({ "state": state, "percent": percent }));
    let threads =
        screen.threads.iter().map(|(name, percent)| json!({ "thread": name, "on_cpu_percent": percent }));
    let totals = &screen.totals;
    json!({
        "headlines": screen.headlines.iter().map(headline).collect::<Vec<_>>(),
        "totals": {
            "wall_ns": totals.wall_ns, "cpu_ns": totals.cpu_ns, "cpus_used": totals.cpus_used, "cpus": totals.cpus,
            "threads": totals.threads, "processes": totals.processes, "exit_code": totals.exit_code.unwrap_or(0),
        },
        "states": states.collect::<Vec<_>>(),
        "idle_percent": screen.idle_percent,
        "futex_for_work_percent": screen.futex_for_work_percent,
        "reasons_estimated": screen.are_reasons_estimated,
        "functions": functions.collect::<Vec<_>>(),
        "hot_path": screen.hot.trunk,
        "threads": threads.collect::<Vec<_>>(),
        "quality": screen.quality,
        "warnings": screen.warnings,
        "notes": screen.notes,
    })
}

#[cfg(test)]
mod tests;
