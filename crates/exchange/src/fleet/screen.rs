//! Answers about a fleet as text.

use super::{FunctionSum, Ledger, WaitSum};
use crate::export::samples::ValueUnit;
use display::number::{count_of, duration_ns, grouped};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Scope of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerScope<'a> {
    /// Number of files.
    pub files: u64,
    /// Number of machines.
    pub hosts: usize,
    /// The kind of value.
    pub event: &'a str,
    /// Unit.
    pub unit: ValueUnit,
    /// Sum of all.
    pub total: u64,
}

impl AnswerScope<'_> {
    /// `cpu 12.3 s on 3 hosts, 40 profiles`.
    #[must_use]
    pub fn heading(&self) -> String {
        let hosts = count_of(self.hosts as u64, "host", "hosts");
        let files = count_of(self.files, "profile", "profiles");
        format!("{} {} on {hosts}, {files}", self.event, amount(self.total, self.unit))
    }

    fn share(&self, value: u64) -> f64 {
        value as f64 * 100.0 / self.total.max(1) as f64
    }
}

/// At most `lines` functions; a line says how many and how much is left out.
#[must_use]
pub fn functions_text(scope: &AnswerScope<'_>, rows: &[FunctionSum], lines: usize) -> String {
    let mut text = format!("{}\n\n{:>8} {:>8}  {:>10}  function\n", scope.heading(), "own", "total", "own");
    for row in rows.iter().take(lines) {
        let (own, total) = (scope.share(row.own), scope.share(row.total));
        let value = amount(row.own, scope.unit);
        let _ = writeln!(text, "{own:>7.2}% {total:>7.2}%  {value:>10}  {} ({})", row.name, row.file);
    }
    let rest: u64 = rows.iter().skip(lines).map(|row| row.own).fold(0, u64::saturating_add);
    text + &left_out(rows.len(), lines, scope.share(rest))
}

/// At most `lines` waits.
#[must_use]
pub fn waits_text(scope: &AnswerScope<'_>, rows: &[WaitSum], lines: usize) -> String {
    let mut text = format!("{}\n\n{:>8}  {:>10}  wait\n", scope.heading(), "share", "time");
    for row in rows.iter().take(lines) {
        let at = if row.function.is_empty() { String::new() } else { format!(" in {}", row.function) };
        let (share, time) = (scope.share(row.ns), duration_ns(row.ns));
        let _ = writeln!(text, "{share:>7.2}%  {time:>10}  {}{at}", row.state);
    }
    let rest: u64 = rows.iter().skip(lines).map(|row| row.ns).fold(0, u64::saturating_add);
    text + &left_out(rows.len(), lines, scope.share(rest))
}

fn left_out(rows: usize, lines: usize, percent: f64) -> String {
    if rows <= lines {
        return String::new();
    }
    format!("LEFT OUT: {} more rows with {percent:.2}% (--max-lines N shows more)\n", rows - lines)
}

/// A machine with its sum, its costliest function, and what its agent noted.
#[derive(Clone, Debug, Default)]
pub struct HostRow {
    /// Name.
    pub host: String,
    /// Sum of the kind of value.
    pub total: u64,
    /// The function with the largest own value, and its share of the machine's total (0 to 1).
    pub top: Option<(String, f64)>,
    /// The sum by the notes of the agent; `None` if not all services were asked for.
    pub noted: Option<u64>,
    /// CPU time of the agent as a share of one CPU (0 to 1).
    pub agent_share: Option<f64>,
}

/// A line for each machine, and whether the profiles hold all that was noted.
#[must_use]
pub fn hosts_text(scope: &AnswerScope<'_>, rows: &[HostRow]) -> String {
    let mut text =
        format!("{}\n\n{:>10} {:>8} {:>7}  host: top function\n", scope.heading(), "sum", "share", "agent");
    for row in rows {
        let agent = row.agent_share.map_or("-".to_owned(), |share| format!("{:.2}%", share * 100.0));
        let top =
            row.top.as_ref().map_or(String::new(), |(name, share)| format!(": {name} {:.1}%", share * 100.0));
        let (sum, share) = (amount(row.total, scope.unit), scope.share(row.total));
        let _ = writeln!(text, "{sum:>10} {share:>7.2}% {agent:>7}  {}{top}", row.host);
    }
    let short = rows
        .iter()
        .filter_map(|row| row.noted.map(|noted| (row, noted)))
        .filter(|(row, noted)| row.total != *noted);
    for (row, noted) in short {
        let (total, noted) = (amount(row.total, scope.unit), amount(noted, scope.unit));
        let _ = writeln!(
            text,
            "NOT WHOLE: {} has {total}, its agent wrote {noted}: profiles are missing",
            row.host
        );
    }
    text
}

/// The sums of several notes of one machine, and the agent's share of a CPU by the last one.
#[must_use]
pub fn noted(notes: &[(String, Ledger)], host: &str, event: &str) -> (u64, Option<f64>) {
    let ledgers: Vec<&Ledger> = notes.iter().filter(|(of, _)| of == host).map(|(_, ledger)| ledger).collect();
    let sums: BTreeMap<&str, u64> =
        ledgers.iter().flat_map(|ledger| &ledger.kinds).fold(BTreeMap::new(), |mut sums, (name, value)| {
            let sum: &mut u64 = sums.entry(name).or_default();
            *sum = sum.saturating_add(*value);
            sums
        });
    let last = ledgers.last().filter(|ledger| ledger.agent_age_ns > 0);
    let share = last.map(|ledger| ledger.agent_cpu_ns as f64 / ledger.agent_age_ns as f64);
    (sums.get(event).copied().unwrap_or(0), share)
}

fn amount(value: u64, unit: ValueUnit) -> String {
    match unit {
        ValueUnit::Nanoseconds => duration_ns(value),
        ValueUnit::Count => grouped(value),
    }
}
