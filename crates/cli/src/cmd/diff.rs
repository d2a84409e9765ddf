//! `tally diff`: what a change did, and what of it is only noise.

mod sides;

use crate::calls::{self, view_args::ViewArgs};
use crate::flags::perf_compat::{DiffFlags, PerfCompatFlags};
use crate::html;
use crate::reading::damage;
use crate::terminal::{out, pager};
use crate::text::diff::{self as text, Compute, DiffText};
use anyhow::{Context, bail};
use exchange::rows;
use profile::view::diff::{Diff, Norm, diff, name_clocks_alike};
pub(crate) use sides::sides;
use sides::{load_all, names_of, options};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit status with `--fail-above` when the recordings could not be compared, or are not whole.
const NOT_DECIDED: u8 = 4;

/// Exit status when the cost grew by more than `--fail-above` allows.
const GREW: u8 = 3;

/// Compare recordings by function or path, and separate changes from noise
///
/// Values are shares of each side's total, deltas are percentage points, as `perf diff` prints them. With several
/// recordings a side, the spread between them is the noise. With one recording a side, the spread over time within it
/// is the noise. Rows whose change noise explains have no word in the column Change.
///
/// The total is compared per run. --fail-above takes two or more runs a side to separate growth from noise. Its exit
/// status: 3, the total grew by more; 4, the recordings can't be compared, are too few, damaged or unfinished.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally diff                                    perf.data.old against perf.data
  tally diff before.data after.data
  tally diff a1,a2,a3 : b1,b2,b3                several runs a side
  tally diff --per probe:request a.data b.data  cost of one request
  tally diff --fail-above 5% a1,a2,a3 : b1,b2,b3   for scripts
  tally diff --html page.html before.data after.data   flame graph of the change
  tally diff --json a.data b.data | jq '.sections[0].rows[].own.delta'
  tally diff --calls old.calls new.calls        traced calls: absolute times and counts")]
pub struct Args {
    /// Baseline and current: two files, or two lists A1,A2 : B1,B2
    #[arg(value_name = "FILE")]
    files: Vec<String>,

    /// Group by these keys
    #[arg(short, long, value_name = "KEYS", default_value = "dso,symbol")]
    sort: String,

    /// Divide by the occurrences of another event: cost per request, per instruction …
    #[arg(long, value_name = "EVENT", conflicts_with = "norm")]
    per: Option<String>,

    /// Divide by share, time or run: the side's total, the recorded time, the number of runs
    #[arg(long, value_name = "WHAT", default_value = "share")]
    norm: String,

    /// Write one HTML file for a browser: both sides in one flame graph
    ///
    /// Colours show the change of each frame. Widths are the sum of both sides, each scaled by --norm.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["calls", "paths", "fail_above", "formula", "sort", "order",
        "baseline_only", "period", "field_separator", "quiet", "comms", "dsos", "symbols", "pid", "tid"])]
    html: Option<PathBuf>,

    /// As JSON
    #[arg(long, conflicts_with_all = ["html", "calls", "formula", "period", "field_separator", "quiet"])]
    json: bool,

    /// Print at most N rows of each list, with --json; 0 is all
    #[arg(long, value_name = "N", default_value_t = 0, requires = "json")]
    max_lines: usize,

    /// Show paths as well: new, vanished and changed ones
    #[arg(long)]
    paths: bool,

    /// Compare traced calls: absolute ns and counts by function, or by path with --paths
    #[arg(long, conflicts_with_all = ["per", "fail_above"])]
    calls: bool,

    /// Exit with status 3 if the total grew by more (percent), and noise doesn't explain it:
    /// needs two or more runs a side
    #[arg(long, value_name = "PERCENT")]
    fail_above: Option<String>,

    /// Compute this from both sides: delta, delta-abs, ratio, or wdiff:W1,W2 (weights)
    #[arg(short, long, value_name = "HOW", default_value = "delta-abs")]
    compute: String,

    /// Show how each number was computed
    #[arg(short = 'F', long)]
    formula: bool,

    /// Sort by the numbers of this file; there is only one column of them: 1
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1))]
    order: Option<u32>,

    /// Only these processes
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pid: Vec<i32>,

    /// Only these threads
    #[arg(long, value_name = "TIDS", value_delimiter = ',')]
    tid: Vec<i32>,

    /// Only these CPUs, such as 0-3,5
    #[arg(long, value_name = "CPUS")]
    cpu: Option<String>,

    /// Only this time of each recording: FROM,TO in seconds, or 10%-50%
    #[arg(long, value_name = "FROM,TO")]
    time: Option<String>,

    /// Read names of JIT code (/tmp/perf-PID.map) whoever wrote them
    #[arg(short, long, hide = true)]
    force: bool,

    /// perf's flag; all notes are printed anyway
    #[arg(short, long, hide = true)]
    verbose: bool,

    /// Only rows that the baseline has
    #[arg(short, long)]
    baseline_only: bool,

    /// Show periods
    #[arg(short, long)]
    period: bool,

    /// Leave out rows with less change and baseline (percent of the total)
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,

    /// Only these threads' names
    #[arg(short = 'C', long, visible_alias = "comm", value_name = "NAMES", value_delimiter = ',')]
    comms: Vec<String>,

    /// Only these files
    #[arg(short, long, visible_alias = "dso", value_name = "NAMES", value_delimiter = ',')]
    dsos: Vec<String>,

    /// Only these functions
    #[arg(short = 'S', long, visible_alias = "symbol", value_name = "NAMES", value_delimiter = ',')]
    symbols: Vec<String>,

    /// Separate columns by this character
    #[arg(short = 't', long, value_name = "CHAR")]
    field_separator: Option<char>,

    /// Rows only
    #[arg(short, long)]
    quiet: bool,

    /// Look for object files below this folder
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,

    /// Flags of perf that we don't have.
    #[command(flatten)]
    perf: PerfCompatFlags<DiffFlags>,
}

/// Runs the command.
///
/// # Errors
/// If a recording can't be read, or a flag's value makes no sense.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.calls {
        let [baseline, current] = args.files.as_slice() else {
            bail!("--calls compares two recordings: tally diff --calls BASELINE CURRENT");
        };
        let (baseline, current) = (PathBuf::from(baseline), PathBuf::from(current));
        let view = ViewArgs::all_of(&baseline);
        calls::diff::run(&calls::diff::Args { baseline, current, paths: args.paths, view })?;
        return Ok(ExitCode::SUCCESS);
    }
    args.perf.check()?;
    let limit = args.fail_above.as_deref().map(parse_percent).transpose()?;
    let diff = match compare(&args) {
        Err(why) if limit.is_some() => {
            out::complain(&crate::in_one_line(&why));
            return Ok(ExitCode::from(NOT_DECIDED));
        }
        compared => compared?,
    };
    if let Some(target) = &args.html {
        return write_page(target, &diff, &args).map(|()| ExitCode::SUCCESS);
    }
    let printed = print(&diff, &args);
    let Some(limit) = limit else { return printed.map(|()| ExitCode::SUCCESS) };
    match printed {
        // A gate decides even if nobody reads the table to its end.
        Err(why) if !out::is_closed_pipe(&why) => Err(why),
        _ => Ok(decide(&diff, limit, &args)),
    }
}

/// Whether the cost grew by more than `limit`, as an exit status.
fn decide(diff: &Diff, limit: f64, args: &Args) -> ExitCode {
    let undecided = |why: &str| {
        out::complain(&format!("--fail-above is not decided: {why}"));
        ExitCode::from(NOT_DECIDED)
    };
    let (baseline, current) = sides(&args.files).unwrap_or_default();
    if baseline.iter().chain(&current).any(|path| damage::is_named(path)) {
        return undecided("a recording is not whole");
    }
    if baseline.len() < 2 || current.len() < 2 {
        return undecided("one run can't separate growth from noise: give two or more a side, A1,A2 : B1,B2");
    }
    if diff.sections.is_empty() {
        return undecided("the recordings have no event in common");
    }
    let grew = diff.sections.iter().any(|section| text::grew(&section.total, limit));
    if grew { ExitCode::from(GREW) } else { ExitCode::SUCCESS }
}

/// Compares the recordings, rows in the order asked for.
fn compare(args: &Args) -> anyhow::Result<Diff> {
    let opts = options(args)?;
    let compute = Compute::parse(&args.compute)?;
    let (baseline, current) = sides(&args.files)?;
    let [baseline, mut current] = [load_all(&baseline, args)?, load_all(&current, args)?];
    if let Some((to, from)) = name_clocks_alike(&baseline, &mut current) {
        out::note(&format!("tally diff: '{from}' is compared with '{to}'"));
    }
    if opts.norm != Norm::Share && (compute != Compute::DeltaAbs || args.formula) {
        bail!("-c and -F are of shares: they don't go with --per and --norm");
    }
    let mut diff = diff(&baseline, &current, &opts);
    diff.sections.iter_mut().for_each(|section| compute.sort(&mut section.rows));
    if let Norm::Work(event) = &opts.norm
        && diff.sections.iter().any(|section| !section.normalised)
    {
        bail!("no event {event} in these recordings (they have {})", names_of(&diff));
    }
    Ok(diff)
}

fn write_page(target: &Path, diff: &Diff, args: &Args) -> anyhow::Result<()> {
    if diff.sections.is_empty() {
        bail!("the recordings have no event in common");
    }
    let (before, after) = sides(&args.files)?;
    let files = html::ComparedFiles { before: &before, after: &after };
    let (data, about) = html::of_diff(diff, &style(args)?, files);
    html::write_file(target, &data, &about)
}

fn print(diff: &Diff, args: &Args) -> anyhow::Result<()> {
    if args.json {
        let rows = rows::diff(diff, &options(args)?.norm, args.max_lines);
        return out::rows(&rows, args.max_lines);
    }
    pager::start();
    out::line(text::write(diff, &style(args)?).trim_end_matches('\n'))
}

fn style(args: &Args) -> anyhow::Result<DiffText> {
    Ok(DiffText {
        norm: options(args)?.norm,
        compute: Compute::parse(&args.compute)?,
        formula: args.formula,
        period: args.period,
        baseline_only: args.baseline_only,
        percent_limit: args.percent_limit,
        separator: args.field_separator,
        quiet: args.quiet,
    })
}

/// Shares of each side, as `tally diff` prints them without flags.
pub(crate) fn style_of_shares() -> DiffText {
    DiffText {
        norm: Norm::Share,
        compute: Compute::DeltaAbs,
        formula: false,
        period: false,
        baseline_only: false,
        percent_limit: 0.0,
        separator: None,
        quiet: false,
    }
}

fn parse_percent(text: &str) -> anyhow::Result<f64> {
    percentage(text).with_context(|| format!("--fail-above {text}: not a percentage"))
}

/// The number of `5%` or `5`; `None` if it is negative or no number.
pub(crate) fn percentage(text: &str) -> Option<f64> {
    let number: Option<f64> = text.trim().trim_end_matches('%').trim().parse().ok();
    number.filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &str) -> (usize, usize) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        sides(&words).map_or((0, 0), |(a, b)| (a.len(), b.len()))
    }

    #[test]
    fn sides_are_two_files_or_two_lists() {
        assert_eq!(names(""), (1, 1));
        assert_eq!(names("a"), (1, 1));
        assert_eq!(names("a b"), (1, 1));
        assert_eq!(names("a1,a2 : b1,b2,b3"), (2, 3));
        assert_eq!(names("a1 a2 : b1"), (2, 1));
        assert_eq!(names("a1,a2 b1"), (2, 1));
        assert_eq!(names("a b c"), (0, 0));
        assert_eq!(names("a :"), (0, 0));
    }

    #[test]
    fn percentages_may_have_their_sign() {
        assert_eq!(parse_percent("5%").ok(), Some(5.0));
        assert_eq!(parse_percent("2.5").ok(), Some(2.5));
        assert!(parse_percent("much").is_err() && parse_percent("-1").is_err());
    }
}
