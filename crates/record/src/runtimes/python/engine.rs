//! The BPF programs of `bpf/python.bpf.c`, loaded and attached, and their rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{Array, HashMap, Map, MapData};
use dso::unwind::GoroutineLayout;

use super::layout::{self, LAYOUT_FIELDS, MOST_LAYOUTS, PROCESS_WORDS, RING_BYTES, RingRecord};
use crate::files::packed::PackedBytes;
use crate::off_cpu::is_nested;
use crate::sys::SharedMap;
use crate::sys::bpf::Attach;
use crate::sys::bpf_error::{Error, map_error};
use crate::sys::bpf_object::{KernelTypes, LoadedObject, ObjectSettings, at_tracepoint};

/// The object of all kernels; `cargo xtask bpf` rebuilds it.
static OBJECT: PackedBytes = PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/python.bpf.o.deflate")));

/// The program of switches, by its name.
const ON_LEAVE: &str = "on_leave";

/// Copies of frames where threads leave their CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchCopies {
    /// No.
    Never,
    /// Once Python is found: the kernel takes milliseconds to check the program.
    WhereFound,
    /// The same, by a program that is loaded before.
    Prepared,
}

/// The program of switches.
#[derive(Debug)]
enum SwitchProgram {
    Unwanted,
    NotLoaded(Attach),
    /// No switch runs it yet.
    Loaded,
    /// Held, for its link ends with it.
    Attached {
        _link: Option<OwnedFd>,
    },
}

/// The loaded programs. Dropping it detaches them.
pub struct PythonEngine {
    object: LoadedObject,
    at_switches: SwitchProgram,
    processes: HashMap<MapData, u32, [u64; PROCESS_WORDS]>,
    go_layouts: Array<MapData, [u32; LAYOUT_FIELDS]>,
    rings: SharedMap,
    cpus: usize,
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
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel's, mostly for missing rights.
    pub fn load(switches: SwitchCopies) -> Result<Self, Error> {
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| Error::NoBtf { reason: error.to_string() })?;
        let kernel = KernelTypes::read()?;
        let entries = vec![("rings", cpus as u32)];
        let mut object =
            LoadedObject::new(OBJECT, &kernel, &ObjectSettings { entries, ..ObjectSettings::default() })?;
        object.load(&[("on_sample", Attach::Sample)])?;
        let mut at_switches = SwitchProgram::Unwanted;
        if switches != SwitchCopies::Never {
            at_switches = SwitchProgram::NotLoaded(at_tracepoint(&kernel, ON_LEAVE, "sched_switch")?);
        }
        if switches == SwitchCopies::Prepared {
            at_switches = at_switches.loaded(&mut object)?;
        }
        let missing = |map: &'static str| Error::Map { map, reason: "missing".to_owned() };
        let processes = object.take_map("processes").ok_or_else(|| missing("processes"))?;
        let processes = HashMap::try_from(processes).map_err(|error| map_error("processes", &error))?;
        let go_layouts = object.take_map("go_layouts").ok_or_else(|| missing("go_layouts"))?;
        let go_layouts = Array::try_from(go_layouts).map_err(|error| map_error("go_layouts", &error))?;
        let Some(Map::Array(rings)) = object.map("rings") else { return Err(missing("rings")) };
        let rings = SharedMap::map(rings.fd().as_fd(), cpus * RING_BYTES / 8);
        let rings = rings.map_err(|error| Error::Map { map: "rings", reason: error.to_string() })?;
        Ok(Self { object, at_switches, processes, go_layouts, rings, cpus })
    }

    /// The program to run at samples ([`crate::sys::Counter::set_bpf`]).
    #[must_use]
    pub fn sample_program(&self) -> Option<BorrowedFd<'_>> {
        self.object.program("on_sample").ok()
    }

    /// Copies frames of this process at samples from now on.
    pub fn watch(&mut self, pid: u32, words: [u64; PROCESS_WORDS]) {
        // A full table leaves it with its native frames.
        let _ = self.processes.insert(pid, words, 0);
    }

    /// Copies goroutines of programs with these layouts at samples from now on.
    pub fn know_go(&mut self, layouts: &[GoroutineLayout]) {
        for (at, layout) in (0..).zip(layouts.iter().take(MOST_LAYOUTS)) {
            // Without it their stacks end where they change stacks.
            let _ = self.go_layouts.set(at, layout::layout_value(layout), 0);
        }
    }

    /// Copies frames at switches too from now on. Only where Python runs: each switch of the machine pays for it.
    pub fn copy_at_switches(&mut self) {
        let program = std::mem::replace(&mut self.at_switches, SwitchProgram::Unwanted);
        // Without it waits have their native frames only.
        let loaded = program.loaded(&mut self.object).unwrap_or(SwitchProgram::Unwanted);
        self.at_switches = loaded.attached(&self.object);
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

impl SwitchProgram {
    /// Loads it, if it is wanted and isn't loaded.
    fn loaded(self, object: &mut LoadedObject) -> Result<Self, Error> {
        let Self::NotLoaded(attach) = self else { return Ok(self) };
        object.load(&[(ON_LEAVE, attach)]).map(|()| Self::Loaded)
    }

    /// Attaches it, if it is loaded.
    fn attached(self, object: &LoadedObject) -> Self {
        let Self::Loaded = self else { return self };
        Self::Attached { _link: object.attach_tracepoint(ON_LEAVE).ok() }
    }
}
