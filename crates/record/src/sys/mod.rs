//! The system calls, wrapped at the lowest level: the only `unsafe` of this crate.
//!
//! Everything handed out is a safe, owning type: [`Counter`] (an opened event), [`Ring`] (its mapped buffer),
//! [`Child`] (a forked program waiting to be exec'ed), [`SignalReader`], [`Poller`]. No policy lives here: the
//! callers decide which events to open and what to do when the kernel refuses.

pub mod aux_area;
pub mod bpf;
pub mod bpf_error;
pub mod bpf_object;
pub mod fifo;
pub mod inet_diag;
pub mod mem;
pub mod mount;
pub mod open_socket;
pub mod out_of_memory;
pub mod perf_abi;
pub mod perf_event;
pub mod poll;
pub mod process;
pub mod prompt;
pub mod random;
pub mod redirect;
pub mod ring;
pub mod ring_index;
pub mod seccomp;
pub mod shared_map;
pub mod signal;
pub mod slots;
pub mod socket_diag;
pub mod stop;
pub mod time;

pub use aux_area::AuxMode;
pub use fifo::Fifo;
pub use perf_event::{Counter, CounterPlace, Cpu};
pub use poll::Poller;
pub use process::{Child, CpuUse, ExitKind, Surroundings};
pub use prompt::{Prompt, Rank};
pub use ring::{Ring, RingSpan};
pub use shared_map::SharedMap;
pub use signal::SignalReader;
pub use slots::{SharedSlots, SlotRecord};

/// A request's number, as the C library's `ptrace` takes it.
#[cfg(target_env = "musl")]
type TraceRequest = libc::c_int;
#[cfg(not(target_env = "musl"))]
type TraceRequest = libc::c_uint;

/// A number of the C library that has 32 bits on some processors.
fn wide(number: impl Into<u64>) -> u64 {
    number.into()
}
