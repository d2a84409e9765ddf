//! Attaches, hands out events, watches rates, takes probes away again.

mod attach;

pub(super) use attach::is_about_code;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};

use super::goroutines::Goroutines;
use super::layout::{
    self, CONTROL_WORDS, COUNT_NAMES, COUNT_STRAY, CallEvent, CallMode, FunctionSums, SUM_WORDS,
};
use super::links::Links;
use super::plan::{
    CountRules, Exits, KernelParts, KernelSelection, ProbeOptions, ProbedFunction, ProbedObject,
    WatchedCounts,
};
use super::program::{self, Programs};
use super::{CallSource, Error};
use crate::sys::bpf::{self, Attach, ProbeSide};
use crate::sys::bpf_error::{self, chain, map_error, missing};
use crate::sys::bpf_object::{KernelTypes, LoadedObject, NO_TYPE, TypeKind, at_tracepoint, no_type};
use crate::sys::mem;

/// Attached probes. Dropping it takes them away.
pub struct CallEngine {
    object: LoadedObject,
    /// Programs of tracepoints, attached.
    at_tracepoints: Vec<OwnedFd>,
    programs: Programs,
    ring: RingBuf<MapData>,
    options: ProbeOptions,
    objects: Vec<ProbedObject>,
    functions: Vec<ProbedFunction>,
    attached: Vec<bool>,
    links: Links,
    kernel_links: Vec<OwnedFd>,
    generation: u64,
    refused: Vec<u32>,
    missing: Vec<String>,
    goroutines: Option<Goroutines>,
}

impl std::fmt::Debug for CallEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

const LIVES: [(&str, &str); 3] = [
    ("call_fork", "sched_process_fork"),
    ("call_exec", "sched_process_exec"),
    ("call_exit", "sched_process_exit"),
];

impl CallEngine {
    /// Loads the programs; nothing is attached yet.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn load(
        objects: Vec<ProbedObject>,
        functions: Vec<ProbedFunction>,
        mut options: ProbeOptions,
    ) -> Result<Self, Error> {
        let goroutines = Goroutines::of(&functions, &mut options);
        let (mut object, programs) = program::load(functions.len() as u32, &options)?;
        let ring = object.take_map("call_ring").ok_or_else(|| missing("call_ring"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| map_error("call_ring", &error))?;
        let attached = vec![true; functions.len()];
        let mut engine = Self {
            object,
            at_tracepoints: Vec::new(),
            programs,
            ring,
            options,
            objects,
            functions,
            attached,
            links: Links::default(),
            kernel_links: Vec::new(),
            generation: 0,
            refused: Vec::new(),
            missing: Vec::new(),
            goroutines,
        };
        engine.set_control()?;
        for (program, tracepoint) in LIVES {
            engine.attach_tracepoint(program, tracepoint)?;
        }
        engine.attach_kernel();
        Ok(engine)
    }

    fn attach_tracepoint(&mut self, name: &'static str, tracepoint: &str) -> Result<(), Error> {
        let attach = at_tracepoint(&*KernelTypes::read()?, name, tracepoint)?;
        self.object.load(&[(name, attach)])?;
        self.at_tracepoints.push(self.object.attach_tracepoint(name)?);
        Ok(())
    }

    /// Failures to attach are noted and not fatal, because the user's functions are still seen.
    fn attach_kernel(&mut self) {
        let KernelParts { system_calls, faults, switches, blocks } = self.options.kernel;
        let wanted = [
            (system_calls, "call_sys_enter", "sys_enter"),
            (system_calls, "call_sys_exit", "sys_exit"),
            (faults, "call_fault", "page_fault_user"),
            (switches, "call_switch", "sched_switch"),
            (blocks, "call_block", "block_rq_issue"),
        ];
        for (_, program, tracepoint) in wanted.into_iter().filter(|(wanted, _, _)| *wanted) {
            if let Err(error) = self.attach_tracepoint(program, tracepoint) {
                let text = error.to_string();
                let absent = text.contains(NO_TYPE);
                self.missing.push(if absent { format!("{tracepoint}: not on this kernel") } else { text });
            }
        }
    }

    fn set_control(&mut self) -> Result<(), Error> {
        let (mode, min_ns) = self.options.mode.to_words();
        let own = std::fs::metadata("/proc/self/ns/pid");
        let (dev, ino) = own.map_or((0, 0), |meta| (meta.dev(), meta.ino()));
        let CountRules { any_only, starts_off, depth, callers, min_ns: least_ns, .. } = &self.options.counted;
        let flag = u64::from;
        let words: [u64; CONTROL_WORDS] = [
            min_ns.max(*least_ns),
            dev,
            ino,
            u64::from(mode),
            0,
            flag(*any_only),
            flag(*starts_off),
            *depth,
            flag(*callers),
            self.generation,
            flag(!self.links.is_empty()),
        ];
        let map = self.object.map_mut("call_controls").ok_or_else(|| missing("call_controls"))?;
        let mut map =
            Array::<_, [u64; CONTROL_WORDS]>::try_from(map).map_err(|e| map_error("call_controls", &e))?;
        map.set(0, words, 0).map_err(|error| map_error("call_controls", &error).into())
    }
}

impl CallSource for CallEngine {
    fn add_process(&mut self, pid: u32) -> Result<(), Error> {
        let map = self.object.map_mut("call_targets").ok_or_else(|| missing("call_targets"))?;
        let mut map = HashMap::<_, u32, u32>::try_from(map).map_err(|e| map_error("call_targets", &e))?;
        map.insert(pid, 1, 0).map_err(|error| map_error("call_targets", &error).into())
    }

    fn attach(&mut self) -> Result<(), Error> {
        // Where each probe has a link of its own; if the limit is too low, opening reports it.
        let _ = mem::raise_open_files();
        self.replace_links(Vec::new())
    }

    fn detach(&mut self, functions: &[u32]) -> Result<(), Error> {
        let leaving = self.link_leaving(functions)?;
        for &function in functions {
            self.attached[function as usize] = false;
        }
        self.replace_links(leaving)
    }

    fn stop(&mut self) {
        let links = std::mem::take(&mut self.links);
        // If the kernel side isn't updated, only the count of strays is wrong.
        let _ = self.set_control();
        links.take_away();
        self.kernel_links.clear();
    }

    fn probes(&self) -> usize {
        let on = self.functions.iter().zip(&self.attached).filter(|(_, on)| **on);
        on.map(|(function, _)| self.options.exits.places(function)).sum()
    }

    fn poll(&mut self, sink: &mut dyn FnMut(CallEvent)) {
        while let Some(item) = self.ring.next() {
            match (layout::parse_call_event(&item), &mut self.goroutines) {
                (Some(event), Some(goroutines)) => goroutines.take(event, sink),
                (Some(event), None) => sink(event),
                (None, _) => {}
            }
        }
    }

    fn entries(&self) -> Vec<WatchedCounts> {
        let on = (0u32..).zip(&self.attached).zip(self.rates()).filter(|((_, on), _)| **on);
        on.map(|((function, _), entries)| WatchedCounts { function, entries }).collect()
    }

    fn all_entries(&self) -> u64 {
        self.rates().iter().sum()
    }

    fn sums(&self) -> Vec<(u32, FunctionSums)> {
        if let Some(sums) = self.goroutines.as_ref().and_then(Goroutines::sums) {
            return sums;
        }
        if self.options.mode != CallMode::Totals {
            return Vec::new();
        }
        if self.options.exits == Exits::None {
            return FunctionSums::of_entries(&self.rates());
        }
        let words: Vec<u64> = self.array("call_sums", SUM_WORDS);
        let all = (0u32..).zip(words.chunks_exact(SUM_WORDS)).filter(|(_, words)| FunctionSums::any(words));
        all.filter_map(|(function, words)| Some((function, FunctionSums::from_words(words.try_into().ok()?))))
            .collect()
    }

    fn losses(&self) -> Vec<(u64, &'static str)> {
        let Some(map) = self.object.map("call_counts") else { return Vec::new() };
        let Ok(map) = PerCpuArray::<_, u64>::try_from(map) else { return Vec::new() };
        let sum = |slot: u32| map.get(&slot, 0).map_or(0, |values| values.iter().sum());
        let own = self.goroutines.as_ref().map(|goroutines| (goroutines.strays(), COUNT_NAMES[COUNT_STRAY]));
        (0u32..).zip(COUNT_NAMES).map(|(slot, name)| (sum(slot), name)).chain(own).collect()
    }

    fn refused(&self) -> &[u32] {
        &self.refused
    }

    fn missing(&self) -> Vec<String> {
        self.missing.clone()
    }

    fn name(&self) -> &'static str {
        match (self.programs.multi, &self.programs.session) {
            (true, None) => "uprobes",
            (true, Some(_)) => "uprobe sessions",
            (false, _) => "uprobes (one link each: the kernel is older than 6.6)",
        }
    }

    fn trace_kernel(&mut self, selection: &KernelSelection) -> Result<&'static str, Vec<String>> {
        if selection.functions.is_empty() {
            return Err(Vec::new());
        }
        let by_multi = match self.link_kernel_functions(selection) {
            Ok(()) => return Ok("kprobe_multi"),
            Err(why) => format!("kprobe_multi: {}", first_part(&why)),
        };
        match self.link_fentries(selection) {
            Ok(()) => Ok("fentry and fexit"),
            Err(why) => Err(vec![by_multi, format!("fentry: {}", first_part(&why))]),
        }
    }
}

impl CallEngine {
    /// Entries by function.
    fn rates(&self) -> Vec<u64> {
        self.array("call_rates", 1)
    }

    /// The words of a map that has `words` of them for each function; empty if it can't be read.
    fn array(&self, name: &str, words: usize) -> Vec<u64> {
        let Some(map) = self.object.map(name) else { return Vec::new() };
        let Some(fd) = program::fd_of(map) else { return Vec::new() };
        let bytes = bpf::read_array(fd, self.functions.len(), words * size_of::<u64>()).unwrap_or_default();
        layout::words_of(&bytes)
    }

    /// Returns first: of an entry that is seen, the return is.
    fn link_kernel_functions(&mut self, selection: &KernelSelection) -> Result<(), Error> {
        let addresses: Vec<u64> = selection.functions.iter().map(|function| function.address).collect();
        let failed = |error| bpf_error::Error::Attach { program: "on_kernel_enter", reason: chain(&error) };
        let mut links = Vec::new();
        for (program, side) in [("on_kernel_leave", ProbeSide::Return), ("on_kernel_enter", ProbeSide::Entry)]
        {
            let program = self.object.loaded(program, Attach::KernelFunctions)?;
            links.push(bpf::link_kernel_functions(program.as_fd(), &addresses, side).map_err(failed)?);
        }
        self.kernel_links = links;
        Ok(())
    }

    fn link_fentries(&mut self, selection: &KernelSelection) -> Result<(), Error> {
        let kernel = KernelTypes::read()?;
        let mut links = Vec::new();
        for (number, function) in (0u64..).zip(&selection.functions) {
            let id = kernel.find(TypeKind::Func, &function.name);
            let id = id.ok_or_else(|| no_type("fentry", &function.name))?;
            for (program, attach) in
                [("on_kernel_leave", Attach::Return(id)), ("on_kernel_enter", Attach::Entry(id))]
            {
                let loaded = self.object.loaded(program, attach)?;
                let link = bpf::link_function(loaded.as_fd(), attach, number);
                let failed = |error| bpf_error::Error::Attach { program, reason: chain(&error) };
                links.push(link.map_err(failed)?);
            }
        }
        self.kernel_links = links;
        Ok(())
    }
}

/// Without the verifier's log.
fn first_part(why: &Error) -> String {
    why.to_string().split(" | ").next().unwrap_or_default().to_owned()
}
