//! `tally run`: the main job. Records a command (or what runs already), then tells in one screen where the time went.

mod better;
mod json;
mod top;

use crate::flame::{Tree, TreeOpts};
use crate::load::{self, LoadOpts, Progress, Recording};
use crate::svg::{self, Palette, SvgOpts};
use crate::text::run_screen::{self, RunScreen, ScreenOpts};
use crate::{out, term};
use anyhow::{Context, bail};
use profile::session::SessionOpts;
use profile::source::Want;
use record::opts::{CallGraph, EventRequest, Output, Rate, RecordOpts};
use record::summary::RunSummary;
use record::{Target, Whom};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a command (or watch a running one), then show on one screen where its time went
#[derive(clap::Args)]
#[command(after_help = "\
The command's input, output, signals and exit status are its own; the screen goes to standard error.

Examples:
  tally run -- ./app --its-flag          run it and look
  tally run --flame out.svg -- make      with a flame graph
  tally run -p 1234 -- sleep 5           a running process, for five seconds
  tally run -a -- sleep 10               the whole machine
  tally run --json=out.json -- ./app     the numbers for scripts")]
pub struct Args {
    /// Watch these processes
    #[arg(short, long, value_name = "PIDS", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Watch these threads
    #[arg(short, long, value_name = "TIDS", value_delimiter = ',', conflicts_with = "pid")]
    pub tid: Vec<u32>,
    /// Watch all processes
    #[arg(short, long, conflicts_with_all = ["pid", "tid"])]
    pub all_cpus: bool,
    /// On these CPUs only, such as 0,2-3
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Sample this event instead of cycles
    #[arg(short, long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Samples per second of running time
    #[arg(short = 'F', long, value_name = "HZ", conflicts_with = "count")]
    pub freq: Option<u64>,
    /// A sample for so many occurrences
    #[arg(short, long, value_name = "N")]
    pub count: Option<u64>,
    /// How stacks are had: live, fp, dwarf[,SIZE] or none
    #[arg(long, value_name = "HOW", default_value = "live")]
    pub call_graph: String,
    /// Size of each ring in KiB
    #[arg(short, long, value_name = "KIB")]
    pub mmap_kib: Option<usize>,
    /// Write the recording here
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub output: PathBuf,
    /// Write a flame graph here as well
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,
    /// Write the numbers as JSON, to standard output without FILE, and no screen
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Lines per list
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rows: usize,
    /// What to run
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// If nothing could be recorded. A command that fails is no error: its exit status is passed on.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let summary = match record::record(&record_opts(&args)?) {
        Ok(summary) => summary,
        Err(record::Error::Exec { command, source }) => return Ok(not_run(&command, &source)),
        Err(error) => return Err(error.into()),
    };
    let status = summary.exit.map_or(ExitCode::SUCCESS, |exit| ExitCode::from(exit.shell_code()));
    // From here on, failing must not hide how the command ended.
    if let Err(error) = show(&args, &summary) {
        if out::is_closed_pipe(&error) {
            return Ok(status);
        }
        out::complain(&format!("{error:#}"));
        return Ok(if summary.exit.is_some_and(|exit| exit.shell_code() != 0) { status } else { ExitCode::FAILURE });
    }
    Ok(status)
}

/// As shells do: 127 for a command that is not there, 126 for one that can't be run.
fn not_run(command: &str, source: &io::Error) -> ExitCode {
    let (why, status) = match source.kind() {
        io::ErrorKind::NotFound => ("no such command (is it in PATH?)".to_owned(), 127),
        io::ErrorKind::PermissionDenied => ("not executable (chmod +x?)".to_owned(), 126),
        _ => (source.to_string(), 126),
    };
    out::complain(&format!("can't run '{command}': {why}"));
    ExitCode::from(status)
}

fn record_opts(args: &Args) -> anyhow::Result<RecordOpts> {
    let whom = match args {
        Args { all_cpus: true, .. } => Whom::System,
        Args { pid, .. } if !pid.is_empty() => Whom::Processes(pid.clone()),
        Args { tid, .. } if !tid.is_empty() => Whom::Threads(tid.clone()),
        Args { command, .. } if command.is_empty() => {
            bail!("nothing to run: tally run -- COMMAND, or -p PID, -t TID, -a")
        }
        _ => Whom::Command,
    };
    let cpus = args.cpu.as_deref().map(record::target::online_cpu_list).transpose()?;
    let rate = match (args.freq, args.count) {
        (Some(hz), _) => Rate::Hz(hz),
        (_, Some(period)) => Rate::Period(period),
        _ => Rate::default(),
    };
    let page = 4096;
    Ok(RecordOpts {
        target: Target { whom, cpus, command: args.command.clone(), cgroup: None },
        events: args.event.as_deref().map(events).transpose()?.unwrap_or_default(),
        rate,
        call_graph: parse_call_graph(&args.call_graph)?,
        ring_pages: args.mmap_kib.map(|kib| (kib * 1024 / page).next_power_of_two().max(1)),
        output: Output::File(args.output.clone()),
        summary: true,
        no_build_id_cache: true,
        command_line: std::env::args().collect(),
        ..RecordOpts::default()
    })
}

fn events(text: &str) -> anyhow::Result<Vec<EventRequest>> {
    let specs = record::event::parse(text, &record::event::SystemSource::default())?;
    let request = |(index, spec): (usize, &record::event::EventSpec)| EventRequest {
        leader: spec.leader_of(index),
        ..EventRequest::plain(&spec.name, spec.attr)
    };
    Ok(specs.iter().enumerate().map(request).collect())
}

fn parse_call_graph(text: &str) -> anyhow::Result<CallGraph> {
    const DUMP: u32 = 16_384;
    Ok(match text.split_once(',').unwrap_or((text, "")) {
        ("live", "") => CallGraph::Live,
        ("fp", "") => CallGraph::FramePointer,
        ("lbr", "") => CallGraph::Lbr,
        ("none" | "no", "") => CallGraph::None,
        ("dwarf", "") => CallGraph::Dwarf(DUMP),
        ("dwarf", size) => {
            CallGraph::Dwarf(size.parse().with_context(|| format!("--call-graph: '{size}' is no size in bytes"))?)
        }
        _ => bail!("--call-graph: '{text}' is none of live, fp, lbr, dwarf[,SIZE], none"),
    })
}

/// The screen (or JSON) and the files, from what was recorded.
fn show(args: &Args, summary: &RunSummary) -> anyhow::Result<()> {
    let path = summary.file.as_deref().unwrap_or(&args.output);
    let recording = read(path)?;
    let event = top::main_event(&recording.profile);
    let mut tree = Tree::of_profile(&recording.profile, TreeOpts { event, ..TreeOpts::default() });
    if let Some(flame) = &args.flame {
        write_flame(flame, &tree, &title(args))?;
    }
    let screen = RunScreen {
        title: title(args),
        summary,
        own: top::by_own(&recording.profile, event),
        with_callees: top::by_children(&recording.profile, event),
        path: top::hottest_path(&mut tree),
        better: better::command(args, summary, tree.totals()[0].1),
        files: files(args, path, summary),
    };
    match &args.json {
        Some(file) => write_json(file, &screen),
        None => {
            let opts = ScreenOpts { width: width(), colour: term::colours_stderr(), rows: args.rows.max(1) };
            io::stderr().lock().write_all(run_screen::draw(&screen, opts).as_bytes()).map_err(Into::into)
        }
    }
}

/// Wide terminals are not filled: names far from their numbers are hard to read.
fn width() -> usize {
    term::width().clamp(60, 120)
}

fn read(path: &Path) -> anyhow::Result<Recording> {
    let map = load::open(path)?;
    let file = load::parse(path, &map)?;
    let opts = LoadOpts { session: SessionOpts::default(), want: Want::Names, symfs: None };
    load::load_file(&file, opts, &mut Progress::on_stderr(path, map.len()))
}

fn title(args: &Args) -> String {
    let command: Vec<_> = args.command.iter().map(|arg| arg.to_string_lossy()).collect();
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let whom = match args {
        Args { all_cpus: true, .. } => "all processes".to_owned(),
        Args { pid, .. } if !pid.is_empty() => format!("process {}", list(pid)),
        Args { tid, .. } if !tid.is_empty() => format!("thread {}", list(tid)),
        _ => return command.join(" "),
    };
    if command.is_empty() { whom } else { format!("{whom} while {} ran", command.join(" ")) }
}

fn files(args: &Args, path: &Path, summary: &RunSummary) -> Vec<(String, String)> {
    let input = if path == Path::new("perf.data") { String::new() } else { format!(" -i {}", path.display()) };
    let size = crate::text::number::bytes(summary.recorder.file_bytes);
    let mut files = vec![(path.display().to_string(), format!("{size}; browse: tally report{input}"))];
    match &args.flame {
        Some(flame) => files.push((flame.display().to_string(), "flame graph, for a browser".to_owned())),
        None => files.push(("no flame graph yet".to_owned(), format!("tally flame{input} -o out.svg"))),
    }
    files
}

fn write_flame(path: &Path, tree: &Tree, title: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut out = BufWriter::new(std::fs::File::create(path)?);
        let opts = SvgOpts {
            title: title.to_owned(),
            subtitle: svg::amount(tree),
            width: 1200,
            min_width: 0.1,
            icicle: false,
            palette: Palette::Kind,
        };
        svg::write(&mut out, tree, &opts)?;
        out.flush()
    };
    write().with_context(|| format!("can't write {}", path.display()))
}

fn write_json(path: &Path, screen: &RunScreen<'_>) -> anyhow::Result<()> {
    let text = format!("{:#}", json::of(screen));
    if path.as_os_str() == "-" {
        return out::line(&text);
    }
    std::fs::write(path, text + "\n").with_context(|| format!("can't write {}", path.display()))
}
