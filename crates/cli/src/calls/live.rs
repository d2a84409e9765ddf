//! `tally calls live`: the table of functions while the program runs.
//!
//! By uprobes the kernel sums up, and only sums come out of it. An instrumented program writes its calls into files
//! that are read as they grow ([`super::tail`]); what was read is given back to the file system.

use ::record::calls::Source;
use anyhow::Context;
use profile::calls::CallProfile;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::choose::Chosen;
use super::names::{Function, Functions};
use super::record as recording;
use super::table;
use super::tail::Tail;
use crate::text::number;
use crate::{out, term};

/// Lines that a screen keeps for what stands around the table.
const FRAME_LINES: usize = 4;
/// Lines of a table that is not on a terminal, unless told.
const LINES: usize = 20;
/// Puts the cursor into the first corner and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Print the table of functions every few seconds while a program runs, and the whole at its end
#[derive(clap::Args)]
#[group(skip)]
#[command(after_help = "\
On a terminal the table is drawn in place, elsewhere one follows the other. Ctrl-C prints the last one and ends.
What chooses functions and programs is as in `tally calls record`. By uprobes only sums are made, in the kernel.
A call is counted when it ends; the outermost of a recursion brings the total.

Examples:
  tally calls live ./app                          a program built with -pg or the like: all its functions
  tally calls live -p 4711 -P 'parse_*'           a running process, these functions
  tally calls live -P malloc@libc -- ./app        how often and how long it allocates
  tally calls live -i 5 --sort p99 -n 10 ./app    the ten of the longest p99, every 5 seconds")]
pub struct Args {
    /// Seconds between two tables
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
    /// Sort by this
    #[arg(long, value_enum, default_value_t, value_name = "KEY")]
    sort: table::Key,
    /// Print only the first N lines [default: what the terminal holds, else 20]
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    #[command(flatten)]
    record: recording::Args,
}

/// What is shown, and when next.
pub struct Live {
    every: Duration,
    key: table::Key,
    lines: Option<usize>,
    on_terminal: bool,
    /// When it was first looked.
    begun: Option<Instant>,
    shown: Instant,
    tail: Tail,
    functions: Functions,
    /// What the last table showed, to be printed whole at the end.
    last: Option<CallProfile>,
}

/// Runs the command.
///
/// # Errors
/// As `tally calls record`; if nothing can be printed.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { interval, sort, lines, mut record } = args;
    anyhow::ensure!(interval > 0.0, "--interval {interval}: more than 0 seconds");
    anyhow::ensure!(
        record.max_bytes.is_none(),
        "--max-bytes chooses which single calls are kept, and `live` keeps none; it is of `tally calls record`"
    );
    let keep = record.output != Path::new(super::folder::DEFAULT);
    if !keep {
        record.output = temporary();
    }
    record.no_switches = true;
    let mut live = Live {
        every: Duration::from_secs_f64(interval),
        key: sort,
        lines,
        on_terminal: io::stdout().is_terminal(),
        begun: None,
        shown: Instant::now(),
        tail: Tail::new(!keep),
        functions: Functions::new(),
        last: None,
    };
    let ended = recording::run_with(&record, Some(&mut live));
    if !keep {
        // What could not be removed lies among the temporary files, where it is swept.
        let _ = std::fs::remove_dir_all(&record.output);
    }
    let code = ended?;
    live.print_last()?;
    Ok(code)
}

/// Whether an instrumented program can be looked at while these flags are followed.
///
/// # Errors
/// If the recorder in it would take back calls that were read already.
pub fn check_recorder(args: &recording::Args) -> anyhow::Result<()> {
    let drops = args.min_ns.is_some() || args.trace.trigger.iter().any(|text| text.contains("slow="));
    anyhow::ensure!(
        !drops,
        "-t and slow= take back calls that were read already; with --uprobes `live` takes -t, `tally calls record` both"
    );
    Ok(())
}

/// A folder of our own among the temporary files.
fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("tally-live-{}", std::process::id()))
}

impl Live {
    /// The folder that an instrumented program writes has grown.
    ///
    /// # Errors
    /// If it can't be read, or the table not be printed.
    pub fn look_at_folder(&mut self, dir: &Path, at_end: bool) -> anyhow::Result<()> {
        if !at_end && !self.is_time() {
            return Ok(());
        }
        let sum = self.tail.read(dir, &mut self.functions, at_end)?;
        self.show(sum, at_end)
    }

    /// The probes have summed up more.
    ///
    /// # Errors
    /// If the table can't be printed.
    pub fn look_at_probes(
        &mut self,
        source: &dyn Source,
        chosen: &Chosen,
        at_end: bool,
    ) -> anyhow::Result<()> {
        if !at_end && !self.is_time() {
            return Ok(());
        }
        let mut sum = CallProfile::new(0, 0);
        for (number, sums) in source.sums() {
            let number = number as usize;
            let dso = chosen.functions.get(number).and_then(|function| chosen.objects.get(function.object));
            let dso = dso.and_then(|object| object.path.file_name()).unwrap_or_default();
            let name = chosen.names.get(number).cloned().unwrap_or_default();
            let id = self.functions.number(Function::new(name, dso.to_string_lossy().into_owned()));
            if let Some(stats) = super::totals::stats_of(sums) {
                sum.add_function(id, &stats);
            }
        }
        self.show(sum, at_end)
    }

    fn is_time(&mut self) -> bool {
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.shown = Instant::now();
        }
        let due = self.shown.elapsed() >= self.every;
        if due {
            self.shown = Instant::now();
        }
        due
    }

    fn show(&mut self, sum: CallProfile, at_end: bool) -> anyhow::Result<()> {
        if !at_end {
            self.print(&sum, false)?;
        }
        self.last = Some(sum);
        Ok(())
    }

    fn print(&self, sum: &CallProfile, at_end: bool) -> anyhow::Result<()> {
        let mut to = out::stdout();
        let screen =
            if self.on_terminal && !at_end { term::height().saturating_sub(FRAME_LINES) } else { LINES };
        let after = self.begun.map_or(0, |begun| begun.elapsed().as_nanos() as u64);
        if self.on_terminal && !at_end {
            write!(to, "{CLEAR}")?;
        }
        let ends = if self.on_terminal && !at_end { "; Ctrl-C ends" } else { "" };
        let rows = if at_end { self.lines } else { Some(self.lines.unwrap_or(screen)) };
        let width = if self.on_terminal { term::width() } else { usize::MAX };
        let begin = format!("after {}: ", number::duration_ns(after));
        let told = match at_end {
            true => table::footer(sum),
            false => table::footer_within(sum, width.saturating_sub(begin.chars().count() + ends.len())),
        };
        writeln!(to, "{begin}{told}{ends}")?;
        table::write_within(&mut to, (sum, &self.functions), (self.key, rows), width)?;
        if !self.on_terminal {
            writeln!(to)?;
        }
        to.flush().context("can't print")
    }

    fn print_last(&self) -> anyhow::Result<()> {
        let Some(sum) = &self.last else { return Ok(()) };
        if self.on_terminal {
            out::line(CLEAR.trim_end())?;
        }
        self.print(sum, true)
    }
}
