//! System calls of chosen processes, live, by BPF: each as one record at its return, or only their sums.
//!
//! The program is `bpf/syscalls.bpf.c`. It knows no system call by name: the caller describes each by a
//! [`syscalls::layout::CallSpec`].

mod descriptors;
mod engine;
mod waiting;

pub use crate::sys::bpf_error::Error;
pub use descriptors::{descriptor, open_descriptors};
pub use engine::{SyscallEngine, SyscallLosses, SyscallOptions};
pub use waiting::waiting_call;

/// Processes whose system calls are seen; later children always are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyscallScope {
    /// A forked child, from the exec of its program on.
    Command(u32),
    /// Processes.
    Processes(Vec<u32>),
    /// Threads.
    Threads(Vec<u32>),
    /// All but our own.
    System,
}
