//! The BPF programs, loaded, attached, read.

use std::os::fd::OwnedFd;

use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use perfdata::abi::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE};
use perfdata::appendix::thread_contexts::ThreadContexts;
use perfdata::{Attr, AttrFlags};

use super::layout::{ContextRecord, parse_record};
use crate::files::packed::PackedBytes;
use crate::machine::capabilities::Rights;
use crate::off_cpu::own_pid_namespace;
use crate::sys::bpf::Attach;
use crate::sys::bpf_error::{Error, load_error, map_error, missing};
use crate::sys::bpf_object::{KernelTypes, LoadedObject, ObjectSettings, at_tracepoint};
use crate::sys::{Counter, CounterPlace};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: PackedBytes = PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/otel.bpf.o.deflate")));

/// Between two looks at a thread that runs, ns.
const PERIOD_NS: u64 = 1_000_000;

/// Records handed out at once.
const MOST_AT_ONCE: usize = 100_000;

/// Words of `struct otel_process`.
pub(super) const PROCESS_WORDS: usize = 3;

/// The attached programs. Dropping it detaches them.
pub(super) struct ContextEngine {
    object: LoadedObject,
    links: Vec<OwnedFd>,
    timers: Vec<Counter>,
    ring: RingBuf<MapData>,
    processes: HashMap<MapData, u32, [u64; PROCESS_WORDS]>,
}

/// Looks that found no context that can be read, and changes that were lost.
pub(super) struct ContextCounts([u64; 4]);

impl ContextEngine {
    /// Loads and attaches.
    pub(super) fn start(cpus: &[u32]) -> Result<Self, Error> {
        // Before all that is prepared for a refusal of the kernel.
        if !Rights::own().may_bpf() {
            return Err(load_error("object", &std::io::Error::from_raw_os_error(libc::EPERM)));
        }
        let kernel = KernelTypes::read()?;
        let constants = vec![("pid_ns_inum", own_pid_namespace())];
        let settings = ObjectSettings { constants, ..Default::default() };
        let mut object = LoadedObject::new(OBJECT, &kernel, &settings)?;
        let at_switches = at_tracepoint(&kernel, "otel_switch", "sched_switch")?;
        object.load(&[("otel_sample", Attach::Sample), ("otel_switch", at_switches)])?;
        let ring = object.take_map("otel_ring").ok_or_else(|| missing("otel_ring"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| map_error("otel_ring", &error))?;
        let processes = object.take_map("otel_processes").ok_or_else(|| missing("otel_processes"))?;
        let processes = HashMap::try_from(processes).map_err(|error| map_error("otel_processes", &error))?;
        let mut engine = Self { object, links: Vec::new(), timers: Vec::new(), ring, processes };
        engine.links.push(engine.object.attach_tracepoint("otel_switch")?);
        for &cpu in cpus {
            let timer = engine.timer(cpu).map_err(|error| load_error("otel_sample", &error))?;
            engine.timers.push(timer);
        }
        Ok(engine)
    }

    /// A clock of a CPU that makes no samples.
    fn timer(&self, cpu: u32) -> std::io::Result<Counter> {
        let mut attr = Attr { type_: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_CPU_CLOCK, ..Attr::default() };
        attr.sample_period = PERIOD_NS;
        attr.flags.set(AttrFlags::DISABLED | AttrFlags::EXCLUDE_IDLE, true);
        let timer = Counter::open(&attr.to_bytes(), CounterPlace::cpu(cpu))?;
        let program = self.object.program("otel_sample").map_err(std::io::Error::other)?;
        timer.set_bpf(program)?;
        timer.enable()?;
        Ok(timer)
    }

    /// Looks at the threads of this process from now on.
    pub(super) fn watch(&mut self, tgid: u32, words: [u64; PROCESS_WORDS]) {
        // A full table leaves it out.
        let _ = self.processes.insert(tgid, words, 0);
    }

    /// Hands out what waits in the ring. Never blocks.
    pub(super) fn poll(&mut self, sink: &mut dyn FnMut(ContextRecord<'_>)) {
        for _ in 0..MOST_AT_ONCE {
            let Some(item) = self.ring.next() else { return };
            parse_record(&item).into_iter().for_each(&mut *sink);
        }
    }

    /// Detaches; what waits in the ring can still be read.
    pub(super) fn stop(&mut self) {
        self.timers.clear();
        self.links.clear();
    }

    pub(super) fn counts(&self) -> ContextCounts {
        let map = self.object.map("otel_counts").and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let sum = |at: u32| {
            let values = map.as_ref().and_then(|map| map.get(&at, 0).ok());
            values.map_or(0, |values| values.iter().sum())
        };
        ContextCounts([0, 1, 2, 3].map(sum))
    }
}

impl ContextCounts {
    pub(super) fn add_to(&self, all: &mut ThreadContexts) {
        let [lost, unreadable, invalid, cut] = self.0;
        all.lost += lost;
        all.unreadable += unreadable;
        all.invalid += invalid;
        all.cut += cut;
    }
}
