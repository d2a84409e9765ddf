//! `tally stat`: count events over a run.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use record::event::{self, EventSpec, SystemSource};
use record::sys::SignalReader;
use record::target::online_cpu_list;
use record::{Target, Whom};

use crate::event_args::{EventArgs, explain};
use crate::out;
use crate::stat::compare::{run_pairs, split_command};
use crate::stat::frame::{Aggregation, Frame};
use crate::stat::print::{Form, Style};
use crate::stat::run::{Outcome, RunOpts, run_once, signals};
use crate::stat::series::Series;
use crate::stat::total::Average;

/// Count events over a run of a command, or of what runs already
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally stat ./app                            the usual counts, and what they mean
  tally stat -d -r 10 ./app                   caches too; ten runs, means with 95 % intervals
  tally stat -e cs,faults,'{cycles,instructions}' ./app
  tally stat -e 'block:*' -a sleep 10         tracepoints of the whole machine
  tally stat -I 1000 -p PID                   every second, until Ctrl-C
  tally stat -a --per-core -x, sleep 1        CSV, core by core
  tally stat --vs './app --new' -- ./app      which is faster, and how sure is that?

Counters that had to share the PMU are scaled up and show in parentheses how much of the time they counted.")]
pub struct Args {
    #[command(flatten)]
    events: EventArgs,
    /// Count in all processes, on all CPUs
    #[arg(short = 'a', long = "all-cpus")]
    all: bool,
    /// Count only on these CPUs, in all processes: 0,2-3
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<String>,
    /// Count in these processes, all their threads
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all", "cpu"])]
    pid: Vec<u32>,
    /// Count in these threads
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with_all = ["all", "cpu", "pid"])]
    tid: Vec<u32>,
    /// Run the command so many times; print means with their spread and 95 % intervals
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print counts every so many milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    interval_print: Option<u64>,
    /// Stop after so many intervals
    #[arg(long, value_name = "N", requires = "interval_print")]
    interval_count: Option<u32>,
    /// With -I, print the sums of the whole run at the end, too
    #[arg(long, requires = "interval_print")]
    summary: bool,
    /// Stop the run after so many milliseconds
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Begin to count so many milliseconds after the command's start
    #[arg(short = 'D', long, value_name = "MS")]
    delay: Option<u64>,
    /// More counts: -d first-level caches, -dd TLBs and instruction caches, -ddd prefetches
    #[arg(short, long, action = clap::ArgAction::Count)]
    detailed: u8,
    /// Sums for each logical CPU
    #[arg(short = 'A', long)]
    no_aggr: bool,
    /// Sums for each physical core
    #[arg(long)]
    per_core: bool,
    /// Sums for each die
    #[arg(long)]
    per_die: bool,
    /// Sums for each socket
    #[arg(long)]
    per_socket: bool,
    /// Sums for each memory node
    #[arg(long)]
    per_node: bool,
    /// Sums for each thread of -p or -t
    #[arg(long)]
    per_thread: bool,
    /// Don't count in the command's children
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Count nothing, only take the time
    #[arg(short, long)]
    null: bool,
    /// Count user mode only, for all events
    #[arg(long)]
    all_user: bool,
    /// Count kernel mode only, for all events
    #[arg(long, conflicts_with = "all_user")]
    all_kernel: bool,
    /// CSV with this between the fields
    #[arg(short = 'x', long, value_name = "SEP", conflicts_with = "json")]
    field_separator: Option<String>,
    /// A JSON object for each count
    #[arg(short, long = "json-output", alias = "json")]
    json: bool,
    /// Set thousands off by commas
    #[arg(short = 'B', long)]
    big_num: bool,
    /// Don't set thousands off
    #[arg(long, overrides_with = "big_num")]
    no_big_num: bool,
    /// Write the counts here instead of standard error
    #[arg(short, long, value_name = "FILE", conflicts_with = "log_fd")]
    output: Option<PathBuf>,
    /// Add to the file of -o
    #[arg(long, requires = "output")]
    append: bool,
    /// Write the counts to this descriptor
    #[arg(long, value_name = "FD")]
    log_fd: Option<u32>,
    /// Run this by the shell before each run
    #[arg(long, value_name = "COMMAND")]
    pre: Option<String>,
    /// Run this by the shell after each run
    #[arg(long, value_name = "COMMAND")]
    post: Option<String>,
    /// Compare with this command: run both by turns (-r times, 10 if not said), show B / A with 95 % intervals
    #[arg(long, value_name = "COMMAND B", conflicts_with_all = ["all", "cpu", "pid", "tid", "interval_print", "json", "field_separator"])]
    vs: Option<String>,
    /// With -r: print each run's time
    #[arg(long)]
    table: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// perf's flag; all there is to say is said anyway
    #[arg(short, long, hide = true)]
    verbose: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// What cannot be opened, run or written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let events = match args.choose_events() {
        Ok(events) => events,
        Err(error) => return Ok(explain(&error)),
    };
    let opts = args.run_opts(events)?;
    let signals = signals().context("cannot block signals")?;
    if let Some(b) = &args.vs {
        return args.compare(&opts, b, &signals);
    }
    args.count(&opts, &signals)
}

impl Args {
    fn choose_events(&self) -> Result<Vec<EventSpec>, event::Error> {
        let source = SystemSource::new();
        let mut events = if self.null {
            Vec::new()
        } else if self.events.is_empty() {
            event::parse(&self.usual_events(), &source)?
        } else {
            self.events.parse(&source)?
        };
        for event in &mut events {
            if self.all_user {
                event.only_user();
            } else if self.all_kernel {
                event.only_kernel();
            }
        }
        Ok(events)
    }

    /// perf's choice: what nearly every run wants to know, and more with each -d.
    fn usual_events(&self) -> String {
        let clock = if self.is_system_wide() { "cpu-clock" } else { "task-clock" };
        let stalled = |side: &str| {
            let file = format!("/sys/bus/event_source/devices/cpu/events/stalled-cycles-{side}");
            if std::fs::exists(file).unwrap_or(false) { format!("stalled-cycles-{side},") } else { String::new() }
        };
        let mut all = format!(
            "{clock},context-switches,cpu-migrations,page-faults,cycles,{}{}instructions,branches,branch-misses",
            stalled("frontend"),
            stalled("backend")
        );
        let more = [
            ",L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
            ",L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
            ",L1-dcache-prefetches,L1-dcache-prefetch-misses",
        ];
        more.iter().take(self.detailed.into()).for_each(|m| all.push_str(m));
        all
    }

    fn is_system_wide(&self) -> bool {
        self.all || self.cpu.is_some()
    }

    fn run_opts(&self, events: Vec<EventSpec>) -> anyhow::Result<RunOpts> {
        let cpus = self.cpu.as_deref().map(online_cpu_list).transpose()?;
        let whom = if self.is_system_wide() || (self.groups_by_cpu() && self.pid.is_empty() && self.command.is_empty())
        {
            Whom::System
        } else if !self.pid.is_empty() {
            Whom::Processes(self.pid.clone())
        } else if !self.tid.is_empty() {
            Whom::Threads(self.tid.clone())
        } else {
            Whom::Command
        };
        if whom == Whom::Command && self.command.is_empty() {
            bail!("nothing to count: give a command, -p PID, -t TID or -a");
        }
        if self.per_thread && !matches!(whom, Whom::Processes(_) | Whom::Threads(_)) {
            bail!("--per-thread needs -p PID or -t TID: the threads must be there when counting begins");
        }
        Ok(RunOpts {
            events,
            target: Target { whom, cpus, command: self.command.clone(), cgroup: None },
            by: self.aggregation(),
            no_inherit: self.no_inherit || self.per_thread,
            delay: self.delay.map(Duration::from_millis),
            timeout: self.timeout.map(Duration::from_millis),
            interval: self.interval_print.map(Duration::from_millis),
            interval_count: self.interval_count,
        })
    }

    fn groups_by_cpu(&self) -> bool {
        !matches!(self.aggregation(), Aggregation::Global | Aggregation::Thread)
    }

    fn aggregation(&self) -> Aggregation {
        let chosen = [
            (self.no_aggr, Aggregation::Cpu),
            (self.per_core, Aggregation::Core),
            (self.per_die, Aggregation::Die),
            (self.per_socket, Aggregation::Socket),
            (self.per_node, Aggregation::Node),
            (self.per_thread, Aggregation::Thread),
        ];
        chosen.iter().find(|(given, _)| *given).map_or(Aggregation::Global, |c| c.1)
    }

    fn style(&self) -> Style {
        let form = match &self.field_separator {
            Some(separator) => Form::Csv(if separator == "\\t" { "\t".to_owned() } else { separator.clone() }),
            None if self.json => Form::Json,
            None => Form::Text,
        };
        let big_num = form == Form::Text && !self.no_big_num && (self.big_num || locale_groups_digits());
        Style { form, big_num, repeated: self.repeat > 1 }
    }

    fn open_output(&self) -> anyhow::Result<Box<dyn Write>> {
        let path = match (&self.output, self.log_fd) {
            (Some(path), _) => path.clone(),
            (None, Some(fd)) => PathBuf::from(format!("/proc/self/fd/{fd}")),
            (None, None) if self.quiet => return Ok(Box::new(io::sink())),
            (None, None) => return Ok(Box::new(BufWriter::new(io::stderr()))),
        };
        let mut how = OpenOptions::new();
        how.write(true).create(true);
        let how = if self.append || self.log_fd.is_some() { how.append(true) } else { how.truncate(true) };
        let file = how.open(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        if self.log_fd.is_none() {
            writeln!(file, "# started on {}\n", calendar(SystemTime::now()))?;
        }
        Ok(Box::new(file))
    }

    fn count(&self, opts: &RunOpts, signals: &SignalReader) -> anyhow::Result<ExitCode> {
        let mut out = self.open_output()?;
        let mut total = Total { args: self, style: self.style(), ..Total::default_of(self) };
        let mut printed_header = false;
        for _ in 0..self.repeat {
            shell(self.pre.as_deref())?;
            let outcome = run_once(opts, signals, &mut |interval: &Outcome| {
                if !std::mem::replace(&mut printed_header, true) {
                    total.style.interval_header(opts.by, &mut out)?;
                }
                total.print_interval(interval, &mut out)
            })?;
            shell(self.post.as_deref())?;
            total.push(outcome);
            if total.last.as_ref().is_some_and(|o| o.interrupted.is_some()) {
                break;
            }
        }
        if opts.interval.is_none() || self.summary {
            total.print(opts, &mut out)?;
        }
        out.flush()?;
        Ok(total.exit_code())
    }

    fn compare(&self, a: &RunOpts, b: &str, signals: &SignalReader) -> anyhow::Result<ExitCode> {
        let command = split_command(b);
        if command.is_empty() || a.target.command.is_empty() {
            bail!("--vs compares two commands: tally stat --vs 'COMMAND B' -- COMMAND A");
        }
        let mut b_opts = a.clone();
        b_opts.target.command = command;
        let pairs = if self.repeat > 1 { self.repeat } else { 10 };
        let (comparison, whole) = run_pairs(a, &b_opts, pairs, signals)?;
        let mut out = self.open_output()?;
        let a_name = joined(&a.target.command);
        comparison.print((&out::harmless(&a_name), &out::harmless(b)), self.style().big_num, &mut out)?;
        out.flush()?;
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(130) })
    }
}

/// What all runs gave together.
struct Total<'a> {
    args: &'a Args,
    style: Style,
    average: Average,
    wall: Series,
    walls: Vec<f64>,
    user: Series,
    system: Series,
    last: Option<Outcome>,
}

impl<'a> Total<'a> {
    fn default_of(args: &'a Args) -> Self {
        Self {
            args,
            style: args.style(),
            average: Average::default(),
            wall: Series::default(),
            walls: Vec::new(),
            user: Series::default(),
            system: Series::default(),
            last: None,
        }
    }

    fn push(&mut self, outcome: Outcome) {
        self.average.push(outcome.grouping.blocks(&outcome.readings));
        self.wall.push(outcome.wall_ns as f64);
        self.walls.push(outcome.wall_ns as f64);
        let used = outcome.used.unwrap_or_default();
        self.user.push(used.user_ns as f64);
        self.system.push(used.system_ns as f64);
        self.last = Some(outcome);
    }

    fn print_interval(&self, interval: &Outcome, out: &mut dyn Write) -> anyhow::Result<()> {
        let frame = Frame {
            events: &interval.infos,
            blocks: interval.grouping.blocks(&interval.readings),
            by: interval.grouping.by(),
            wall_ns: interval.wall_ns as f64,
            at_ns: Some(interval.at_ns),
        };
        Style { repeated: false, ..self.style.clone() }.print(&frame, out)?;
        Ok(out.flush()?)
    }

    fn print(&self, opts: &RunOpts, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(last) = &self.last else { return Ok(()) };
        let frame = Frame {
            events: &last.infos,
            blocks: self.average.blocks(),
            by: last.grouping.by(),
            wall_ns: self.wall.mean(),
            at_ns: None,
        };
        if self.style.form != Form::Text {
            return Ok(self.style.print(&frame, out)?);
        }
        let runs = if self.args.repeat > 1 { format!(" ({} runs)", self.walls.len()) } else { String::new() };
        writeln!(out, "\n Performance counter stats for {}{runs}:\n", subject(opts))?;
        self.style.print(&frame, out)?;
        self.print_footer(opts, out)
    }

    fn print_footer(&self, opts: &RunOpts, out: &mut dyn Write) -> anyhow::Result<()> {
        let seconds = self.wall.mean() / 1e9;
        if !opts.events.is_empty() {
            writeln!(out)?;
        }
        if self.walls.len() < 2 {
            writeln!(out, " {seconds:17.9} seconds time elapsed")?;
            if opts.target.whom == Whom::Command {
                let (user, system) = (self.user.mean() / 1e9, self.system.mean() / 1e9);
                writeln!(out, "\n {user:17.9} seconds user\n {system:17.9} seconds sys")?;
            }
        } else {
            self.print_spread(seconds, out)?;
        }
        Ok(writeln!(out, "\n")?)
    }

    /// The mean time, no more digits than its deviation deserves, and its 95 % interval.
    fn print_spread(&self, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
        let deviation = self.wall.deviation_of_mean() / 1e9;
        let digits = if deviation > 0.0 { (2.0 - deviation.log10().floor()).clamp(0.0, 9.0) } else { 9.0 };
        let digits = digits as usize;
        if self.args.table {
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
            writeln!(out, " {run:17.digits$} ({:+.digits$}) {}", run - mean, if bar.is_empty() { "#" } else { &bar })?;
        }
        writeln!(out, "\n         # Final result:")
    }

    /// The command's own status, 128 + signal, or success.
    fn exit_code(&self) -> ExitCode {
        let Some(last) = &self.last else { return ExitCode::SUCCESS };
        match (last.exit, last.interrupted) {
            (Some(exit), _) => ExitCode::from(exit.shell_code()),
            (None, _) => ExitCode::SUCCESS,
        }
    }
}

/// Whom the numbers are of, as perf's heading says it.
fn subject(opts: &RunOpts) -> String {
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let text = match &opts.target.whom {
        Whom::System => match &opts.target.cpus {
            Some(cpus) => format!("CPU(s) {}", list(cpus)),
            None => "system wide".to_owned(),
        },
        Whom::Processes(pids) => return format!("process id '{}'", list(pids)),
        Whom::Threads(tids) => return format!("thread id '{}'", list(tids)),
        Whom::User(uid) => return format!("user '{uid}'"),
        Whom::Command => joined(&opts.target.command),
    };
    format!("'{}'", out::harmless(&text))
}

fn joined(command: &[OsString]) -> String {
    command.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn shell(command: Option<&str>) -> anyhow::Result<()> {
    let Some(command) = command else { return Ok(()) };
    let status = Command::new("sh").args(["-c", command]).status().context("cannot run sh")?;
    if !status.success() {
        bail!("'{command}' failed: {status}");
    }
    Ok(())
}

/// Does the locale of numbers set thousands off? All but the plain C locale are taken to do so, by commas.
fn locale_groups_digits() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_NUMERIC")).or_else(|| set("LANG"));
    locale.is_some_and(|l| l != "C" && l != "POSIX" && !l.starts_with("C."))
}

/// As C's `ctime` writes it, in UTC: `Sun Nov 22 00:18:57 2026`.
fn calendar(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of the year 0, in whole eras of 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = (march_month + 2) % 12;
    let year = year + era * 400 + u64::from(month < 2);
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let names = (DAYS[(days % 7) as usize], MONTHS[month as usize]);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", names.0, names.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_c_does() {
        let at = |s| calendar(SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(1_795_306_737), "Sun Nov 22 00:18:57 2026");
    }
}
