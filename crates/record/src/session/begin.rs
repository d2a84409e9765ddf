//! The beginning of a recording: whom exactly, and what is known of them already.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use perfdata::{Event, Features, WriterOpts};

use crate::error::Error;
use crate::files::features;
use crate::machine::synthesize::{self, ProcessOpts};
use crate::machine::{cgroups, proc};
use crate::off_cpu::Scope;
use crate::open::event_fallback::Setup;
use crate::open::target::{Whom, open_cgroup};
use crate::open::{Places, Start};
use crate::pipeline::worker::Worker;
use crate::runtimes::go_waits::GoLooker;
use crate::session::opts::{Delay, Output, RecordOpts};
use crate::session::state::AttachedCounts;
use crate::session::timers::Roots;
use crate::sys::Child;

/// Where events are opened, as things are now.
pub(super) fn places_of(opts: &RecordOpts, child: Option<&Child>) -> Result<(Places, Start), Error> {
    let cpus = if opts.trace.per_thread { Vec::new() } else { opts.target.cpus() };
    let cgroup = opts.target.cgroup.as_ref().map(|name| open_cgroup(name)).transpose()?;
    let by_exec = opts.span.delay == Delay::None;
    match (&opts.target.whom, child) {
        (Whom::Command, None) => Err(Error::NoTarget),
        (Whom::Command, Some(child)) => {
            let start = if by_exec { Start::OnExec } else { Start::ByHand };
            Ok((Places { tids: vec![child.pid()], cpus, cgroup, beside: Vec::new() }, start))
        }
        (Whom::System, _) => {
            Ok((Places { tids: Vec::new(), cpus, cgroup, beside: Vec::new() }, Start::ByHand))
        }
        _ => Ok((Places { tids: opts.target.threads()?, cpus, cgroup, beside: Vec::new() }, Start::ByHand)),
    }
}

/// The threads whose off-CPU time is wanted.
pub(super) fn scope_of(opts: &RecordOpts, child: Option<&Child>, places: &Places) -> Scope {
    let cgroup = places.cgroup.as_ref().and_then(|folder| folder.metadata().ok());
    match (&opts.target.whom, child) {
        (Whom::Command, Some(child)) => Scope::Command(child.pid()),
        (Whom::System, _) => cgroup.map_or(Scope::System, |folder| Scope::Cgroup(folder.ino())),
        (Whom::Threads(tids), _) => Scope::Threads(tids.clone()),
        (Whom::Processes(pids), _) => Scope::Processes(pids.clone()),
        _ => Scope::Processes(processes_of(&places.tids)),
    }
}

/// The tasks that timers and stops sample.
pub(super) fn roots_of_timers(opts: &RecordOpts, child: Option<&Child>, places: &Places) -> Roots {
    match &opts.target.whom {
        Whom::Command => Roots::Command(child.map_or(0, Child::pid)),
        Whom::Trees(pids) => Roots::Trees(pids.clone()),
        Whom::Threads(tids) => Roots::Threads(tids.clone()),
        Whom::Processes(pids) => Roots::Processes(pids.clone()),
        Whom::User(_) | Whom::System => Roots::Processes(processes_of(&places.tids)),
    }
}

/// Looks at the goroutines of the target's Go programs, if waits are recorded; `None` too if no thread can be started,
/// for they are an addition.
pub(super) fn go_looker(opts: &RecordOpts, child: Option<&Child>, places: &Places) -> Option<GoLooker> {
    if opts.off_cpu.is_none() || !opts.stacks.runtimes || !cfg!(target_arch = "x86_64") {
        return None;
    }
    if !opts.target.is_system_wide() {
        let roots = roots_of_timers(opts, child, places);
        return GoLooker::start(move || roots.tasks().iter().map(|task| task.pid).collect()).ok();
    }
    match &places.cgroup {
        Some(cgroup) => {
            let folder = cgroup.try_clone().ok()?;
            GoLooker::start(move || cgroups::processes_in(&path_of(&folder))).ok()
        }
        None => GoLooker::start(proc::pids).ok(),
    }
}

/// A path of an open folder, valid as long as it is open.
fn path_of(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// How many processes are attached to.
pub(super) fn attached(opts: &RecordOpts, places: &Places) -> AttachedCounts {
    let processes = if opts.target.is_attached() { processes_of(&places.tids).len() } else { 0 };
    AttachedCounts { processes, children_left_out: opts.target.children_left_out() }
}

/// Options for the beginning of the file.
pub(super) fn writer_opts(opts: &RecordOpts, setup: &Setup) -> WriterOpts {
    let ids = setup.opened.ids(&setup.plan);
    let events: Vec<Event> = setup
        .plan
        .file
        .iter()
        .zip(ids)
        .map(|(event, ids)| Event { attr: event.attr, ids, name: event.name.clone() })
        .collect();
    let pipe_features =
        if goes_to_pipe(opts) { features::of_machine(opts, &events) } else { Features::default() };
    WriterOpts { events, zstd_level: opts.file.compression, early_names: true, pipe_features }
}

/// True where the recording begins with the description of the machine: a file has that at its end.
fn goes_to_pipe(opts: &RecordOpts) -> bool {
    match &opts.file.output {
        Output::File(path) => path.metadata().is_ok_and(|found| !found.is_file()),
        Output::Stdout => true,
        Output::Discard => false,
    }
}

/// Passes to the worker the description of a processor's trace, the kernel's mappings and the cgroups.
pub(super) fn introduce(opts: &RecordOpts, setup: &Setup, worker: &mut Worker) {
    if let Some(trace) = &setup.trace {
        worker.introduce(trace);
    }
    if setup.kernel {
        synthesize::kernel(|record, id| worker.synthesized(record, id));
    }
    if opts.extra.cgroups {
        synthesize::cgroups(|record, id| worker.synthesized(record, id));
    }
}

/// The processes of the target that already run.
pub(super) fn running(opts: &RecordOpts, child: Option<&Child>, places: &Places) -> Vec<u32> {
    match opts.target.whom {
        // Its old image is ours, and exec replaces it.
        Whom::Command => child.into_iter().map(Child::pid).collect(),
        Whom::System => proc::pids(),
        _ => processes_of(&places.tids),
    }
}

/// Passes these processes to the worker; `meanwhile` may empty the rings, which fill already.
pub(super) fn describe(opts: &RecordOpts, pids: &[u32], worker: &mut Worker, mut meanwhile: impl FnMut()) {
    let process = ProcessOpts { data: opts.extra.data_maps, namespaces: opts.extra.namespaces };
    for &pid in pids {
        synthesize::process(pid, process, |record, id| worker.synthesized(record, id));
        meanwhile();
    }
}

/// The processes of these threads, ascending. Without /proc only those can be targets that begin as one thread.
pub(super) fn processes_of(tids: &[u32]) -> Vec<u32> {
    let mut pids: Vec<u32> = tids.iter().map(|&t| proc::status(t).map_or(t, |status| status.tgid)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
