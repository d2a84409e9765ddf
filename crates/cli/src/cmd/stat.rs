//! `tally stat`: count events over a run.

mod events;
mod recording;

use ::record::output_file::{append_export, create_export};
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use record::control::ControlPaths;
use record::event::EventSpec;
use record::opts::Delay;
use record::stop_signals::StopSignals;
use record::sys::{Child, ExitKind};
use record::target::online_cpu_list;
use record::{Target, Whom};

use crate::flags::event_args::{EventArgs, explain};
use crate::flags::perf_only::{PerfOnly, StatFlags};
use crate::flags::recording::parse_delay;
use crate::stat::compare::{run_pairs, split_command};
use crate::stat::outcome::{Total, Whose, joined};
use crate::stat::output::CountFile;
use crate::stat::print::{Form, Style};
use crate::stat::run::{Outcome, RunOpts, run_once};
use crate::terminal::out;
use counts::Aggregation;
pub use recording::spelled_out;

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
  tally stat -D -1 --control fifo:ctl ./app   count only from `echo enable >ctl` on
  tally stat record -o run.data ./app         keep the counts in a file, as perf stat record does
  tally stat report -i run.data --per-core    show the counts of such a file, also perf's

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
    /// With -a, count only tasks of these cgroups: one for all events, or one for each -e in order
    #[arg(short = 'G', long = "cgroup", value_name = "PATHS", conflicts_with_all = ["pid", "tid"])]
    cgroups: Option<String>,
    /// With -a, count every event in each of these cgroups
    #[arg(long, value_name = "PATHS", value_delimiter = ',', conflicts_with = "cgroups")]
    for_each_cgroup: Vec<String>,
    /// Count in these processes, all their threads
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all", "cpu"])]
    pid: Vec<u32>,
    /// Count in these threads
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with_all = ["all", "cpu", "pid"])]
    tid: Vec<u32>,
    /// Run the command N times and print means: with spread and 95 % intervals; 0: repeat until Ctrl-C
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32))]
    repeat: u32,
    /// Print counts every MS milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    interval_print: Option<u64>,
    /// Stop after this many intervals
    #[arg(long, value_name = "N", requires = "interval_print")]
    interval_count: Option<u32>,
    /// With -I, print the sums of the whole run at the end, too
    #[arg(long, requires = "interval_print")]
    summary: bool,
    /// Stop the run after MS milliseconds
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Begin to count MS milliseconds after the command's start; -1: when --control enables it
    #[arg(short = 'D', long, value_name = "MS", allow_hyphen_values = true, value_parser = parse_delay)]
    delay: Option<Delay>,
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
    /// Sums for each thread: of -p, -t or, with -a, all processes
    #[arg(long)]
    per_thread: bool,
    /// Don't count in the command's children
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Print what the counts mean (GHz, insn per cycle, % of branches) without the counts
    #[arg(long, conflicts_with = "vs")]
    metric_only: bool,
    /// Clear the screen before each interval
    #[arg(long, requires = "interval_print")]
    interval_clear: bool,
    /// Write what is in memory to the disks before each run
    #[arg(short = 'S', long)]
    sync: bool,
    /// perf's flag: the first level of Intel's top-down method
    #[arg(long, hide = true)]
    topdown: bool,
    /// perf's flag: hardware transactions
    #[arg(short = 'T', long, hide = true)]
    transaction: bool,
    /// Put all events into one group: they are on the PMU together or not at all
    #[arg(short, long)]
    group: bool,
    /// Don't scale up the counts of events that shared the PMU
    #[arg(long, overrides_with = "scale")]
    no_scale: bool,
    /// perf's flag, the default
    #[arg(long, hide = true)]
    scale: bool,
    /// Take commands from a pipe: enable, disable, evlist, ping, stop; with ACK answer each by 'ack'
    #[arg(long, value_name = "fd:CTL[,ACK]|fifo:CTL[,ACK]", value_parser = ControlPaths::parse)]
    control: Option<ControlPaths>,
    /// Don't mark the sums of --summary as such in CSV
    #[arg(long)]
    no_csv_summary: bool,
    /// `stat record` and `stat report`.
    #[command(flatten)]
    file: recording::FileArgs,
    /// What perf has and we don't.
    #[command(flatten)]
    perf: PerfOnly<StatFlags>,
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
    /// Compare with this command: run both by turns (-r times, default 10), show B / A with 95 % intervals
    #[arg(long, value_name = "COMMAND B", conflicts_with_all = ["all", "cpu", "pid", "tid", "interval_print", "json", "field_separator"])]
    vs: Option<String>,
    /// With -r: print each run's time
    #[arg(long)]
    table: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// perf's flag; all notes are printed anyway
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
    args.perf.check()?;
    recording::refuse_words(&args.command)?;
    if args.file.report {
        return args.report();
    }
    let lacks = |event: &str| !Path::new("/sys/bus/event_source/devices/cpu/events").join(event).exists();
    if args.topdown && lacks("topdown-retiring") {
        bail!(
            "--topdown: this CPU (or the kernel for it) has no top-down events: it takes Intel's Ice Lake or newer"
        );
    }
    if args.transaction && lacks("tx-start") {
        bail!("-T: this CPU (or the kernel for it) counts no transactions: it takes an Intel CPU with TSX");
    }
    let events = match args.choose_events() {
        Ok(events) => args.in_cgroups(events)?,
        Err(error) => return Ok(explain(&error)),
    };
    let opts = args.run_opts(events)?;
    let mut signals = StopSignals::new(&[]).context("cannot block signals")?;
    if let Some(b) = &args.vs {
        return args.compare(&opts, b, &mut signals);
    }
    args.count(&opts, &mut signals)
}

impl Args {
    fn is_system_wide(&self) -> bool {
        self.all || self.cpu.is_some()
    }

    fn run_opts(&self, events: Vec<EventSpec>) -> anyhow::Result<RunOpts> {
        let cpus = self.cpu.as_deref().map(online_cpu_list).transpose()?;
        let whom = if self.per_thread && self.all {
            Whom::Threads(every_thread())
        } else if self.is_system_wide()
            || (self.groups_by_cpu() && self.pid.is_empty() && self.command.is_empty())
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
            bail!("--per-thread needs -p PID, -t TID or -a: the threads must be there when counting begins");
        }
        Ok(RunOpts {
            events,
            target: Target { whom, cpus, command: self.command.clone(), cgroup: None },
            by: self.aggregation(),
            all_threads: self.per_thread && self.all,
            no_inherit: self.no_inherit || self.per_thread,
            delay: self.delay.unwrap_or_default(),
            unscaled: self.no_scale,
            control: self.control.clone(),
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
            Some(separator) => {
                Form::Csv(if separator == "\\t" { "\t".to_owned() } else { separator.clone() })
            }
            None if self.json => Form::Json,
            None => Form::Text,
        };
        let big_num = form == Form::Text && !self.no_big_num && (self.big_num || locale_groups_digits());
        Style {
            form,
            big_num,
            repeated: self.repeat > 1,
            metric_only: self.metric_only,
            summary: self.summary && !self.no_csv_summary,
        }
    }

    /// With `has_failed` an error of writing is reported and noted there; else it is the writer's.
    fn open_output(&self, has_failed: Option<Rc<Cell<bool>>>) -> anyhow::Result<Box<dyn Write>> {
        let path = match (&self.output, self.log_fd) {
            (Some(path), _) if !self.file.record => path.clone(),
            (None, Some(fd)) => PathBuf::from(format!("/proc/self/fd/{fd}")),
            _ if self.quiet => return Ok(Box::new(io::sink())),
            _ => return Ok(Box::new(out::stderr())),
        };
        let appends = self.append || self.log_fd.is_some();
        let file = if appends { append_export(&path) } else { create_export(&path) };
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut file: Box<dyn Write> = match has_failed {
            Some(has_failed) => Box::new(CountFile::new(file, path, has_failed)),
            None => Box::new(BufWriter::new(file)),
        };
        if self.log_fd.is_none() {
            writeln!(file, "# started on {}\n", started())?;
        }
        Ok(file)
    }

    fn count(&self, opts: &RunOpts, signals: &mut StopSignals) -> anyhow::Result<ExitCode> {
        let has_failed = Rc::new(Cell::new(false));
        let mut out = self.open_output(Some(has_failed.clone()))?;
        let mut total = self.new_total();
        let whose = Whose::of(opts);
        let mut to_file = self.to_file(opts)?;
        let mut printed_header = false;
        let mut runs = 0;
        loop {
            shell(self.sync.then_some("sync"), signals)?;
            shell(self.pre.as_deref(), signals)?;
            let outcome = run_once(opts, signals, &mut |interval: &Outcome| {
                to_file.push(interval, false)?;
                if self.interval_clear {
                    write!(out, "\x1b[H\x1b[2J")?;
                }
                if self.interval_clear || !std::mem::replace(&mut printed_header, true) {
                    total.style.interval_header(opts.by, &mut out)?;
                }
                total.print_interval(&interval.run, &mut out)
            })?;
            shell(self.post.as_deref(), signals)?;
            let interrupted = outcome.interrupted.is_some();
            if opts.interval.is_none() {
                to_file.push(&outcome, true)?;
            }
            total.push(outcome);
            runs += 1;
            let prints = opts.interval.is_none() || self.summary;
            if self.repeat == 0 && prints {
                // Endless runs have no mean: each is shown by itself.
                total.print(&whose, &mut out)?;
                out.flush()?;
            }
            if interrupted || runs == self.repeat {
                if self.repeat > 0 && prints {
                    total.print(&whose, &mut out)?;
                }
                break;
            }
            if self.repeat == 0 {
                total = self.new_total();
            }
        }
        out.flush()?;
        to_file.finish()?;
        // The command's own status, except for success.
        let code = total.exit_code();
        Ok(if has_failed.get() && code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code })
    }

    fn new_total(&self) -> Total {
        Total::new(self.style(), self.repeat > 1, self.table)
    }

    fn compare(&self, a: &RunOpts, b: &str, signals: &mut StopSignals) -> anyhow::Result<ExitCode> {
        let command = split_command(b);
        if command.is_empty() || a.target.command.is_empty() {
            bail!("--vs compares two commands: tally stat --vs 'COMMAND B' -- COMMAND A");
        }
        let mut b_opts = a.clone();
        b_opts.target.command = command;
        let pairs = if self.repeat > 1 { self.repeat } else { 10 };
        let (comparison, whole) = run_pairs(a, &b_opts, pairs, signals)?;
        let mut out = self.open_output(None)?;
        let a_name = joined(&a.target.command);
        comparison.print((&out::harmless(&a_name), &out::harmless(b)), self.style().big_num, &mut out)?;
        out.flush()?;
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(130) })
    }
}

fn shell(command: Option<&str>, signals: &StopSignals) -> anyhow::Result<()> {
    let Some(command) = command else { return Ok(()) };
    let mut shell = Child::fork(&["sh", "-c", command], signals.reader()).context("cannot run sh")?;
    shell.exec().context("cannot run sh")?;
    match shell.wait().context("cannot run sh")? {
        ExitKind::Code(0) => Ok(()),
        ExitKind::Code(code) => bail!("'{command}' failed: exit status: {code}"),
        ExitKind::Signal(number) => bail!("'{command}' failed: signal: {number}"),
    }
}

/// All threads that run now, but our own.
fn every_thread() -> Vec<u32> {
    let own = std::process::id();
    let pids = record::proc::pids().into_iter().filter(|&pid| pid != own);
    pids.flat_map(|pid| record::proc::threads(pid).unwrap_or_default()).collect()
}

/// The moment as `-o` files note it.
fn started() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    crate::text::header::date::utc(now.map_or(0, |since| since.as_secs()))
}

/// Does the locale of numbers set thousands off? All but the plain C locale are taken to do so, by commas.
fn locale_groups_digits() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_NUMERIC")).or_else(|| set("LANG"));
    locale.is_some_and(|l| l != "C" && l != "POSIX" && !l.starts_with("C."))
}
