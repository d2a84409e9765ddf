//! Tier A: the BPF program of `bpf/off_cpu.bpf.c`, loaded, attached, read.
//!
//! Knows BPF and nothing of perf.data. What it hands out is [`Record`]s in the order the kernel wrote them; the
//! kernel detaches everything when our process ends, however it ends.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, Queue, RingBuf};
use aya::programs::{BtfTracePoint, Iter, PerfEvent, ProgramFd};
use aya::{Btf, Ebpf, EbpfLoader, Endianness};
use dso::system_file;

use super::later;
use super::layout::{self, COUNT_NAMES, Control, Record, Whom};
use super::pace::{Pace, Spent};
use super::{Error, Options, Scope};
use crate::bpf_error::{Denied, chain, load_error, map_error};
use crate::sys::time::Clock;

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/off_cpu.bpf.o");

/// Copies stacks as threads leave a CPU, or as they return to user mode.
const SWITCH_PROGRAMS: [&str; 2] = ["on_switch", "on_switch_later"];

const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_waking", "sched_waking"),
    ("on_wakeup_new", "sched_wakeup_new"),
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
];

/// Sums of the kernel side's counters, in the order of [`COUNT_NAMES`].
pub type Counts = [u64; COUNT_NAMES.len()];

/// The attached programs. Dropping it detaches them.
pub struct Engine {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    ends: RingBuf<MapData>,
    control: Control,
    /// It follows what the map `targets` lists, and not all there is.
    follows_list: bool,
    copies_in_iterators: bool,
    pace: Pace,
    /// Found in the rings at the last look.
    polled_bytes: usize,
    ring_bytes: usize,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("control", &self.control).finish_non_exhaustive()
    }
}

impl Engine {
    /// [`Engine::load`] and [`Engine::begin`] in one.
    pub fn start(scope: &Scope, options: &Options) -> Result<Self, Error> {
        let mut engine = Self::load(scope, options)?;
        engine.begin(&mut |_| {})?;
        Ok(engine)
    }

    /// Loads and attaches. What the targets fork is followed from here on; no clock runs yet.
    pub fn load(scope: &Scope, options: &Options) -> Result<Self, Error> {
        let constants = Constants::of(scope);
        // The loader can't be kept from reading the kernel's types for itself: let both be done at once.
        let (kernel, loader) = std::thread::scope(|scope| {
            let loader = scope.spawn(EbpfLoader::new);
            (KernelTypes::read(), loader.join())
        });
        let kernel = kernel?;
        let mut loader = loader.unwrap_or_else(|_| EbpfLoader::new());
        let (mut ebpf, copies_in_iterators, on_switch) = load_any(&kernel, options, &mut loader, &constants)?;
        let control = Control {
            period_ns: options.period_ns.max(1),
            end_ns: layout::NOT_BEGUN,
            start_at_exec: if let Scope::Command(pid) = scope { *pid } else { 0 },
            stack_bytes: options.stack_bytes,
        };
        set_control(&mut ebpf, control)?;
        fill_free_slots(&mut ebpf, options.slots)?;
        add_targets(&mut ebpf, scope)?;
        for name in std::iter::once(on_switch).chain(TRACEPOINTS.map(|(name, _)| name)) {
            let program: &mut BtfTracePoint = program_of(&mut ebpf, name)?;
            program.attach().map_err(|error| Error::Attach { program: name, reason: chain(&error) })?;
        }
        let (ring, ends) = (take_ring(&mut ebpf, "ring")?, take_ring(&mut ebpf, "ends")?);
        let pace = Pace::new(options.period_ns, Clock::Monotonic.now_ns());
        let follows_list = !matches!(scope, Scope::System | Scope::Cgroup(_));
        let ring_bytes = options.ring_bytes as usize;
        Ok(Self {
            ebpf,
            ring,
            ends,
            control,
            follows_list,
            copies_in_iterators,
            pace,
            polled_bytes: 0,
            ring_bytes,
        })
    }

    /// Starts the clocks: of the threads in the scope that exist, now; of a command, with its exec.
    pub fn begin(&mut self, sink: &mut dyn FnMut(Record<'_>)) -> Result<(), Error> {
        self.control.end_ns = 0;
        set_control(&mut self.ebpf, self.control)?;
        self.run_iterator("seed", sink)
    }

    /// Hands out what waits in the rings; never blocks.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Record<'_>)) {
        self.polled_bytes = 0;
        for ring in [&mut self.ring, &mut self.ends] {
            while let Some(item) = ring.next() {
                self.polled_bytes += item.len();
                if let Some(record) = layout::parse(&item) {
                    sink(record);
                }
            }
        }
    }

    /// True if the ring would have been full soon: it should be looked at again at once.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.polled_bytes > self.ring_bytes / 8
    }

    /// Makes the period longer while samples come too often or take too much time, and shorter again. Call now and then;
    /// `own_cpu_ns` is all the CPU time that the samples took of us so far, but for what the kernel takes for them.
    pub fn adapt(&mut self, own_cpu_ns: u64) {
        let at_ns = Clock::Monotonic.now_ns();
        if !self.pace.is_due(at_ns, self.is_pressed()) {
            return;
        }
        // Those that found the ring full were too many as well.
        let counts = self.counts();
        let samples = counts[1] + counts[4];
        if let Some(period_ns) = self.pace.look(Spent { at_ns, samples, cpu_ns: own_cpu_ns }) {
            // Where there are samples the command has begun: its next exec is an exec as any.
            (self.control.period_ns, self.control.start_at_exec) = (period_ns, 0);
            // Should it be refused, the period stays as it was: dearer, but right.
            let _ = set_control(&mut self.ebpf, self.control);
        }
    }

    /// From now on copies up to `bytes` of user stack for this process's threads.
    pub fn want_stack(&mut self, pid: u32, bytes: u32) {
        if let Some(map) = self.ebpf.map_mut("stack_want")
            && let Ok(mut map) = HashMap::<_, u32, u32>::try_from(map)
        {
            // A full table leaves this process with the usual size.
            let _ = map.insert(pid, bytes, 0);
        }
    }

    /// Stops the clocks at this moment and hands out open intervals and every thread's totals.
    pub fn finish(mut self, sink: &mut dyn FnMut(Record<'_>)) -> Result<Counts, Error> {
        self.control.end_ns = Clock::Monotonic.now_ns();
        set_control(&mut self.ebpf, self.control)?;
        self.poll(sink);
        self.run_iterator("flush", sink)?;
        self.poll(sink);
        Ok(self.counts())
    }

    /// What the kernel side counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sums = [0; COUNT_NAMES.len()];
        let Some(map) = self.ebpf.map("counts") else { return sums };
        let Ok(map) = PerCpuArray::<_, u64>::try_from(map) else { return sums };
        for (i, sum) in (0u32..).zip(sums.iter_mut()) {
            *sum = map.get(&i, 0).map_or(0, |values| values.iter().sum());
        }
        sums
    }

    /// The program that lets events opened for whole CPUs sample followed threads only ([`crate::sys::Counter::set_bpf`]);
    /// `None` if the kernel refuses it.
    pub fn sample_filter(&mut self) -> Option<BorrowedFd<'_>> {
        let program: &mut PerfEvent = program_of(&mut self.ebpf, "only_followed").ok()?;
        if program.fd().is_err() {
            program.load().ok()?;
        }
        program.fd().ok().map(ProgramFd::as_fd)
    }

    /// True while a process or thread of the scope lives; always, for the whole system or a cgroup.
    #[must_use]
    pub fn has_targets(&self) -> bool {
        if !self.follows_list {
            return true;
        }
        let map = self.ebpf.map("targets").and_then(|map| HashMap::<_, u64, u32>::try_from(map).ok());
        map.is_none_or(|map| map.keys().next().is_some())
    }

    /// The longest period that was used, ns, if it is longer than what was asked for.
    #[must_use]
    pub fn period_grown_to(&self) -> Option<u64> {
        self.pace.grown_to()
    }

    /// Reads an iterator to its end, and empties the rings after some threads each.
    fn run_iterator(&mut self, which: &'static str, sink: &mut dyn FnMut(Record<'_>)) -> Result<(), Error> {
        let name = match (which, self.copies_in_iterators) {
            ("seed", true) => "seed_copying",
            ("flush", true) => "flush_copying",
            _ => which,
        };
        let mut file = iterator_file(&mut self.ebpf, name)?;
        let mut buffer = [0u8; 256];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(Error::Attach { program: which, reason: error.to_string() }),
            }
            self.poll(sink);
        }
    }
}

fn iterator_file(ebpf: &mut Ebpf, name: &'static str) -> Result<File, Error> {
    let fail = |reason: String| Error::Attach { program: name, reason };
    let program: &mut Iter = program_of(ebpf, name)?;
    let id = program.attach().map_err(|error| fail(chain(&error)))?;
    let link = program.take_link(id).map_err(|error| fail(chain(&error)))?;
    link.into_file().map_err(|error| fail(chain(&error)))
}

/// The running kernel's types, as it tells them and parsed.
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

/// What the programs are told before they are loaded.
struct Constants {
    pid_namespace: u32,
    /// [`Whom`].
    whom: u32,
    self_pid: u32,
}

impl Constants {
    fn of(scope: &Scope) -> Self {
        let whom = match scope {
            Scope::System => Whom::All,
            Scope::Cgroup(_) => Whom::Cgroup,
            Scope::Threads(_) => Whom::Threads,
            Scope::Command(_) | Scope::Processes(_) => Whom::Processes,
        };
        Self { pid_namespace: super::own_pid_namespace(), whom: whom as u32, self_pid: std::process::id() }
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

/// The newest form the kernel takes, whether iterators may sleep (5.18), and the program of `sched_switch`.
fn load_any<'a>(
    kernel: &KernelTypes,
    options: &Options,
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
        match load(btf, loader, (object, form)) {
            Ok(mut ebpf) => {
                let copying = load_iterators(&mut ebpf, btf)?;
                return Ok((ebpf, copying, SWITCH_PROGRAMS[usize::from(form.later)]));
            }
            // What the kernel says of the newest form that is for all kernels tells most.
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

fn configure<'a>(loader: &mut EbpfLoader<'a>, options: &Options, form: Form, constants: &'a Constants) {
    static NO_OR_YES: [u32; 2] = [0, 1];
    let flag = |is: bool| &NO_OR_YES[usize::from(is)];
    loader
        .override_global("has_prev_state", flag(form.has_prev_state), true)
        .override_global("stacks_later", flag(form.later), true)
        .override_global("pid_ns_inum", &constants.pid_namespace, true)
        .override_global("whom", &constants.whom, true)
        .override_global("self_tgid", &constants.self_pid, true)
        .override_global("regs_bytes", &super::REGS_BYTES, true);
    loader
        .allow_unsupported_maps()
        .map_max_entries("slots", options.slots)
        .map_max_entries("slot_works", options.slots)
        .map_max_entries("free_slots", options.slots)
        .map_max_entries("ring", options.ring_bytes)
        .map_max_entries("ends", options.ring_bytes);
}

fn load(btf: &Btf, loader: &mut EbpfLoader<'_>, (object, form): (&[u8], Form)) -> Result<Ebpf, Error> {
    let mut ebpf = loader.load(object).map_err(|error| load_error("object", &error))?;
    let on_switch = (SWITCH_PROGRAMS[usize::from(form.later)], "sched_switch");
    for (name, tracepoint) in std::iter::once(on_switch).chain(TRACEPOINTS) {
        let program: &mut BtfTracePoint = program_of(&mut ebpf, name)?;
        program.load(tracepoint, btf).map_err(|error| load_error(name, &error))?;
    }
    Ok(ebpf)
}

fn program_of<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    let missing = || Error::Load { what: name, reason: "not in the object".to_owned(), denied: Denied::No };
    ebpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())
}

fn set_control(ebpf: &mut Ebpf, control: Control) -> Result<(), Error> {
    let map =
        ebpf.map_mut("controls").ok_or_else(|| Error::Map { map: "controls", reason: "missing".into() })?;
    let mut map = Array::<_, [u64; 3]>::try_from(map).map_err(|error| map_error("controls", &error))?;
    map.set(0, control.to_words(), 0).map_err(|error| map_error("controls", &error))
}

fn fill_free_slots(ebpf: &mut Ebpf, slots: u32) -> Result<(), Error> {
    let map = ebpf.map_mut("free_slots");
    let map = map.ok_or_else(|| Error::Map { map: "free_slots", reason: "missing".into() })?;
    let mut map = Queue::<_, u32>::try_from(map).map_err(|error| map_error("free_slots", &error))?;
    for slot in 0..slots {
        map.push(slot, 0).map_err(|error| map_error("free_slots", &error))?;
    }
    Ok(())
}

fn take_ring(ebpf: &mut Ebpf, name: &'static str) -> Result<RingBuf<MapData>, Error> {
    let map = ebpf.take_map(name).ok_or(Error::Map { map: name, reason: "missing".to_owned() })?;
    RingBuf::try_from(map).map_err(|error| map_error(name, &error))
}

fn add_targets(ebpf: &mut Ebpf, scope: &Scope) -> Result<(), Error> {
    let keys: Vec<u64> = match scope {
        Scope::System | Scope::Command(_) => Vec::new(),
        Scope::Processes(pids) => pids.iter().map(|&pid| u64::from(pid)).collect(),
        Scope::Threads(tids) => tids.iter().map(|&tid| 1 << 32 | u64::from(tid)).collect(),
        Scope::Cgroup(id) => vec![*id],
    };
    let map =
        ebpf.map_mut("targets").ok_or_else(|| Error::Map { map: "targets", reason: "missing".into() })?;
    let mut map = HashMap::<_, u64, u32>::try_from(map).map_err(|error| map_error("targets", &error))?;
    keys.into_iter().try_for_each(|key| map.insert(key, 1, 0).map_err(|error| map_error("targets", &error)))
}
