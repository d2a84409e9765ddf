//! `tally trace`: system calls as they happen, or their sums.

use crate::flags::recording::{self, ProcessArg, TargetArgs};
use crate::terminal::out;
use crate::text::view_form::ViewForm;
use crate::trace::by_function::{self, CallerSums};
use crate::trace::follow::TracedThreads;
use crate::trace::printer::{CallPrinter, ShownCalls, key_of};
use crate::trace::session::{TraceEnd, TraceSession};
use crate::trace::summary::CallSummary;
use anyhow::Context;
use display::number::grouped;
use record::Target;
use record::scratch::ScratchFolder;
use record::sys::time::Clock;
use record::syscalls::{SyscallEngine, SyscallOptions, SyscallScope};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use syscalls::filter::{CallFilter, FilterError};
use syscalls::table::CallTable;

/// Show each system call as it happens: arguments, result, duration; or their sums
///
/// Processes are not stopped: BPF programs note each call and its return. Lines are in the order in which calls return.
#[derive(clap::Args)]
#[command(after_help = "\
Each line: start in ms, duration, thread/TID, call = result.

Examples:
  tally trace -- ./app               every call of a command and its children
  tally trace -p 1234                of a running process; Ctrl-C ends it
  tally trace -s -- git status       only sums, by thread and call
  tally trace -s --by function -- ./app   only sums, by calling function
  tally trace -e %file -- ./app      only calls that name files
  tally trace -d 10 -p 1234          only calls that last 10 ms or more
  tally trace -e '!futex' -a         of all processes, all but futex
  tally trace -z -- ./app            only calls that fail
  tally trace -o calls.txt -- ./app  into a file")]
pub struct Args {
    /// Target of the recording.
    #[command(flatten)]
    pub target: TraceTargetArgs,
    /// Only these calls: names, patterns like epoll_*, groups like %file and %network, ! for all others
    #[arg(short = 'e', long, alias = "expr", alias = "event", value_name = "CALL,…")]
    pub filter: Vec<String>,
    /// Only calls that last at least MS milliseconds
    #[arg(short, long, value_name = "MS", default_value_t = 0.0)]
    pub duration: f64,
    /// Only calls that failed
    #[arg(short = 'z', long, conflicts_with = "summary", alias = "failure")]
    pub failed: bool,
    /// Only sums at the end; they are made in the kernel, so none is lost
    #[arg(short, long)]
    pub summary: bool,
    /// Sums after the lines
    #[arg(short = 'S', long, conflicts_with = "summary")]
    pub with_summary: bool,
    /// With -s: sum up by thread or by calling function
    ///
    /// (function: the stack of every 29th call is recorded, which costs 0.25 us per call; -s alone costs 0.15 us)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = SummedBy::Thread, requires = "summary")]
    pub by: SummedBy,
    /// Threads or functions in the sums
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// One JSON object per call, or one for the sums
    #[arg(long)]
    pub json: bool,
    /// Bytes of buffers to show, up to 512
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub strsize: u16,
    /// Memory for calls that are not printed yet, as 64M
    #[arg(short, long, value_name = "SIZE", default_value = "32M", value_parser = crate::flags::recording::parse_bytes)]
    pub mmap_pages: u64,
}

/// Grouping of the sums.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummedBy {
    /// Each thread.
    Thread,
    /// Each function that makes system calls.
    Function,
}

/// Flags that select the traced tasks.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Target")]
pub struct TraceTargetArgs {
    /// Processes to attach to, with their children
    #[arg(short, long, value_name = "PID|NAME|FILE,…", value_delimiter = ',')]
    pub pid: Vec<ProcessArg>,
    /// Child processes as well (the default)
    #[arg(long, overrides_with = "no_children", hide = true)]
    pub children: bool,
    /// With -p: without child processes that run already
    #[arg(long, overrides_with = "children")]
    pub no_children: bool,
    /// Threads to attach to
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// The whole machine
    #[arg(short, long)]
    pub all_cpus: bool,
    /// Command to start; with -p, -t or -a its run time is the duration
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

impl TraceTargetArgs {
    fn of_recording(&self) -> TargetArgs {
        TargetArgs {
            pid: self.pid.clone(),
            children: self.children,
            no_children: self.no_children,
            tid: self.tid.clone(),
            all_cpus: self.all_cpus,
            command: self.command.clone(),
            ..TargetArgs::default()
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If system calls can't be traced, or the output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // perf's word for a file to read later.
    anyhow::ensure!(
        args.target.command.first().is_none_or(|word| word != "record"),
        "tally trace writes text, or --json; for a perf.data: tally record -e raw_syscalls:sys_enter,raw_syscalls:sys_exit"
    );
    let table = CallTable::of_this_processor();
    let filter = CallFilter::parse(&args.filter, &table).map_err(|error| unknown(&error, &table))?;
    let target = args.target.of_recording().target_with_children()?;
    if args.by == SummedBy::Function {
        return add_up_by_function(&args, target, &filter, &table);
    }
    let specs = table.specs(&|nr| filter.wants(nr), args.strsize.min(512));
    let options = SyscallOptions {
        min_ns: (args.duration.max(0.0) * 1e6) as u64,
        only_sums: args.summary,
        ring_bytes: u32::try_from(args.mmap_pages.clamp(1 << 16, 1 << 30).next_power_of_two())
            .unwrap_or(1 << 30),
    };
    let mut session = TraceSession::start(&target, &|scope: &SyscallScope| {
        SyscallEngine::start(scope, &specs, options.clone())
    })?;
    let begin_ns = Clock::Monotonic.now_ns();
    let form = ViewForm::with_json(args.json);
    let shown = ShownCalls { filter, min_ns: options.min_ns, only_failed: args.failed, form, begin_ns };
    let end = if args.summary {
        add_up(&args, &mut session, &table)?
    } else {
        print(&args, &mut session, shown, &table)?
    };
    note_end(&end);
    Ok(ExitCode::from(end.status))
}

/// Suggestions for a word that selects nothing.
fn unknown(error: &FilterError, table: &CallTable) -> anyhow::Error {
    let groups = syscalls::filter::group_names().join(" ");
    let FilterError::UnknownCall(word) = error else {
        return anyhow::anyhow!("{error}; there are {groups}");
    };
    let nearest = record::event::nearest(word, table.names().map(|(_, name)| name));
    let hint = nearest.first().map_or_else(String::new, |name| format!("; nearest: {name}"));
    anyhow::anyhow!("{error}{hint} (groups: {groups})")
}

/// Where the results go.
fn output(args: &Args) -> anyhow::Result<Box<dyn Write>> {
    let Some(path) = &args.output else { return Ok(Box::new(out::stdout())) };
    let file = record::output_file::create_export(path);
    let file = file.with_context(|| format!("can't write {}", path.display()))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 16, file)))
}

fn print(
    args: &Args,
    session: &mut TraceSession,
    shown: ShownCalls,
    table: &CallTable,
) -> anyhow::Result<TraceEnd> {
    let mut printer = CallPrinter::new(table, shown, output(args)?);
    let end = session.print(&mut printer)?;
    if args.with_summary {
        let sums = if args.json {
            format!("{}\n", printer.summary.json(table, &mut printer.threads, end.losses.records))
        } else {
            format!("\n{}", printer.summary.text(table, &mut printer.threads, args.rows))
        };
        printer.write(&sums)?;
    }
    Ok(end)
}

fn add_up(args: &Args, session: &mut TraceSession, table: &CallTable) -> anyhow::Result<TraceEnd> {
    let mut threads = TracedThreads::default();
    let mut to = output(args)?;
    let end = session.add_up(&mut threads)?;
    let mut summary = CallSummary::default();
    session.waiting(&threads).iter().for_each(|call| summary.add_open(key_of(call)));
    for (key, sum) in session.engine().sums().map_err(|why| anyhow::anyhow!("{}", why.short()))? {
        summary.add(key, sum);
    }
    let text = if args.json {
        format!("{}\n", summary.json(table, &mut threads, end.losses.sums + end.losses.threads))
    } else {
        summary.text(table, &mut threads, args.rows)
    };
    to.write_all(text.as_bytes())?;
    to.flush()?;
    Ok(end)
}

/// Records stacks into a file of its own, and sums them up.
fn add_up_by_function(
    args: &Args,
    target: Target,
    filter: &CallFilter,
    table: &CallTable,
) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(args.duration <= 0.0, "--by function has no durations of single calls: leave out -d");
    let folder = ScratchFolder::private("trace").context("no place for the stacks")?;
    let path = folder.path().join("perf.data");
    let summary = match record::record(&by_function::options(target, &path)?) {
        Ok(summary) => summary,
        Err(error) => return Ok(recording::failed(&error)),
    };
    let sums = CallerSums::read(&path, filter)?;
    let text = if args.json { format!("{}\n", sums.json(table)) } else { sums.text(table, args.rows) };
    let mut to = output(args)?;
    to.write_all(text.as_bytes())?;
    to.flush()?;
    Ok(recording::exit_code(&summary))
}

/// Gaps in the results.
fn note_end(end: &TraceEnd) {
    let losses = [
        (end.losses.records, "calls lost: the reader was too slow (-m 256M keeps more, -s loses none)"),
        (end.losses.sums, "calls not counted: too many threads"),
        (end.losses.threads, "calls of threads that the kernel had no memory to follow"),
    ];
    for (count, what) in losses.iter().filter(|(count, _)| *count > 0) {
        out::note(&format!("tally trace: {} {what}", grouped(*count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_matches_nothing_is_refused_with_the_nearest_name() {
        let table = CallTable::of_this_processor();
        let refused = |word: &str| {
            let error = CallFilter::parse(&[word.to_owned()], &table).expect_err("unknown");
            unknown(&error, &table).to_string()
        };
        assert!(refused("opnat").contains("nearest: openat"), "{}", refused("opnat"));
        assert!(refused("%nosuch").contains("%network"), "{}", refused("%nosuch"));
    }
}
