//! `tally io`: requests to disks, in the queue and in the device.

use crate::events::io::{descendants, device, record as recorder, trace};
use crate::flags::recording::{self, TargetArgs};
use crate::flags::shown_names;
use crate::html;
use crate::reading::damage;
use crate::reading::load::{self, Progress};
use crate::terminal::status_line::{self, StatusLine};
use crate::terminal::{out, pager};
use anyhow::Context;
use display::term;
use exchange::text::io::{self as text, IoTextOpts};
use exchange::{rows, svg};
use perfdata::PerfData;
use profile::session::{Dimensions, SessionOpts};
use profile::source::Want;
use profile::tracepoints::block_io::Request;
use profile::view::io::{IoOpts, files_of, io};
use profile::view::ranking::RankRows as _;
use record::opts::{EndsBy, RecordOpts, SampleWatch};
use record::summary::{Notice, RunSummary};
use record::sys::SignalReader;
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use symbols::{LoadOpts, Recording, UnnamedCode};

/// Show requests to disks: how long they wait in the queue and in the device, which files they are for, who causes them
///
/// With -p, -a or a command, the block layer's events are recorded first (on the whole machine: who finishes a
/// request is not who began it). Without, a recording is read, whoever made it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally io -- ./app                   the requests of a command and its children
  tally io -a -- sleep 10             the whole machine, for ten seconds
  tally io -p 1234 --trace            a line for each request of a process; Ctrl-C ends it
  tally io --device vda --heat h.svg  of the recording made last, one disk, with a heat map to look at
  tally io --json -- ./app            the numbers for scripts (docs/formats/io.md)
  perf record -a -g -e block:block_rq_insert,block:block_rq_issue,block:block_rq_complete sleep 5
  tally io -i perf.data               what stock perf recorded")]
pub struct Args {
    /// Target of the recording.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Read this recording, or without -p, -a and command the one made last
    #[arg(short = 'I', long, short_alias = 'i', value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Write the recording here
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub output: PathBuf,
    /// Only this disk: vda, /dev/vda or 254:0
    #[arg(long, value_name = "DISK")]
    pub device: Option<String>,
    /// A line for each request, as it is done
    #[arg(long)]
    pub trace: bool,
    /// Write a heat map here as well (SVG)
    #[arg(long, value_name = "FILE")]
    pub heat: Option<PathBuf>,
    /// Write a page for a browser as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the numbers as JSON, to standard output without FILE, and no text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          conflicts_with = "trace")]
    pub json: Option<PathBuf>,
    /// Rows per list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
}

/// Columns of the heat map as SVG.
const HEAT_COLUMNS: usize = 200;

/// Runs the command.
///
/// # Errors
/// If nothing can be recorded or read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dev = args.device.as_deref().map(device::parse).transpose()?;
    if let Some(input) = &args.input {
        show(&args, dev, input, None)?;
        return Ok(ExitCode::SUCCESS);
    }
    let target = args.target.target()?;
    if target.whom == record::Whom::Command && target.command.is_empty() {
        show(&args, dev, Path::new("perf.data"), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    match record_it(&args, dev, recorder::options(target, &args.output)?)? {
        Ok(summary) if args.trace => {
            let lost = summary.lost.lost_records + summary.lost.lost_samples;
            let file = args.output.display();
            out::note(&format!("[ tally io: {lost} records lost; sums and histograms: tally io -i {file} ]"));
            Ok(recording::exit_code(&summary))
        }
        Ok(summary) => {
            let stop = summary.notices.iter().find(|notice| matches!(notice, Notice::WriteStopped(_)));
            stop.into_iter().for_each(|stop| out::complain(&stop.to_string()));
            match show(&args, dev, &args.output, Some(&summary)) {
                // A recording that was cut short there may have nothing to show: that has been reported.
                Err(_) if stop.is_some() => {}
                shown => shown?,
            }
            Ok(recording::exit_code(&summary))
        }
        Err(error) => Ok(recording::failed(&error)),
    }
}

/// Records; with `--trace`, prints meanwhile.
fn record_it(
    args: &Args,
    dev: Option<u32>,
    mut opts: RecordOpts,
) -> anyhow::Result<Result<RunSummary, record::Error>> {
    opts.observers.on_notice = |line| out::note(line);
    opts.observers.on_progress = status_line::advance;
    if !args.trace {
        let _status = StatusLine::of(&opts.target);
        return Ok(record::record(&opts));
    }
    let processes = match args.target.pids().as_slice() {
        [] if is_of_command(&args.target) => trace::TracedProcesses::OfCommand(BTreeSet::new()),
        [] => trace::TracedProcesses::All,
        pids => trace::TracedProcesses::Of(pids.iter().copied().collect()),
    };
    let (sender, handed) = channel();
    opts.observers.watch = Some(SampleWatch(sender));
    opts.span.ends_by = EndsBy::SignalsAndStdout;
    let printer = std::thread::Builder::new().spawn(move || {
        let _blocked = SignalReader::leave_to_recording();
        trace::LiveRequests::new(processes, dev).run(&handed, &mut out::stdout())
    });
    let printer = printer.context("can't start a thread that prints requests")?;
    let recorded = record::record(&opts);
    // The printer ends when the last sender is gone.
    drop(opts);
    printer.join().map_err(|_| anyhow::anyhow!("printing failed"))??;
    Ok(recorded)
}

fn show(args: &Args, dev: Option<u32>, path: &Path, summary: Option<&RunSummary>) -> anyhow::Result<()> {
    let map = load::open(path)?;
    let file = load::parse(path, &map)?;
    let dimensions = Dimensions { block_io: true, ..Dimensions::default() };
    let session = SessionOpts { dimensions, ..SessionOpts::default() };
    let opts =
        LoadOpts { session, want: Want::Names, names: shown_names::opts(), unnamed: UnnamedCode::Functions };
    let recording = load::load_file(path, &file, opts, &mut Progress::on_stderr(path, &map))?;
    if recording.profile.block_io.recorded.is_empty() {
        return Err(damage::lacks(path, "no events of the block layer in it", "record with tally io -a"));
    }
    let pids = wanted_pids(args, &file, summary);
    if args.trace {
        return trace_file(&recording, dev, pids.as_ref());
    }
    let view_of = |slices: usize| io(&recording.profile, &IoOpts { dev, pids: pids.clone(), slices });
    let view = view_of(text::columns(term::width()));
    let lost = recording.diagnostics.lost_total();
    let here = device::is_here(&recording.features);
    let device = |dev: u32| device::name(dev, here);
    let lost = lost.records + lost.samples;
    match &args.json {
        Some(file) => out::json(file, &rows::io(&view, &device, lost))?,
        None => {
            let (width, colour) = (term::width(), term::colours_stdout());
            // A recording that has just ended keeps the terminal.
            if summary.is_none() {
                pager::start();
            }
            let mut out = out::stdout();
            text::write(
                &mut out,
                &view,
                &IoTextOpts { width, colour, rows: args.rows.max(1), device: &device, lost },
            )?;
            out.flush()?;
        }
    }
    if let Some(page) = &args.html {
        let view = view_of(HEAT_COLUMNS);
        let title = html::recorded_command(recording.features.cmdline.as_deref().unwrap_or_default());
        let (data, about) = html::of_io(&view, rows::io(&view, &device, lost), &title);
        html::write_file(page, &data, &about)?;
    }
    args.heat.as_ref().map_or(Ok(()), |heat| write_heat(heat, &recording, &view_of(HEAT_COLUMNS)))
}

/// The processes asked for; `None` for all.
fn wanted_pids(args: &Args, file: &PerfData<'_>, summary: Option<&RunSummary>) -> Option<BTreeSet<i32>> {
    let command = summary.and_then(|summary| summary.child_pid).filter(|_| is_of_command(&args.target));
    match (args.target.pids().as_slice(), command) {
        ([], None) => None,
        ([], Some(pid)) => Some(descendants(file, &[pid])),
        (pids, _) => Some(descendants(file, pids)),
    }
}

/// True if the command itself is what shall be shown, not only how long to record.
fn is_of_command(target: &TargetArgs) -> bool {
    let elsewhere = target.all_cpus || target.cpu.is_some() || target.names_cgroup() || target.uid.is_some();
    !elsewhere && target.pid.is_empty() && target.tid.is_empty()
}

/// A line for each request of a recording, in the order they were done.
fn trace_file(recording: &Recording, dev: Option<u32>, pids: Option<&BTreeSet<i32>>) -> anyhow::Result<()> {
    let profile = &recording.profile;
    let begin_ns = profile.time_span_ns.map_or(0, |(begin, _)| begin);
    let here = device::is_here(&recording.features);
    let pid = |request: &Request| profile.task(request.task).pid;
    let wanted = |request: &&Request| {
        dev.is_none_or(|dev| dev == request.dev) && pids.is_none_or(|pids| pids.contains(&pid(request)))
    };
    let done = profile.block_io.requests.iter().filter(|r| r.complete_ns.is_some()).filter(wanted);
    let mut done: Vec<&Request> = done.collect();
    done.rank_by_key(|request| request.complete_ns);
    pager::start();
    let mut out = out::stdout();
    trace::heading(&mut out)?;
    for request in done {
        let comm = profile.strings.of(profile.last_comm(request.task));
        let who = format!("{comm} {}", pid(request));
        let files: Vec<String> = files_of(profile, request).iter().map(|(file, ..)| file.words()).collect();
        let files = files.join(", ");
        trace::line(&mut out, request, trace::LinePlace { who: &who, begin_ns, here, files: &files })?;
    }
    Ok(out.flush()?)
}

fn write_heat(path: &Path, recording: &Recording, view: &profile::view::io::Io) -> anyhow::Result<()> {
    let command = recording.features.cmdline.as_deref().unwrap_or_default().join(" ");
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(record::output_file::create_export(path)?);
        svg::heat::write(&mut out, &view.time, &out::harmless(&command))?;
        out.flush()
    };
    write().with_context(|| format!("can't write {}", path.display()))?;
    out::note(&format!("[ tally io: heat map in {} ]", path.display()));
    Ok(())
}
