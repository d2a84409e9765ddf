//! System calls of chosen processes, live, by BPF: each as one record at its return, or only their sums.
//!
//! The program is `bpf/syscalls.bpf.c`. It knows no system call by name: the caller describes each by a [`CallSpec`].

mod engine;
mod layout;
mod memory;
mod waiting;

pub use crate::sys::bpf_error::Error;
pub use engine::{SyscallEngine, SyscallLosses, SyscallOptions};
pub use layout::{
    CallCopy, CallRecord, CallSpec, CallSum, Copied, CopyLength, RecordKind, SPECS, SumKey, parse_record,
};
pub use memory::{
    FileStat, MessageHead, PolledFd, TimeSpan, parse_epoll_events, parse_fds, parse_file_stat,
    parse_message_head, parse_polled_fds, parse_signal_set, parse_socket_address, parse_time_span,
    parse_vector_sizes,
};
pub use waiting::waiting_call;

/// Whose system calls are seen; later children always are.
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
