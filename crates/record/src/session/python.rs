//! Python's frames along with a recording: loaded while events are opened, hung on them, started.

use std::path::Path;
use std::thread::JoinHandle;

use crate::error::Error;
use crate::machine::proc;
use crate::off_cpu::OffCpu;
use crate::open::Places;
use crate::open::event_fallback::Setup;
use crate::open::plan::mode_of;
use crate::open::target::Whom;
use crate::runtimes::command_variable::{RuntimeSupport, is_binary, of_command, program_file};
use crate::runtimes::dotnet::is_dotnet;
use crate::runtimes::goroutines::GoPrograms;
use crate::runtimes::hotspot::is_jvm;
use crate::runtimes::python::{PythonEngine, PythonReader, SwitchCopies, is_possible};
use crate::session::opts::{CallGraph, RecordOpts};
use crate::summary::{COMMAND_OF_DOTNET, COMMAND_OF_JVM, Notice};
use crate::sys::Child;
use crate::sys::time::Clock;

use super::begin;

/// Whether Python's frames are read where timers take the samples: only here is a thread found by its thread pointer.
pub(super) const READ_AT_TIMERS: bool = cfg!(target_arch = "x86_64");

/// Request to the command's runtime; `by_timers`: no event of the kernel's is used.
pub(super) fn support_of(opts: &RecordOpts, by_timers: bool) -> Option<RuntimeSupport> {
    let own = |name: &str| std::env::var_os(name);
    let is_wanted = opts.stacks.runtimes && opts.target.whom == Whom::Command && !opts.traces();
    let reads_python = is_possible() || (by_timers && READ_AT_TIMERS);
    if is_wanted { of_command(&opts.target.command, &own, reads_python) } else { None }
}

/// Whether some event's stacks are to be unwound here; all others have no use for Python's frames.
fn unwinds_here(opts: &RecordOpts) -> bool {
    let live = |of: CallGraph| of == CallGraph::Live;
    live(opts.stacks.call_graph) || opts.events.iter().any(|event| live(mode_of(event, opts)))
}

/// The JVMs and .NET runtimes among the watched processes, which may be asked for the names of their code.
pub(super) fn asked_runtimes(opts: &RecordOpts, places: &Places) -> Vec<u32> {
    let is_wanted = opts.stacks.runtimes && opts.target.is_attached() && !opts.traces();
    let pids = if is_wanted { begin::processes_of(&places.tids) } else { Vec::new() };
    pids.into_iter().filter(|pid| is_jvm(*pid) || is_dotnet(*pid)).collect()
}

/// Which of them will be asked: those whose names can't be read in their memory.
pub(super) fn asking_notices(pids: &[u32]) -> Vec<Notice> {
    let (jvms, others): (Vec<u32>, Vec<u32>) = pids.iter().partition(|pid| is_jvm(**pid));
    let is_asked = jvms.iter().any(|pid| !proc::is_memory_readable(*pid));
    let java = is_asked.then_some(Notice::RuntimeSupport("Java", COMMAND_OF_JVM));
    let dotnet = (!others.is_empty()).then_some(Notice::RuntimeSupport(".NET", COMMAND_OF_DOTNET));
    java.into_iter().chain(dotnet).collect()
}

/// Whether to wait for the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The command may be Python from its first instruction on, or its processes run already.
    Awaited,
    /// The command is a program of its own, that runs Python milliseconds later if at all.
    WhenLoaded,
}

impl Arrival {
    /// As this command needs it. Threads that exist when the programs come never run them, and Go starts its
    /// threads at once.
    pub(super) fn of(opts: &RecordOpts, reader: Option<&PythonReader>) -> Self {
        let own = |name: &str| std::env::var_os(name);
        let is_go = reader.is_some_and(PythonReader::knows_go);
        let may_wait = opts.target.whom == Whom::Command && !is_go && is_binary(&opts.target.command, &own);
        if may_wait { Self::WhenLoaded } else { Self::Awaited }
    }
}

/// Frames of waits, if those are recorded. A command that may be Python at once, or is Go, has them from its first wait
/// on.
fn switch_copies(opts: &RecordOpts) -> impl FnOnce() -> SwitchCopies + Send + 'static {
    let own = |name: &str| std::env::var_os(name);
    let (has_waits, whom) = (opts.off_cpu.is_some(), opts.target.whom.clone());
    let is_binary = is_binary(&opts.target.command, &own);
    let file = opts.target.command.first().and_then(|program| program_file(program, &own));
    move || match whom {
        _ if !has_waits => SwitchCopies::Never,
        Whom::Command if !is_binary || file.is_some_and(|file| is_go(&file)) => SwitchCopies::Prepared,
        _ => SwitchCopies::WhereFound,
    }
}

fn is_go(file: &Path) -> bool {
    let mut programs = GoPrograms::default();
    programs.learn(file);
    !programs.layouts().is_empty()
}

/// The BPF programs while the kernel checks them.
#[derive(Debug)]
pub(super) struct Loading(Option<JoinHandle<Option<PythonEngine>>>);

/// Where the programs are attached.
pub(super) struct SampleSource<'a> {
    pub setup: &'a Setup,
    /// The off-CPU engine, if its program chooses the samples.
    pub chooser: Option<&'a mut OffCpu>,
}

impl Loading {
    /// Begins to load them, where stacks are unwound here and its clock is theirs.
    pub(super) fn begin(opts: &RecordOpts) -> Self {
        let is_wanted = opts.stacks.runtimes && opts.clock == Clock::Monotonic && !opts.traces();
        if !is_wanted || !unwinds_here(opts) || !is_possible() {
            return Self(None);
        }
        let switches = switch_copies(opts);
        let load = move || PythonEngine::load(switches()).ok();
        Self(std::thread::Builder::new().name("tally-python".to_owned()).spawn(load).ok())
    }

    /// No programs.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// The reader of Python's frames, whose programs may come later: see [`Loading::arrive`]. `None` where stacks
    /// aren't unwound here.
    pub(super) fn reader(&mut self, setup: &Setup) -> Option<PythonReader> {
        if !setup.plan.live {
            self.0 = None;
        }
        self.0.as_ref().map(|_| PythonReader::new(None))
    }

    /// True until the programs have arrived, or failed to.
    pub(super) fn is_going_on(&self) -> bool {
        self.0.is_some()
    }

    /// Runs the programs at each sample once they are loaded. Where that is not possible, the reader ends.
    pub(super) fn arrive(&mut self, arrival: Arrival, reader: &PythonReader, samples: SampleSource<'_>) {
        let Some(thread) = self.0.take_if(|thread| arrival == Arrival::Awaited || thread.is_finished())
        else {
            return;
        };
        let attach = |engine: &PythonEngine| {
            let program = engine.sample_program()?;
            let attached = match samples.chooser {
                // The off-CPU engine chooses the samples: its program goes on with this one.
                Some(off_cpu) => off_cpu.go_on_with(program),
                None => samples.setup.opened.set_bpf(&samples.setup.plan, program).is_ok(),
            };
            attached.then_some(())
        };
        match thread.join().ok().flatten() {
            Some(engine) if attach(&engine).is_some() => reader.start_engine(engine),
            _ => reader.end(),
        }
    }
}

/// Starts the reader. Processes that exist already may sleep, and are looked at without being sampled.
pub(super) fn start(
    python: Option<&PythonReader>,
    opts: &RecordOpts,
    places: &Places,
    child: Option<&Child>,
) -> Result<(), Error> {
    let Some(python) = python else { return Ok(()) };
    child.iter().for_each(|child| python.await_command(child.pid()));
    if opts.target.whom == Whom::Command {
        let own = |name: &str| std::env::var_os(name);
        let file = opts.target.command.first().and_then(|program| program_file(program, &own));
        file.iter().for_each(|file| python.know_program(file));
    }
    let pids = match opts.target.whom {
        Whom::Command => Vec::new(),
        Whom::System => proc::pids(),
        _ => begin::processes_of(&places.tids),
    };
    python.look_at(&pids);
    python.start().map_err(Error::system("starting a thread (raise ulimit -v or ulimit -u)"))?;
    Ok(())
}
