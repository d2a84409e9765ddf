//! Calls of any program's functions, seen by uprobes: one BPF link over thousands of places.
//!
//! Nothing is put into the program but breakpoints, which the kernel takes away when our process ends, however it
//! ends. [`Engine`] attaches and hands out events; [`Folder`] matches them to calls, thread by thread, and writes the
//! same files that the recorder inside instrumented programs writes (`tracer::layout`).

mod cost;
mod engine;
pub mod layout;
mod program;
mod threads;

pub use cost::cost_per_call_ns;
pub use engine::{Engine, Exits, Function, KernelParts, Object, Options, Watched};
pub use layout::{CallEvent, Kind, Mode, Sums};
pub use threads::{Addresses, Folder, Written};

/// Why calls can't be recorded by uprobes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its types.
    #[error("the kernel has no type information (/sys/kernel/btf/vmlinux): {reason}")]
    NoBtf {
        /// What was found.
        reason: String,
    },
    /// A program was refused.
    #[error("bpf(BPF_PROG_LOAD) of {what}: {reason}")]
    Load {
        /// Which.
        what: &'static str,
        /// The kernel's word.
        reason: String,
        /// For want of permission.
        denied: bool,
    },
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
    /// A tracepoint program was refused.
    #[error("attaching {program}: {reason}")]
    Tracepoint {
        /// Which.
        program: &'static str,
        /// The kernel's word.
        reason: String,
    },
    /// A map is missing or can't be used.
    #[error("BPF map {map}: {reason}")]
    Map {
        /// Which.
        map: &'static str,
        /// The kernel's word.
        reason: String,
    },
}
