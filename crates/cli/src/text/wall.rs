//! The wall-clock view as text: where all threads' time went, on the CPU and off it.

mod waits;

use crate::terminal::out::harmless;
use display::fit::{cut, hang};
use display::number::{count_of, duration_ns, grouped, noun};
use display::term::{Paint, paint};
use exchange::text::histogram::write_pair;
use perfdata::off_cpu::flag;
use profile::Profile;
use profile::grow::Grow as _;
use profile::off_cpu::{OffCpuSource, WaitReason};
use profile::view::ranking::RankRows as _;
pub use profile::view::wall::place_text;
use profile::view::wall::{FunctionRow, Histogram, IdleGroup, ThreadRow, Times, Wall, idle_groups};
use std::io::{self, Write};

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct WallTextOpts {
    /// Columns.
    pub width: usize,
    /// Columns of lines that end in a name.
    pub names_width: usize,
    /// With colours.
    pub colour: bool,
    /// Rows per list.
    pub rows: usize,
    /// Idle counts in percentages.
    pub with_idle: bool,
    /// Shorter waits are in no list; 0: all are.
    pub min_block_ns: u64,
}

/// Prints the view.
///
/// # Errors
/// Standard output can't be written.
pub fn write(out: &mut dyn Write, profile: &Profile, wall: &Wall, opts: WallTextOpts) -> io::Result<()> {
    let printer = Printer { profile, wall, opts, reasons: reasons(wall, opts.width) };
    printer.whole(out)?;
    printer.threads(out)?;
    printer.functions(out)?;
    printer.histograms(out)?;
    printer.run_queue(out)?;
    printer.places(out)?;
    printer.targets(out)?;
    printer.longest(out)?;
    exchange::text::goroutines::write(out, profile, opts.rows)
}

/// One bar of a whole: `on CPU 41.0 %  runnable 2.1 %  futex 30.2 % …`, largest first.
#[must_use]
pub fn shares(times: &Times, with_idle: bool) -> Vec<(&'static str, f64)> {
    let whole = if with_idle { times.total_ns() } else { times.active_ns() };
    let mut parts = vec![("runnable", times.runnable_ns), ("preempted", times.preempted_ns)];
    parts.extend(times.blocked_ns.iter().map(|(reason, &ns)| (reason.name(), ns)));
    if with_idle {
        parts.push(("idle", times.idle_ns));
    }
    parts.retain(|(_, ns)| *ns > 0);
    parts.rank_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    parts.insert(0, ("on CPU", times.on_ns));
    parts.into_iter().map(|(name, ns)| (name, pct(ns, whole))).collect()
}

/// Columns of the numbers that are in every table.
const NUMBERS: usize = 9 + 3 * 8 + 8;
/// Columns of a share at least, without the blank before it.
const SHARE: usize = 7;
/// Columns a function's name should have at least.
const NAME: usize = 20;
/// Columns a thread's name has at least.
const THREAD_NAME: usize = 8;
/// Columns from which threads have their idle time.
const ROOM_FOR_IDLE: usize = 72;
/// Columns of a list's title, before the text that explains it.
const TITLE: usize = 13;

/// The reasons worth a column: most time first, at most five, as many as fit.
fn reasons(wall: &Wall, width: usize) -> Vec<WaitReason> {
    let mut reasons: Vec<(WaitReason, u64)> = wall.whole.blocked_ns.iter().map(|(&r, &ns)| (r, ns)).collect();
    reasons.retain(|&(reason, ns)| ns > 0 && reason != WaitReason::Other);
    reasons.rank_by_key(|&(reason, ns)| (std::cmp::Reverse(ns), reason));
    let mut room = width.saturating_sub(NUMBERS + NAME + 2);
    let mut chosen = Vec::new();
    for (reason, _) in reasons.into_iter().take(5) {
        let columns = columns_of(reason) + 1;
        if columns > room {
            break;
        }
        room = room.saturating_sub(columns);
        chosen.push(reason);
    }
    chosen
}

/// Columns of a reason, without the blank before it.
fn columns_of(reason: WaitReason) -> usize {
    reason.name().chars().count().max(SHARE)
}

struct Printer<'a> {
    profile: &'a Profile,
    wall: &'a Wall,
    opts: WallTextOpts,
    reasons: Vec<WaitReason>,
}

impl Printer<'_> {
    fn heading(&self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        writeln!(out, "\n{}", paint(&self.fitted(text, TITLE), Paint::Bold, self.opts.colour))
    }

    /// A sentence in as many lines as a narrow terminal needs.
    fn fitted(&self, text: &str, indent: usize) -> String {
        hang(text, indent, self.opts.names_width)
    }

    /// Columns of a row before its name; `idle` is true of rows with a column for idle time.
    fn before_name(&self, idle: bool) -> usize {
        let reasons: usize = self.reasons.iter().map(|reason| columns_of(*reason) + 1).sum();
        NUMBERS + reasons + 2 + if idle { 9 } else { 0 }
    }

    fn base_ns(&self, times: &Times) -> u64 {
        if self.opts.with_idle { times.total_ns() } else { times.active_ns() }
    }

    fn whole(&self, out: &mut dyn Write) -> io::Result<()> {
        let wall = self.wall;
        let idle = match wall.whole.idle_ns {
            0 => String::new(),
            ns if self.opts.with_idle => format!(", of it idle {}", duration_ns(ns)),
            ns => format!("\n  and idle {}, left out below (--idle counts it)", duration_ns(ns)),
        };
        let short = match self.opts.min_block_ns {
            0 => String::new(),
            ns => {
                format!("\n  waits under {} count here and by thread, but are in no list", duration_ns(ns))
            }
        };
        let active = duration_ns(self.base_ns(&wall.whole));
        let threads = count_of(wall.threads.len() as u64, "thread", "threads");
        let whole =
            format!("WALL CLOCK   {active} of thread time in {} ({threads})", duration_ns(wall.wall_ns));
        writeln!(out, "{}{idle}{short}", self.fitted(&whole, TITLE))?;
        let source = match wall.source {
            Some(OffCpuSource::Tally) | None => "",
            Some(OffCpuSource::Tracepoints) => "from sched tracepoints: exact as long as no event was lost",
            Some(OffCpuSource::PerfOffCpu) => {
                "from perf's offcpu-time: waits include the wait for a CPU; states are not recorded, and a thread lives as \
                 long as its samples of the CPU's clock and its waits add up to"
            }
            Some(OffCpuSource::Looks) => {
                "from switch records; reasons and stacks by looks at /proc: short waits have none, and waits include the \
                 wait for a CPU"
            }
            Some(OffCpuSource::SwitchRecords) => "from switch records: no stacks and no reasons of waits",
        };
        if !source.is_empty() {
            writeln!(out, "{}", self.fitted(&format!("  ({source})"), 3))?;
        }
        let backwards = self.profile.off_cpu.backwards;
        if backwards > 0 {
            writeln!(
                out,
                "  ({} ended before they began, by the clocks of two CPUs: taken to be 0 long)",
                count_of(backwards, "wait", "waits")
            )?;
        }
        let shares = shares(&wall.whole, self.opts.with_idle);
        let of = |(name, pct): &(&str, f64)| format!("{name} {pct:.1} %").replace(' ', "\u{a0}");
        let text: Vec<String> = shares.iter().map(of).collect();
        let line = self.fitted(&format!("  {}", text.join("\u{a0}\u{a0} ")), 2);
        let lines = line.lines().map(|line| line.replace('\u{a0}', " ").trim_end().to_owned());
        writeln!(out, "{}", Vec::from_iter(lines).join("\n"))
    }

    fn columns(&self) -> String {
        let mut head = format!("{:>9} {:>7} {:>7} {:>7}", "total", "on", "runq", "preempt");
        for reason in &self.reasons {
            head += &format!(" {:>1$}", reason.name(), columns_of(*reason));
        }
        head + &format!(" {:>7}", if self.reasons.is_empty() { "waits" } else { "other" })
    }

    fn cells(&self, times: &Times, whole_ns: u64) -> String {
        let share = |ns: u64| if ns == 0 { "·".to_owned() } else { format!("{:.1}%", pct(ns, whole_ns)) };
        let total = duration_ns(self.base_ns(times));
        let (on, runq, preempt) = (share(times.on_ns), share(times.runnable_ns), share(times.preempted_ns));
        let mut text = format!("{total:>9} {on:>7} {runq:>7} {preempt:>7}");
        let mut named = 0u64;
        for reason in &self.reasons {
            let ns = times.blocked_ns.get(reason).copied().unwrap_or(0);
            named.grow(ns);
            text += &format!(" {:>1$}", share(ns), columns_of(*reason));
        }
        text + &format!(" {:>7}", share(times.blocked_total_ns().saturating_sub(named)))
    }

    fn threads(&self, out: &mut dyn Write) -> io::Result<()> {
        let shares = match self.opts.with_idle {
            true => "THREADS      share of each thread's own time",
            false => "THREADS      time and shares without idle; idle: share of the thread's life",
        };
        self.heading(out, shares)?;
        // A narrow terminal has room for names or for idle time; that of threads which are shown is mostly 0.
        let has_idle = self.opts.with_idle || self.opts.names_width >= ROOM_FOR_IDLE;
        let idle_cell = |text: &str| if has_idle { format!("  {text:>7}") } else { String::new() };
        writeln!(out, "{}{}  thread", self.columns(), idle_cell("idle"))?;
        let (idle, busy): (Vec<&ThreadRow>, Vec<&ThreadRow>) =
            self.wall.threads.iter().partition(|row| row.is_idle() && !self.opts.with_idle);
        for row in busy.iter().take(self.opts.rows) {
            let whole = self.base_ns(&row.times);
            let idle = format!("{:.1}%", pct(row.times.idle_ns, row.times.total_ns()));
            let name = row.label();
            let tid = row.tid.to_string();
            let room = self.opts.names_width.saturating_sub(self.before_name(has_idle) + tid.len() + 1);
            let name = cut(&harmless(&name), room.max(THREAD_NAME));
            writeln!(out, "{}{}  {name} {tid}", self.cells(&row.times, whole), idle_cell(&idle))?;
        }
        let more = busy.iter().skip(self.opts.rows).map(|row| self.base_ns(&row.times));
        writeln_more(out, more, ["thread", "threads"])?;
        let groups = idle_groups(&idle);
        for group in groups.iter().take(self.opts.rows) {
            let line = cut(&idle_line(group), self.opts.names_width.max(60));
            writeln!(out, "{}", paint(&line, Paint::Dim, self.opts.colour))?;
        }
        let more = groups.iter().skip(self.opts.rows).map(|group| group.idle_ns);
        writeln_more(out, more, ["idle thread name", "idle thread names"])
    }

    fn functions(&self, out: &mut dyn Write) -> io::Result<()> {
        let whole = self.base_ns(&self.wall.whole);
        let shown = |row: &&FunctionRow| !row.kernel;
        self.heading(out, "FUNCTIONS    with the functions they call; share of all thread time")?;
        writeln!(out, "{}  function", self.columns())?;
        for row in self.wall.functions.iter().filter(shown).take(self.opts.rows) {
            writeln!(out, "{}  {}", self.cells(&row.children, whole), self.function(row))?;
        }
        self.heading(out, "FUNCTIONS    own time, system calls included; share of all thread time")?;
        writeln!(out, "{}  function", self.columns())?;
        let mut own: Vec<&FunctionRow> =
            self.wall.functions.iter().filter(|row| row.own.total_ns() > 0).collect();
        own.rank_by_key(|row| std::cmp::Reverse(self.base_ns(&row.own)));
        for row in own.into_iter().take(self.opts.rows) {
            writeln!(out, "{}  {}", self.cells(&row.own, whole), self.function(row))?;
        }
        Ok(())
    }

    fn function(&self, row: &FunctionRow) -> String {
        let dso = if row.dso.is_empty() { String::new() } else { format!("  {}", row.dso) };
        let text = format!("{}{dso}", row.name);
        cut(&harmless(&text), self.opts.names_width.saturating_sub(self.before_name(false)).max(1))
    }

    fn histograms(&self, out: &mut dyn Write) -> io::Result<()> {
        self.heading(out, "WAITS        how long each took")?;
        writeln!(out, "{:>9} {:>8} {:>8} {:>8} {:>8}", "count", "mean", "p50", "p99", "max")?;
        let mut row = |name: &str, histogram: &Histogram| -> io::Result<()> {
            if histogram.count() == 0 {
                return Ok(());
            }
            let [p50, p99] = [50.0, 99.0].map(|pct| duration_ns(histogram.percentile_ns(pct)));
            let (mean, max) = (duration_ns(histogram.mean_ns()), duration_ns(histogram.max_ns()));
            let count = grouped(histogram.count());
            writeln!(out, "{count:>9} {mean:>8} {p50:>8} {p99:>8} {max:>8}  {name}")
        };
        row("run queue", &self.wall.run_queue)?;
        self.wall.waits.iter().try_for_each(|(reason, histogram)| row(reason.name(), histogram))
    }

    /// The waits for a CPU again, in powers of two.
    fn run_queue(&self, out: &mut dyn Write) -> io::Result<()> {
        let (woken, preempted) = (&self.wall.run_queue, &self.wall.preempted);
        if woken.count() + preempted.count() == 0 {
            return Ok(());
        }
        self.heading(out, "RUN QUEUE    how long threads waited for a CPU: once woken, and preempted")?;
        let width = (self.opts.width.clamp(60, 120) - 38) / 2;
        write_pair(out, ["woken", "preempted"], [woken, preempted], width)
    }
}

/// The rows that a list leaves out, with the time of each in ns. Nothing if it shows all.
fn writeln_more(out: &mut dyn Write, rows: impl Iterator<Item = u64>, kinds: [&str; 2]) -> io::Result<()> {
    let (count, ns) = rows.fold((0, 0), |(count, sum): (u64, u64), ns| (count + 1, sum.saturating_add(ns)));
    if count == 0 {
        return Ok(());
    }
    let kind = noun(count, kinds[0], kinds[1]);
    writeln!(out, "{:>9} more {kind} with {} (--rows)", grouped(count), duration_ns(ns))
}

/// `8 idle threads: worker (99.8 % of their time waiting for work)`
fn idle_line(group: &IdleGroup) -> String {
    let threads = noun(group.threads, "idle thread", "idle threads");
    let (name, idle) = (harmless(&group.name), pct(group.idle_ns, group.life_ns));
    let whose = noun(group.threads, "its", "their");
    format!("{:>9} {threads}: {name} ({idle:.1} % of {whose} time waiting for work)", group.threads)
}

/// True if the recording has waits whose stack could not be kept.
#[must_use]
pub fn has_stale(profile: &Profile) -> bool {
    profile.off_cpu.waits.iter().any(|wait| wait.flags & (flag::STALE | flag::NO_ROOM) != 0)
}

fn pct(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
