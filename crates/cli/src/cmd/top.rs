//! `tally top`: what runs now, refreshed every few seconds.
//!
//! Recordings of a few seconds are made one after the other by a thread of their own while the last one is shown, so
//! that nothing is missed but the moment between two. The view is the report's.

mod view;

use display::term;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd as _, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, bail};
use profile::profile::Profile;
use profile::session::SessionOpts;
use profile::source::Want;
use profile::view::report::{
    self as rows, GraphOpts, GraphOrder, Report, ReportOpts, ReportSection, SortKey,
};
use record::Whom;
use record::opts::{CallGraph, EndsBy, KeepFiles, Output, RecordOpts};
use record::scratch;
use record::stop_signals::StopSignals;
use record::summary::Notice;
use record::sys::Poller;
use record::sys::signal::SIGPIPE;

use crate::cmd::report;
use crate::flags::recording::{SamplingArgs, TargetArgs};
use crate::flags::shown_names;
use crate::reading::load;
use crate::terminal::{end_signals, out};
use crate::text::report::{StdioOpts, write};
use symbols::{LoadOpts, Recording, UnnamedCode};
use tui::ViewUpdate;
use view::ViewArgs;

/// Show what runs now: functions by their share, refreshed every few seconds
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally top                    the whole machine
  tally top -p 1234            one process
  tally top -e cs -d 5         where context switches come from, every five seconds
  tally top -e net:net_dev_queue -ns comm
                               which programs send, with numbers of samples
  tally top --stdio --iterations 3
                               three tables as text

Keys are those of tally report (? lists them). In addition: p pauses, v shows other columns.")]
pub struct Args {
    /// Target of the recording.
    #[command(flatten)]
    target: TargetArgs,
    /// Events and sampling.
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Seconds from one screen to the next
    #[arg(short = 'd', long = "refresh", value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    refresh: u32,
    /// Stop after this many screens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// How it is shown.
    #[command(flatten)]
    view: ViewArgs,
    /// Print tables instead of a screen
    #[arg(long)]
    stdio: bool,
}

/// Runs until the user leaves.
///
/// # Errors
/// If nothing can be recorded, or the terminal fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let opts = args.record_opts()?;
    if args.stdio || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let keys = args.view.report()?.keys();
        // Before the threads, which leave signals to us.
        let mut signals = StopSignals::new(&[]).context("can't wait for signals")?;
        signals.watch_stdout();
        return print_tables(&args, &start(opts, keys)?, signals);
    }
    let signal = end_signals::wait()?;
    let view = args.view.report()?;
    let slices = start(opts, view.keys())?;
    let view = ReportOpts {
        children: true,
        graph: Some(GraphOpts { order: GraphOrder::Caller, ..GraphOpts::default() }),
        ..view
    };
    let mut data = tui::Data::new(Arc::default(), view);
    // Code that runs now, not its callers, comes first.
    data.turn_order();
    let theme = tui::Theme::new(term::colours_stdout());
    let mut app = tui::App::fed(data, theme, tui::ReadState::Live { held: false });
    let updates = updates_of(slices, args.iterations)?;
    match tui::run(&mut app, Some(&updates), &signal) {
        // As it was raised: the exit status depends on its type.
        Err(tui::Error::Source(error)) => Err(anyhow::Error::from_boxed(error)),
        result => Ok(result?),
    }
}

/// Slices as updates, this many at most.
fn updates_of(slices: Receiver<Slice>, most: Option<u32>) -> anyhow::Result<Receiver<ViewUpdate>> {
    let (sender, updates) = sync_channel(1);
    beside(move || {
        for slice in slices.into_iter().take(most.map_or(usize::MAX, |n| n as usize)) {
            let item = match slice {
                Ok(recording) => ViewUpdate::Recording(Arc::new(recording)),
                Err(error) => ViewUpdate::Failed(error.into_boxed_dyn_error()),
            };
            if sender.send(item).is_err() {
                return;
            }
        }
        // Nobody listens any more when the user has left.
        let _ = sender.send(ViewUpdate::Whole);
    })?;
    Ok(updates)
}

/// Does the work in a thread of its own.
fn beside(work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().spawn(work).context("can't start a thread for the view")?;
    Ok(())
}

impl Args {
    fn record_opts(&self) -> anyhow::Result<RecordOpts> {
        let mut opts = RecordOpts { target: self.target.target_with_children()?, ..RecordOpts::default() };
        self.sampling.apply(&mut opts)?;
        anyhow::ensure!(
            !opts.traces(),
            "tally top shows samples; a processor's trace is recorded by tally record -e intel_pt/cyc/u"
        );
        if opts.target.whom == Whom::Command {
            anyhow::ensure!(
                opts.target.command.is_empty(),
                "top watches what runs already: -p PID, -t TID, -u USER, or all of it"
            );
            opts.target.whom = Whom::System;
        }
        opts.span.ends_after = Some(Duration::from_secs(self.refresh.into()));
        opts.span.ends_by = EndsBy::Caller;
        opts.file.keep_files = KeepFiles::Unreachable;
        // The screen is the view's; and a slice that is unwound late is shown late.
        opts.observers.on_catch_up = |_| {};
        if self.stdio && self.sampling.call_graph.is_none() {
            opts.stacks.call_graph = CallGraph::None;
        }
        self.view.leave_out(&mut opts);
        Ok(opts)
    }
}

type Slice = anyhow::Result<Recording>;

/// A file for a slice: it has no name, so nobody else opens it and nothing is left however we end.
struct SliceFile(File);

impl SliceFile {
    fn new() -> anyhow::Result<Self> {
        let dir = scratch::nameless_parent();
        let file = scratch::nameless_file(&dir)
            .with_context(|| format!("can't make a file in {}", dir.display()))?;
        Ok(Self(file))
    }

    /// A path to it for this process.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Records into it.
    fn record(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        opts.file.output = Output::File(self.path());
        let summary = record::record(opts)?;
        let stop = summary.notices.iter().find_map(|notice| match notice {
            Notice::WriteStopped(why) => Some(why),
            _ => None,
        });
        if let Some(why) = stop {
            bail!("no room for what is recorded: {why}; TMPDIR names another folder for it");
        }
        Ok(())
    }
}

/// Records one slice after the other, and reads them, until nobody listens or one fails: a thread each, so that
/// neither holds up the other nor the keys.
fn start(mut opts: RecordOpts, keys: Vec<SortKey>) -> anyhow::Result<Receiver<Slice>> {
    let (recorded, to_read): (SyncSender<anyhow::Result<SliceFile>>, _) = sync_channel(1);
    beside(move || {
        loop {
            let slice = SliceFile::new().and_then(|file| file.record(&mut opts).map(|()| file));
            let goes_on = slice.is_ok();
            if recorded.send(slice).is_err() || !goes_on {
                return;
            }
        }
    })?;
    let (sender, receiver): (SyncSender<Slice>, _) = sync_channel(1);
    beside(move || {
        for slice in to_read {
            if sender.send(slice.and_then(|file| read_slice(&file.path(), &keys))).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

fn read_slice(path: &Path, keys: &[SortKey]) -> anyhow::Result<Recording> {
    let session = SessionOpts { dimensions: report::dimensions(keys), ..SessionOpts::default() };
    let map = load::open(path)?;
    let file = load::parse(path, &map)?;
    let want = if report::reads_lines(keys) { Want::Lines } else { Want::Names };
    let opts = LoadOpts { session, want, names: shown_names::opts(), unnamed: UnnamedCode::Functions };
    load::load_file(path, &file, opts, &mut load::Progress::silent())
}

/// Heading and rows of each event, at most `rows` lines.
fn lines(recording: &Recording, view: &ViewArgs) -> anyhow::Result<Vec<String>> {
    let profile = &recording.profile;
    let whole = rows::report(profile, &view.report()?);
    let hit = whole.sections.iter().filter(|section| section.totals.iter().any(|total| total.count > 0));
    let tables = hit.map(|section| table(profile, section, view));
    let mut all: Vec<String> = tables.collect::<anyhow::Result<Vec<_>>>()?.concat();
    if all.is_empty() {
        all.push("no samples in this time".to_owned());
    }
    Ok(all)
}

fn table(profile: &Profile, section: &ReportSection, view: &ViewArgs) -> anyhow::Result<Vec<String>> {
    let samples: u64 = section.totals.iter().map(|t| t.count).sum();
    let head = format!("{samples} samples of {}", section.event_names(profile));
    let mut text = Vec::new();
    let style = StdioOpts { quiet: true, min_percent: view.percent_limit, ..StdioOpts::default() };
    let one = Report { sections: vec![section.clone()], ..Report::default() };
    write(&mut text, profile, &one, &style)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let body = text.lines().filter(|l| !l.trim().is_empty()).take(view.entries as usize);
    Ok(std::iter::once(head).chain(body.map(str::to_owned)).collect())
}

/// Prints until there were as many as asked for, or a signal comes; the code is then that of a shell.
fn print_tables(args: &Args, slices: &Receiver<Slice>, mut signals: StopSignals) -> anyhow::Result<ExitCode> {
    const TICK: Duration = Duration::from_millis(50);
    let reader = Poller::new()?;
    // A file has no reader that could go away.
    let _ = reader.add_end(std::io::stdout().as_fd(), 0);
    let mut left = args.iterations.unwrap_or(u32::MAX);
    while left > 0 {
        signals.take(None)?;
        match signals.came() {
            Some(SIGPIPE) => break,
            Some(number) => return Ok(u8::try_from(128 + number).map_or(ExitCode::FAILURE, ExitCode::from)),
            None => {}
        }
        if reader.wait(Some(Duration::ZERO))?.iter().any(|ready| ready.hung_up) {
            break;
        }
        match slices.recv_timeout(TICK) {
            Ok(slice) => print_table(&slice?, &args.view)?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        left -= 1;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_table(recording: &Recording, view: &ViewArgs) -> anyhow::Result<()> {
    let mut out = out::stdout();
    for line in lines(recording, view)? {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    Ok(out.flush()?)
}
