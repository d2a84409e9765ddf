//! Time off the CPU: for every thread how long it ran, waited for a CPU, was preempted, was blocked, and why.
//!
//! [`OffCpu`] is the whole interface: start it on a [`Scope`], poll it into a sink, finish it. It knows neither
//! perf.data nor symbols: what it hands out ([`layout::Record`]) has a kernel stack, user registers and user stack
//! bytes; whoever has an unwinder makes perf records of them.

mod convert;
mod engine;
pub mod layout;

pub use convert::{Converter, OffSample, StackUnwinder};
pub use engine::{Counts, Engine};
pub use layout::{EndRecord, Kind, OffRecord, Record};

/// Which threads have a clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every thread but our own process's.
    System,
    /// A forked program waiting to be exec'ed, and what it forks; clocks begin at the exec.
    Command(u32),
    /// These processes, and what they fork.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
}

/// How to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A thread gives a sample each time it has been off the CPU this long, ns.
    pub period_ns: u64,
    /// User stack copied unless a process is known to need more, bytes.
    pub stack_bytes: u32,
    /// Threads whose user stack can be kept at a time; about 25 kB each.
    pub slots: u32,
    /// Size of the ring buffer, a power of two.
    pub ring_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { period_ns: 1_000_000, stack_bytes: 8192, slots: 512, ring_bytes: 8 << 20 }
    }
}

/// Why the BPF engine does not run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its types.
    #[error("no kernel type information (/sys/kernel/btf/vmlinux): {reason}; needs CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf {
        /// What the kernel or the reader said.
        reason: String,
    },
    /// A program was refused.
    #[error("BPF load of {what}: {reason}{}", if *denied { "; run as root or with CAP_BPF and CAP_PERFMON" } else { "" })]
    Load {
        /// The program.
        what: &'static str,
        /// What the kernel said.
        reason: String,
        /// It was a matter of rights.
        denied: bool,
    },
    /// A program was loaded but could not be hooked in.
    #[error("BPF attach of {program}: {reason}")]
    Attach {
        /// The program.
        program: &'static str,
        /// What the kernel said.
        reason: String,
    },
    /// A map refused a value.
    #[error("BPF map {map}: {reason}")]
    Map {
        /// The map.
        map: &'static str,
        /// What the kernel said.
        reason: String,
    },
}

/// Bytes of `struct pt_regs` to copy.
//
// Source: arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h (struct pt_regs).
const REGS_BYTES: u32 = if cfg!(target_arch = "x86_64") { 168 } else { 272 };

/// The inode of our pid namespace; 0 if it is the initial one.
fn own_pid_namespace() -> u32 {
    /// `PROC_PID_INIT_INO`, include/linux/proc_ns.h
    const INITIAL: u32 = 0xEFFF_FFFC;
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = link.to_string_lossy();
    let number = text.trim_start_matches("pid:[").trim_end_matches(']').parse().unwrap_or(INITIAL);
    if number == INITIAL { 0 } else { number }
}
