//! The BPF program, loaded, attached, read.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use syscalls::layout::{self, CallRecord, CallSpec, CallSum, SPEC_BYTES, SPECS, SUM_WORDS, SumKey};

use super::SyscallScope;
use crate::files::packed::PackedBytes;
use crate::sys::bpf_error::{Error, map_error, missing};
use crate::sys::bpf_object::{KernelTypes, LoadedObject, ObjectSettings, at_tracepoint};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: PackedBytes = PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/syscalls.bpf.o.deflate")));

/// Programs and their tracepoints. A call's end is attached before its begin: of a begin that is seen, the end is.
const PROGRAMS: [(&str, &str); 5] = [
    ("sys_fork", "sched_process_fork"),
    ("sys_exec", "sched_process_exec"),
    ("sys_exit_of_thread", "sched_process_exit"),
    ("sys_call_ends", "sys_exit"),
    ("sys_call_begins", "sys_enter"),
];

/// How to trace.
#[derive(Clone, Debug)]
pub struct SyscallOptions {
    /// Shorter calls are not handed out, ns; but those that are tracked are.
    pub min_ns: u64,
    /// Calls are only added up ([`SyscallEngine::sums`]).
    pub only_sums: bool,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u32,
}

/// Numbers of what was not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyscallLosses {
    /// Records that found the ring full.
    pub records: u64,
    /// Calls that found no room for a sum.
    pub sums: u64,
    /// Calls of threads that could not be followed.
    pub threads: u64,
}

/// The attached programs. Dropping it detaches them.
pub struct SyscallEngine {
    object: LoadedObject,
    /// The attached programs, in the order of [`PROGRAMS`].
    links: Vec<OwnedFd>,
    ring: RingBuf<MapData>,
    options: SyscallOptions,
}

impl std::fmt::Debug for SyscallEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyscallEngine").field("options", &self.options).finish_non_exhaustive()
    }
}

impl SyscallEngine {
    /// Loads and attaches; calls are seen from here on. `specs` are by number of the system call, at most [`SPECS`].
    ///
    /// # Errors
    /// If the kernel refuses the programs.
    pub fn start(scope: &SyscallScope, specs: &[CallSpec], options: SyscallOptions) -> Result<Self, Error> {
        let kernel = KernelTypes::read()?;
        let entries = vec![("sys_ring", options.ring_bytes)];
        let mut object =
            LoadedObject::new(OBJECT, &kernel, &ObjectSettings { entries, ..ObjectSettings::default() })?;
        let programs = PROGRAMS.map(|(name, point)| Ok((name, at_tracepoint(&kernel, name, point)?)));
        object.load(&programs.into_iter().collect::<Result<Vec<_>, Error>>()?)?;
        let ring = object.take_map("sys_ring").ok_or_else(|| missing("sys_ring"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| map_error("sys_ring", &error))?;
        let mut engine = Self { object, links: Vec::new(), ring, options };
        engine.set_specs(specs)?;
        engine.set_targets(scope)?;
        engine.set_control(scope)?;
        for (name, _) in PROGRAMS {
            engine.links.push(engine.object.attach_tracepoint(name)?);
        }
        Ok(engine)
    }

    fn set_specs(&mut self, specs: &[CallSpec]) -> Result<(), Error> {
        let map = self.object.map_mut("sys_specs").ok_or_else(|| missing("sys_specs"))?;
        let mut map =
            Array::<_, [u8; SPEC_BYTES]>::try_from(map).map_err(|error| map_error("sys_specs", &error))?;
        for (number, spec) in (0u32..).zip(specs).take(SPECS) {
            map.set(number, spec.to_bytes(), 0).map_err(|error| map_error("sys_specs", &error))?;
        }
        Ok(())
    }

    fn set_targets(&mut self, scope: &SyscallScope) -> Result<(), Error> {
        const NOW: u32 = 1;
        const AT_EXEC: u32 = 2;
        const THREAD: u64 = 1 << 32;
        let keys: Vec<(u64, u32)> = match scope {
            SyscallScope::Command(pid) => vec![(u64::from(*pid), AT_EXEC)],
            SyscallScope::Processes(pids) => pids.iter().map(|pid| (u64::from(*pid), NOW)).collect(),
            SyscallScope::Threads(tids) => tids.iter().map(|tid| (u64::from(*tid) | THREAD, NOW)).collect(),
            SyscallScope::System => Vec::new(),
        };
        let map = self.object.map_mut("sys_targets").ok_or_else(|| missing("sys_targets"))?;
        let mut map =
            HashMap::<_, u64, u32>::try_from(map).map_err(|error| map_error("sys_targets", &error))?;
        keys.into_iter()
            .try_for_each(|(key, value)| map.insert(key, value, 0))
            .map_err(|error| map_error("sys_targets", &error))
    }

    // Layout: struct call_control: ns_dev, ns_ino, min_ns u64, self_tgid, all, sums, on u32.
    fn set_control(&mut self, scope: &SyscallScope) -> Result<(), Error> {
        let own = std::fs::metadata("/proc/self/ns/pid");
        let (dev, ino) = own.map_or((0, 0), |meta| (meta.dev(), meta.ino()));
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words: [u64; 5] = [
            dev,
            ino,
            self.options.min_ns,
            pair(std::process::id(), u32::from(*scope == SyscallScope::System)),
            pair(u32::from(self.options.only_sums), 1),
        ];
        let map = self.object.map_mut("sys_controls").ok_or_else(|| missing("sys_controls"))?;
        let mut map =
            Array::<_, [u64; 5]>::try_from(map).map_err(|error| map_error("sys_controls", &error))?;
        map.set(0, words, 0).map_err(|error| map_error("sys_controls", &error))
    }

    /// Hands out what waits in the ring, a ring's worth at most; returns its bytes. Never blocks.
    pub fn poll(&mut self, sink: &mut dyn FnMut(&CallRecord<'_>)) -> usize {
        let mut bytes = 0;
        while bytes < self.options.ring_bytes as usize
            && let Some(item) = self.ring.next()
        {
            bytes += item.len();
            if let Some(record) = layout::parse_record(&item) {
                sink(&record);
            }
        }
        bytes
    }

    /// Detaches; what waits in the ring can still be read, and the sums.
    pub fn stop(&mut self) {
        while self.links.pop().is_some() {}
    }

    /// All sums so far, in no order.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn sums(&self) -> Result<Vec<(SumKey, CallSum)>, Error> {
        let map = self.object.map("sys_sums").ok_or_else(|| missing("sys_sums"))?;
        let map = HashMap::<_, [u32; 2], [u64; SUM_WORDS]>::try_from(map);
        let map = map.map_err(|error| map_error("sys_sums", &error))?;
        let all = map.iter().map(|item| item.map(|(key, words)| layout::sum_of(key, words)));
        all.collect::<Result<_, _>>().map_err(|error| map_error("sys_sums", &error))
    }

    /// Losses so far.
    #[must_use]
    pub fn losses(&self) -> SyscallLosses {
        let Some(map) = self.object.map("sys_counts") else { return SyscallLosses::default() };
        let Ok(map) = PerCpuArray::<_, u64>::try_from(map) else { return SyscallLosses::default() };
        let sum = |slot: u32| map.get(&slot, 0).map_or(0, |values| values.iter().sum());
        SyscallLosses { records: sum(0), sums: sum(1), threads: sum(2) }
    }
}
