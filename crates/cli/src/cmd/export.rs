//! `tally export`: traced calls as a timeline for other programs.

use anyhow::Context;
use record::output_file::create_export;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::calls::open::{Need, Notes, with_view};
use crate::calls::spans::{self, Span, What};
use crate::calls::view_args::ViewArgs;
use crate::export::chrome::Chrome;
use crate::export::perfetto::Perfetto;
use crate::export::{Named, Timeline};
use crate::out;
use crate::text::number;
use calls::view::View;

/// Write traced calls as a timeline for ui.perfetto.dev or speedscope
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally export --perfetto -o calls.pftrace             open it in ui.perfetto.dev
  tally export --chrome --time 10%-20% -o calls.json   a tenth of the time, for www.speedscope.app
  tally export --perfetto -F parse -t 10us -o p.pftrace   what parse() called, calls of 10 us and longer")]
pub struct Args {
    /// Perfetto's own format (the default): a tenth of the size of JSON
    #[arg(long, conflicts_with = "chrome")]
    perfetto: bool,
    /// Chrome's JSON, which speedscope and ui.perfetto.dev open
    #[arg(long)]
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
    with_view(&args.view, Need::Steps, |view, notes| {
        view.check_calls()?;
        let spans = match &args.output {
            Some(path) => {
                let file = create_export(path).with_context(|| format!("can't write {}", path.display()))?;
                write(BufWriter::new(file), view, notes, args.chrome)?
            }
            None if args.chrome => write(out::raw_stdout(), view, notes, true)?,
            None => {
                out::refuse_terminal("a binary timeline", "-o calls.pftrace")?;
                write(out::raw_stdout(), view, notes, false)?
            }
        };
        out::note(&told(&args, spans));
        Ok(ExitCode::SUCCESS)
    })
}

/// How much was written, and what to do when that is too much for a viewer.
fn told(args: &Args, spans: u64) -> String {
    const MANY: u64 = 2_000_000;
    let where_to = args.output.as_ref().map_or(String::new(), |path| format!(" in {}", path.display()));
    let many = if spans > MANY { "; viewers may be slow: choose with --time, -t or -F" } else { "" };
    format!("tally export: {} spans{where_to}{many}", number::grouped(spans))
}

fn write(out: impl Write, view: &View<'_>, notes: &Notes, chrome: bool) -> anyhow::Result<u64> {
    let program = notes.title.split(' ').next().unwrap_or_default();
    let process = program.rsplit('/').next().unwrap_or_default();
    Ok(if chrome {
        write_spans(Chrome::new(out)?, view, process)?
    } else {
        write_spans(Perfetto::new(out), view, process)?
    })
}

/// Name and category of a span.
fn named<'a>(view: &'a View<'_>, what: What) -> (&'a str, &'static str) {
    match what {
        What::Call(function) => (&view.functions.of(function).name, "call"),
        What::OffCpu => ("[off CPU]", "off-cpu"),
    }
}

/// Writes all spans, each beginning and end in its turn, and returns how many there are.
fn write_spans(mut to: impl Timeline, view: &View<'_>, process: &str) -> io::Result<u64> {
    let start_ns = view.start_ns();
    let mut count = 0;
    for track in &view.tracks {
        let thread = (track.pid.unwrap_or(track.tid), track.tid);
        to.thread(thread.0, thread.1, track.name.as_deref().unwrap_or(process))?;
        let mut open: Vec<Span> = Vec::new();
        for span in spans::of_track(view, track) {
            while let Some(outer) = open.pop_if(|outer| outer.depth >= span.depth) {
                to.end(thread, outer.end_ns().saturating_sub(start_ns))?;
            }
            let (name, category) = named(view, span.what);
            let number = match span.what {
                What::Call(function) => u64::from(function.0),
                What::OffCpu => u64::MAX,
            };
            let arguments = &span.extras.named(view, track, span.what);
            let named = Named { number, name, category, arguments };
            to.begin(thread, named, span.start_ns.saturating_sub(start_ns))?;
            open.push(span);
            count += 1;
        }
        while let Some(outer) = open.pop() {
            to.end(thread, outer.end_ns().saturating_sub(start_ns))?;
        }
    }
    to.finish()?;
    Ok(count)
}
