//! How time off the CPU is had here: the best that the machine allows, and why not better.
//!
//! A: BPF programs. B: the scheduler's tracepoints on all CPUs. C: switch records and looks at /proc. Each is tried,
//! none is guessed.

use crate::accounting::summary::Notice;
use crate::error::Error;
use crate::event::SystemSource;
use crate::machine::pid_filter::{self, Followed};
use crate::off_cpu::switches::ClockedThreads;
use crate::off_cpu::{self, Engine, ProcSampler, Scope, Source, Switches, Tier, Tracepoints};
use crate::open::event_fallback::{self, Setup};
use crate::open::target::Whom;
use crate::open::{Places, Start};
use crate::session::opts::RecordOpts;
use crate::sys::Child;

use super::begin;

/// The engine if it runs here, else why it does not; `None` if time off the CPU is not wanted.
pub(super) fn load_engine(
    opts: &RecordOpts,
    child: Option<&Child>,
    places: &Places,
) -> Option<Result<Engine, off_cpu::Error>> {
    let options = opts.off_cpu.as_ref()?;
    if options.best != Tier::Engine {
        return Some(Err(off_cpu::Error::NotWanted));
    }
    Some(Engine::load(&begin::scope_of(opts, child, places), options))
}

/// The events of a recording, opened, and the source of off-CPU time.
pub(super) struct OpenedTier {
    /// The requested options, without unavailable features.
    pub opts: RecordOpts,
    /// The events.
    pub setup: Setup,
    /// How they start.
    pub start: Start,
    /// The processes whose records count, if events of whole CPUs report others too.
    pub followed: Option<Followed>,
    /// The source of off-CPU time; `None` if there is none.
    pub source: Option<Source>,
    /// Tier B's clocks.
    pub switches: Option<(Switches, Tracepoints)>,
}

/// Where the events are opened, and how they start.
pub(super) struct OpeningPlan<'a> {
    pub places: &'a mut Places,
    pub start: Start,
}

/// Opens the events by the best tier that works.
pub(super) fn open(
    opts: &RecordOpts,
    engine: Option<Result<Engine, off_cpu::Error>>,
    child: Option<&Child>,
    at: OpeningPlan<'_>,
) -> Result<OpenedTier, Error> {
    let mut opts = opts.clone();
    match engine {
        None => opened(opts, None, at),
        Some(Ok(engine)) => open_beside_engine(opts, Box::new(engine), at),
        Some(Err(error)) => {
            let scope = begin::scope_of(&opts, child, at.places);
            if let Some(opened) = open_tracepoints(&opts, &scope, at.places, &error) {
                return Ok(opened);
            }
            // The next best: when threads ran is in switch records, why they waited in /proc, which need no rights.
            let looker = ProcSampler::new(&scope);
            opts.off_cpu = opts.off_cpu.filter(|_| looker.is_some());
            opts.extra.switches = true;
            let mut opened = opened(opts, looker.map(Source::ProcSampler), at)?;
            opened.setup.notices.push(Notice::NoOffCpu(error.short()));
            opened.setup.notices.extend(Notice::of_missing_proc());
            Ok(opened)
        }
    }
}

fn open_beside_engine(
    mut opts: RecordOpts,
    mut engine: Box<Engine>,
    at: OpeningPlan<'_>,
) -> Result<OpenedTier, Error> {
    // Children that began while it was loaded; from here on it follows them.
    if matches!(opts.target.whom, Whom::Trees(_) | Whom::User(_)) {
        let _ = engine.follow(&begin::scope_of(&opts, None, at.places));
    }
    // The engine counts switches itself, so records of each switch, which are expensive, are needed for a cgroup
    // only.
    opts.counts_switches = opts.summary && opts.target.cgroup.is_some();
    match pid_filter::open(&opts, &mut engine) {
        Some(setup) => Ok(by_cpu(opts, setup, at.places, Source::Engine(engine))),
        None => opened(opts, Some(Source::Engine(engine)), at),
    }
}

/// Opens events of tasks, or of CPUs for the whole system.
fn opened(mut opts: RecordOpts, source: Option<Source>, at: OpeningPlan<'_>) -> Result<OpenedTier, Error> {
    if !matches!(source, Some(Source::Engine(_))) {
        opts.counts_switches = opts.summary;
    }
    let setup = event_fallback::open(&opts, at.places, at.start)?;
    Ok(OpenedTier { opts, setup, start: at.start, followed: None, source, switches: None })
}

/// Events of whole CPUs; their records of processes other than the target are left out.
fn by_cpu(opts: RecordOpts, setup: Setup, places: &Places, source: Source) -> OpenedTier {
    let followed =
        (opts.target.whom != Whom::System).then(|| Followed::new(begin::processes_of(&places.tids)));
    OpenedTier { opts, setup, start: Start::ByHand, followed, source: Some(source), switches: None }
}

/// Tier B, if the tracepoints may be opened for all CPUs.
fn open_tracepoints(
    opts: &RecordOpts,
    scope: &Scope,
    places: &mut Places,
    why: &off_cpu::Error,
) -> Option<OpenedTier> {
    let mut opts = opts.clone();
    let off_cpu = opts.off_cpu.as_mut().filter(|options| options.best != Tier::Looks)?;
    let points = Tracepoints::find(&SystemSource::new())?;
    off_cpu.tracepoints = Some(points);
    let period_ns = off_cpu.period_ns;
    let setup = match (&opts.target.whom, &opts.target.cpus, &opts.target.cgroup) {
        (Whom::System, None, None) => event_fallback::open(&opts, places, Start::ByHand).ok()?,
        _ => pid_filter::open_whole(&opts, &places.tids)?,
    };
    let whose = match scope {
        // For a cgroup, events of whole CPUs are not opened for tracepoints.
        Scope::System | Scope::Cgroup(_) => ClockedThreads::AllBut(std::process::id()),
        Scope::Command(pid) => ClockedThreads::Command(*pid),
        Scope::Processes(_) => ClockedThreads::Processes,
        Scope::Threads(_) => ClockedThreads::Threads,
    };
    let mut opened = by_cpu(opts, setup, places, Source::by_tracepoints(scope));
    let switches = Switches::new(whose, period_ns).nested(off_cpu::is_nested());
    opened.switches = Some((switches, points));
    opened.setup.notices.push(Notice::ByTracepoints(why.short()));
    Some(opened)
}
