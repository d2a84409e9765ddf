//! `tally calls`: exact counts and times of every call.

use clap::Subcommand;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::calls::flame::{self, FlameOpts};
use crate::calls::open::{Need, Notes, with_view};
use crate::calls::view_args::ViewArgs;
use crate::calls::{diff, graph, info, live, log, record, table};
use crate::reading::load;
use crate::terminal::{out, pager};
use calls::recording::kernel;
use calls::selection::pattern::Pattern;
use calls::view::View;

/// Record and show every call of a program: exact counts, times, paths
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tally calls record ./app          run a program built with -pg or the like
  tally calls live -p 4711          the same of a running process, every two seconds
  tally calls                       its functions: calls, total, self, avg, p50, p99, max
  tally calls graph -F parse        what parse() called, how often, for how long
  tally calls replay -t 1ms         the log of calls that took 1 ms or longer
  tally calls flame -o calls.svg    flame graph, widths in exact ns")]
pub struct Args {
    /// View or recorder; without it, report.
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    report: ReportArgs,
    /// As `tally calls graph`
    #[arg(long, conflicts_with = "replay")]
    graph: bool,
    /// As `tally calls replay`
    #[arg(long)]
    replay: bool,
}

impl Args {
    fn what(self) -> What {
        let view = self.report.view.clone();
        match self.what {
            Some(what) => what,
            None if self.graph => What::Graph(GraphArgs { function: None, view }),
            None if self.replay => What::Replay(ReplayArgs { view, kernel: false }),
            None => What::Report(self.report),
        }
    }
}

#[derive(Subcommand)]
enum What {
    Record(record::Args),
    Live(live::Args),
    Report(ReportArgs),
    Graph(GraphArgs),
    Replay(ReplayArgs),
    Flame(FlameArgs),
    Diff(diff::Args),
    Export(super::export::Args),
    Branches(BranchesArgs),
    Info(InfoArgs),
}

/// Print a line per function: calls, total, self, avg, p50, p99, max
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally calls report --sort self -n 20       the 20 functions with the most time of their own
  tally calls report -F 'parse*' -t 10us     parse functions and all inside, from 10 us on
  tally calls report --slowest 10            the ten slowest calls, with their paths
  tally calls report --histogram parse       how long calls of parse() took")]
pub struct ReportArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// Sort by this
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    sort: table::Key,
    /// Print only the first N lines
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    /// Print the N slowest calls instead, with time and path
    #[arg(long, value_name = "N")]
    slowest: Option<usize>,
    /// Print how long calls of this function took, as a histogram
    #[arg(long, value_name = "FUNC")]
    histogram: Option<String>,
}

/// Print who called whom, how often and for how long
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally calls graph                          from main on
  tally calls graph parse                    what parse() calls, and who calls it
  tally calls graph -C parse -D 8            only calls that lead to parse(), eight levels")]
pub struct GraphArgs {
    /// The function at the root; without it, all
    #[arg(value_name = "FUNC")]
    function: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Print every call in order, nested, with its duration
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally calls replay -t 1ms                  calls that took 1 ms or longer
  tally calls replay -F parse --tid 4711     parse() and what it calls, of one thread
  tally calls replay --time 10%-11%          of a hundredth of the time
  tally calls replay -H 'std::*'             without these, but with what they call
  tally calls replay -C write -T f@depth=3   what led to write(); of f() only three levels")]
pub struct ReplayArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// The kernel's part, too: it is always shown; prints a note where none was recorded
    #[arg(short, long)]
    kernel: bool,
}

/// Draw a flame graph whose widths are exact ns, or print folded stacks
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally calls flame -o calls.svg             of all threads
  tally calls flame -F parse -o parse.svg    of parse() and what it calls
  tally calls flame --folded | sort          one line a path, in ns, for other tools")]
pub struct FlameArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page for a browser: exact times by path, lengths of calls, the slowest calls
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "folded", "counts"])]
    html: Option<PathBuf>,
    /// Print folded stacks instead of SVG
    #[arg(long)]
    folded: bool,
    /// Names with count and mean: func:(count),avg:TIME
    #[arg(long)]
    counts: bool,
    /// Merge from the leaf: the functions that ran at the root, their callers above
    #[arg(long, conflicts_with = "html")]
    reverse: bool,
    /// Hang the graph from the top
    #[arg(long, alias = "inverted", conflicts_with = "html")]
    icicle: bool,
    /// Width of the graph in px
    #[arg(long, default_value_t = 1200, value_name = "PX", value_parser = clap::value_parser!(u32).range(200..100_000))]
    width: u32,
}

/// Print every call and return of an Intel PT trace: thread, time in ns, kind, from, to
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  perf record -e intel_pt//u ./app && tally calls branches | head
  tally calls branches -i app.data | grep call")]
pub struct BranchesArgs {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
}

/// Print what was recorded
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally calls info
  tally calls info -i app.calls")]
pub struct InfoArgs {
    /// The recording
    #[arg(short, long, value_name = "DIR", default_value = calls::recording::folder::DEFAULT)]
    input: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// If there is nothing to record or to show.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what() {
        What::Record(args) => return record::run(&args),
        What::Live(args) => return live::run(args),
        What::Report(args) => {
            let need = Need::Sum { slowest: args.slowest.unwrap_or(0) };
            with_view(&args.view, need, |view, notes| report(&args, view, notes))?;
        }
        What::Graph(args) => print_graph(args)?,
        What::Replay(args) => with_view(&args.view, Need::Steps, |view, _| {
            view.check_calls()?;
            if args.kernel && !view.functions.all().iter().any(|function| function.dso == kernel::MAPPING) {
                out::note(kernel::why_nothing(&args.view.input));
            }
            pager::start();
            let mut to = out::stdout();
            log::write(&mut to, view)?;
            Ok(to.flush()?)
        })?,
        What::Flame(FlameArgs { view, output, html, folded, counts, reverse, icicle, width }) => {
            let opts =
                FlameOpts { output, html, folded, counts, reverse, icicle, width, ..Default::default() };
            flame::draw(&view, &opts)?;
        }
        What::Diff(args) => diff::run(&args)?,
        What::Export(args) => return super::export::run(args),
        What::Branches(args) => {
            let map = load::open(&args.input)?;
            let file = load::parse(&args.input, &map)?;
            let trace = crate::calls::open::open_trace(&args.input, &file)?;
            let mut to = out::stdout();
            trace.write_branches(&mut to)?;
            to.flush()?;
        }
        What::Info(args) => info::print(&args.input)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(args: &ReportArgs, view: &View<'_>, notes: &Notes) -> anyhow::Result<()> {
    let sum = view.sum(args.slowest.unwrap_or(0));
    pager::start();
    let mut to = out::stdout();
    if let Some(name) = &args.histogram {
        let pattern = Pattern::new(name);
        let mut any = false;
        for (id, stats) in sum.functions() {
            let function = view.functions.of(id);
            if pattern.is(&function.name) {
                any = true;
                table::write_histogram(&mut to, &function.name, &stats.histogram)?;
            }
        }
        anyhow::ensure!(any, "no function called here is named {name}");
    } else if args.slowest.is_some() {
        table::write_slowest(&mut to, &sum, &view.functions, view.start_ns())?;
    } else {
        table::write(&mut to, &sum, &view.functions, args.sort, args.lines)?;
        write_footer(&mut to, &sum, notes)?;
    }
    Ok(to.flush()?)
}

/// Prints the table of functions.
///
/// # Errors
/// If the recording can't be read, or writing fails.
pub fn print_functions(view: &ViewArgs) -> anyhow::Result<()> {
    let args = ReportArgs {
        view: view.clone(),
        sort: table::Key::default(),
        lines: None,
        slowest: None,
        histogram: None,
    };
    with_view(view, Need::Sum { slowest: 0 }, |view, notes| report(&args, view, notes))
}

fn write_footer(to: &mut impl Write, sum: &calls::model::CallProfile, notes: &Notes) -> anyhow::Result<()> {
    writeln!(to, "\n{}", table::footer(sum))?;
    for line in &notes.lines {
        writeln!(to, "{}", out::harmless(line))?;
    }
    Ok(())
}

fn print_graph(args: GraphArgs) -> anyhow::Result<()> {
    let GraphArgs { function, mut view } = args;
    view.only.extend(function);
    with_view(&view, Need::Sum { slowest: 0 }, |view, notes| {
        let sum = view.sum(0);
        pager::start();
        let mut to = out::stdout();
        graph::write(&mut to, &sum, &view.functions)?;
        write_footer(&mut to, &sum, notes)?;
        Ok(to.flush()?)
    })
}
