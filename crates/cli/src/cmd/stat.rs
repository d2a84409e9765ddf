//! `tally stat`: count events over a run.

mod counting;
mod events;
mod output;
mod recording;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use record::control::ControlPaths;
use record::opts::Delay;
use record::stop_signals::StopSignals;

use crate::flags::event_args::{EventArgs, explain};
use crate::flags::perf_compat::{PerfCompatFlags, StatFlags};
use crate::flags::recording::parse_delay;
use counts::Aggregation;
pub use recording::spelled_out;

/// Count events over a run of a command, or of what runs already
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally stat ./app                            the usual counts, and metrics from them
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
    /// Flags of perf that we don't have.
    #[command(flatten)]
    perf: PerfCompatFlags<StatFlags>,
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
    /// Compare with this command: run both alternately (-r times, default 10), show B / A with 95 % intervals
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
/// Anything that cannot be opened, run or written.
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
}
