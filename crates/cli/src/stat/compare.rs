//! `--vs`: two commands run alternately, and how their counts relate.
//!
//! Runs alternate (A B, B A, A B …) so that drift of the machine hits both alike.

use std::ffi::OsString;
use std::io::{self, Write};

use record::stop_signals::StopSignals;

use super::print::with_commas;
use super::run::{Outcome, RunOpts, run_once};
use counts::{EventInfo, Pairing};

/// Everything measured of two commands.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Wall-clock seconds.
    pub elapsed_s: Pairing,
    /// Seconds in user mode.
    pub user_s: Pairing,
    /// Seconds in the kernel.
    pub system_s: Pairing,
    /// The events' names, with the factor and unit of their values.
    pub events: Vec<EventInfo>,
    /// One per event; `None`: not counted in some run.
    pub counts: Vec<Option<Pairing>>,
    /// Pairs run.
    pub pairs: u32,
    /// Runs of A and of B that did not end with status 0.
    pub failures: [u32; 2],
}

/// Runs both alternately, `pairs` times each after one run each that is not counted.
///
/// The `bool` is false if a signal ended it early; the comparison has the pairs that were complete.
pub fn run_pairs(
    a: &RunOpts,
    b: &RunOpts,
    pairs: u32,
    signals: &mut StopSignals,
) -> anyhow::Result<(Comparison, bool)> {
    let mut comparison = Comparison::default();
    let mut once = |opts: &RunOpts| run_once(opts, signals, &mut |_| Ok(()));
    for pair in 0..=pairs {
        let swapped = pair % 2 == 1;
        let first = once(if swapped { b } else { a })?;
        if first.interrupted.is_some() {
            return Ok((comparison, false));
        }
        let second = once(if swapped { a } else { b })?;
        if second.interrupted.is_some() {
            return Ok((comparison, false));
        }
        if pair > 0 {
            let (a, b) = if swapped { (second, first) } else { (first, second) };
            comparison.push(&a, &b);
        }
    }
    Ok((comparison, true))
}

impl Comparison {
    fn push(&mut self, a: &Outcome, b: &Outcome) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (used_a, used_b) = (a.used.unwrap_or_default(), b.used.unwrap_or_default());
        self.elapsed_s.push(seconds(a.run.wall_ns), seconds(b.run.wall_ns));
        self.user_s.push(seconds(used_a.user_ns), seconds(used_b.user_ns));
        self.system_s.push(seconds(used_a.system_ns), seconds(used_b.system_ns));
        if self.events.is_empty() {
            self.events = a.run.infos.clone();
            self.counts = vec![Some(Pairing::default()); self.events.len()];
        }
        self.pairs += 1;
        for (count, outcome) in self.failures.iter_mut().zip([a, b]) {
            *count += u32::from(outcome.exit.is_some_and(|exit| exit.shell_code() != 0));
        }
        let (a, b) = (a.values(), b.values());
        for ((slot, a), b) in self.counts.iter_mut().zip(a).zip(b) {
            match (slot.as_mut(), a, b) {
                (Some(pairing), Some(a), Some(b)) => pairing.push(a, b),
                _ => *slot = None,
            }
        }
    }

    /// The table and the verdict.
    pub fn print(&self, names: (&str, &str), big_num: bool, out: &mut dyn Write) -> io::Result<()> {
        let pairs = self.pairs;
        writeln!(
            out,
            "\n A: {}\n B: {}\n {pairs} runs each, alternately, after one of each that is not counted\n",
            names.0, names.1
        )?;
        writeln!(out, "{:28}{:>20}{:>20}{:>10}   95 % interval", "", "A", "B", "B / A")?;
        let mut row = |name: &str, pairing: Option<&Pairing>, scale: f64, digits: usize| {
            let Some(pairing) = pairing else { return writeln!(out, " {name:<27}{:>20}{:>20}", "-", "-") };
            let number = |v: f64| {
                let plain = format!("{:.digits$}", v * scale);
                if big_num { with_commas(&plain) } else { plain }
            };
            let (a, b) = (number(pairing.a.mean()), number(pairing.b.mean()));
            write!(out, " {name:<27}{a:>20}{b:>20}")?;
            match pairing.ratio() {
                Some((ratio, low, high)) => {
                    let mark = if low > 1.0 || high < 1.0 { "  *" } else { "" };
                    writeln!(out, "{:>10}   {} .. {}{mark}", short(ratio), short(low), short(high))
                }
                None => writeln!(out, "{:>10}", "-"),
            }
        };
        row("seconds elapsed", Some(&self.elapsed_s), 1.0, 6)?;
        row("seconds user", Some(&self.user_s), 1.0, 6)?;
        row("seconds sys", Some(&self.system_s), 1.0, 6)?;
        for (info, pairing) in self.events.iter().zip(&self.counts) {
            let unit = if info.unit.is_empty() { String::new() } else { format!(" ({})", info.unit) };
            let digits = if info.scale == 1.0 { 0 } else { 2 };
            row(&format!("{}{unit}", info.name), pairing.as_ref(), info.scale, digits)?;
        }
        writeln!(out, "\n * the interval leaves 1 out\n")?;
        for (name, failed) in ["A", "B"].iter().zip(self.failures).filter(|(_, failed)| *failed > 0) {
            writeln!(out, " {name} failed in {failed} of {} runs (status other than 0)", self.pairs)?;
        }
        writeln!(out, " {}\n", self.verdict())
    }

    /// One sentence on wall-clock time.
    pub fn verdict(&self) -> String {
        let Some((ratio, low, high)) = self.elapsed_s.ratio() else {
            return "Too few runs to compare the times.".to_owned();
        };
        let pct = |r: f64| 100.0 * (r - 1.0).abs();
        if low > 1.0 {
            format!(
                "B takes {:.1} % more time than A (95 % interval: {:.1} % to {:.1} %).",
                pct(ratio),
                pct(low),
                pct(high)
            )
        } else if high < 1.0 {
            format!(
                "B takes {:.1} % less time than A (95 % interval: {:.1} % to {:.1} %).",
                pct(ratio),
                pct(high),
                pct(low)
            )
        } else {
            format!(
                "No difference in time is shown: B takes {low:.3} to {high:.3} times as long as A (95 % interval)."
            )
        }
    }
}

/// Four digits after the point, or a power of ten where the runs were too few.
fn short(ratio: f64) -> String {
    if ratio < 10_000.0 { format!("{ratio:.4}") } else { format!("{ratio:.1e}") }
}

/// Splits a command line as a shell would; one that needs a shell (`|`, `$`, `*` …) is given to `sh -c`.
pub fn split_command(line: &str) -> Vec<OsString> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let text: String = chars.by_ref().take_while(|&q| q != c).collect();
                if c == '"' && text.contains(['$', '`', '\\']) {
                    return by_shell(line);
                }
                word.get_or_insert_default().push_str(&text);
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if "|&;<>()$`*?[~#".contains(c) => return by_shell(line),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from).collect()
}

fn by_shell(line: &str) -> Vec<OsString> {
    ["sh", "-c", line].iter().map(OsString::from).collect()
}
