//! `tally sched`: the scheduler's tracepoints, recorded and shown as perf sched does.

use crate::cmd::Command;
use crate::cmd::report::values::{cpus_of, parse_times};
use crate::events::sched::SchedReader;
use crate::flags::Flags;
use crate::text::sched::latency::{LatencyKey, LatencyRows, LatencyTable};
use crate::text::sched::map::MapText;
use crate::text::sched::timehist::{TimehistOpts, TimehistText};
use crate::{reading::load, terminal::pager};
use ::record::opts::CallGraph;
use anyhow::bail;
use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what the scheduler did: waits for a CPU, every switch, who was on which CPU (perf sched)
///
/// For why threads wait, with stacks and wakers, use `tally run` or `tally record --off-cpu` and `tally report --wall`.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tally sched record -- sleep 5         the whole machine, for five seconds
  tally sched latency                   longest waits for a CPU, by program
  tally sched timehist --comm app       a line for each switch of app
  tally sched timehist -s               CPU times by thread
  tally sched map                       who was on which CPU")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Record(RecordArgs),
    #[command(alias = "lat")]
    Latency(LatencyArgs),
    Timehist(TimehistArgs),
    Map(MapArgs),
}

/// Record the scheduler's tracepoints on all CPUs into perf.data
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally sched record -- sleep 5            five seconds
  tally sched record -g -- make -j4        with the stacks at each switch, while make runs
Flags of tally record can be given too: -o FILE, -m PAGES, -C CPUS …")]
struct RecordArgs {
    #[command(flatten)]
    words: RecordWords,
}

/// Arguments after `record`: they go on to `tally record`.
#[derive(clap::Args)]
pub(super) struct RecordWords {
    /// Flags of tally record, and a command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS|COMMAND")]
    words: Vec<OsString>,
}

impl RecordWords {
    /// Records tracepoints of the whole machine, every one of them; `flags` go before the user's own words.
    pub(super) fn record(self, events: &str, flags: &[&str]) -> anyhow::Result<ExitCode> {
        let fixed = ["tally", "record", "-a", "-c", "1", "-e", events];
        let fixed = fixed.iter().chain(flags).map(OsString::from);
        let words: Vec<OsString> = fixed.chain(self.words).collect();
        let flags = match Flags::try_parse_from(&words) {
            Ok(flags) => flags,
            Err(error) => return Ok(crate::usage_error(&error)),
        };
        let Command::Record(mut record) = flags.command else {
            bail!("give the flags of tally record, or a command")
        };
        // Stacks at every event cost more than all else together.
        if !record.sampling.with_chains && record.sampling.call_graph.is_none() {
            record.sampling.call_graph = Some(CallGraph::None);
        }
        super::record::run(*record)
    }
}

/// The recording to read.
#[derive(clap::Args)]
struct InputArgs {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
    /// Only these CPUs: 0-3,5
    #[arg(short = 'C', long, value_name = "CPUS", visible_alias = "CPU")]
    cpu: Option<String>,
    /// perf's flag; files of others are read anyway
    #[arg(short, long, hide = true)]
    force: bool,
}

/// Show CPU time and waits for a CPU, by program
#[derive(clap::Args)]
#[command(after_help = "\
Count is how often the threads got a CPU, delay is how long they were ready before that.

Examples:
  tally sched latency              longest mean wait first
  tally sched latency -s max       longest single wait first
  tally sched latency -p           threads one by one")]
struct LatencyArgs {
    #[command(flatten)]
    input: InputArgs,
    /// A line for each thread instead of one for each name
    #[arg(short, long)]
    pids: bool,
    /// Sort by these
    #[arg(
        short,
        long,
        value_enum,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "avg,max,switch,runtime"
    )]
    sort: Vec<LatencyKey>,
}

/// Show a line for each switch: how long the thread had waited, and how long it ran
#[derive(clap::Args)]
#[command(after_help = "\
wait time: off the CPU before this run. sch delay: the part of it after the wake-up.
run time: on the CPU.

Examples:
  tally sched timehist                    all switches
  tally sched timehist -t 4711 --state    of one thread, with the state it left in
  tally sched timehist -wn                with wake-ups and the next thread
  tally sched timehist -s                 only CPU times by thread")]
#[allow(clippy::struct_excessive_bools)]
struct TimehistArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Only CPU times by thread
    #[arg(short, long)]
    summary: bool,
    /// The switches, then CPU times by thread
    #[arg(short = 'S', long)]
    with_summary: bool,
    /// Wake-ups too
    #[arg(short, long)]
    wakeups: bool,
    /// The thread that comes after
    #[arg(short, long)]
    next: bool,
    /// The state in which the thread left: R runnable, S asleep, D blocked …
    #[arg(long)]
    state: bool,
    /// Call chains, where recorded (the default; perf's flag)
    #[arg(short = 'g', long, hide = true)]
    call_graph: bool,
    /// No call chains
    #[arg(short = 'G', long)]
    no_call_graph: bool,
    /// Functions of a call chain
    #[arg(long, value_name = "N", default_value_t = 5)]
    max_stack: usize,
    /// Only these threads
    #[arg(short, long, value_name = "TIDS", value_delimiter = ',')]
    tid: Vec<i32>,
    /// Only threads of these processes
    #[arg(short, long, value_name = "PIDS", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Only threads with these names
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    comm: Vec<String>,
    /// Only this time: FROM,TO in s of the recording's clock, or percents as 10%-20%
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
}

/// Show who was on which CPU after each switch
#[derive(clap::Args)]
#[command(after_help = "\
A column for each CPU, * at the one that switched. The line in which a thread's two
letters appear first names it; a point is an idle CPU.

Examples:
  tally sched map
  tally sched map -C 0,1        two CPUs")]
struct MapArgs {
    #[command(flatten)]
    input: InputArgs,
}

/// # Errors
/// If nothing can be recorded, or the recording can't be read or has no switches.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Record(args) => args.words.record(EVENTS, &[]),
        What::Latency(args) => latency(&args),
        What::Timehist(args) => timehist(&args),
        What::Map(args) => map(&args),
    }
}

/// Events that the views read; stacks only on demand.
const EVENTS: &str = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,sched:sched_stat_runtime,\
                      sched:sched_migrate_task,sched:sched_process_fork";

fn latency(args: &LatencyArgs) -> anyhow::Result<ExitCode> {
    let (path, map) = (&args.input.input, load::open(&args.input.input)?);
    let file = load::parse(path, &map)?;
    let cpus = cpus_of(args.input.cpu.as_deref(), &file)?;
    let mut table = LatencyTable::new(cpus);
    SchedReader::new(path, &file)?.read(&map, 0, &mut table)?;
    pager::start();
    let rows = if args.pids { LatencyRows::Threads } else { LatencyRows::Programs };
    table.print(rows, &args.sort)?;
    Ok(ExitCode::SUCCESS)
}

fn timehist(args: &TimehistArgs) -> anyhow::Result<ExitCode> {
    let (path, map) = (&args.input.input, load::open(&args.input.input)?);
    let file = load::parse(path, &map)?;
    let span = file.features().sample_time_ns;
    let times = args.time.as_deref().map(|text| parse_times(text, span)).transpose()?.unwrap_or_default();
    if times.len() > 1 {
        bail!("--time: one span at a time");
    }
    let reader = SchedReader::new(path, &file)?;
    let chains = reader.has_chains() && !args.no_call_graph && !args.summary;
    // The scheduler's own functions at the leaf are left out.
    let frames = if chains { args.max_stack.saturating_add(2) } else { 0 };
    let opts = TimehistOpts {
        lines: !args.summary,
        summary: args.summary || args.with_summary,
        wakeups: args.wakeups,
        next: args.next,
        state: args.state,
        cpus: cpus_of(args.input.cpu.as_deref(), &file)?,
        tids: args.tid.clone(),
        pids: args.pid.clone(),
        comms: args.comm.clone(),
        within_ns: times.first().copied(),
        all_cpus: file.features().nr_cpus.map_or(0, |cpus| cpus.available),
    };
    pager::start();
    let mut text = TimehistText::new(opts)?;
    reader.read(&map, frames, &mut text)?;
    text.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn map(args: &MapArgs) -> anyhow::Result<ExitCode> {
    let (path, map) = (&args.input.input, load::open(&args.input.input)?);
    let file = load::parse(path, &map)?;
    let cpus = cpus_of(args.input.cpu.as_deref(), &file)?;
    let reader = SchedReader::new(path, &file)?;
    pager::start();
    let mut text = MapText::new(cpus);
    reader.read(&map, 0, &mut text)?;
    text.finish()?;
    Ok(ExitCode::SUCCESS)
}
