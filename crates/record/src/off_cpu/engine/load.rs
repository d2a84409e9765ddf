//! Loads the BPF programs in the newest form that the kernel takes.

use super::super::layout::ClockScope;
use super::super::{Error, OffCpuOpts, REGS_BYTES, Scope, WaitDetail, own_pid_namespace};
use crate::files::packed::PackedBytes;
use crate::machine::capabilities::Rights;
use crate::sys::bpf::Attach;
use crate::sys::bpf_error::{Denied, load_error};
use crate::sys::bpf_object::{
    KernelTypes, LoadedObject, ObjectSettings, TypeKind, at_tracepoint, task_iterator,
};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: PackedBytes = PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/off_cpu.bpf.o.deflate")));

/// Where the number of CPUs can't be read.
const MOST_CPUS: u32 = 8192;

/// Copies stacks as threads leave a CPU, or as they return to user mode.
const SWITCH_PROGRAMS: [&str; 2] = ["on_switch", "on_switch_later"];

/// Placeholder (`KFUNC_AT_USER` of bpf/kernel.h) and name of the kernel's function that runs a callback at a thread's
/// return to user mode: 6.18.
const AT_USER: (i32, &str) = (0x7a11, "bpf_task_work_schedule_resume_impl");

/// Programs of other tracepoints, each with its tracepoint.
pub(super) const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_waking", "sched_waking"),
    ("on_wakeup_new", "sched_wakeup_new"),
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
];

/// Constants of the programs, set before they are loaded.
struct Constants {
    pid_namespace: u32,
    /// [`ClockScope`].
    whom: u32,
    self_pid: u32,
}

impl Constants {
    fn of(scope: &Scope) -> Self {
        let whom = match scope {
            Scope::System => ClockScope::All,
            Scope::Cgroup(_) => ClockScope::Cgroup,
            Scope::Threads(_) => ClockScope::Threads,
            Scope::Command(_) | Scope::Processes(_) => ClockScope::Processes,
        };
        Self { pid_namespace: own_pid_namespace(), whom: whom as u32, self_pid: std::process::id() }
    }
}

/// One way to load the programs.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// The previous state is an argument of `sched_switch`: 5.18.
    has_prev_state: bool,
    /// Stacks are copied at the return to user mode: 6.18.
    later: bool,
}

/// The newest form the kernel takes, loaded for this scope; whether iterators may sleep (5.18), and the program of
/// `sched_switch`.
pub(super) fn load_for(
    scope: &Scope,
    options: &OffCpuOpts,
) -> Result<(LoadedObject, bool, &'static str), Error> {
    // The kernel would say so after all that is prepared for it.
    if !Rights::own().may_bpf() {
        return Err(load_error("object", &std::io::Error::from_raw_os_error(libc::EPERM)));
    }
    let constants = Constants::of(scope);
    let kernel = KernelTypes::read()?;
    let has_at_user = kernel.find(TypeKind::Func, AT_USER.1).is_some();
    let newest = has_at_user.then_some(Form { has_prev_state: true, later: true });
    let older = [true, false].map(|has_prev_state| Form { has_prev_state, later: false });
    let mut refused = None;
    for form in newest.into_iter().chain(older) {
        let loaded = LoadedObject::new(OBJECT, &kernel, &settings(options, form, &constants));
        match loaded.and_then(|loaded| load(&kernel, loaded, form)) {
            Ok((object, copying)) => return Ok((object, copying, SWITCH_PROGRAMS[usize::from(form.later)])),
            // The error for the newest form that suits all kernels is the most useful one.
            Err(error @ Error::Load { .. }) if form.later || refused.is_none() => refused = Some(error),
            Err(Error::Load { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(refused.unwrap_or(Error::Load {
        what: "object",
        reason: "no form fits".to_owned(),
        denied: Denied::No,
    }))
}

fn settings(options: &OffCpuOpts, form: Form, constants: &Constants) -> ObjectSettings<'static> {
    ObjectSettings {
        constants: vec![
            ("has_prev_state", form.has_prev_state.into()),
            ("stacks_later", form.later.into()),
            ("few_stacks", (options.detail == WaitDetail::Few).into()),
            ("pid_ns_inum", constants.pid_namespace),
            ("whom", constants.whom),
            ("self_tgid", constants.self_pid),
            ("regs_bytes", REGS_BYTES),
        ],
        entries: vec![
            ("slots", options.slots),
            ("slot_works", options.slots),
            ("free_slots", options.slots),
            ("cpus", cpus()),
            ("sites", options.sites),
            ("ring", options.ring_bytes),
            ("ends", options.ring_bytes),
        ],
        kernel_calls: vec![AT_USER],
    }
}

/// CPUs that may come online: the programs take a CPU's number for an index.
fn cpus() -> u32 {
    let cpus = aya::util::nr_cpus().ok().and_then(|cpus| u32::try_from(cpus).ok());
    cpus.unwrap_or(MOST_CPUS)
}

/// Loads the programs, the longest first; whether iterators may sleep.
fn load(kernel: &KernelTypes, mut object: LoadedObject, form: Form) -> Result<(LoadedObject, bool), Error> {
    let on_switch = (SWITCH_PROGRAMS[usize::from(form.later)], "sched_switch");
    let at_points = std::iter::once(on_switch).chain(TRACEPOINTS);
    let at_points = at_points.map(|(name, point)| Ok((name, at_tracepoint(kernel, name, point)?)));
    let at_points = at_points.collect::<Result<Vec<(&str, Attach)>, Error>>()?;
    let number = task_iterator(kernel, "seed")?;
    let over =
        |names: [&'static str; 2], sleeps| names.map(|name| (name, Attach::Iterator { number, sleeps }));
    let copying = over(["seed_copying", "flush_copying"], true);
    if object.load(&[&at_points[..], &copying].concat()).is_ok() {
        return Ok((object, true));
    }
    object.load(&[&at_points[..], &over(["seed", "flush"], false)].concat())?;
    Ok((object, false))
}
