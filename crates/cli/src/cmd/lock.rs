//! `tally lock`: waits for the kernel's own locks, recorded and shown as perf lock does.

use crate::cmd::sched::RecordWords;
use crate::reading::tracepoints::{NeededTracepoint, TracepointReader};
use crate::text::lock::{LockKey, LockTable, LockUnit};
use crate::{reading::load, terminal::pager};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show waits for the kernel's own locks: spinlocks, mutexes, rw-semaphores (perf lock)
///
/// For the locks of programs (futexes), use `tally run` or `tally record --off-cpu` and `tally locks`.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tally lock record -- sleep 5       the whole machine, for five seconds
  tally lock contention              waits by the function that takes the lock
  tally lock contention -t           by thread
  tally lock contention -l -k max    by lock, longest wait first")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Record(RecordArgs),
    #[command(visible_aliases = ["con", "report"])]
    Contention(ContentionArgs),
}

/// Record the waits for the kernel's locks on all CPUs into perf.data
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally lock record -- make -j4          while make runs
  tally lock record -o lock.data -- sleep 5")]
struct RecordArgs {
    #[command(flatten)]
    words: RecordWords,
}

/// Show how long threads waited for the kernel's locks
#[derive(clap::Args)]
#[command(after_help = "\
The caller is the first function that is not part of the lock itself. Times are from
lock:contention_begin to lock:contention_end.

Examples:
  tally lock contention              by caller, most time first
  tally lock contention -Y mutex     of mutexes only
  tally lock contention -E 10 -k contended")]
struct ContentionArgs {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
    /// By thread
    #[arg(short, long, conflicts_with = "lock_addr")]
    threads: bool,
    /// By the lock's address
    #[arg(short, long)]
    lock_addr: bool,
    /// Sort by this
    #[arg(short, long, value_enum, value_name = "KEY", default_value_t = LockKey::WaitTotal)]
    key: LockKey,
    /// Only this many lines
    #[arg(short = 'E', long, value_name = "N")]
    entries: Option<usize>,
    /// Only locks of these types: spinlock, mutex, rwsem …
    #[arg(short = 'Y', long, value_name = "TYPES", value_delimiter = ',')]
    type_filter: Vec<String>,
    /// perf's flag; files of others are read anyway
    #[arg(short, long, hide = true)]
    force: bool,
}

/// Begin and end of a wait.
const EVENTS: &str = "lock:contention_begin,lock:contention_end";

/// Frames of a stack that are looked at for the caller.
const FRAMES: usize = 16;

/// # Errors
/// If nothing can be recorded, or the recording can't be read or has no waits for locks.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        // Only stacks show who takes the lock, and the kernel's part is enough for that.
        What::Record(args) => args.words.record(EVENTS, &["--call-graph", "fp", "--kernel-callchains"]),
        What::Contention(args) => contention(&args),
    }
}

fn contention(args: &ContentionArgs) -> anyhow::Result<ExitCode> {
    let (path, map) = (&args.input, load::open(&args.input)?);
    let file = load::parse(path, &map)?;
    let needed = NeededTracepoint { name: "lock:contention_begin", record: "tally lock record" };
    let tracepoints = TracepointReader::new(path, &file, needed)?;
    let unit = match (args.threads, args.lock_addr) {
        (true, _) => LockUnit::Thread,
        (_, true) => LockUnit::Address,
        _ => LockUnit::Caller,
    };
    let mut table = LockTable::new(unit, args.type_filter.clone());
    tracepoints.read(&map, FRAMES, &mut table)?;
    pager::start();
    table.print(args.key, args.entries)?;
    Ok(ExitCode::SUCCESS)
}
