//! Parts of the facts: code, waits, the queue for CPUs, rates, the machine.

use crate::off_cpu::WaitReason;
use crate::verdict::cause::WaitCause;
use crate::verdict::event_loops::BlockedLoop;
use crate::verdict::gil::GilFacts;
use crate::verdict::held_back::HeldBackWaits;
use crate::verdict::holders::LockHolders;
use crate::verdict::hot_code::{HotCode, HotFunction};
use crate::verdict::locks::LockSite;
use crate::verdict::path::PathFacts;
use crate::verdict::peers::PeerWaits;
use crate::view::goroutines::Goroutines;
use crate::view::io::Latencies;
use crate::view::wall::Times;
use std::collections::BTreeMap;

/// Numbers of the system while the target ran, from /proc; `None` where it could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemFacts {
    /// Online CPUs.
    pub cpus: u32,
    /// Share of all CPU time in which something ran, on this machine: neither idle nor stolen.
    pub busy: Option<f64>,
    /// Share of all CPU time stolen by the hypervisor.
    pub steal: Option<f64>,
    /// Share of all CPU time in hard and soft interrupts.
    pub interrupts: Option<f64>,
    /// Share of one CPU's time in interrupts, of the CPU with most.
    pub interrupts_of_one_cpu: Option<f64>,
    /// Share of all CPU time idle while a disk request waits.
    pub iowait: Option<f64>,
    /// Share of the time some task waited for a CPU (PSI).
    pub pressure_cpu: Option<f64>,
    /// The same for I/O.
    pub pressure_io: Option<f64>,
    /// The same for memory.
    pub pressure_memory: Option<f64>,
    /// Pages swapped in and out.
    pub swapped_pages: Option<u64>,
    /// Share of the cgroup's periods that were throttled.
    pub throttled: Option<f64>,
    /// Time throttled, ns.
    pub throttled_ns: Option<u64>,
    /// The file with the cgroup's CPU limit.
    pub throttled_by: Option<String>,
    /// Share of one CPU's time stolen, of the CPU with most.
    pub steal_of_one_cpu: Option<f64>,
    /// Soft interrupts by name with how many there were a second, and the share of them on the CPU with most; most
    /// first.
    pub soft_interrupts: Vec<(String, f64, f64)>,
    /// TCP segments sent again, share of those sent.
    pub tcp_retransmitted: Option<f64>,
    /// Connections refused for a full backlog.
    pub listen_drops: Option<u64>,
    /// Busiest disk: name and share of the time it was busy.
    pub busiest_disk: Option<(String, f64)>,
    /// Mean time per request, ns.
    pub disk_await_ns: Option<u64>,
    /// Where the requests of the disk with most time spent it; `None` if that was not looked at.
    pub disk_times: Option<(String, Latencies)>,
    /// Why it could not be looked at.
    pub disk_times_refused: Option<String>,
}

/// Code that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeFacts {
    /// Share of running time in user code; the rest in the kernel. `None` without samples.
    pub user: Option<f64>,
    /// Code of the program or its libraries with most own running time.
    pub hot_user: Option<HotCode>,
    /// The function with most own running time, for a sentence.
    pub hottest: Option<HotFunction>,
    /// The function below which a good part more of the time passes, with that share.
    pub below: Option<HotFunction>,
    /// Kernel functions by own running time, the same.
    pub hot_kernel: Vec<(String, f64)>,
    /// Share of running time that garbage collectors take.
    pub collects: f64,
    /// By function: all its time, own and called, running and waiting; for the share of a lock's function.
    pub functions: BTreeMap<String, Times>,
}

/// Targets of the waits, and who ends them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitFacts {
    /// By reason: ns of waits that threads of the target itself ended.
    pub ended_by_own: BTreeMap<WaitReason, u64>,
    /// By reason: who ended the waits (names of threads, interrupts), with ns, most first. For futexes only those that
    /// aren't locks: conditions, joins.
    pub enders: BTreeMap<WaitReason, Vec<(String, u64)>>,
    /// Targets of waits that others end: sockets, pipes and files by name, with ns, most first.
    pub targets: Vec<(String, u64)>,
    /// Files that were waited for at the disk, with ns, most first.
    pub files: Vec<(String, u64)>,
    /// Files whose locks were waited for, with ns, most first.
    pub locked_files: Vec<(String, u64)>,
    /// Locks inside the kernel by (lock, what wanted it): ns waited, until the thread ran again, most first.
    pub kernel_locks: Vec<((&'static str, &'static str), u64)>,
    /// Locks that threads wait for, those that take most time first.
    pub locks: Vec<LockSite>,
    /// Python's global lock: who waits for it, and who runs meanwhile.
    pub gil: GilFacts,
    /// Final cause of the main thread's waits, if one function has a large share. The caller adds it where
    /// the rule `waits_for_others` holds.
    pub cause: Option<WaitCause>,
    /// The waits were found by looks at threads: short ones are missing, and several may count as one.
    pub by_looks: bool,
    /// Activity of those who hold the locks that threads wait for. The caller adds it where such a finding holds.
    pub holders: Option<LockHolders>,
    /// The critical path. The caller adds it where threads may be taking turns.
    pub path: Option<PathFacts>,
    /// The peer outside of the recording that is waited for most.
    pub peer: Option<PeerWaits>,
    /// Waits until a delayed acknowledgement of TCP.
    pub held_back: Option<HeldBackWaits>,
    /// Handlers that block their event loops, by time, most first.
    pub blocked_loops: Vec<BlockedLoop>,
    /// Timer waits: median length in ns, spread of the lengths, number of waits.
    ///
    /// For irregular waits the length is the one with half of the waits' time above it. The spread is the coefficient
    /// of variation of a normal distribution whose middle half is as wide as that of the lengths.
    pub timers: Option<(f64, f64, u64)>,
    /// Goroutines of Go programs, which have no thread while they wait.
    pub goroutines: Option<Goroutines>,
    /// Idle time in which threads only let time pass, ns: sleeps and timers.
    pub idle_asleep_ns: u64,
    /// Idle time in which threads wait for their children, and for others of the target, ns.
    pub idle_for_own_ns: u64,
}

/// Threads that wait for a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueFacts {
    /// By reason: ns that threads woken from such waits waited for a CPU.
    pub queued_after: BTreeMap<WaitReason, u64>,
    /// Other programs that ran while threads waited for a CPU; `None` where it isn't known who ran.
    pub others_ran: Option<OthersRan>,
    /// p50, p99 and longest wait for a CPU, ns.
    pub run_queue_ns: (u64, u64, u64),
}

/// Other programs in the time of waits for a CPU for which the running thread is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OthersRan {
    /// All of that time, ns.
    pub known_ns: u64,
    /// Share of other programs, 0 to 1.
    pub share: f64,
    /// The program with most of it.
    pub most: String,
    /// Its own share of that time, 0 to 1.
    pub share_of_most: f64,
}

/// Counts of events, related to time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateFacts {
    /// Times threads left a CPU, a second.
    pub switches_per_s: f64,
    /// Involuntary context switches per second, those of threads that could have continued.
    pub preemptions_per_s: f64,
    /// Minor and major page faults a second.
    pub faults_per_s: (f64, f64),
    /// Instructions per cycle; `None` without hardware counters.
    pub ipc: Option<f64>,
    /// Lost samples or records, share.
    pub lost: f64,
}
