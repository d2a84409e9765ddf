//! A line for each switch, and CPU times by thread.

use super::millis;
use crate::events::sched::{SeenEvent, Watcher};
use crate::reading::tracepoints::{function, name_and_pid};
use crate::terminal::out::{self, TextOutput};
use display::number::seconds;
use profile::grow::GrownSum as _;
use profile::profile::Profile;
use profile::session::Session;
use profile::table::FrameId;
use profile::tracepoints::sched_events::timehist::{RunStats, ThreadKey, Timehist, Turn};
use profile::tracepoints::sched_events::{IDLE, SchedAction, TaskState};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Columns and lines to show.
#[derive(Clone, Debug, Default)]
pub struct TimehistOpts {
    /// A line for each switch.
    pub lines: bool,
    /// CPU times by thread at the end.
    pub summary: bool,
    /// A line for each wake-up.
    pub wakeups: bool,
    /// The next thread.
    pub next: bool,
    /// The state in which a thread leaves.
    pub state: bool,
    /// Only these CPUs; all if there is none.
    pub cpus: Vec<i32>,
    /// Only these threads.
    pub tids: Vec<i32>,
    /// Only threads of these processes.
    pub pids: Vec<i32>,
    /// Only threads with these names.
    pub comms: Vec<String>,
    /// Only this time, in ns of the recording's clock.
    pub within_ns: Option<(u64, u64)>,
    /// CPUs of the machine.
    pub all_cpus: u32,
}

/// Prints while the recording is read.
pub struct TimehistText {
    opts: TimehistOpts,
    timehist: Timehist,
    out: TextOutput,
    /// Lines whose functions have no names yet.
    waiting: Vec<Line>,
    names: FxHashMap<ThreadKey, String>,
    parents: FxHashMap<i32, i32>,
    /// Columns of the thread's name: as wide as the widest one so far.
    width: usize,
}

struct Line {
    text: String,
    frames: Vec<FrameId>,
}

/// Functions of the scheduler itself, at the leaf of every switch.
const OWN_FUNCTIONS: [&str; 3] = ["schedule", "__schedule", "preempt_schedule"];

impl TimehistText {
    /// Prints the heading.
    ///
    /// # Errors
    /// If that fails.
    pub fn new(opts: TimehistOpts) -> anyhow::Result<Self> {
        let mut out = out::stdout();
        if opts.lines {
            let state = |text: &str| if opts.state { text.to_owned() } else { String::new() };
            writeln!(
                out,
                "{:>15} {:>6}  {:30}  {:>9}  {:>9}  {:>9}{}",
                "time",
                "cpu",
                "task name",
                "wait time",
                "sch delay",
                "run time",
                state("  state")
            )?;
            writeln!(
                out,
                "{:>22}  {:30}  {:>9}  {:>9}  {:>9}",
                "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
            )?;
            let rule = |columns: usize| "-".repeat(columns);
            writeln!(
                out,
                "{} {}  {}  {}  {}  {}{}",
                rule(15),
                rule(6),
                rule(30),
                rule(9),
                rule(9),
                rule(9),
                state("  -----")
            )?;
        }
        Ok(Self {
            timehist: Timehist::within(opts.within_ns),
            opts,
            out,
            waiting: Vec::new(),
            names: FxHashMap::default(),
            parents: FxHashMap::default(),
            width: 30,
        })
    }

    /// `name[tid/pid]`, as perf writes it.
    fn task(&mut self, tid: i32, session: &mut Session) -> String {
        let (name, pid) = name_and_pid(session, tid);
        let text = match (tid, pid) {
            (IDLE, _) => "<idle>".to_owned(),
            (_, Some(pid)) if pid != tid => format!("{}[{tid}/{pid}]", out::harmless(&name)),
            _ => format!("{}[{tid}]", out::harmless(&name)),
        };
        self.width = self.width.max(text.chars().count());
        text
    }

    /// Whether lines of this thread are shown.
    fn is_selected(&self, tid: i32, session: &mut Session) -> bool {
        let opts = &self.opts;
        if opts.tids.is_empty() && opts.pids.is_empty() && opts.comms.is_empty() {
            return true;
        }
        let (name, pid) = name_and_pid(session, tid);
        opts.tids.contains(&tid)
            || pid.is_some_and(|pid| opts.pids.contains(&pid))
            || opts.comms.contains(&name)
    }

    fn switch(&self, seen: &SeenEvent, task: &str, turn: Turn, session: &mut Session) -> String {
        let SchedAction::Switch { prev, state, next } = seen.event.action else { return String::new() };
        let mut text = self.begin(seen, task);
        for ns in [turn.wait_ns, turn.delay_ns, turn.run_ns] {
            text.push_str(&format!("{:>10} ", millis(ns)));
        }
        if self.opts.state {
            text.push_str(&format!(" {:>5} ", state_letter(prev, state)));
        }
        if self.opts.next {
            let (name, _) = name_and_pid(session, next);
            let next =
                if next == IDLE { "<idle>".to_owned() } else { format!("{}[{next}]", out::harmless(&name)) };
            text.push_str(&format!(" {:<width$}", format!("next: {next}"), width = self.width));
        }
        if self.opts.wakeups && !self.opts.next {
            text.push_str(&format!("  {:width$}", "", width = self.width));
        }
        text
    }

    fn wake_up(&mut self, seen: &SeenEvent, tid: i32, session: &mut Session) -> String {
        let task = self.task(seen.tid, session);
        let mut text = self.begin(seen, &task);
        text.push_str(&format!(" {:9}  {:9}  {:9} ", "", "", ""));
        let woken = self.task(tid, session);
        text.push_str(&format!(" awakened: {woken}"));
        text
    }

    fn begin(&self, seen: &SeenEvent, task: &str) -> String {
        let (time, cpu) = (seconds(seen.event.time_ns), seen.event.cpu);
        format!("{time:>15} [{cpu:04}]  {task:width$} ", width = self.width)
    }

    /// Prints what is left, and CPU times if they are asked for.
    ///
    /// # Errors
    /// If printing fails.
    pub fn finish(mut self) -> anyhow::Result<()> {
        if self.opts.summary {
            self.summary()?;
        }
        Ok(self.out.flush()?)
    }

    fn summary(&mut self) -> anyhow::Result<()> {
        let out = &mut self.out;
        writeln!(out, "\nRuntime summary")?;
        writeln!(
            out,
            "{:>30}  {:>6}  {:>9}  {:>11}  {:>9}  {:>10}  {:>10}  {:>6}  migrations",
            "comm", "parent", "sched-in", "run-time", "min-run", "avg-run", "max-run", "stddev"
        )?;
        writeln!(
            out,
            "{:>30}  {:>6}  {:>9}  {:>11}  {:>9}  {:>10}  {:>10}  {:>6}",
            "", "", "(count)", "(msec)", "(msec)", "(msec)", "(msec)", "%"
        )?;
        writeln!(out, "{}", "-".repeat(117))?;
        let mut threads: Vec<(ThreadKey, &RunStats)> = self.timehist.threads().collect();
        threads.rank_by_key(|(key, stats)| (std::cmp::Reverse(stats.total_ns), *key));
        let (idle, threads): (Vec<_>, Vec<_>) = threads.into_iter().partition(|((tid, _), _)| *tid == IDLE);
        for (key, stats) in &threads {
            let name = self.names.get(key).map_or("", String::as_str);
            let parent = self.parents.get(&key.0).copied().unwrap_or(-1);
            writeln!(
                out,
                "{name:>30}  {parent:>6}  {:>9}  {:>11}  {:>9}  {:>10}  {:>10}  {:>6.2}  {:>6}",
                stats.count,
                millis(stats.total_ns),
                millis(stats.min_ns),
                millis(stats.mean_ns()),
                millis(stats.max_ns),
                stats.error_percent(),
                stats.migrations
            )?;
        }
        let span_ns = self.timehist.span_ns();
        writeln!(out, "\nIdle stats:")?;
        let last = idle.iter().filter_map(|((_, cpu), _)| *cpu).max().map_or(0, |cpu| cpu.saturating_add(1));
        for cpu in 0..self.opts.all_cpus.max(last).min(1 << 16) {
            match idle.iter().find(|((_, of), _)| *of == Some(cpu)) {
                Some((_, stats)) => {
                    let percent = 100.0 * stats.total_ns as f64 / span_ns.max(1) as f64;
                    writeln!(
                        out,
                        "    CPU {cpu:2} idle for {:>10}  msec  ({percent:6.2}%)",
                        millis(stats.total_ns)
                    )?;
                }
                None => writeln!(out, "    CPU {cpu:2} never idle in this time")?,
            }
        }
        let sum = |value: fn(&RunStats) -> u64| threads.iter().map(|(_, stats)| value(stats)).grown_sum();
        writeln!(out, "\n    Total number of unique tasks: {}", threads.len())?;
        writeln!(out, "Total number of context switches: {}", sum(|stats| stats.count))?;
        writeln!(out, "           Total run time (msec): {}", millis(sum(|stats| stats.total_ns)))?;
        writeln!(out, "    Total scheduling time (msec): {} (x {})", millis(span_ns), self.opts.all_cpus)?;
        Ok(())
    }
}

/// The idle thread never leaves for another reason than that there is work.
fn state_letter(tid: i32, state: TaskState) -> char {
    if tid == IDLE { 'I' } else { state.0 }
}

impl Watcher for TimehistText {
    fn seen(&mut self, seen: SeenEvent, session: &mut Session) -> anyhow::Result<()> {
        let turn = self.timehist.push(&seen.event);
        let cpu = seen.event.cpu.cast_signed();
        let cpu_shown = self.opts.cpus.is_empty() || self.opts.cpus.contains(&cpu);
        match (seen.event.action, turn) {
            (SchedAction::Switch { prev, .. }, Some(turn)) => {
                let task = self.task(prev, session);
                if self.opts.lines && cpu_shown && self.is_selected(prev, session) {
                    let text = self.switch(&seen, &task, turn, session);
                    let frames = if prev == IDLE { Vec::new() } else { seen.frames };
                    self.waiting.push(Line { text, frames });
                }
                if self.opts.summary {
                    self.names.insert((prev, (prev == IDLE).then_some(seen.event.cpu)), task);
                }
            }
            (SchedAction::Wake { tid }, _) if self.opts.lines && self.opts.wakeups && cpu_shown => {
                let within = self.opts.within_ns.unwrap_or((0, u64::MAX));
                let in_time = (within.0..=within.1).contains(&seen.event.time_ns);
                if in_time && (self.is_selected(tid, session) || self.is_selected(seen.tid, session)) {
                    let text = self.wake_up(&seen, tid, session);
                    self.waiting.push(Line { text, frames: Vec::new() });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn forked(&mut self, tid: i32, parent: i32) {
        self.parents.insert(tid, parent);
    }

    fn named(&mut self, profile: &Profile) -> anyhow::Result<()> {
        for line in self.waiting.drain(..) {
            let names = line.frames.iter().map(|&frame| function(profile, frame));
            let chain: Vec<&str> = names.filter(|name| !OWN_FUNCTIONS.contains(name)).collect();
            let gap = if chain.is_empty() { "" } else { "   " };
            writeln!(self.out, "{}{gap}{}", line.text, out::harmless(&chain.join(" <- ")))?;
        }
        Ok(())
    }
}
