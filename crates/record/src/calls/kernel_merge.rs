//! Kernel functions in addition to the user's: recorded by any method the kernel allows, and merged in time order.

use std::io;
use std::time::Duration;

use dso::system_file;
use rustc_hash::FxHashMap;

use super::ftrace::{FUNCTION, FUNCTION_GRAPH, FunctionGraph};
use super::layout::{CallEvent, CallEventKind, FunctionSums};
use super::merge::Merge;
use super::plan::{KernelSelection, WatchedCounts};
use super::{CallSource, Error};
use crate::sys::time::Clock;

/// How old an event is before all that came before it on other rings is known to be there.
const SETTLED: Duration = Duration::from_millis(1);

/// Begins to record functions of the kernel; its name, or what the kernel lacks or refuses, in words.
type MergeMethod = fn(&mut WithKernel) -> Result<&'static str, Vec<String>>;

/// A source with kernel functions.
pub struct WithKernel {
    inner: Box<dyn CallSource>,
    selection: KernelSelection,
    pids: Vec<u32>,
    graph: Option<FunctionGraph>,
    way: Option<&'static str>,
    missing: Vec<String>,
    merge: Merge,
    /// Processes of threads: the kernel's tracers know only threads.
    processes: FxHashMap<u32, u32>,
    stopped: bool,
}

impl WithKernel {
    /// Around what sees the user's functions.
    pub fn new(inner: Box<dyn CallSource>, selection: KernelSelection) -> Self {
        Self {
            inner,
            selection,
            pids: Vec::new(),
            graph: None,
            way: None,
            missing: Vec::new(),
            merge: Merge::default(),
            processes: FxHashMap::default(),
            stopped: false,
        }
    }

    /// If callees are selected, methods that see them come first. Methods that see only entries come last.
    fn begin(&mut self) {
        let alone = self.selection.depth <= 1 && !self.selection.functions.is_empty();
        let ways: [MergeMethod; 3] = if alone {
            [Self::probes, Self::graph, Self::entries_only]
        } else {
            [Self::graph, Self::probes, Self::entries_only]
        };
        for way in ways {
            match way(self) {
                Ok(way) => {
                    self.way = Some(way);
                    self.missing.clear();
                    return;
                }
                Err(reasons) => self.missing.extend(reasons),
            }
        }
    }

    fn probes(&mut self) -> Result<&'static str, Vec<String>> {
        self.inner.trace_kernel(&self.selection)
    }

    fn graph(&mut self) -> Result<&'static str, Vec<String>> {
        self.start(FUNCTION_GRAPH).map(|()| FUNCTION_GRAPH)
    }

    fn entries_only(&mut self) -> Result<&'static str, Vec<String>> {
        if self.selection.functions.is_empty() {
            return Err(Vec::new());
        }
        self.start(FUNCTION).map(|()| "the function tracer (entries only)")
    }

    fn start(&mut self, tracer: &'static str) -> Result<(), Vec<String>> {
        self.graph = Some(
            FunctionGraph::start(tracer, &self.pids, &self.selection).map_err(|why| vec![why.to_string()])?,
        );
        Ok(())
    }
}

/// Why kernel functions can't be recorded.
#[derive(Debug, thiserror::Error)]
pub enum NoKernelCalls {
    /// The kernel's symbols can't be read.
    #[error(transparent)]
    NoSymbols(io::Error),
    /// The kernel's symbols have no addresses.
    #[error("/proc/kallsyms hides the addresses of functions")]
    HiddenAddresses,
    /// Not even the source of user functions works.
    #[error(transparent)]
    Source(#[from] Error),
    /// The reason of each method.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
}

/// Tries to record a function of the kernel that we don't call: the method, or the reasons of each failure.
///
/// # Errors
/// For each method, the reason why the kernel lacks or refuses it.
pub fn kernel_functions_by() -> Result<&'static str, NoKernelCalls> {
    /// Every kernel has it, and every one of its system calls is traced there.
    const NAME: &str = "do_sys_openat2";
    let text = system_file::read_text("/proc/kallsyms").map_err(NoKernelCalls::NoSymbols)?;
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        (words.nth(1) == Some(NAME)).then_some(address)
    };
    let address = text.lines().find_map(symbol).filter(|address| *address > 0);
    let address = address.ok_or(NoKernelCalls::HiddenAddresses)?;
    let selection = KernelSelection {
        functions: vec![super::KernelFunction { name: NAME.to_owned(), address }],
        depth: 1,
    };
    let options = super::ProbeOptions {
        mode: super::CallMode::Events,
        exits: super::Exits::Sites,
        ring_bytes: 1 << 16,
        kernel: super::KernelParts::default(),
        kernel_selection: selection,
        counted: super::CountRules::default(),
    };
    let mut source = super::open(&[], &[], &options)?.source;
    source.add_process(std::process::id())?;
    source.attach()?;
    source.kernel_way().ok_or_else(|| NoKernelCalls::Refused(source.kernel_refusals().to_vec()))
}

impl CallSource for WithKernel {
    fn add_process(&mut self, pid: u32) -> Result<(), Error> {
        self.pids.push(pid);
        self.inner.add_process(pid)
    }

    fn attach(&mut self) -> Result<(), Error> {
        self.begin();
        self.inner.attach()
    }

    fn detach(&mut self, functions: &[u32]) -> Result<(), Error> {
        self.inner.detach(functions)
    }

    fn stop(&mut self) {
        self.inner.stop();
        if let Some(graph) = &mut self.graph {
            graph.stop();
        }
        self.stopped = true;
    }

    fn poll(&mut self, sink: &mut dyn FnMut(CallEvent)) {
        let Some(graph) = &mut self.graph else { return self.inner.poll(sink) };
        let settled = Clock::Monotonic.now_ns().saturating_sub(SETTLED.as_nanos() as u64);
        let merge = &mut self.merge;
        self.inner.poll(&mut |event| merge.extend([event]));
        graph.poll(&mut |event| merge.extend([event]));
        for mut event in merge.emit(if self.stopped { u64::MAX } else { settled }) {
            if matches!(event.kind, CallEventKind::Kernel | CallEventKind::KernelEnd) && event.pid == 0 {
                // Threads that haven't been in a user function yet have nothing to show.
                let Some(pid) = self.processes.get(&event.tid) else { continue };
                event.pid = *pid;
            } else {
                self.processes.insert(event.tid, event.pid);
            }
            sink(event);
        }
    }

    fn probes(&self) -> usize {
        self.inner.probes()
    }

    fn entries(&self) -> Vec<WatchedCounts> {
        self.inner.entries()
    }

    fn all_entries(&self) -> u64 {
        self.inner.all_entries()
    }

    fn sums(&self) -> Vec<(u32, FunctionSums)> {
        self.inner.sums()
    }

    fn losses(&self) -> Vec<(u64, &'static str)> {
        let lost = self.graph.as_ref().map_or(0, FunctionGraph::lost);
        let mut losses = self.inner.losses();
        losses.push((lost, "entries and exits of kernel functions lost"));
        losses
    }

    fn refused(&self) -> &[u32] {
        self.inner.refused()
    }

    fn missing(&self) -> Vec<String> {
        self.inner.missing()
    }

    fn kernel_refusals(&self) -> &[String] {
        &self.missing
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn kernel_way(&self) -> Option<&'static str> {
        self.way
    }

    fn kernel_functions(&self) -> Vec<u64> {
        match &self.graph {
            Some(graph) => graph.functions().to_vec(),
            None => self.selection.functions.iter().map(|function| function.address).collect(),
        }
    }
}
