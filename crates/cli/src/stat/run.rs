//! One counted run: start the command or watch what runs, wait, read.

mod orders;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use record::control::{Control, ControlPaths};
use record::count::{CountOpts, CountPlace, Counters, Reading};
use record::event::EventSpec;
use record::opts::Delay;
use record::stop_signals::{RunningCommand, SignalRole, StopSignals};
use record::sys::signal::{self, SIGTERM};
use record::sys::time::Clock;
use record::sys::{Child, CpuUse, ExitKind, Poller};
use record::{Error, Target, Whom};

use crate::terminal::out;
use counts::{
    Aggregation, Cell, CountRole, CountedRun, EventInfo, EventReadings, Grouping, Support, Topology,
};
use record::event::Tool;

/// Events, target and duration of a count.
#[derive(Debug, Clone)]
pub struct RunOpts {
    /// The events; tool events among them are taken here.
    pub events: Vec<EventSpec>,
    /// Target to watch.
    pub target: Target,
    /// Grouping of the readings: decides whether each CPU gets its own counter.
    pub by: Aggregation,
    /// The threads are all of the machine: those that did not run are not shown.
    pub all_threads: bool,
    /// Children don't count.
    pub no_inherit: bool,
    /// When counting starts.
    pub delay: Delay,
    /// Counts stay as they were read, also of events that shared the PMU.
    pub unscaled: bool,
    /// Other control over when to count.
    pub control: Option<ControlPaths>,
    /// Stop after this.
    pub timeout: Option<Duration>,
    /// Report each of these.
    pub interval: Option<Duration>,
    /// At most this many intervals.
    pub interval_count: Option<u32>,
}

/// Result of a run or an interval.
#[derive(Debug)]
pub struct Outcome {
    /// The counts.
    pub run: CountedRun,
    /// CPU time of the command; `None` if there was none.
    pub used: Option<CpuUse>,
    /// How the command ended.
    pub exit: Option<ExitKind>,
    /// The signal that ended the run early.
    pub interrupted: Option<i32>,
}

impl Outcome {
    /// Each event's count over all places; `None` where it wasn't counted.
    pub fn values(&self) -> Vec<Option<f64>> {
        debug_assert_eq!(self.run.grouping.by(), Aggregation::Global, "compared runs are summed up whole");
        let blocks = self.run.grouping.blocks(&self.run.readings);
        blocks.first().map(|block| block.cells.iter().map(Cell::value).collect()).unwrap_or_default()
    }
}

/// Runs once. `on_interval` gets what was counted in each interval, the last and shorter one included.
pub fn run_once(
    opts: &RunOpts,
    signals: &mut StopSignals,
    on_interval: &mut dyn FnMut(&Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let mut run = Run::prepare(opts, signals)?;
    run.start()?;
    run.wait(on_interval)?;
    if opts.interval.is_some() && opts.interval_count.is_none_or(|n| run.intervals < n) {
        on_interval(&run.interval(Clock::Monotonic.now_ns())?)?;
    }
    run.finish()
}

/// A run under way.
struct Run<'a> {
    opts: &'a RunOpts,
    signals: &'a mut StopSignals,
    child: Option<Child>,
    tids: Vec<u32>,
    counters: Counters,
    places: Vec<CountPlace>,
    grouping: Grouping,
    infos: Vec<EventInfo>,
    start_ns: u64,
    /// Readings at the end of the last interval.
    last: Vec<Vec<Option<Reading>>>,
    last_ns: u64,
    intervals: u32,
    exit: Option<ExitKind>,
    control: Option<Control>,
    /// Counting is still to be switched on, then.
    starts_at: Option<u64>,
}

/// The poller's number for commands.
const CONTROL: u64 = 1;

impl<'a> Run<'a> {
    fn prepare(opts: &'a RunOpts, signals: &'a mut StopSignals) -> anyhow::Result<Self> {
        let command: &[OsString] = &opts.target.command;
        let child = (!command.is_empty()).then(|| Child::fork(command, signals.reader()));
        let child = child.transpose().context("cannot fork")?;
        let tids = match (&opts.target.whom, &child) {
            (Whom::Command, Some(child)) => vec![child.pid()],
            (Whom::Command, None) => bail!(Error::NoTarget),
            _ => opts.target.threads()?,
        };
        let places = places(opts, &tids);
        let whole = matches!(opts.target.whom, Whom::Command) && opts.target.cpus.is_none();
        let at_once = opts.delay == Delay::None;
        let count = CountOpts { inherit: !opts.no_inherit, enable_on_exec: whole && at_once };
        let counters = Counters::open(&opts.events, &places, count)?;
        let control = opts.control.as_ref().map(Control::open).transpose().context("--control")?;
        let infos = opts.events.iter().enumerate().map(|(i, spec)| info(spec, counters.support(i))).collect();
        Ok(Self {
            opts,
            signals,
            child,
            grouping: grouping_here(opts.by, &places).only_counted(opts.all_threads).unscaled(opts.unscaled),
            control,
            starts_at: None,
            tids,
            counters,
            places,
            infos,
            start_ns: 0,
            last: Vec::new(),
            last_ns: 0,
            intervals: 0,
            exit: None,
        })
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let on_exec = matches!(self.opts.target.whom, Whom::Command) && self.opts.target.cpus.is_none();
        if self.opts.delay == Delay::None && !on_exec {
            self.counters.enable().context("cannot switch the counters on")?;
        }
        self.start_ns = Clock::Monotonic.now_ns();
        if let Some(child) = &mut self.child {
            let command = self.opts.target.command.first().map(|c| c.to_string_lossy().into_owned());
            child.exec().map_err(|source| Error::Exec { command: command.unwrap_or_default(), source })?;
        }
        if let Delay::After(delay) = self.opts.delay {
            self.starts_at = Some(self.start_ns.saturating_add(nanos(delay)));
        }
        self.last_ns = self.start_ns;
        Ok(())
    }

    /// Waits for the end.
    fn wait(&mut self, on_interval: &mut dyn FnMut(&Outcome) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let poller = Poller::new()?;
        poller.add(self.signals.as_fd(), 0)?;
        if let Some(control) = &self.control {
            control.watch(&poller, CONTROL).context("--control")?;
        }
        loop {
            let command = self.child.as_ref().map(|child| RunningCommand::of(child, self.role()));
            self.signals.take(command)?;
            if self.is_over()? || self.obey(on_interval)? {
                return Ok(());
            }
            self.signals.hint(command).iter().for_each(|hint| out::note(hint));
            let now = Clock::Monotonic.now_ns();
            self.start_late(now)?;
            if self.opts.timeout.is_some_and(|t| now >= self.start_ns.saturating_add(nanos(t))) {
                return self.end_child();
            }
            if self.opts.interval.is_some_and(|i| now >= self.last_ns.saturating_add(nanos(i))) {
                on_interval(&self.interval(now)?)?;
                self.intervals += 1;
                if self.opts.interval_count.is_some_and(|n| self.intervals >= n) {
                    return self.end_child();
                }
            }
            poller.wait(self.next_wake())?;
        }
    }

    fn role(&self) -> SignalRole {
        if self.opts.target.whom == Whom::Command { SignalRole::Recorded } else { SignalRole::Stopwatch }
    }

    fn is_over(&mut self) -> anyhow::Result<bool> {
        if let Some(child) = &mut self.child {
            self.exit = child.try_wait()?;
            return Ok(self.exit.is_some());
        }
        if self.signals.came().is_some() {
            return Ok(true);
        }
        let alive = |tid: &u32| Path::new(&format!("/proc/{tid}")).exists();
        Ok(!self.tids.is_empty() && !self.tids.iter().any(alive))
    }

    /// Ends the command because enough was counted: that it did not end by itself is no failure.
    fn end_child(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child {
            let _ = signal::send(child.pid(), SIGTERM);
            self.exit = Some(child.wait()?).filter(|exit| *exit != ExitKind::Signal(SIGTERM));
        }
        Ok(())
    }

    /// Time to the next interval, the timeout, or the next look at processes that are not our children.
    fn next_wake(&self) -> Option<Duration> {
        let now = Clock::Monotonic.now_ns();
        let interval = self.opts.interval.map(|i| self.last_ns.saturating_add(nanos(i)));
        let timeout = self.opts.timeout.map(|t| self.start_ns.saturating_add(nanos(t)));
        let look = (self.child.is_none() && !self.tids.is_empty()).then_some(now + 100_000_000);
        // For the hint to come when a command goes on although a signal came.
        let hint = (self.signals.came().is_some()).then_some(now + 500_000_000);
        let next = interval.into_iter().chain(hint).chain(timeout).chain(look).chain(self.starts_at).min()?;
        // Up to whole ms, or the wait would end a moment early and spin.
        Some(Duration::from_millis(next.saturating_sub(now).div_ceil(1_000_000)))
    }

    fn read(&self) -> anyhow::Result<Vec<Vec<Option<Reading>>>> {
        (0..self.infos.len()).map(|i| self.counters.read(i).context("cannot read a counter")).collect()
    }

    fn interval(&mut self, now: u64) -> anyhow::Result<Outcome> {
        let current = self.read()?;
        let since = |event: usize, place: usize, reading: &Option<Reading>| {
            let before =
                self.last.get(event).and_then(|e| e.get(place).copied().flatten()).unwrap_or_default();
            reading.map(|r| r.since(&before))
        };
        let places = current.iter().enumerate().map(|(event, places)| {
            places.iter().enumerate().map(|(place, reading)| since(event, place, reading)).collect()
        });
        let places: Vec<Vec<Option<Reading>>> = places.collect();
        let outcome = self.outcome(places, now - self.last_ns, now - self.start_ns);
        (self.last, self.last_ns) = (current, now);
        Ok(outcome)
    }

    fn outcome(&self, places: Vec<Vec<Option<Reading>>>, wall_ns: u64, at_ns: u64) -> Outcome {
        let used = self.child.as_ref().map(Child::used);
        let cpu = used.unwrap_or_default();
        let tool = |spec: &EventSpec| Some(tool_value(spec.tool?, wall_ns, cpu.user_ns, cpu.system_ns));
        let readings = self.opts.events.iter().zip(places).enumerate().map(|(i, (spec, places))| {
            EventReadings { support: self.counters.support(i), places, tool_ns: tool(spec) }
        });
        Outcome {
            run: CountedRun {
                readings: readings.collect(),
                grouping: self.grouping.clone(),
                places: self.places.clone(),
                infos: self.infos.clone(),
                wall_ns,
                at_ns,
            },
            used,
            exit: self.exit,
            interrupted: None,
        }
    }

    fn finish(self) -> anyhow::Result<Outcome> {
        let now = Clock::Monotonic.now_ns();
        if self.child.is_none() || self.opts.target.whom != Whom::Command {
            self.counters.disable().context("cannot switch the counters off")?;
        }
        let wall_ns = now - self.start_ns;
        let outcome = self.outcome(self.read()?, wall_ns, wall_ns);
        Ok(Outcome { interrupted: self.signals.came(), ..outcome })
    }
}

/// One counter for each thread, each CPU, or each thread on each CPU.
fn places(opts: &RunOpts, tids: &[u32]) -> Vec<CountPlace> {
    let by_cpu = !matches!(opts.by, Aggregation::Global | Aggregation::Thread) || opts.target.cpus.is_some();
    let needs_cpu = opts.events.iter().any(|e| e.cpus.is_some());
    if opts.target.is_system_wide() {
        return opts.target.cpus().into_iter().map(|c| CountPlace { cpu: Some(c), tid: None }).collect();
    }
    if !by_cpu && !needs_cpu {
        return tids.iter().map(|&t| CountPlace { cpu: None, tid: Some(t) }).collect();
    }
    let cpus = opts.target.cpus();
    tids.iter().flat_map(|&t| cpus.iter().map(move |&c| CountPlace { cpu: Some(c), tid: Some(t) })).collect()
}

fn info(spec: &EventSpec, support: Support) -> EventInfo {
    let mut info = info_of(spec);
    if support == Support::UserOnly {
        info.name.push_str(if info.name.contains(':') { "u" } else { ":u" });
    }
    info
}

/// The part of `spec` that the printers need.
pub fn info_of(spec: &EventSpec) -> EventInfo {
    let plain = EventInfo::of_attr(spec.name.clone(), &spec.attr);
    let tool = spec.tool.map(|_| (CountRole::Tool, "ns", 1.0));
    let (role, unit, scale) = tool.unwrap_or((plain.role, &plain.unit, plain.scale));
    EventInfo {
        unit: spec.unit.clone().unwrap_or_else(|| unit.to_owned()),
        scale: spec.scale.unwrap_or(scale),
        role,
        cgroup: spec.cgroup.clone(),
        name: plain.name,
        modes: plain.modes,
    }
}

/// Where each place of this machine belongs.
pub fn grouping_here(by: Aggregation, places: &[CountPlace]) -> Grouping {
    let comm = |tid: u32| dso::system_file::read_text(format!("/proc/{tid}/comm")).unwrap_or_default();
    Grouping::new(by, places, Topology { cpu_place: &record::count::cpu_place, comm: &comm })
}

/// The value of a tool event, in ns.
fn tool_value(tool: Tool, wall_ns: u64, user_ns: u64, system_ns: u64) -> u64 {
    match tool {
        Tool::DurationTime => wall_ns,
        Tool::UserTime => user_ns,
        Tool::SystemTime => system_ns,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
