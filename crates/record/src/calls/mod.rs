//! Calls of any program's functions, seen by uprobes.
//!
//! Nothing is put into the program but breakpoints, which the kernel takes away when our process ends, however it
//! ends. A [`CallSource`] attaches and hands out events: [`CallEngine`] by one BPF link over thousands of places, `perf` by
//! plain perf events where BPF is denied. [`CallFolder`] matches them to calls, thread by thread, and writes the same
//! files that the recorder inside instrumented programs writes (`tracer::layout`).

mod call_gate;
mod cost;
mod engine;
pub(crate) mod ftrace;
mod goroutines;
mod kernel_merge;
pub mod layout;
mod links;
mod merge;
mod perf;
mod plan;
mod program;
mod source;
mod stack_matcher;
mod stacks;
mod thread_file;
mod threads;

pub use call_gate::CallFilters;
pub use cost::{ProbeCost, cost_per_call};
pub use engine::CallEngine;
pub use ftrace::start_of as function_start;
pub use kernel_merge::{NoKernelCalls, kernel_functions_by};
pub use layout::{CallEvent, CallEventKind, CallMode, FunctionSums, STRAYS};
pub use perf::uprobe_type;
pub use plan::{
    CountRules, Exits, KernelFunction, KernelParts, KernelSelection, Leave, ProbeOptions, ProbedFunction,
    ProbedObject, WatchedCounts,
};
pub use source::{CallSource, OpenedSource, open};
pub use threads::{CallAddresses, CallFolder, FunctionRules, WrittenCalls};

use crate::sys::bpf_error;

/// Why calls can't be recorded by uprobes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// BPF is not available.
    #[error(transparent)]
    Bpf(#[from] bpf_error::Error),
    /// Neither way is allowed.
    #[error("BPF is denied ({bpf}), and so are plain perf events ({perf})")]
    Neither {
        /// The error of BPF.
        bpf: Box<Error>,
        /// The error of perf events.
        perf: Box<Error>,
    },
    /// A plain perf event was refused.
    #[error("perf_event_open of {what}: {error}")]
    Perf {
        /// Which, or the file that is missing.
        what: String,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// No such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The probes were refused.
    #[error("bpf(BPF_LINK_CREATE), {probes} uprobes in {path}: {error}")]
    Attach {
        /// The file.
        path: String,
        /// How many.
        probes: usize,
        /// The kernel's word.
        error: std::io::Error,
    },
}
