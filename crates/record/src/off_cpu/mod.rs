//! Time off the CPU: for every thread how long it ran, waited for a CPU, was preempted, was blocked, and why.
//!
//! [`OffCpu`] is the whole interface: start it on a [`Scope`], poll it into a buffer of records, finish it. The
//! records look as if the kernel had written them, with registers and a piece of stack, and are unwound like all
//! others.

pub mod convert;
pub(crate) mod descriptors;
pub(crate) mod disk_files;
mod engine;
pub mod layout;
mod pace;
pub mod place_waits;
pub mod proc_sampler;
pub mod registers;
mod return_slots;
mod site_chains;
pub mod switches;
pub mod thread_clock;
pub mod tracepoints;
mod wake_windows;
mod waker_join;

use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perfdata::appendix::descriptors::NamedDescriptors;
use rustc_hash::FxHashMap;

use crate::accounting::summary::Notice;
use crate::sys::time::thread_cpu_ns;

pub use crate::sys::bpf_error::Error;
pub use convert::Encoder;
pub use descriptors::SharedDescriptors;
pub use engine::{Engine, EngineCounts};
pub use layout::{EndRecord, OffCpuRecord, OffCpuRecordKind, OffRecord, SiteRest, SiteSums};
pub use proc_sampler::ProcSampler;
pub use site_chains::{SiteChains, SiteId, SiteSplit, has_user_part};
pub use switches::Switches;
pub use tracepoints::Tracepoints;
pub use waker_join::WakerJoin;

/// The engine of one recording, its records turned into samples for the unwinding thread.
#[derive(Debug)]
pub struct OffCpu {
    source: Source,
    encoder: Encoder,
    descriptors: SharedDescriptors,
    grown: FxHashMap<u32, u32>,
    /// CPU time taken to empty the ring so far, ns.
    spent_ns: u64,
}

/// Looks at a ring that fills quickly, until the period has grown.
const PRESSED_INTERVAL: Duration = Duration::from_millis(4);

/// Waits shorter than this aren't looked at where tracepoints have most stacks.
const LONG_WAIT: Duration = Duration::from_millis(50);

/// Processes whose stacks were cut until all get larger copies: a build or a shell script starts new ones of the same
/// programs all the time, which end before their own size has grown.
const DEEP_PROCESSES: usize = 2;

/// Sizes of the copies of user stacks, bytes: the usual one, and that of processes whose stacks were cut.
pub const COPY_BYTES: [u32; 2] = [8192, layout::STACK_MAX_BYTES as u32];

/// Feedback from the unwinding thread to the source.
#[derive(Debug, Default)]
pub struct Feedback {
    /// Processes whose sleepers' stacks were cut: more of them should be copied.
    pub cut_processes: Mutex<Vec<u32>>,
    /// Places with several stacks.
    pub splits: Mutex<Vec<SiteSplit>>,
    /// CPU time that unwinding and writing off-CPU samples took so far, ns.
    pub spent_ns: AtomicU64,
}

/// Source of off-CPU time.
#[derive(Debug)]
pub enum Source {
    /// BPF programs: exact. Tier A.
    Engine(Box<Engine>),
    /// Tracepoints in perf's rings: here only the threads that live already are reported, once, and looks at long waits,
    /// of which the kernel may have taken no stack. Tier B.
    Tracepoints(Option<Scope>, Option<ProcSampler>),
    /// Looks at /proc, in addition to switch records. Tier C.
    ProcSampler(ProcSampler),
}

impl Source {
    /// Tracepoints in perf's rings, for the threads of `scope`.
    #[must_use]
    pub fn by_tracepoints(scope: &Scope) -> Self {
        let looker = ProcSampler::new(scope).map(|looker| looker.of_long_waits(LONG_WAIT));
        Self::Tracepoints(Some(scope.clone()), looker)
    }
}

impl OffCpu {
    /// Around a started source; samples come in the layout of `attr` ([`convert::snapshot_attr`]).
    #[must_use]
    pub fn new(source: Source, attr: perfdata::Attr, detail: WaitDetail) -> Self {
        let (encoder, descriptors) = (Encoder::new(attr), SharedDescriptors::new(detail));
        Self { source, encoder, descriptors, grown: FxHashMap::default(), spent_ns: 0 }
    }

    /// The descriptors that threads wait for.
    #[must_use]
    pub fn descriptors(&self) -> SharedDescriptors {
        self.descriptors.clone()
    }

    /// The clocks of what lives already start now.
    pub fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let encoder = &self.encoder;
        match &mut self.source {
            Source::Engine(engine) => engine.begin(&mut |record| encoder.encode(&record, out)),
            Source::Tracepoints(scope, _) => {
                if let Some(scope) = scope.take() {
                    proc_sampler::everyone(&scope, &mut |look| encoder.encode_look(look, out));
                }
                Ok(())
            }
            Source::ProcSampler(_) => Ok(()),
        }
    }

    /// The program that decides which samples of whole CPUs are wanted; `None` without engine.
    pub fn sample_filter(&mut self) -> Option<BorrowedFd<'_>> {
        if let Source::Engine(engine) = &mut self.source { engine.sample_filter() } else { None }
    }

    /// This program runs at the samples that the engine chooses; false without engine.
    pub fn go_on_with(&mut self, program: BorrowedFd<'_>) -> bool {
        if let Source::Engine(engine) = &mut self.source { engine.go_on_with(program) } else { false }
    }

    /// True if the engine knows that a target, or what one has forked, lives.
    #[must_use]
    pub fn has_targets(&self) -> bool {
        if let Source::Engine(engine) = &self.source { engine.has_targets() } else { false }
    }

    /// Polls no less often than this.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        match &self.source {
            Source::Engine(engine) if engine.is_pressed() => Some(PRESSED_INTERVAL),
            Source::Engine(engine) => Some(engine.turns_in()),
            // Rings fill quickly: hundreds of bytes a switch, whoever switches.
            Source::Tracepoints(..) => Some(Duration::from_millis(10)),
            Source::ProcSampler(looker) => Some(looker.interval()),
        }
    }

    /// Appends what waits in the ring as sample records, and grows the copies of processes whose stacks were cut.
    pub fn poll(&mut self, feedback: &Feedback, out: &mut Vec<u8>) {
        let (encoder, descriptors) = (&self.encoder, &self.descriptors);
        let engine = match &mut self.source {
            Source::Engine(engine) => engine,
            Source::ProcSampler(looker) | Source::Tracepoints(_, Some(looker)) => {
                return looker.poll(&mut |look| {
                    descriptors.lock().note_look(look);
                    encoder.encode_look(look, out);
                });
            }
            Source::Tracepoints(_, None) => return,
        };
        let before_ns = thread_cpu_ns();
        engine.poll(&mut |record| {
            descriptors.lock().note(&record);
            encoder.encode(&record, out);
        });
        let cut =
            std::mem::take(&mut *feedback.cut_processes.lock().expect("invariant: no panic while held"));
        for pid in cut {
            let [usual, largest] = COPY_BYTES;
            let bytes = self.grown.entry(pid).or_insert(usual);
            if *bytes < largest {
                *bytes = largest;
                engine.want_stack(pid, largest);
                if self.grown.len() == DEEP_PROCESSES {
                    engine.want_stacks(largest);
                }
            }
        }
        let splits = std::mem::take(&mut *feedback.splits.lock().expect("invariant: no panic while held"));
        engine.split_sites(&splits);
        self.spent_ns += thread_cpu_ns().saturating_sub(before_ns);
        engine.adapt(self.spent_ns + feedback.spent_ns.load(Ordering::Relaxed));
    }

    /// CPU time that the BPF programs took so far, ns. It is part of the times of the threads that they ran in, which
    /// are on the CPU then.
    #[must_use]
    pub fn programs_ns(&self) -> u64 {
        if let Source::Engine(engine) = &self.source { engine.count(layout::COUNT_OWN_NS) } else { 0 }
    }

    /// Ends all clocks; the last samples and every thread's totals, and names of what the threads waited for.
    pub fn finish(self, notices: &mut Vec<Notice>) -> (Vec<u8>, NamedDescriptors) {
        let mut out = Vec::new();
        let Self { source, encoder, descriptors, .. } = self;
        let Source::Engine(engine) = source else { return (out, descriptors.lock().finish()) };
        notices.extend(engine.period_grown_to().map(Notice::OffCpuPeriod));
        notices.extend(engine.unwoken().map(|(waits, ns)| Notice::OffCpuUnwoken(waits, ns)));
        let ended = engine.finish(&mut |record| {
            descriptors.lock().note(&record);
            encoder.encode(&record, &mut out);
        });
        match ended {
            Ok(counts) => notices.extend(losses(&counts)),
            Err(error) => notices.push(Notice::NoOffCpu(error.to_string())),
        }
        (out, descriptors.lock().finish())
    }
}

/// Indices of [`layout::COUNT_NAMES`] that a user should hear of.
fn losses(counts: &EngineCounts) -> impl Iterator<Item = Notice> {
    const SHOWN: [usize; 9] = [0, 4, 5, 6, 7, 8, 9, 11, layout::COUNT_LEAVING];
    let lost = SHOWN.map(|i| (counts[i], layout::COUNT_NAMES[i]));
    lost.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| Notice::OffCpuLost(count, what))
}

/// Which threads have a clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every thread but our own process's.
    System,
    /// The threads of the cgroup of this id (the inode of its folder), and of those below it.
    Cgroup(u64),
    /// A forked program waiting to be exec'ed, and what it forks; clocks begin at the exec.
    Command(u32),
    /// These processes, and what they fork.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
}

/// How time off the CPU is had, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// A: BPF programs.
    Engine,
    /// B: the scheduler's tracepoints on all CPUs.
    Tracepoints,
    /// C: switch records, and looks at /proc.
    Looks,
}

/// How much is found out about waits, beyond their sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitDetail {
    /// A stack of each place, the files on disks, and the processes at the other ends.
    All,
    /// The same, found out more seldom: for a recorder that runs all the time.
    Always,
    /// Few stacks beyond those of each period, and reasons alone: for recordings that are added up, at little cost.
    Few,
}

/// How to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuOpts {
    /// A thread gives a sample each time it has been off the CPU this long, ns.
    pub period_ns: u64,
    /// How much else is found out.
    pub detail: WaitDetail,
    /// User stack copied unless a process is known to need more, bytes.
    pub stack_bytes: u32,
    /// Threads whose user stack can be kept at a time; about 25 kB each.
    pub slots: u32,
    /// Places of threads whose waits are summed up separately; about 250 bytes each.
    pub sites: u32,
    /// Size of the ring buffer, a power of two.
    pub ring_bytes: u32,
    /// No better tier than this is tried.
    pub best: Tier,
    /// The tracepoints that replace the engine; set by the recording itself, where BPF is denied.
    pub tracepoints: Option<Tracepoints>,
}

impl Default for OffCpuOpts {
    fn default() -> Self {
        Self {
            period_ns: 1_000_000,
            detail: WaitDetail::All,
            stack_bytes: COPY_BYTES[0],
            slots: 512,
            sites: 32_768,
            ring_bytes: 8 << 20,
            best: Tier::Engine,
            tracepoints: None,
        }
    }
}

/// Bytes of `struct pt_regs` to copy.
//
// Source: arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h (struct pt_regs).
const REGS_BYTES: u32 = if cfg!(target_arch = "x86_64") { 168 } else { 272 };

/// True in a pid namespace of our own: the kernel's payloads have other ids there than its records.
#[must_use]
pub fn is_nested() -> bool {
    own_pid_namespace() != 0
}

/// The inode of our pid namespace; 0 if it is the initial one.
pub(crate) fn own_pid_namespace() -> u32 {
    /// `PROC_PID_INIT_INO`, include/linux/proc_ns.h
    const INITIAL: u32 = 0xEFFF_FFFC;
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = link.to_string_lossy();
    let number = text.trim_start_matches("pid:[").trim_end_matches(']').parse().unwrap_or(INITIAL);
    if number == INITIAL { 0 } else { number }
}
