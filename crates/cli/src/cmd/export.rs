//! `tally export`: samples for other profilers, traced calls as a timeline for other viewers.

mod samples;

use anyhow::Context;
use perfdata::PidTid;
use record::output_file::create_export;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::calls::open::{Need, Notes, with_view};
use crate::calls::view_args::ViewArgs;
use crate::terminal::foreign;
use crate::terminal::out;
use calls::recording::folder::DEFAULT;
use calls::view::View;
use calls::view::spans::{self, Span, SpanKind};
use display::number;
use exchange::export::chrome::Chrome;
use exchange::export::perfetto::Perfetto;
use exchange::export::{NamedSpan, TimelineWriter};

/// A format of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Samples and wall clock, for go tool pprof and profile stores
    Pprof,
    /// Samples and wall clock, for OpenTelemetry's collector (profiles signal, protocol buffers)
    Otlp,
    /// Samples and wall clock, for www.speedscope.app
    Speedscope,
    /// Samples and wall clock, for profiler.firefox.com
    Firefox,
    /// Samples and wall clock, as rows for DuckDB, ClickHouse, Spark and pandas
    Parquet,
    /// Samples, for KCachegrind and callgrind_annotate
    Callgrind,
    /// Samples as folded stacks, for flamegraph.pl and inferno
    Folded,
    /// Branch stacks as counts of lines, for clang -fprofile-sample-use (LLVM's sample profile, text)
    Autofdo,
    /// Traced calls, for ui.perfetto.dev
    Perfetto,
    /// Traced calls, for speedscope and ui.perfetto.dev
    Chrome,
}

impl ExportFormat {
    fn is_of_calls(self) -> bool {
        matches!(self, Self::Perfetto | Self::Chrome)
    }

    /// The option that writes it to a file.
    fn example(self) -> &'static str {
        match self {
            Self::Pprof => "-o profile.pb.gz",
            Self::Otlp => "-o profile.otlp",
            Self::Speedscope => "-o profile.speedscope.json",
            Self::Firefox => "-o profile.json.gz",
            Self::Parquet => "-o samples.parquet",
            Self::Callgrind => "-o callgrind.out",
            Self::Folded => "-o stacks.folded",
            Self::Autofdo => "-o code.prof",
            Self::Perfetto => "-o calls.pftrace",
            Self::Chrome => "-o calls.json",
        }
    }
}

/// Write samples for other profilers, or traced calls as a timeline
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally export --to pprof -o profile.pb.gz             perf.data for: go tool pprof -http :8080 profile.pb.gz
  tally export --to speedscope -o p.speedscope.json    for www.speedscope.app
  tally export --to firefox -o profile.json.gz         for profiler.firefox.com
  tally export --to callgrind --event wall -o callgrind.out    for kcachegrind
  tally export --to autofdo -o code.prof               of branch stacks, for clang -fprofile-sample-use=code.prof
  tally export --to perfetto -o calls.pftrace          traced calls, for ui.perfetto.dev
  tally export --to chrome --time 10%-20% -o calls.json   a tenth of the time
  tally export -F parse -t 10us -o p.pftrace           what parse() called, calls of 10 us and longer")]
pub struct Args {
    /// The format. Without it: perfetto, of traced calls
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<ExportFormat>,
    /// Count idle time too (in formats with the wall clock)
    #[arg(long)]
    idle: bool,
    /// The kind of value, for formats with one only: cpu, wall or an event's name
    #[arg(short, long, value_name = "NAME")]
    event: Option<String>,
    /// With --to autofdo: lines of this program or library only, read from here
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The same as --to perfetto
    #[arg(long, hide = true, conflicts_with_all = ["chrome", "to"])]
    perfetto: bool,
    /// The same as --to chrome
    #[arg(long, hide = true, conflicts_with = "to")]
    chrome: bool,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Runs the command.
///
/// # Errors
/// If there are no calls to write, or the output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(format) = args.to.filter(|format| !format.is_of_calls()) {
        // The other default is for traced calls.
        let is_default = args.view.input == Path::new(DEFAULT);
        let input = if is_default { Path::new("perf.data") } else { &args.view.input };
        let (event, output) = (args.event.as_deref(), args.output.as_deref());
        let binary = args.binary.as_deref().filter(|_| format == ExportFormat::Autofdo);
        let with_idle = args.idle;
        samples::export(&samples::SampleRequest { input, format, event, with_idle, binary, output })?;
        return Ok(ExitCode::SUCCESS);
    }
    export_calls(&args)
}

/// Forms of a timeline of calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimelineFormat {
    /// JSON.
    Chrome,
    /// Binary.
    Perfetto,
}

fn export_calls(args: &Args) -> anyhow::Result<ExitCode> {
    let format = match args.chrome || args.to == Some(ExportFormat::Chrome) {
        true => TimelineFormat::Chrome,
        false => TimelineFormat::Perfetto,
    };
    with_view(&args.view, Need::Steps, |view, notes| {
        view.check_calls()?;
        let spans = match &args.output {
            Some(path) => {
                let file = create_export(path).with_context(|| format!("can't write {}", path.display()))?;
                write(BufWriter::new(file), view, notes, format)?
            }
            None if format == TimelineFormat::Chrome => write(out::raw_stdout(), view, notes, format)?,
            None => {
                out::refuse_terminal("a binary timeline", "-o calls.pftrace")?;
                write(out::raw_stdout(), view, notes, format)?
            }
        };
        out::note(&summary(args, spans));
        Ok(ExitCode::SUCCESS)
    })
}

/// How much was written, and what to do when that is too much for a viewer.
fn summary(args: &Args, spans: u64) -> String {
    const MANY: u64 = 2_000_000;
    let where_to = args.output.as_ref().map_or(String::new(), |path| format!(" in {}", path.display()));
    let many = if spans > MANY { "; viewers may be slow: choose with --time, -t or -F" } else { "" };
    format!("tally export: {} spans{where_to}{many}", number::grouped(spans))
}

fn write(out: impl Write, view: &View<'_>, notes: &Notes, format: TimelineFormat) -> anyhow::Result<u64> {
    let program = notes.title.split(' ').next().unwrap_or_default();
    let process = program.rsplit('/').next().unwrap_or_default();
    Ok(match format {
        TimelineFormat::Chrome => write_spans(Chrome::new(out, foreign::json)?, view, process)?,
        TimelineFormat::Perfetto => write_spans(Perfetto::new(out), view, process)?,
    })
}

/// Name and category of a span.
fn named<'a>(view: &'a View<'_>, what: SpanKind) -> (&'a str, &'static str) {
    match what {
        SpanKind::Call(function) => (&view.functions.of(function).name, "call"),
        SpanKind::OffCpu => ("[off CPU]", "off-cpu"),
    }
}

/// Writes all spans, each beginning and end in its turn, and returns how many there are.
fn write_spans(mut to: impl TimelineWriter, view: &View<'_>, process: &str) -> io::Result<u64> {
    let start_ns = view.start_ns();
    let mut count = 0;
    for track in &view.tracks {
        let task = PidTid { pid: track.pid.unwrap_or(track.tid), tid: track.tid };
        to.thread(task, track.name.as_deref().unwrap_or(process))?;
        let mut open: Vec<Span> = Vec::new();
        for span in spans::of_track(view, track) {
            while let Some(outer) = open.pop_if(|outer| outer.depth >= span.depth) {
                to.end(task, outer.end_ns().saturating_sub(start_ns))?;
            }
            let (name, category) = named(view, span.what);
            let number = match span.what {
                SpanKind::Call(function) => u64::from(function.0),
                SpanKind::OffCpu => u64::MAX,
            };
            let arguments = &span.extras.named(view, track, span.what);
            let named = NamedSpan { number, name, category, arguments };
            to.begin(task, named, span.start_ns.saturating_sub(start_ns))?;
            open.push(span);
            count += 1;
        }
        while let Some(outer) = open.pop() {
            to.end(task, outer.end_ns().saturating_sub(start_ns))?;
        }
    }
    to.finish()?;
    Ok(count)
}
