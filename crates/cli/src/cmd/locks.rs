//! `tally locks`: which locks threads wait for, how long, and who holds them.

use crate::reading::damage;
use crate::reading::load;
use crate::reading::wall::{self, WaitArgs};
use crate::terminal::{out, pager};
use display::fit::{cut, hang};
use display::number::{count_of, duration_ns, grouped};
use display::shorten::arrows;
use display::term;
use exchange::rows;
use profile::Profile;
use profile::off_cpu::OffCpuSource;
use profile::table::FrameId;
use profile::verdict::lock_words;
use profile::view::locks::{LockHolder, LockRow, contended, kernel_taker, lock_places, locks};
use profile::view::wall::place_names;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use symbols::data_symbols::DataSymbols;

/// Show the locks of a recording: futexes by address, file locks and kernel locks, with waiters and who released them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally record --off-cpu -- ./app && tally locks
  tally locks -i perf.data --min-block 1ms    only waits of a millisecond and more
  tally record -a -g -e lock:contention_begin,lock:contention_end -- sleep 5 && tally locks
  tally locks --idle                          also condition variables of idle pools
  tally locks --json | jq '.rows[0].lock'     for scripts")]
pub struct Args {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// Which waits.
    #[command(flatten)]
    pub waits: WaitArgs,
    /// Locks to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// As JSON, all locks
    #[arg(long)]
    pub json: bool,
    /// Write at most N rows of JSON, and what the others add up to (0: all)
    #[arg(long, value_name = "N", default_value_t = 0, requires = "json")]
    pub max_lines: usize,
}

/// Runs the command.
///
/// # Errors
/// If the recording can't be read or has nothing about waits.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    let recording = wall::read(&args.input, &map, &file)?;
    let profile = &recording.profile;
    if profile.off_cpu.source.is_none() && profile.off_cpu.contentions.is_empty() {
        let record = "record with tally record --off-cpu (or the events lock:contention_begin and _end)";
        return Err(damage::lacks(&args.input, "no waits in it", record));
    }
    let opts = args.waits.opts(0);
    let (rows, contended) = (locks(profile, &opts), contended(profile, &opts));
    let data = DataSymbols::of(&file);
    let named = |row: &LockRow| {
        let address = row.address.filter(|_| !row.kernel);
        address.and_then(|address| data.name(profile, &recording.files, row.pid, address))
    };
    if args.json {
        let all: Vec<LockRow> = rows.into_iter().chain(contended).collect();
        let value =
            rows::locks(profile, &all, args.max_lines, &|row| what(profile, row, named(row).as_deref()));
        out::rows(&value, args.max_lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    pager::start();
    let mut out = out::stdout();
    if profile.off_cpu.source == Some(OffCpuSource::Looks) {
        writeln!(out, "estimated by looks at /proc: short waits are missing, and several may count as one")?;
    }
    if rows.is_empty() && contended.is_empty() {
        writeln!(out, "no thread waited for a lock")?;
    }
    for row in rows.iter().take(args.rows) {
        write_row(&mut out, profile, row, named(row).as_deref())?;
    }
    if !contended.is_empty() {
        let half = profile.off_cpu.half_contentions;
        let half = if half == 0 {
            String::new()
        } else {
            format!(" ({} begins or ends were not seen)", grouped(half))
        };
        writeln!(out, "\nKERNEL LOCKS by address, spinning included{half}")?;
    }
    for row in contended.iter().take(args.rows) {
        write_row(&mut out, profile, row, None)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn write_row(
    out: &mut dyn Write,
    profile: &Profile,
    row: &LockRow,
    name: Option<&str>,
) -> std::io::Result<()> {
    let line = |text: String| cut(&arrows(&out::harmless(&text)), term::names_width().max(60));
    writeln!(out, "{}", line(format!("{:>10}  {}", duration_ns(row.wait_ns), what(profile, row, name))))?;
    let lengths = format!(
        "{:>10}  {} of {}: p50 {}, p99 {}, max {}",
        "",
        count_of(row.lengths.count(), "wait", "waits"),
        count_of(row.waiters.len() as u64, "thread", "threads"),
        duration_ns(row.lengths.percentile_ns(50.0)),
        duration_ns(row.lengths.percentile_ns(99.0)),
        duration_ns(row.lengths.max_ns()),
    );
    writeln!(out, "{}", hang(&lengths, 12, term::names_width().max(60)))?;
    for place in lock_places(profile, row) {
        writeln!(out, "{}", line(format!("{:>10}  waiting in   {place}", "")))?;
    }
    if let Some(holder) = &row.holder {
        let place = user_names(profile, &holder.frames).join(" < ");
        let thread = if holder.tid == 0 { String::new() } else { format!(" {}", holder.tid) };
        let text =
            format!("{:>10}  released by  {}{thread} ({} %)  {place}", "", holder.name, holder.percent);
        writeln!(out, "{}", line(text))?;
    }
    Ok(())
}

/// The same for the page.
pub(crate) fn lock_value(profile: &Profile, row: &LockRow, name: Option<&str>) -> Value {
    let by = |holder: &LockHolder| {
        let place = user_names(profile, &holder.frames).join(" < ");
        json!({ "name": holder.name, "tid": holder.tid, "percent": holder.percent, "place": place })
    };
    json!({
        "what": out::harmless(&what(profile, row, name)), "wait": row.wait_ns, "count": row.lengths.count(),
        "p50": row.lengths.percentile_ns(50.0), "p99": row.lengths.percentile_ns(99.0), "max": row.lengths.max_ns(),
        "threads": row.waiters, "kernel": row.kernel,
        "place": lock_places(profile, row).first(), "holder": row.holder.as_ref().map(by),
    })
}

/// Which lock it is, as far as known: first its name in findings.
fn what(profile: &Profile, row: &LockRow, name: Option<&str>) -> String {
    let kind = row.kind.unwrap_or("kernel lock");
    if let Some(words) = &row.words {
        let kind = if row.kernel { format!("{kind}: ") } else { String::new() };
        return format!("{kind}{words}{}", owners(row));
    }
    let taker = || row.place.and_then(|callsite| kernel_taker(profile, callsite));
    match row.address {
        Some(address) if row.kernel => {
            let taker = taker().map_or_else(String::new, |taker| format!(": {taker}"));
            format!("{kind} {address:#x}{taker}")
        }
        None if row.kernel => kind.to_owned(),
        None if row.kind.is_some() => file_lock(kind, row),
        Some(address) => {
            let pid = row.pid;
            let futex = name.map_or_else(
                || format!("futex {address:#x} of process {pid}"),
                |name| format!("the variable {name} ({address:#x}, process {pid})"),
            );
            let lock = row.place.and_then(|callsite| lock_words(profile, callsite));
            lock.map_or_else(|| futex.clone(), |lock| format!("{lock}: {futex}"))
        }
        None => format!("futexes of process {}", row.pid),
    }
}

/// The process that has the lock, or the number of those that wait for it.
fn owners(row: &LockRow) -> String {
    match row.processes.len() as u64 {
        _ if row.pid != 0 => format!(", process {}", row.pid),
        0 | 1 if row.kernel => String::new(),
        _ => waiting_processes(row),
    }
}

fn waiting_processes(row: &LockRow) -> String {
    format!(" ({})", count_of(row.processes.len() as u64, "process", "processes"))
}

fn file_lock(kind: &str, row: &LockRow) -> String {
    let pid = row.pid;
    match (row.descriptor, &row.file) {
        (Some(descriptor), Some(file)) => {
            format!("{kind} of {file} (descriptor {descriptor} of process {pid})")
        }
        (Some(descriptor), None) => format!("{kind}, descriptor {descriptor} of process {pid}"),
        (None, Some(file)) => format!("{kind} of {file}{}", waiting_processes(row)),
        (None, None) => format!("{kind}s of process {pid}"),
    }
}

/// The innermost named functions, leaf first; of user code if there is some.
fn user_names<'p>(profile: &'p Profile, frames: &[FrameId]) -> Vec<&'p str> {
    let kernel = |frame: FrameId| profile.dsos.of(profile.frames.of(frame).dso).level == 'k';
    let user: Vec<FrameId> = frames.iter().copied().filter(|&frame| !kernel(frame)).collect();
    let frames = if user.is_empty() { frames.to_vec() } else { user };
    frames.into_iter().flat_map(|frame| place_names(profile, frame)).take(5).collect()
}
