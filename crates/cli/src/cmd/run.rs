//! `tally run`: the main job. Records a command (or what runs already), then shows on one screen where the time went.

mod better;
mod json;
mod top;

use crate::cmd::why::input;
use crate::flags::recording::{self, SamplingArgs, SpanArgs, TargetArgs};
use crate::reading::load;
use crate::terminal::interrupts_off::is_by_timer;
use crate::terminal::status_line::{self, StatusLine};
use crate::text::run_screen::{self, RunScreen, ScreenOpts};
use crate::verdict;
use crate::verdict::MachineChange;
use crate::verdict::first_screen::{FirstScreen, RecordedFile, ScreenSources, quality};
use crate::{html, reading::wall, terminal::out, text, verdict::first_screen};
use anyhow::{Context, bail};
use display::term;
use exchange::svg::{self, SvgOpts};
use profile::profile::Profile;
use profile::view::flame::{Tree, TreeOpts};
use profile::view::hot_functions::main_event;
use record::Whom;
use record::disk_watch::DiskWatch;
use record::opts::{KeepFiles, Output, RecordOpts};
use record::summary::RunSummary;
use record::sys::time::Clock;
use record::system::SystemCounters;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use symbols::{Recording, name_hints};

/// Run a command (or watch a running one), then show on one screen where its time went
#[derive(clap::Args)]
#[command(after_help = "\
The command's input, output, signals and exit status are its own; the screen goes to standard error.

Examples:
  tally run -- ./app --its-flag          run it and look
  tally run --flame out.svg -- make      with a flame graph
  tally run -p nginx -- sleep 5          a running server and its workers, for five seconds
  tally run --container web -- sleep 5   a container, from the host
  tally run -a -- sleep 10               the whole machine
  tally run --json=out.json -- ./app     the numbers for scripts")]
pub struct Args {
    /// Target of the recording.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Events and sampling.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Functions whose calls are recorded.
    #[command(flatten)]
    pub spans: SpanArgs,
    /// Write the recording here
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub output: PathBuf,
    /// Write a flame graph here as well
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,
    /// Write a page for a browser here as well: threads over time, flame graph, waits, functions
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the numbers as JSON, to standard output without FILE, and no screen
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Don't record time off the CPU
    #[arg(long, conflicts_with_all = ["off_cpu", "off_cpu_period"])]
    pub no_off_cpu: bool,
    /// Show all numbers: threads, functions, stacks, each finding with its evidence
    #[arg(short, long)]
    pub verbose: bool,
    /// Lines per list, with -v
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rows: usize,
}

/// Runs the command.
///
/// # Errors
/// If nothing could be recorded. A command that fails is no error: its exit status is passed on.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let whose = args.target.pids().first().copied();
    let before = SystemCounters::read(whose);
    let opts = record_opts(&args)?;
    let disks = opts.off_cpu.as_ref().and_then(|_| DiskWatch::start());
    let status_line = StatusLine::of(&opts.target);
    let recorded = record::record(&opts);
    drop(status_line);
    let summary = match recorded {
        Ok(summary) => summary,
        Err(error) => return Ok(recording::failed(&error)),
    };
    let status = recording::exit_code(&summary);
    let machine = MachineChange {
        change: before.until(&SystemCounters::read(whose)),
        disks: disks.map(DiskWatch::finish),
    };
    // From here on, failing must not hide how the command ended.
    if let Err(error) = show(&args, &summary, &machine)
        && !out::is_closed_pipe(&error)
    {
        out::complain(&format!("{error:#}"));
        let failed = summary.exit.is_some_and(|exit| exit.shell_code() != 0);
        return Ok(if failed { status } else { ExitCode::FAILURE });
    }
    Ok(status)
}

fn record_opts(args: &Args) -> anyhow::Result<RecordOpts> {
    let mut opts = RecordOpts { target: args.target.target_with_children()?, ..RecordOpts::default() };
    if opts.target.whom == Whom::Command && opts.target.command.is_empty() {
        bail!("nothing to run: tally run -- COMMAND, or -p PID|NAME, --container NAME, -a");
    }
    args.sampling.apply(&mut opts)?;
    args.spans.apply(&mut opts, &[])?;
    anyhow::ensure!(
        !opts.traces(),
        "tally run shows samples; a processor's trace is recorded by tally record -e intel_pt/cyc/u"
    );
    opts.file.output = Output::File(args.output.clone());
    if !args.no_off_cpu && opts.clock == Clock::Monotonic && opts.off_cpu.is_none() {
        opts.off_cpu = Some(record::off_cpu::OffCpuOpts::default());
    }
    opts.summary = true;
    opts.observers.on_notice = |line| out::note(line);
    opts.observers.on_progress = status_line::advance;
    opts.file.keep_files = KeepFiles::Unreachable;
    opts.file.command_line = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    Ok(opts)
}

fn event_is_by_timer(profile: &Profile, event: usize) -> bool {
    profile.events.get(event).is_some_and(|event| is_by_timer(&event.name))
}

/// The screen (or JSON) and the files, from what was recorded.
fn show(args: &Args, summary: &RunSummary, machine: &MachineChange) -> anyhow::Result<()> {
    let lost = || format!("other recordings were made in {}: this one is lost", args.output.display());
    let path = summary.file.as_deref().with_context(lost)?;
    let recording = read(path)?;
    let target = better::target_words(args).join(" ");
    let judgement = verdict::judge(&recording.profile, summary, machine, &target);
    let event = main_event(&recording.profile);
    let samples = recording.profile.total(event).count;
    let name_hints = name_hints::hints(&recording.profile, event);
    let better = better::command(args, summary, samples);
    let warnings = quality::all_in_full(summary, better.as_deref(), &name_hints);
    // Without room for it the recording is whole all the same: tally why judges it again.
    let note = verdict::note_bytes(&verdict::to_note(&judgement, &title(args, summary), &warnings));
    let _ = record::output_file::append_to_recording(path, &note);
    if let Some(page) = &args.html {
        html::write_recording(page, path)?;
    }
    let is_short = args.json.is_none() && !args.verbose;
    // The first screen needs no tree, and large ones take long.
    let mut tree = (args.flame.is_some() || !is_short)
        .then(|| Tree::of_profile(&recording.profile, TreeOpts { event, ..TreeOpts::default() }));
    if let Some((flame, tree)) = args.flame.as_ref().zip(tree.as_ref()) {
        write_flame(flame, tree, &title(args, summary))?;
    }
    let first = FirstScreen::of(
        &recording.profile,
        event,
        ScreenSources {
            summary,
            judgement: &judgement,
            cpus: machine.change.cpus,
            better: better.as_deref(),
            name_hints: &name_hints,
            file: recorded_file(path, summary),
        },
    );
    let colour = term::colours_stderr();
    let Some(tree) = tree.as_mut().filter(|_| !is_short) else {
        let text = text::first_screen::draw(&first, term::width(), colour);
        return out::screen(&text, colour).map_err(Into::into);
    };
    let mut path_down = top::hottest_path(tree);
    top::name_files(&mut path_down, &recording.profile, event);
    let screen = RunScreen {
        title: title(args, summary),
        summary,
        samples,
        verbose: args.verbose,
        own: top::by_own(&recording.profile, event),
        with_callees: top::by_children(&recording.profile, event),
        path: path_down,
        is_by_timer: event_is_by_timer(&recording.profile, event),
        name_hints,
        better,
        files: files(args, path, summary),
    };
    match &args.json {
        Some(file) => write_json(file, &screen, &first, &judgement),
        None => {
            let opts = ScreenOpts { width: width(), colour, rows: args.rows.max(1) };
            out::screen(&long_screen(&screen, &judgement, &input(path), opts), colour).map_err(Into::into)
        }
    }
}

fn recorded_file(path: &Path, summary: &RunSummary) -> RecordedFile {
    let bytes = summary.recorder.file_bytes;
    RecordedFile { path: path.display().to_string(), bytes, input: input(path) }
}

/// All numbers, and the findings with their evidence.
fn long_screen(
    screen: &RunScreen<'_>,
    judgement: &verdict::Judgement,
    input: &str,
    opts: ScreenOpts,
) -> String {
    let clock = text::findings::wall_clock(judgement, opts.width, opts.colour);
    let value = verdict::to_json(judgement, input);
    let findings = value["verdict"].as_array().map(Vec::as_slice).unwrap_or_default();
    let findings = text::findings::draw(findings, 1, opts.width, opts.colour);
    format!("{}\n{clock}\n{findings}", run_screen::draw(screen, opts))
}

/// Wide terminals are not filled: names far from their numbers are hard to read.
fn width() -> usize {
    term::width().clamp(60, 120)
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    load::load(path, wall::load_opts_with_runs())
}

fn title(args: &Args, summary: &RunSummary) -> String {
    let target = &args.target;
    let command: Vec<_> = target.command.iter().map(|arg| arg.to_string_lossy()).collect();
    let whom = match target {
        TargetArgs { pid, .. } if !pid.is_empty() => processes(&target.pids(), summary),
        TargetArgs { tid, .. } if !tid.is_empty() => format!("thread {}", better::list(tid)),
        TargetArgs { uid: Some(user), .. } => format!("processes of {user}"),
        TargetArgs { container: Some(name), .. } => format!("container {name}"),
        TargetArgs { unit: Some(name), .. } => format!("unit {name}"),
        TargetArgs { cgroup: Some(path), .. } => format!("cgroup {path}"),
        TargetArgs { all_cpus: false, cpu: None, .. } => return command.join(" "),
        _ => "all processes".to_owned(),
    };
    if command.is_empty() { whom } else { format!("{whom} while {} ran", command.join(" ")) }
}

/// The processes attached to, by their names at the end, and how many children were taken with them.
fn processes(pids: &[u32], summary: &RunSummary) -> String {
    let name = |pid: &u32| {
        let first = summary.threads.iter().find(|thread| thread.tid == *pid && !thread.comm.is_empty());
        first.map_or_else(|| format!("process {pid}"), |thread| format!("{} ({pid})", thread.comm))
    };
    let names = pids.iter().map(name).collect::<Vec<_>>().join(", ");
    status_line::with_children(&names, summary.attached_processes.saturating_sub(pids.len()))
}

fn files(args: &Args, path: &Path, summary: &RunSummary) -> Vec<(String, String)> {
    let input = input(path);
    let size = display::number::bytes(summary.recorder.file_bytes);
    let mut files = vec![(path.display().to_string(), format!("{size}; browse: tally report{input}"))];
    match &args.flame {
        Some(flame) => files.push((flame.display().to_string(), "flame graph, for a browser".to_owned())),
        None => files.push(("no flame graph yet".to_owned(), format!("tally flame{input} -o out.svg"))),
    }
    files
}

fn write_flame(path: &Path, tree: &Tree, title: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut out = BufWriter::new(record::output_file::create_export(path)?);
        svg::write(&mut out, &tree.condensed(), &SvgOpts::plain(title.to_owned(), svg::amount(tree)))?;
        out.flush()
    };
    write().with_context(|| format!("can't write {}", path.display()))
}

fn write_json(
    path: &Path,
    screen: &RunScreen<'_>,
    first: &FirstScreen,
    judgement: &verdict::Judgement,
) -> anyhow::Result<()> {
    let mut value = json::of(screen);
    value["schema_version"] = first_screen::SCHEMA_VERSION.into();
    value["first_screen"] = first_screen::to_json(first);
    value["wall_clock"] = verdict::to_json(judgement, &first.file.input);
    out::json(path, &value)
}
