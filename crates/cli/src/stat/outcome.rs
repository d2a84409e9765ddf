//! Result of one run or several, with perf's heading and footer.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use record::Whom;

use super::print::{Form, Style};
use super::run::{Outcome, RunOpts};
use crate::terminal::out;
use counts::{Average, CountFrame, CountedRun, Series};

/// Result of all runs.
pub struct Total {
    /// How it is printed.
    pub style: Style,
    repeated: bool,
    table: bool,
    average: Average,
    wall: Series,
    walls: Vec<f64>,
    user: Series,
    system: Series,
    last: Option<Outcome>,
}

impl Total {
    /// Nothing yet. `repeated`: means of several runs are to be printed; `table`: each run's time, too.
    pub fn new(style: Style, repeated: bool, table: bool) -> Self {
        Self {
            style,
            repeated,
            table,
            average: Average::default(),
            wall: Series::default(),
            walls: Vec::new(),
            user: Series::default(),
            system: Series::default(),
            last: None,
        }
    }

    /// Takes a run in.
    pub fn push(&mut self, outcome: Outcome) {
        self.average.push(outcome.run.grouping.blocks(&outcome.run.readings));
        self.wall.push(outcome.run.wall_ns as f64);
        self.walls.push(outcome.run.wall_ns as f64);
        let used = outcome.used.unwrap_or_default();
        self.user.push(used.user_ns as f64);
        self.system.push(used.system_ns as f64);
        self.last = Some(outcome);
    }

    /// Prints what was counted in an interval.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn print_interval(&self, interval: &CountedRun, out: &mut dyn Write) -> anyhow::Result<()> {
        let frame = CountFrame {
            events: &interval.infos,
            blocks: interval.grouping.blocks(&interval.readings),
            by: interval.grouping.by(),
            wall_ns: interval.wall_ns as f64,
            at_ns: Some(interval.at_ns),
        };
        Style { repeated: false, ..self.style.clone() }.print(&frame, out)?;
        Ok(out.flush()?)
    }

    /// Prints the sums, or the means of all runs.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn print(&self, whose: &CountedCommand, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(last) = &self.last else { return Ok(()) };
        let frame = CountFrame {
            events: &last.run.infos,
            blocks: self.average.blocks(),
            by: last.run.grouping.by(),
            wall_ns: self.wall.mean(),
            at_ns: None,
        };
        if self.style.form != Form::Text {
            return Ok(self.style.print(&frame, out)?);
        }
        let runs = if self.repeated { format!(" ({} runs)", self.walls.len()) } else { String::new() };
        writeln!(out, "\n Performance counter stats for {}{runs}:\n", whose.text)?;
        self.style.print(&frame, out)?;
        self.print_footer(last, whose, out)
    }

    fn print_footer(
        &self,
        last: &Outcome,
        whose: &CountedCommand,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let seconds = self.wall.mean() / 1e9;
        if !last.run.infos.is_empty() {
            writeln!(out)?;
        }
        if self.walls.len() < 2 {
            writeln!(out, " {seconds:17.9} seconds time elapsed")?;
            if whose.has_cpu_time {
                let (user, system) = (self.user.mean() / 1e9, self.system.mean() / 1e9);
                writeln!(out, "\n {user:17.9} seconds user\n {system:17.9} seconds sys\n")?;
            }
        } else {
            self.print_spread(seconds, out)?;
        }
        Ok(writeln!(out)?)
    }

    /// The mean time, no more digits than its deviation deserves, and its 95 % interval.
    fn print_spread(&self, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
        let deviation = self.wall.deviation_of_mean() / 1e9;
        let digits = if deviation > 0.0 { (2.0 - deviation.log10().floor()).clamp(0.0, 9.0) } else { 9.0 };
        let digits = digits as usize;
        if self.table {
            self.print_table(digits, seconds, out)?;
        }
        let pct = self.wall.deviation_pct();
        write!(out, " {seconds:17.digits$} +- {deviation:.digits$} seconds time elapsed  ( +-{pct:6.2}% )")?;
        if let Some((low, high)) = self.wall.interval_95() {
            write!(out, "  [95%: {:.digits$} .. {:.digits$}]", low.max(0.0) / 1e9, high / 1e9)?;
        }
        writeln!(out)
    }

    fn print_table(&self, digits: usize, mean: f64, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "         # Table of individual measurements:")?;
        for run in self.walls.iter().map(|w| w / 1e9) {
            let percent = if mean > 0.0 { 100.0 * (run - mean).abs() / mean } else { 0.0 };
            let bar = "#".repeat((percent / 5.0) as usize).chars().take(20).collect::<String>();
            writeln!(
                out,
                " {run:17.digits$} ({:+.digits$}) {}",
                run - mean,
                if bar.is_empty() { "#" } else { &bar }
            )?;
        }
        writeln!(out, "\n         # Final result:")
    }

    /// The command's own status, 128 + signal, or success.
    pub fn exit_code(&self) -> ExitCode {
        let Some(last) = &self.last else { return ExitCode::SUCCESS };
        match (last.exit, last.interrupted) {
            (Some(exit), _) => ExitCode::from(exit.shell_code()),
            (None, _) => ExitCode::SUCCESS,
        }
    }
}

/// Target of the numbers.
pub struct CountedCommand {
    /// As in perf's heading.
    text: String,
    /// The CPU time of a command is known.
    has_cpu_time: bool,
}

impl CountedCommand {
    /// Heading of a run.
    pub fn of(opts: &RunOpts) -> Self {
        Self { text: subject(opts), has_cpu_time: opts.target.whom == Whom::Command }
    }

    /// Heading of a recording by this command line.
    pub fn recorded(command_line: &[String]) -> Self {
        Self { text: format!("'{}'", out::harmless(&command_line.join(" "))), has_cpu_time: false }
    }
}

fn subject(opts: &RunOpts) -> String {
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let text = match &opts.target.whom {
        _ if opts.all_threads => "system wide".to_owned(),
        Whom::System => match &opts.target.cpus {
            Some(cpus) => format!("CPU(s) {}", list(cpus)),
            None => "system wide".to_owned(),
        },
        Whom::Processes(pids) | Whom::Trees(pids) => return format!("process id '{}'", list(pids)),
        Whom::Threads(tids) => return format!("thread id '{}'", list(tids)),
        Whom::User(uid) => return format!("user '{uid}'"),
        Whom::Command => joined(&opts.target.command),
    };
    format!("'{}'", out::harmless(&text))
}

/// The command's words with blanks between.
pub fn joined(command: &[OsString]) -> String {
    command.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
