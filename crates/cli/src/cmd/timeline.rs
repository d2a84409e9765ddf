//! `tally timeline`: what each thread was doing, over time.

use crate::cmd::report::parse_times;
use crate::reading::damage;
use crate::reading::load;
use crate::reading::wall::{self, WaitArgs};
use crate::terminal::foreign::json_lines;
use crate::terminal::{out, pager};
use anyhow::bail;
use display::term;
use exchange::rows;
use exchange::text::timeline::{self as text, TimelineTextOpts};
use profile::view::timeline::{TimelineOpts, path_strip, timeline};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show threads over time: a strip for each, by what it was doing, and its share in each state
#[derive(clap::Args)]
#[command(after_help = "\
A column shows the state that took at least three quarters of its time. In other
columns the height of a block is the share on the CPU. A legend explains the letters.

Examples:
  tally record --off-cpu -- ./app && tally timeline
  tally timeline --thread worker           the threads of one name
  tally timeline --time 40%-60%            a fifth of the time, closer
  tally timeline --time 1.5,1.6            a tenth of a second after one and a half
  COLUMNS=200 tally timeline | less -S     finer
  tally timeline --json                    for scripts")]
pub struct Args {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// Which waits.
    #[command(flatten)]
    pub waits: WaitArgs,
    /// Only this time: FROM,TO in s since the recording's begin, or percents as 10%-20%
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Threads to show
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub rows: usize,
    /// Write the strips as JSON, all threads, and no text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// If the recording can't be read or has nothing about time off the CPU.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let recording = load::load(&args.input, wall::load_opts_with_runs())?;
    let profile = &recording.profile;
    if profile.off_cpu.source.is_none() || profile.off_cpu.totals.is_empty() {
        let record = "record with tally record --off-cpu";
        return Err(damage::lacks(&args.input, "no times of threads in it", record));
    }
    let totals = &profile.off_cpu.totals;
    let whole = totals.iter().map(|t| t.start_ns).min().zip(totals.iter().map(|t| t.end_ns).max());
    // Counted from the begin, as the longest waits of the wall-clock view are.
    let whole = whole.map(|(begin, end)| (0, end.saturating_sub(begin)));
    let spans = args.time.as_deref().map(|text| parse_times(text, whole)).transpose()?.unwrap_or_default();
    if spans.len() > 1 {
        bail!("--time: one span at a time");
    }
    let width = term::width();
    let opts = TimelineOpts {
        wall: args.waits.opts(0),
        columns: text::columns(width),
        span_ns: spans.first().copied(),
    };
    wall::check_thread(profile, &args.waits)?;
    let view = timeline(profile, &opts);
    if args.json {
        let mut out = out::stdout();
        writeln!(out, "{}", json_lines(&rows::timeline(&view)))?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (rows, with_idle) = (args.rows, args.waits.idle);
    let opts = TimelineTextOpts { width, colour: term::colours_stdout(), rows, with_idle };
    let path = path_strip(profile, args.waits.thread.as_deref(), &view);
    pager::start();
    let mut out = out::stdout();
    text::write(&mut out, &view, path.as_ref(), opts)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
