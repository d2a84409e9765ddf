//! Whether timers are needed and possible, and what a program needs to have them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dso::Machine;
use dso::unwind::Regs;
use perfdata::Attr;
use perfdata::abi::*;
use tracer::layout::slots::{FILE_VARIABLE, STACK_BYTES};

use super::super::python::READ_AT_TIMERS;
use super::stop_sampler::StopAccess;
use super::{PERIOD_NS, stop_sampler};
use crate::accounting::summary::Notice;
use crate::error::Error;
use crate::files::output_file;
use crate::files::packed::PackedBytes;
use crate::files::scratch::{PlaceRule, ScratchFolder};
use crate::machine::proc;
use crate::machine::refusal::{AccessFacts, AccessRefusal};
use crate::open::OpenedEvents;
use crate::open::event_fallback::{self as setup, Setup};
use crate::open::plan::{Offer, plan};
use crate::open::target::Whom;
use crate::runtimes::command_variable::is_python;
use crate::runtimes::python::is_possible;
use crate::session::opts::{CallGraph, Delay, EventRequest, Rate, RecordOpts};
use crate::sys::seccomp::GuardedCall;
use crate::sys::time::Clock;
use crate::sys::{Counter, CounterPlace, SharedSlots, mem};

/// The library and the shared file, ready for a program.
#[derive(Debug)]
pub struct Preparation {
    /// For a command; a running process can't be given a library.
    preloaded: Option<(SharedSlots, ScratchFolder)>,
    notices: Vec<Notice>,
}

/// The id in the file of a plan's opened event: far from the kernel's.
#[must_use]
pub fn event_id(opened: usize) -> u64 {
    0x7461_6c6c_7a00_0000 + opened as u64
}

/// Inputs for timers, if the kernel denies events and timers can replace those of `opts`; `None` where they are not
/// needed, can't, or can't be prepared: then the error of opening the events has the reason.
///
/// # Errors
/// If running processes can be sampled neither by events nor by stops.
pub fn prepare(opts: &RecordOpts) -> Result<Option<Preparation>, Error> {
    if !can_replace(opts) {
        return Ok(None);
    }
    if opts.target.is_attached() { prepare_stops(opts) } else { Ok(prepare_timers(opts)) }
}

/// For a command, which is given the library.
fn prepare_timers(opts: &RecordOpts) -> Option<Preparation> {
    let library = opts.timers?;
    let denied = refusal();
    let (why, remedy) =
        denied.as_ref().map_or_else(|| for_python(opts), |denied| Some(reason_and_remedy(denied)))?;
    // There is none for some processors.
    let is_impossible = library.is_empty() || GuardedCall::Timers.is_deadly();
    let preloaded = if is_impossible { None } else { put_library(library) };
    if preloaded.is_none() && denied.is_none() {
        return None;
    }
    let mut notices = match &preloaded {
        Some(_) => vec![Notice::ByTimers(why, remedy)],
        None if is_impossible => vec![Notice::ByStops(why, remedy)],
        None => vec![Notice::ByStops(why, remedy), Notice::NoPlaceForTimers],
    };
    notices.extend(Notice::of_missing_proc());
    Some(Preparation { preloaded, notices })
}

/// The library and the shared file in a folder; `None` if none can hold them: full, read-only, or without code.
fn put_library(library: PackedBytes) -> Option<(SharedSlots, ScratchFolder)> {
    let folder = ScratchFolder::for_programs("timers", PlaceRule { fits: can_hold, wanted: "" }).ok()?;
    let path = folder.path().join(LIBRARY);
    output_file::write_part(&path, &library.unpacked().ok()?).ok()?;
    // Readable whoever the program is when it is loaded.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).ok()?;
    let file = output_file::create_recording(&folder.path().join(SLOTS)).ok()?;
    let count = (proc::online_cpus().len() * 64).clamp(512, 4096);
    let slots = SharedSlots::create(&file, count, PERIOD_NS).ok()?;
    Some((slots, folder))
}

/// Why timers replace events that the kernel would give: the command is Python, whose frames only BPF could read at an
/// event. `None` if it is not, or the events were asked for by name.
fn for_python(opts: &RecordOpts) -> Option<(String, String)> {
    let own = |name: &str| std::env::var_os(name);
    let reads = READ_AT_TIMERS && opts.stacks.runtimes && opts.stacks.call_graph == CallGraph::Live;
    let needs_them =
        reads && opts.events.is_empty() && !is_possible() && is_python(&opts.target.command, &own);
    needs_them.then(|| {
        let why = "Python functions can't be read at kernel events without root";
        (why.to_owned(), "run as root (--no-runtimes: kernel events without Python functions)".to_owned())
    })
}

/// For processes that run already, where they may be stopped.
fn prepare_stops(opts: &RecordOpts) -> Result<Option<Preparation>, Error> {
    let (Some(denied), Ok(threads)) = (refusal(), opts.target.threads()) else { return Ok(None) };
    let facts = AccessFacts::own();
    let events = facts.of_perf(&denied);
    let tracer = match stops_allowed(&threads) {
        StopAccess::Granted => None,
        StopAccess::TracedBy(pid) => Some(pid),
        StopAccess::Gone => return Ok(None),
        StopAccess::Denied(refused) => {
            let (events, stops) = (events.to_string(), facts.of_stops(refused).to_string());
            return Err(Error::NothingAllowed { events, stops });
        }
    };
    let AccessRefusal { why, remedy } = events;
    let mut notices = vec![Notice::ByStops(why, remedy)];
    notices.extend(tracer.map(|pid| {
        let comm = proc::status(pid).map(|status| String::from_utf8_lossy(&status.comm).into_owned());
        Notice::TracedBy(comm.unwrap_or_default(), pid)
    }));
    Ok(Some(Preparation { preloaded: None, notices }))
}

/// The best access to any of these threads' processes: some may be another user's.
fn stops_allowed(tids: &[u32]) -> StopAccess {
    /// More processes are not tried.
    const MOST_TRIED: usize = 64;
    let mut tried = Vec::new();
    let mut best = StopAccess::Gone;
    for &tid in tids {
        let Some(pid) = proc::status(tid).map(|status| status.tgid).filter(|pid| !tried.contains(pid)) else {
            continue;
        };
        tried.push(pid);
        match stop_sampler::access_to(tid) {
            StopAccess::Granted => return StopAccess::Granted,
            traced @ StopAccess::TracedBy(_) => best = traced,
            denied @ StopAccess::Denied(_) if best == StopAccess::Gone => best = denied,
            StopAccess::Denied(_) | StopAccess::Gone => {}
        }
        if tried.len() == MOST_TRIED {
            break;
        }
    }
    best
}

/// Why events are denied, and the one command that allows them.
fn reason_and_remedy(denied: &std::io::Error) -> (String, String) {
    let AccessRefusal { why, remedy } = AccessFacts::own().of_perf(denied);
    (why, remedy)
}

const LIBRARY: &str = "libtally_timers.so";
const SLOTS: &str = "slots";

impl Preparation {
    /// Environment of the program.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let Some((_, folder)) = &self.preloaded else { return Vec::new() };
        let mut preload = folder.path().join(LIBRARY).into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(OsStr::new(":"));
            preload.push(others);
        }
        vec![("LD_PRELOAD", preload), (FILE_VARIABLE, folder.path().join(SLOTS).into())]
    }

    pub(super) fn into_parts(self) -> Option<(SharedSlots, ScratchFolder)> {
        self.preloaded
    }
}

/// Only time is sampled, of a command or of running processes, from the beginning to the end.
fn can_replace(opts: &RecordOpts) -> bool {
    let is_time = |event: &EventRequest| {
        let Attr { type_, config, .. } = event.attr;
        let clock = [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].contains(&config);
        type_ == PERF_TYPE_SOFTWARE && clock && event.leader.is_none()
    };
    opts.target.whom != Whom::System
        && opts.target.cpus.is_none()
        && opts.span.delay == Delay::None
        && opts.span.control.is_none()
        && opts.clock == Clock::Monotonic
        && !opts.sampling.no_samples
        && opts.events.len() <= 1
        && opts.events.iter().all(is_time)
}

/// Why the kernel gives no event of ourselves in user mode; `None` if it does.
fn refusal() -> Option<std::io::Error> {
    let mut attr = Attr { type_: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_CPU_CLOCK, ..Attr::default() };
    attr.flags = perfdata::AttrFlags::EXCLUDE_KERNEL.with(perfdata::AttrFlags::DISABLED);
    let denied = Counter::open(&attr.to_bytes(), CounterPlace::task(0)).err()?;
    matches!(denied.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS)).then_some(denied)
}

/// The loader can read its name in a list, and map code from it.
fn can_hold(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) && mem::may_hold_code(path)
}

/// A plan without any opened event, and the options that are left.
#[must_use]
pub fn setup(opts: &RecordOpts, preparation: &Preparation) -> (RecordOpts, Setup) {
    let mut opts = opts.clone();
    let period_ns = if preparation.preloaded.is_some() { PERIOD_NS } else { stop_sampler::PERIOD_NS };
    opts.sampling.rate = Rate::Hz(1_000_000_000 / period_ns);
    if matches!(opts.stacks.call_graph, CallGraph::FramePointer | CallGraph::Lbr) {
        opts.stacks.call_graph = CallGraph::Live;
    }
    (opts.summary, opts.counts_switches, opts.extra.switches) = (opts.summary, false, false);
    let offer = Offer {
        unwind_regs: Regs::perf_mask(Machine::host()),
        max_rate_hz: u64::MAX,
        snapshot_steps: [STACK_BYTES as u32; 2],
        kernel: false,
        build_id_records: false,
        lost_counts: false,
    };
    let events = if opts.events.is_empty() { vec![setup::cpu_clock()] } else { opts.events.clone() };
    let plan = plan(&opts, &events, &offer);
    let opened = OpenedEvents::without_events((0..plan.opened.len()).map(|at| (event_id(at), at)).collect());
    let notices = preparation.notices.clone();
    (opts, Setup { plan, opened, notices, events, kernel: false, trace: None })
}
