//! Loads the BPF programs in the newest form that the kernel takes.

use aya::programs::{BtfTracePoint, Iter};
use aya::{Btf, Ebpf, EbpfLoader, Endianness};
use dso::system_file;

use super::super::layout::ClockScope;
use super::super::{Error, OffCpuOpts, REGS_BYTES, Scope, later, own_pid_namespace};
use super::program_of;
use crate::sys::bpf_error::{Denied, chain, load_error};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/off_cpu.bpf.o");

/// Where the number of CPUs can't be read.
const MOST_CPUS: u32 = 8192;

/// Copies stacks as threads leave a CPU, or as they return to user mode.
const SWITCH_PROGRAMS: [&str; 2] = ["on_switch", "on_switch_later"];

/// Programs of other tracepoints, each with its tracepoint.
pub(super) const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_waking", "sched_waking"),
    ("on_wakeup_new", "sched_wakeup_new"),
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
];

/// The running kernel's types, raw and parsed.
struct KernelTypes {
    bytes: Vec<u8>,
    btf: Btf,
}

impl KernelTypes {
    fn read() -> Result<Self, Error> {
        let no_btf = |error: &dyn std::error::Error| Error::NoBtf { reason: chain(error) };
        let bytes = system_file::read("/sys/kernel/btf/vmlinux").map_err(|error| no_btf(&error))?;
        let btf = Btf::parse(&bytes, Endianness::default()).map_err(|error| no_btf(&error))?;
        Ok(Self { bytes, btf })
    }
}

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

/// The newest form the kernel takes, loaded for this scope; whether iterators may sleep, and the program of `sched_switch`.
pub(super) fn load_for(scope: &Scope, options: &OffCpuOpts) -> Result<(Ebpf, bool, &'static str), Error> {
    let constants = Constants::of(scope);
    // The loader can't be kept from reading the kernel's types for itself: let both be done at once.
    let (kernel, loader) = std::thread::scope(|scope| {
        let loader = scope.spawn(EbpfLoader::new);
        (KernelTypes::read(), loader.join())
    });
    let kernel = kernel?;
    let mut loader = loader.unwrap_or_else(|_| EbpfLoader::new());
    load_any(&kernel, options, &mut loader, &constants)
}

/// The newest form the kernel takes, whether iterators may sleep (5.18), and the program of `sched_switch`.
fn load_any<'a>(
    kernel: &KernelTypes,
    options: &OffCpuOpts,
    loader: &mut EbpfLoader<'a>,
    constants: &'a Constants,
) -> Result<(Ebpf, bool, &'static str), Error> {
    let object = later::resolved(OBJECT, &kernel.bytes);
    let btf = &kernel.btf;
    let newest = object.as_deref().map(|object| (object, Form { has_prev_state: true, later: true }));
    let older = [true, false].map(|has_prev_state| (OBJECT, Form { has_prev_state, later: false }));
    let mut refused = None;
    for (object, form) in newest.into_iter().chain(older) {
        configure(loader, options, form, constants);
        match load(btf, loader, object, form) {
            Ok(mut ebpf) => {
                let copying = load_iterators(&mut ebpf, btf)?;
                return Ok((ebpf, copying, SWITCH_PROGRAMS[usize::from(form.later)]));
            }
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

fn load_iterators(ebpf: &mut Ebpf, btf: &Btf) -> Result<bool, Error> {
    let mut load = |names: [&'static str; 2]| {
        names.into_iter().try_for_each(|name| {
            let program: &mut Iter = program_of(ebpf, name)?;
            program.load("task", btf).map_err(|error| load_error(name, &error))
        })
    };
    let copying = load(["seed_copying", "flush_copying"]).is_ok();
    if !copying {
        load(["seed", "flush"])?;
    }
    Ok(copying)
}

fn configure<'a>(loader: &mut EbpfLoader<'a>, options: &OffCpuOpts, form: Form, constants: &'a Constants) {
    static NO_OR_YES: [u32; 2] = [0, 1];
    let flag = |is: bool| &NO_OR_YES[usize::from(is)];
    loader
        .override_global("has_prev_state", flag(form.has_prev_state), true)
        .override_global("stacks_later", flag(form.later), true)
        .override_global("pid_ns_inum", &constants.pid_namespace, true)
        .override_global("whom", &constants.whom, true)
        .override_global("self_tgid", &constants.self_pid, true)
        .override_global("regs_bytes", &REGS_BYTES, true);
    loader
        .allow_unsupported_maps()
        .map_max_entries("slots", options.slots)
        .map_max_entries("slot_works", options.slots)
        .map_max_entries("free_slots", options.slots)
        .map_max_entries("cpus", cpus())
        .map_max_entries("sites", options.sites)
        .map_max_entries("ring", options.ring_bytes)
        .map_max_entries("ends", options.ring_bytes);
}

/// CPUs that may come online: the programs take a CPU's number for an index.
fn cpus() -> u32 {
    let cpus = aya::util::nr_cpus().ok().and_then(|cpus| u32::try_from(cpus).ok());
    cpus.unwrap_or(MOST_CPUS)
}

fn load(btf: &Btf, loader: &mut EbpfLoader<'_>, object: &[u8], form: Form) -> Result<Ebpf, Error> {
    let mut ebpf = loader.load(object).map_err(|error| load_error("object", &error))?;
    let on_switch = (SWITCH_PROGRAMS[usize::from(form.later)], "sched_switch");
    for (name, tracepoint) in std::iter::once(on_switch).chain(TRACEPOINTS) {
        let program: &mut BtfTracePoint = program_of(&mut ebpf, name)?;
        program.load(tracepoint, btf).map_err(|error| load_error(name, &error))?;
    }
    Ok(ebpf)
}
