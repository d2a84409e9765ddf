//! Answers about a fleet as text.

use super::{FunctionSum, Ledger, WaitSum, functions};
use crate::export::samples::ValueUnit;
use display::number::{count_of, duration_ns, grouped};
use profile::Profile;
use profile::view::ranking::RankRows as _;
use std::cmp::Reverse;
use std::collections::BTreeSet;
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
    /// By the notes of the agent.
    pub noted: HostNotes,
}

/// Sums of the notes of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostNotes {
    /// Sum of the kind of value; `None` if no interval has it.
    pub sum: Option<u64>,
    /// Intervals with this kind.
    pub rounds: u64,
    /// Those in which it was 0.
    pub idle: u64,
    /// CPU time of the agent as a share of one CPU (0 to 1), by the last note.
    pub agent_share: Option<f64>,
}

impl HostNotes {
    /// The notes about `host`, oldest first, for the kind of value `event`.
    fn of(notes: &[(String, Ledger)], host: &str, event: &str) -> Self {
        let mut sums = Self::default();
        let ledgers = notes.iter().filter(|(of, _)| of == host).map(|(_, ledger)| ledger);
        for ledger in ledgers {
            let share = ledger.agent_cpu_ns as f64 / ledger.agent_age_ns as f64;
            sums.agent_share = (ledger.agent_age_ns > 0).then_some(share);
            let Some(value) = ledger.kinds.get(event) else { continue };
            sums.sum = Some(sums.sum.unwrap_or(0).saturating_add(*value));
            sums.rounds += 1;
            sums.idle += u64::from(*value == 0);
        }
        sums
    }
}

/// The machines with profiles, and those with notes alone: they were idle, or their profiles are missing. The largest
/// sum comes first.
#[must_use]
pub fn host_rows(profiles: &[(String, Profile)], notes: &[(String, Ledger)], event: &str) -> Vec<HostRow> {
    let noted = |host: &str| HostNotes::of(notes, host, event);
    let row = |(host, profile): &(String, Profile)| {
        let at = profile.events.iter().position(|known| known.name == event);
        let total = at.map_or(0, |at| profile.total(at).period);
        let best = at.and_then(|at| functions(profile, at).into_iter().next());
        let top = best.map(|best| (best.name, best.own as f64 / total.max(1) as f64));
        HostRow { host: host.clone(), total, top, noted: noted(host) }
    };
    let mut rows: Vec<HostRow> = profiles.iter().map(row).collect();
    let known: BTreeSet<&str> = profiles.iter().map(|(host, _)| host.as_str()).collect();
    let others: BTreeSet<&str> = notes.iter().map(|(host, _)| host.as_str()).collect();
    rows.extend(others.difference(&known).map(|host| HostRow {
        host: (*host).to_owned(),
        noted: noted(host),
        ..HostRow::default()
    }));
    rows.rank_by_key(|row| Reverse(row.total));
    rows
}

/// A line for each machine, and whether the profiles hold all that was noted.
#[must_use]
pub fn hosts_text(scope: &AnswerScope<'_>, rows: &[HostRow]) -> String {
    let mut text =
        format!("{}\n\n{:>10} {:>8} {:>7}  host: top function\n", scope.heading(), "sum", "share", "agent");
    for row in rows {
        let agent = row.noted.agent_share.map_or("-".to_owned(), |share| format!("{:.2}%", share * 100.0));
        let top =
            row.top.as_ref().map_or(String::new(), |(name, share)| format!(": {name} {:.1}%", share * 100.0));
        let idle = match row.noted.idle {
            0 => String::new(),
            idle => format!(" (idle in {idle} of {})", count_of(row.noted.rounds, "round", "rounds")),
        };
        let (sum, share) = (amount(row.total, scope.unit), scope.share(row.total));
        let _ = writeln!(text, "{sum:>10} {share:>7.2}% {agent:>7}  {}{top}{idle}", row.host);
    }
    let short = rows
        .iter()
        .filter_map(|row| row.noted.sum.map(|noted| (row, noted)))
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

/// Why a question finds no stacks, by the agents' notes on its hosts and times.
#[must_use]
pub fn why_nothing(notes: &[(String, Ledger)]) -> &'static str {
    let mut values = notes.iter().flat_map(|(_, ledger)| ledger.kinds.values());
    match notes.is_empty() {
        true => "no profiles of these services, hosts and times",
        false if values.all(|value| *value == 0) => "these hosts were idle at these times",
        false => "there are notes of these hosts and times, but no profiles",
    }
}

fn amount(value: u64, unit: ValueUnit) -> String {
    match unit {
        ValueUnit::Nanoseconds => duration_ns(value),
        ValueUnit::Count => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(host: &str, cpu: u64) -> (String, Ledger) {
        let kinds = [("cpu".to_owned(), cpu)].into();
        (host.to_owned(), Ledger { kinds, agent_cpu_ns: 1, agent_age_ns: 200, left_out: 0 })
    }

    #[test]
    fn idle_machines_and_those_without_profiles_have_a_line() {
        let notes = [note("idle", 0), note("idle", 0), note("lost", 7_000_000)];
        let rows = host_rows(&[], &notes, "cpu");
        let unit = ValueUnit::Nanoseconds;
        let scope = AnswerScope { files: 0, hosts: 0, event: "cpu", unit, total: 0 };
        let text = hosts_text(&scope, &rows);
        assert!(text.contains("0.50%  idle (idle in 2 of 2 rounds)\n"), "{text}");
        assert!(text.contains("0.50%  lost\n"), "{text}");
        assert_eq!(text.matches("NOT WHOLE").count(), 1, "{text}");
        assert!(text.contains("NOT WHOLE: lost has "), "{text}");
    }

    #[test]
    fn no_stacks_have_a_reason() {
        assert_eq!(why_nothing(&[]), "no profiles of these services, hosts and times");
        assert_eq!(why_nothing(&[note("a", 0)]), "these hosts were idle at these times");
        assert!(why_nothing(&[note("a", 0), note("b", 1)]).ends_with("but no profiles"));
    }
}
