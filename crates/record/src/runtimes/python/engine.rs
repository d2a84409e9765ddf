//! The BPF programs of `bpf/python.bpf.c`, loaded and attached, and their rings.

use std::os::fd::AsFd;

use aya::maps::{HashMap, Map, MapData};
use aya::programs::{BtfTracePoint, PerfEvent, ProgramFd};
use aya::{Btf, Ebpf, EbpfLoader};

use super::layout::{self, PROCESS_WORDS, RING_BYTES, RingRecord};
use crate::off_cpu::is_nested;
use crate::sys::SharedMap;
use crate::sys::bpf_error::{Denied, Error, chain, load_error, map_error};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/python.bpf.o");

/// The loaded programs. Dropping it detaches them.
pub struct PythonEngine {
    ebpf: Ebpf,
    processes: HashMap<MapData, u32, [u64; PROCESS_WORDS]>,
    rings: SharedMap,
    cpus: usize,
    /// The program of switches is loaded, but no switch runs it yet.
    is_idle_at_switches: bool,
}

impl std::fmt::Debug for PythonEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PythonEngine").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

/// Whether it could run here: the thread pointer is only read on x86-64, and ids are the initial namespace's.
#[must_use]
pub fn is_possible() -> bool {
    cfg!(target_arch = "x86_64") && crate::sys::mem::effective_uid() == 0 && !is_nested()
}

impl PythonEngine {
    /// Loads the programs; the one of switches if `waits` are wanted.
    ///
    /// # Errors
    /// The kernel's, mostly for missing rights.
    pub fn load(waits: bool) -> Result<Self, Error> {
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| Error::NoBtf { reason: error.to_string() })?;
        let btf = Btf::from_sys_fs().map_err(|error| Error::NoBtf { reason: chain(&error) })?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf)).map_max_entries("rings", cpus as u32);
        let mut ebpf = loader.load(OBJECT).map_err(|error| load_error("object", &error))?;
        let program: &mut PerfEvent = program_of(&mut ebpf, "on_sample")?;
        program.load().map_err(|error| load_error("on_sample", &error))?;
        if waits {
            let program: &mut BtfTracePoint = program_of(&mut ebpf, "on_leave")?;
            program.load("sched_switch", &btf).map_err(|error| load_error("on_leave", &error))?;
        }
        let missing = |map: &'static str| Error::Map { map, reason: "missing".to_owned() };
        let processes = ebpf.take_map("processes").ok_or_else(|| missing("processes"))?;
        let processes = HashMap::try_from(processes).map_err(|error| map_error("processes", &error))?;
        let Some(Map::Array(rings)) = ebpf.map("rings") else { return Err(missing("rings")) };
        let rings = SharedMap::map(rings.fd().as_fd(), cpus * RING_BYTES / 8);
        let rings = rings.map_err(|error| Error::Map { map: "rings", reason: error.to_string() })?;
        Ok(Self { ebpf, processes, rings, cpus, is_idle_at_switches: waits })
    }

    /// The program to run at samples ([`crate::sys::Counter::set_bpf`]).
    #[must_use]
    pub fn sample_program(&mut self) -> Option<&ProgramFd> {
        let program: &mut PerfEvent = program_of(&mut self.ebpf, "on_sample").ok()?;
        program.fd().ok()
    }

    /// Copies frames of this process at samples from now on.
    pub fn watch(&mut self, pid: u32, words: [u64; PROCESS_WORDS]) {
        // A full table leaves it with its native frames.
        let _ = self.processes.insert(pid, words, 0);
    }

    /// Copies frames at switches too from now on. Only where Python runs: each switch of the machine pays for it.
    pub fn copy_at_switches(&mut self) {
        if !std::mem::take(&mut self.is_idle_at_switches) {
            return;
        }
        let program: Result<&mut BtfTracePoint, Error> = program_of(&mut self.ebpf, "on_leave");
        // Without it waits have their native frames only.
        let _ = program.map(BtfTracePoint::attach);
    }

    /// The process runs something else, or has ended.
    pub fn forget(&mut self, pid: u32) {
        let _ = self.processes.remove(&pid);
    }

    /// Hands out all that is in the rings, in order for each CPU; the most words that one of them had.
    pub fn poll(&self, words: &mut Vec<u64>, take: &mut dyn FnMut(RingRecord)) -> usize {
        let mut most = 0;
        for cpu in 0..self.cpus {
            let base = cpu * RING_BYTES / 8;
            let (head, tail) =
                (self.rings.read(base + layout::HEAD_AT), self.rings.read(base + layout::TAIL_AT));
            let waiting = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(layout::RING_WORDS);
            if waiting == 0 {
                continue;
            }
            most = most.max(waiting);
            words.clear();
            let index = |at: usize| (tail as usize).wrapping_add(at) & (layout::RING_WORDS - 1);
            words.extend((0..waiting).map(|at| self.rings.read(base + layout::WORDS_AT + index(at))));
            self.rings.write(base + layout::TAIL_AT, head);
            let mut rest = words.as_slice();
            while let Some((record, len)) = layout::parse_record(rest) {
                take(record);
                rest = rest.get(len..).unwrap_or_default();
            }
        }
        most
    }

    /// Samples whose frames had no room, or came while others were written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let of_cpu = |cpu: usize| {
            let base = cpu * RING_BYTES / 8;
            self.rings.read(base + layout::DROPPED_AT) + self.rings.read(base + layout::INTERRUPTED_AT)
        };
        (0..self.cpus).map(of_cpu).sum()
    }
}

fn program_of<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    let missing = || Error::Load { what: name, reason: "not in the object".to_owned(), denied: Denied::No };
    ebpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())
}
