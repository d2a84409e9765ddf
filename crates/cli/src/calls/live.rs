//! `tally calls live`: the table of functions while the program runs.
//!
//! By uprobes the kernel sums up, and only sums come out of it. An instrumented program writes its calls into files
//! that are read as they grow ([`super::tail`]); what was read is given back to the file system.

use ::record::calls::CallSource;
use ::record::scratch::{PlaceRule, ScratchFolder};
use ::record::sys::time::Clock;
use anyhow::Context;
use calls::model::{CallProfile, FileGrowth};
use display::term;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::observer::RecordingObserver;
use super::own_folder;
use super::record as recording;
use super::record_spec::RecordSpec;
use super::{slow_folder, slow_pane, table};
use crate::terminal::out;
use calls::probing::ProbePlan;
use calls::recording::folder::Folder;
use calls::recording::function::Function;
use calls::recording::functions::Functions;
use calls::recording::tail_reader::Tail;
use calls::selection::rules::Rules;
use calls::view::live_changes::LiveChanges;
use calls::view::slow_call::SlowSelection;
use display::number;

/// Lines that a screen keeps for what is around the table.
const FRAME_LINES: usize = 4;
/// Default number of lines of a table that is not on a terminal.
const LINES: usize = 20;
/// Lines of the last slow call that are printed at the end.
const SLOW_LINES_AT_END: usize = 100;
/// Puts the cursor into the first corner and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Print the table of functions every few seconds, and the whole at the end
#[derive(clap::Args)]
#[group(skip)]
#[command(after_help = "\
On a terminal the table is drawn in place, elsewhere one follows the other. Ctrl-C prints the last one and ends.
What chooses functions and programs is as in `tally calls record`. By uprobes only sums are made, in the kernel.
Calls/s, Time and the p99 trend are for the interval since the last table. A call is counted when it ends; of a recursion,
only the outermost call counts for the total. -T FUNC@slow=TIME also shows the last call of FUNC that took so long, and
what it did; -o DIR then keeps that one call, with all in it, as a recording.

Examples:
  tally calls live ./app                          a program built with -pg or the like: all its functions
  tally calls live -p 4711 -P 'parse_*'           a running process, these functions
  tally calls live -P malloc@libc -- ./app        how often and how long it allocates
  tally calls live -p 4711 -P 'parse*' -T parse@slow=10ms -o slow    and the last call of parse() that took 10 ms
  tally calls live -i 5 --sort p99 -n 10 ./app    the ten of the longest p99, every 5 seconds")]
pub struct Args {
    /// Seconds between two tables
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0, value_parser = crate::flags::recording::parse_seconds)]
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

/// Table to show, and when next.
pub struct LiveCalls {
    every: Duration,
    key: table::Key,
    lines: Option<usize>,
    on_terminal: bool,
    /// When it was first looked.
    begun: Option<Instant>,
    /// The same, ns of `CLOCK_MONOTONIC`.
    begun_ns: u64,
    shown: Instant,
    tail: Tail,
    functions: Functions,
    /// Content of the last table, to be printed whole at the end.
    last: Option<CallProfile>,
    changes: LiveChanges,
    /// Where the last slow call is kept.
    keep_slow: Option<PathBuf>,
    /// Notes about it besides its calls.
    command: String,
    /// How many there were when it was kept.
    kept: u64,
    /// The program that read the tables has ended; the recording is about to.
    is_unread: bool,
}

/// Runs the command.
///
/// # Errors
/// As `tally calls record`; if nothing can be printed.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { interval, sort, lines, record } = args;
    let mut record = record.spec();
    anyhow::ensure!(interval > 0.0, "--interval {interval}: more than 0 seconds");
    anyhow::ensure!(
        record.max_bytes.is_none(),
        "--max-bytes chooses which single calls are kept, and `live` keeps none; it is of `tally calls record`"
    );
    let selection = SlowSelection(Rules::new(&[], &record.trace)?.take_slow());
    check_slow(&selection, &record)?;
    let named =
        (record.output != Path::new(calls::recording::folder::DEFAULT)).then(|| record.output.clone());
    let (keep_slow, keep) = if selection.is_any() { (named, false) } else { (None, named.is_some()) };
    if let Some(dir) = &keep_slow {
        // Not found out when the first slow call is over.
        own_folder::prepare(dir)?;
    }
    let scratch = if keep { None } else { Some(ScratchFolder::for_programs("live", PlaceRule::ANY)?) };
    if let Some(folder) = &scratch {
        record.output = folder.path().join("calls");
    }
    record.no_switches = true;
    let mut live = LiveCalls {
        every: Duration::from_secs_f64(interval),
        key: sort,
        lines,
        on_terminal: io::stdout().is_terminal(),
        begun: None,
        begun_ns: 0,
        shown: Instant::now(),
        tail: Tail::new(
            (!keep).then_some(::record::sys::mem::give_back as _),
            ::record::sys::time::ticks_and_ns,
            record.min_ns.unwrap_or(0),
            selection,
        ),
        functions: Functions::new(),
        last: None,
        changes: LiveChanges::default(),
        keep_slow,
        command: record.command_text(),
        kept: 0,
        is_unread: false,
    };
    let code = recording::run_with(&record, Some(&mut live))?;
    live.print_last()?;
    Ok(code)
}

/// Whether slow calls of these functions can be distinguished here.
fn check_slow(selection: &SlowSelection, record: &RecordSpec) -> anyhow::Result<()> {
    let by_file = selection.0.iter().find(|(pattern, _)| pattern.file().is_some());
    if let Some((pattern, _)) = by_file {
        anyhow::bail!("-T {}@slow=: `live` takes functions by name, pattern or /REGEX/", pattern.text());
    }
    let sums_only = record.probes.counts || record.probes.entries;
    anyhow::ensure!(
        !(selection.is_any() && sums_only),
        "slow= keeps a single call, and --counts and --entries keep none; leave one of them out"
    );
    Ok(())
}

impl RecordingObserver for LiveCalls {
    fn wants_calls(&self) -> bool {
        self.tail.slow.selection().is_any()
    }

    fn look_at_folder(&mut self, dir: &Path, at_end: bool) -> anyhow::Result<()> {
        if !at_end && !self.is_time() {
            return Ok(());
        }
        let growth = if at_end { FileGrowth::Ended } else { FileGrowth::Going };
        let sum = self.tail.read(dir, &mut self.functions, growth)?;
        // A thread that ends cuts its file off after the last event: nothing is lost by that.
        drop(dso::shrunken_files());
        self.keep_slow(dir)?;
        self.show(sum, at_end)
    }

    fn look_at_probes(
        &mut self,
        source: &dyn CallSource,
        chosen: &ProbePlan,
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
}

impl LiveCalls {
    /// Writes the last slow call where it is to be kept, if it is a new one.
    fn keep_slow(&mut self, from: &Path) -> anyhow::Result<()> {
        let seen = self.tail.slow.seen;
        let (Some(to), Some(call), Some(clock)) = (&self.keep_slow, &self.tail.slow.last, self.tail.clock())
        else {
            return Ok(());
        };
        if std::mem::replace(&mut self.kept, seen) == seen {
            return Ok(());
        }
        let told = slow_pane::head(&self.tail.slow, &self.functions, None);
        let info = format!("command {}\nwall_ns {}\nnote0 {told}\n", self.command, call.total_ns);
        slow_folder::write(to, call, (&Folder::open_growing(from)?, clock), &info)
    }

    fn is_time(&mut self) -> bool {
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.begun_ns = Clock::Monotonic.now_ns();
            self.shown = Instant::now();
        }
        let due = self.shown.elapsed() >= self.every;
        if due {
            self.shown = Instant::now();
        }
        due
    }

    fn show(&mut self, sum: CallProfile, at_end: bool) -> anyhow::Result<()> {
        if !at_end && !self.is_unread {
            self.changes.take(&sum, self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()));
            let printed = self.print(&sum, false);
            self.is_unread = printed.as_ref().is_err_and(out::is_closed_pipe);
            if !self.is_unread {
                printed?;
            }
        }
        self.last = Some(sum);
        Ok(())
    }

    fn print(&self, sum: &CallProfile, at_end: bool) -> anyhow::Result<()> {
        let mut to = out::raw_stdout();
        let width = if self.on_terminal { term::width() } else { usize::MAX };
        let on_screen = self.on_terminal && !at_end;
        let slow = self.slow_lines(at_end, width);
        let room = term::height().saturating_sub(FRAME_LINES + slow.len());
        let screen = if on_screen { room } else { LINES };
        let after = self.begun.map_or(0, |begun| begun.elapsed().as_nanos() as u64);
        if on_screen {
            write!(to, "{CLEAR}")?;
        }
        let ends = if on_screen { "; Ctrl-C ends" } else { "" };
        let rows = if at_end { self.lines } else { Some(self.lines.unwrap_or(screen)) };
        let begin = format!("after {}: ", number::duration_ns(after));
        let told = match at_end {
            true => table::footer(sum),
            false => table::footer_within(sum, width.saturating_sub(begin.chars().count() + ends.len())),
        };
        writeln!(to, "{begin}{told}{ends}")?;
        let changes = Some(&self.changes).filter(|_| !at_end);
        let opts = table::TableOpts { key: self.key, rows, width, changes };
        table::write_within(&mut to, sum, &self.functions, opts)?;
        slow.iter().try_for_each(|line| writeln!(to, "{line}"))?;
        if !self.on_terminal {
            writeln!(to)?;
        }
        to.flush().context("can't print")
    }

    /// Lines about the last slow call, an empty line before them: at most half of a screen.
    fn slow_lines(&self, at_end: bool, width: usize) -> Vec<String> {
        if !self.wants_calls() {
            return Vec::new();
        }
        let most = match (at_end, self.on_terminal) {
            (true, _) => SLOW_LINES_AT_END,
            (false, true) => term::height() / 2,
            (false, false) => LINES,
        };
        let since = self.begun_ns;
        let mut lines = slow_pane::lines(&self.tail.slow, &self.functions, since, most.saturating_sub(1));
        if let (true, Some(dir), Some(_)) = (at_end, &self.keep_slow, &self.tail.slow.last) {
            lines.push(format!(
                "kept in {0}: `tally calls replay -i {0}` prints it call by call",
                dir.display()
            ));
        }
        lines.insert(0, String::new());
        lines.iter().map(|line| line.chars().take(width).collect()).collect()
    }

    fn print_last(&self) -> anyhow::Result<()> {
        let Some(sum) = &self.last else { return Ok(()) };
        if self.on_terminal {
            write!(out::raw_stdout(), "{CLEAR}")?;
        }
        self.print(sum, true)
    }
}
