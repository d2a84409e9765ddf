//! Attaches, hands out events, watches rates, takes probes away again.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};

use super::Error;
use super::layout::{self, CONTROL_WORDS, COUNT_NAMES, CallEvent, Mode, SUM_WORDS, Sums};
use super::program::{self, Programs, load_error};
use crate::sys::bpf::{self, Probes};

/// How the end of a call is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exits {
    /// By probes on the function's return instructions: touches nothing of the program.
    Sites,
    /// By a return probe: the kernel swaps the return address. Sees every return, but an unwinder (C++ exceptions,
    /// Rust panics) or a change of stacks meanwhile would end the program.
    Return,
}

/// A file whose functions are probed.
#[derive(Clone, Debug)]
pub struct Object {
    /// As tally sees it.
    pub path: PathBuf,
    /// Only in this process; in every one that maps the file if 0 (those not followed pay, too, but are not recorded).
    pub pid: u32,
}

/// A function to be probed. Its place in the list is its number.
#[derive(Clone, Debug)]
pub struct Function {
    /// Number of its file.
    pub object: usize,
    /// File offset of its first instruction.
    pub offset: u64,
    /// File offsets of its return instructions and jumps out, for [`Exits::Sites`].
    pub leaves: Vec<u64>,
    /// It may also end by a jump whose moment is not seen (conditional, computed; with return probes any).
    pub jumps_out: bool,
    /// It jumps back to `offset`: seen again at the same place of the stack, that is no new call.
    pub loops: bool,
}

/// What of the kernel is recorded, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelParts {
    /// System calls.
    pub system_calls: bool,
    /// Page faults of user code.
    pub faults: bool,
    /// Times off the CPU.
    pub switches: bool,
    /// Block requests.
    pub blocks: bool,
}

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// What comes out of the kernel.
    pub mode: Mode,
    /// How ends of calls are seen.
    pub exits: Exits,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u32,
    /// What of the kernel is recorded.
    pub kernel: KernelParts,
}

/// Attached probes. Dropping it takes them away.
pub struct Engine {
    ebpf: Ebpf,
    programs: Programs,
    ring: RingBuf<MapData>,
    options: Options,
    objects: Vec<Object>,
    functions: Vec<Function>,
    attached: Vec<bool>,
    links: Vec<OwnedFd>,
    generation: u64,
    /// Functions that the kernel refuses to probe, by number: their first instruction can't be stepped.
    pub refused: Vec<u32>,
    /// Parts of the kernel that could not be attached, with the reason.
    pub missing: Vec<String>,
}

/// A function whose rate was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its number.
    pub function: u32,
    /// Entries so far.
    pub entries: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

/// File offsets, and the cookie of each.
type Places = (Vec<u64>, Vec<u64>);

const FORKS: [(&str, &str); 2] = [("call_fork", "sched_process_fork"), ("call_exec", "sched_process_exec")];

impl Engine {
    /// Loads the programs; nothing is attached yet.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn load(objects: Vec<Object>, functions: Vec<Function>, options: Options) -> Result<Self, Error> {
        let (mut ebpf, programs, btf) = program::load(functions.len() as u32, &options)?;
        let ring = ebpf.take_map("call_ring").ok_or_else(|| map_error("call_ring", &"missing"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| map_error("call_ring", &error))?;
        let attached = vec![true; functions.len()];
        let mut engine = Self {
            ebpf,
            programs,
            ring,
            options,
            objects,
            functions,
            attached,
            links: Vec::new(),
            generation: 0,
            refused: Vec::new(),
            missing: Vec::new(),
        };
        engine.set_control()?;
        for (program, tracepoint) in FORKS {
            engine.attach_tracepoint(&btf, program, tracepoint)?;
        }
        engine.attach_kernel(&btf);
        Ok(engine)
    }

    /// Records this process, and what it forks.
    ///
    /// # Errors
    /// If the table of processes is full.
    pub fn add_process(&mut self, pid: u32) -> Result<(), Error> {
        let map = self.ebpf.map_mut("call_targets").ok_or_else(|| map_error("call_targets", &"missing"))?;
        let mut map = HashMap::<_, u32, u32>::try_from(map).map_err(|e| map_error("call_targets", &e))?;
        map.insert(pid, 1, 0).map_err(|error| map_error("call_targets", &error))
    }

    /// Puts the probes in place, but for functions that the kernel refuses to probe (see [`Engine::refused`]).
    ///
    /// # Errors
    /// If the kernel refuses them all.
    pub fn attach(&mut self) -> Result<(), Error> {
        let mut links = Vec::new();
        for object in 0..self.objects.len() {
            let numbers: Vec<u32> = (0u32..)
                .zip(&self.functions)
                .filter(|(number, function)| function.object == object && self.attached[*number as usize])
                .map(|(number, _)| number)
                .collect();
            self.link_all(object, &numbers, &mut links)?;
        }
        self.generation ^= 1;
        // The old links go last: no call is missed meanwhile, and doubles bear another generation.
        self.links = links;
        Ok(())
    }

    /// Takes these functions' probes away.
    ///
    /// # Errors
    /// As [`Engine::attach`]; then all stay in place.
    pub fn detach(&mut self, functions: &[u32]) -> Result<(), Error> {
        for &function in functions {
            self.attached[function as usize] = false;
        }
        self.attach()
    }

    /// Takes all probes away; what waits in the ring can still be read.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Number of places probed.
    #[must_use]
    pub fn probes(&self) -> usize {
        let of = |function: &Function| {
            1 + if self.options.exits == Exits::Sites { function.leaves.len() } else { 1 }
        };
        self.functions
            .iter()
            .zip(&self.attached)
            .filter(|(_, on)| **on)
            .map(|(function, _)| of(function))
            .sum()
    }

    /// Links these functions; where the kernel refuses, halves them until the culprits are alone.
    fn link_all(&mut self, object: usize, numbers: &[u32], links: &mut Vec<OwnedFd>) -> Result<(), Error> {
        let refusal = match self.link(object, numbers) {
            Ok(new) => {
                links.extend(new);
                return Ok(());
            }
            Err(error) => error,
        };
        let about_code = matches!(&refusal, Error::Attach { error, .. } if is_about_code(error));
        if !about_code {
            return Err(refusal);
        }
        if let [number] = numbers {
            self.attached[*number as usize] = false;
            self.refused.push(*number);
            return Ok(());
        }
        let (first, second) = numbers.split_at(numbers.len() / 2);
        self.link_all(object, first, links)?;
        self.link_all(object, second, links)
    }

    /// Exits first: of an entry that is seen, the exit is.
    fn link(&self, object: usize, numbers: &[u32]) -> Result<Vec<OwnedFd>, Error> {
        let function = |number: &u32| &self.functions[*number as usize];
        let cookie = |number: &u32| {
            let tail = if function(number).jumps_out { layout::COOKIE_TAIL } else { 0 };
            let loops = if function(number).loops { layout::COOKIE_LOOPS } else { 0 };
            u64::from(*number) << layout::COOKIE_SHIFT | self.generation << 1 | tail | loops
        };
        let enters: Places = numbers.iter().map(|number| (function(number).offset, cookie(number))).unzip();
        let exits = if self.options.exits == Exits::Return {
            self.link_one(object, &self.programs.exit, &enters, true)?
        } else {
            let sites = |number| function(number).leaves.iter().map(move |leave| (*leave, cookie(number)));
            let leaves: Places = numbers.iter().flat_map(sites).unzip();
            self.link_one(object, &self.programs.exit, &leaves, false)?
        };
        let enter = self.link_one(object, &self.programs.enter, &enters, false)?;
        Ok(exits.into_iter().chain(enter).collect())
    }

    fn link_one(
        &self,
        object: usize,
        program: &OwnedFd,
        (offsets, cookies): &Places,
        on_return: bool,
    ) -> Result<Option<OwnedFd>, Error> {
        if offsets.is_empty() {
            return Ok(None);
        }
        let Object { path, pid } = &self.objects[object];
        let probes = Probes { path, offsets, cookies, on_return, pid: *pid };
        bpf::link_uprobes(program.as_fd(), &probes).map(Some).map_err(|error| Error::Attach {
            path: path.display().to_string(),
            probes: offsets.len(),
            error,
        })
    }

    fn attach_tracepoint(&mut self, btf: &Btf, name: &'static str, tracepoint: &str) -> Result<(), Error> {
        let program = self.ebpf.program_mut(name).ok_or_else(|| load_error(name, &"not in the object"))?;
        let program: &mut BtfTracePoint = program.try_into().map_err(|error| load_error(name, &error))?;
        program.load(tracepoint, btf).map_err(|error| load_error(name, &error))?;
        let attached = program.attach();
        attached.map_err(|error| Error::Tracepoint { program: name, reason: error.to_string() })?;
        Ok(())
    }

    /// What can't be attached is noted, not fatal: the user's functions are still seen.
    fn attach_kernel(&mut self, btf: &Btf) {
        let KernelParts { system_calls, faults, switches, blocks } = self.options.kernel;
        let wanted = [
            (system_calls, "call_sys_enter", "sys_enter"),
            (system_calls, "call_sys_exit", "sys_exit"),
            (faults, "call_fault", "page_fault_user"),
            (switches, "call_switch", "sched_switch"),
            (blocks, "call_block", "block_rq_issue"),
        ];
        for (_, program, tracepoint) in wanted.into_iter().filter(|(wanted, _, _)| *wanted) {
            if let Err(error) = self.attach_tracepoint(btf, program, tracepoint) {
                self.missing.push(error.to_string());
            }
        }
    }

    fn set_control(&mut self) -> Result<(), Error> {
        let (mode, min_ns) = self.options.mode.to_words();
        let own = std::fs::metadata("/proc/self/ns/pid");
        let (dev, ino) = own.map_or((0, 0), |meta| (meta.dev(), meta.ino()));
        let words: [u64; CONTROL_WORDS] = [min_ns, dev, ino, u64::from(mode), 0];
        let map = self.ebpf.map_mut("call_controls").ok_or_else(|| map_error("call_controls", &"missing"))?;
        let mut map =
            Array::<_, [u64; CONTROL_WORDS]>::try_from(map).map_err(|e| map_error("call_controls", &e))?;
        map.set(0, words, 0).map_err(|error| map_error("call_controls", &error))
    }

    /// Hands out what waits in the ring, in the order of the kernel; never blocks.
    pub fn poll(&mut self, sink: &mut dyn FnMut(CallEvent)) {
        while let Some(item) = self.ring.next() {
            if let Some(event) = layout::parse_call_event(&item) {
                sink(event);
            }
        }
    }

    /// Entries so far of the functions that are still probed.
    #[must_use]
    pub fn entries(&self) -> Vec<Watched> {
        let Some(map) = self.ebpf.map("call_rates") else { return Vec::new() };
        let Ok(map) = Array::<_, u64>::try_from(map) else { return Vec::new() };
        let on = (0u32..).zip(&self.attached).filter(|(_, on)| **on);
        on.map(|(function, _)| Watched { function, entries: map.get(&function, 0).unwrap_or(0) }).collect()
    }

    /// Entries so far of all functions, those detached included.
    #[must_use]
    pub fn all_entries(&self) -> u64 {
        let Some(map) = self.ebpf.map("call_rates") else { return 0 };
        let Ok(map) = Array::<_, u64>::try_from(map) else { return 0 };
        map.iter().filter_map(Result::ok).sum()
    }

    /// The sums of [`Mode::Totals`], of functions that were called.
    #[must_use]
    pub fn sums(&self) -> Vec<(u32, Sums)> {
        let Some(map) = self.ebpf.map("call_sums") else { return Vec::new() };
        let Ok(map) = Array::<_, [u64; SUM_WORDS]>::try_from(map) else { return Vec::new() };
        let all = (0..self.functions.len() as u32)
            .filter_map(|function| Some((function, Sums::from_words(&map.get(&function, 0).ok()?))));
        all.filter(|(_, sums)| sums.count > 0).collect()
    }

    /// What the kernel side could not do, by [`COUNT_NAMES`].
    #[must_use]
    pub fn losses(&self) -> [u64; COUNT_NAMES.len()] {
        let mut sums = [0; COUNT_NAMES.len()];
        let Some(map) = self.ebpf.map("call_counts") else { return sums };
        let Ok(map) = PerCpuArray::<_, u64>::try_from(map) else { return sums };
        for (slot, sum) in (0u32..).zip(sums.iter_mut()) {
            *sum = map.get(&slot, 0).map_or(0, |values| values.iter().sum());
        }
        sums
    }
}

/// Whether a refusal is about what stands at a probed place, not about us.
fn is_about_code(error: &std::io::Error) -> bool {
    /// The kernel's internal "not supported", which uprobes let through to user space.
    const ENOTSUPP: i32 = 524;
    matches!(
        error.raw_os_error(),
        Some(ENOTSUPP | libc::EOPNOTSUPP | libc::EINVAL | libc::EIO | libc::ENOEXEC)
    )
}

fn map_error(map: &'static str, error: &dyn std::fmt::Display) -> Error {
    Error::Map { map, reason: error.to_string() }
}
