//! Python's frames along with a recording: loaded while events are opened, hung on them, started.

use std::os::fd::AsFd;
use std::thread::JoinHandle;

use crate::error::Error;
use crate::machine::proc;
use crate::off_cpu::Source;
use crate::open::Places;
use crate::open::event_fallback::Setup;
use crate::open::target::Whom;
use crate::runtimes::command_variable::{RuntimeSupport, of_command};
use crate::runtimes::hotspot::is_jvm;
use crate::runtimes::python::{PythonEngine, PythonReader, is_possible};
use crate::session::opts::RecordOpts;
use crate::summary::Notice;
use crate::sys::Child;
use crate::sys::time::Clock;

use super::begin;

/// What the command's runtime is asked to do for us.
pub(super) fn support_of(opts: &RecordOpts) -> Option<RuntimeSupport> {
    let own = |name: &str| std::env::var_os(name);
    let is_wanted = opts.stacks.runtimes && opts.target.whom == Whom::Command && !opts.traces();
    if is_wanted { of_command(&opts.target.command, &own, is_possible()) } else { None }
}

/// That JVMs among the watched processes will be asked; `None` if there are none.
pub(super) fn java_notice(opts: &RecordOpts, places: &Places) -> Option<Notice> {
    let is_wanted = opts.stacks.runtimes && opts.target.is_attached() && !opts.traces();
    let has_jvm = is_wanted && begin::processes_of(&places.tids).into_iter().any(is_jvm);
    has_jvm.then_some(Notice::RuntimeSupport("Java", "Compiler.perfmap, at the end"))
}

/// The BPF programs while the kernel checks them.
pub(super) struct Loading(Option<JoinHandle<Option<PythonEngine>>>);

impl Loading {
    /// Begins to load them, where stacks are unwound here and its clock is theirs.
    pub(super) fn begin(opts: &RecordOpts) -> Self {
        let is_wanted =
            opts.stacks.runtimes && is_possible() && opts.clock == Clock::Monotonic && !opts.traces();
        if !is_wanted {
            return Self(None);
        }
        let waits = opts.off_cpu.is_some();
        let load = move || PythonEngine::load(waits).ok();
        Self(std::thread::Builder::new().name("tally-python".to_owned()).spawn(load).ok())
    }

    /// Runs them at each sample; `None` where that is not possible.
    pub(super) fn attach(
        self,
        setup: &Setup,
        source: Option<&mut Source>,
        is_filtered: bool,
    ) -> Option<PythonReader> {
        let mut engine = self.0?.join().ok().flatten().filter(|_| setup.plan.live)?;
        let program = engine.sample_program()?;
        let attached = match source {
            // The off-CPU engine chooses the samples: its program goes on with this one.
            Some(Source::Engine(off_cpu)) if is_filtered => off_cpu.go_on_with(program),
            _ => setup.opened.set_bpf(&setup.plan, program.as_fd()).is_ok(),
        };
        attached.then(|| PythonReader::new(engine))
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
    let pids = match opts.target.whom {
        Whom::Command => Vec::new(),
        Whom::System => proc::pids(),
        _ => begin::processes_of(&places.tids),
    };
    python.look_at(&pids);
    python.start().map_err(Error::system("starting a thread (raise ulimit -v or ulimit -u)"))?;
    Ok(())
}
