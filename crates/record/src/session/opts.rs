//! Options of a recording.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use perfdata::Attr;

use crate::open::target::Target;
use crate::session::control::ControlPaths;
use crate::sys::time::Clock;

/// All options of a recording. `Default` is what `tally record` does without flags.
#[derive(Debug, Clone)]
pub struct RecordOpts {
    /// Target to watch.
    pub target: Target,
    /// Events to sample, group leaders before their members; empty means `cycles`, else `cpu-clock`.
    pub events: Vec<EventRequest>,
    /// Sampling rate of events without one of their own.
    pub rate: Rate,
    /// Fail if the kernel's limit is below the requested frequency, instead of lowering it.
    pub strict_rate: bool,
    /// How user stacks are had.
    pub call_graph: CallGraph,
    /// No event samples: they only report processes, and count.
    pub no_samples: bool,
    /// Sample user mode only, also the default event.
    pub all_user: bool,
    /// Sample kernel mode only, also the default event.
    pub all_kernel: bool,
    /// Leave the kernel's frames out of callchains.
    pub without_kernel_chains: bool,
    /// Leave the user's frames out of callchains.
    pub without_user_chains: bool,
    /// Where the records go.
    pub output: Output,
    /// Data pages of each ring; `None` chooses by the memory limits.
    pub ring_pages: Option<usize>,
    /// Bytes that a snapshot of a stack takes at most in a ring (the kernel keeps them free, however small the stack is):
    /// at first, and once stacks were cut; `None` for what most programs need.
    pub snapshot_bytes: Option<[u32; 2]>,
    /// zstd level of the data section; `None` writes it plain.
    pub compression: Option<i32>,
    /// Children don't inherit the events.
    pub no_inherit: bool,
    /// Samples of this very process are left out.
    pub exclude_self: bool,
    /// The recorder runs with this real-time priority (`SCHED_FIFO`), 1 to 99.
    pub realtime: Option<i32>,
    /// Extra fields and records.
    pub extra: Extra,
    /// Frames of language runtimes (Python) are read along.
    pub runtimes: bool,
    /// The clock of all times.
    pub clock: Clock,
    /// When to start after the command has begun.
    pub delay: Delay,
    /// Stop after this many bytes of output.
    pub max_size_bytes: Option<u64>,
    /// One file after another; `None`: a single one.
    pub switch_output: Option<SwitchOutput>,
    /// Only the newest records are kept, as much as the rings hold together, until the end or a snapshot.
    pub overwrite: bool,
    /// The name of the output ends with the time it was completed.
    pub timestamp_filename: bool,
    /// Pipes on which another program controls when to record, and when to begin another file.
    pub control: Option<ControlPaths>,
    /// Also count these over the target's whole life and keep switches per thread, for a [`crate::accounting::summary::RunSummary`].
    pub summary: bool,
    /// Each context switch is recorded for the summary; set by the recording itself, where there is no cheaper
    /// source.
    pub counts_switches: bool,
    /// Don't write build-ids of the files seen.
    pub no_build_ids: bool,
    /// Which of the files seen are copied into the build-id cache (`~/.debug`).
    pub keep_files: KeepFiles,
    /// The command line to store in the file, program first.
    pub command_line: Vec<String>,
    /// Also record the time off the CPU: why threads wait, for how long, who wakes them.
    pub off_cpu: Option<crate::off_cpu::Options>,
    /// The library that samples by timers where the kernel gives no events; `None`: don't.
    pub timers: Option<&'static [u8]>,
    /// How processor traces are taken, if an event writes one.
    pub trace: crate::pt::Options,
    /// Also hands samples on while recording.
    pub watch: Option<Watch>,
    /// Called each second after the end with the number of bytes that the unwinder still has to process.
    pub on_catch_up: fn(u64),
    /// Called with a line for the user while the recording goes on.
    pub tell: fn(&str),
    /// The recording ends by itself after this time.
    pub ends_after: Option<Duration>,
    /// Causes outside the target that end it.
    pub ends_by: EndsBy,
}

impl Default for RecordOpts {
    fn default() -> Self {
        Self {
            target: Target::default(),
            events: Vec::new(),
            rate: Rate::default(),
            strict_rate: false,
            call_graph: CallGraph::None,
            no_samples: false,
            all_user: false,
            all_kernel: false,
            without_kernel_chains: false,
            without_user_chains: false,
            output: Output::File(PathBuf::from("perf.data")),
            ring_pages: None,
            snapshot_bytes: None,
            compression: None,
            no_inherit: false,
            exclude_self: false,
            realtime: None,
            extra: Extra::default(),
            runtimes: true,
            clock: Clock::Monotonic,
            delay: Delay::default(),
            max_size_bytes: None,
            switch_output: None,
            overwrite: false,
            timestamp_filename: false,
            control: None,
            summary: false,
            counts_switches: false,
            no_build_ids: false,
            keep_files: KeepFiles::All,
            command_line: Vec::new(),
            off_cpu: None,
            timers: None,
            trace: crate::pt::Options::default(),
            watch: None,
            on_catch_up: |_| {},
            tell: |_| {},
            ends_after: None,
            ends_by: EndsBy::default(),
        }
    }
}

/// Causes that end a recording, in addition to the end of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndsBy {
    /// The signals of [`crate::session::stop_signals`].
    #[default]
    Signals,
    /// Those, and the end of the program that reads our standard output.
    SignalsAndStdout,
    /// Nothing: the caller waits for signals. Its thread and those it starts must have them blocked.
    Caller,
}

/// When a recording goes on in another file: on `SIGUSR2` and the command `snapshot`, and
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchOutput {
    /// at this size, in bytes;
    pub size_bytes: Option<u64>,
    /// after this time.
    pub every: Option<Duration>,
    /// Number of the newest files that are kept.
    pub most_files: Option<usize>,
}

/// Where tracepoint samples are handed on, in time order, to be shown at once. When nobody listens any more, the
/// recording ends.
#[derive(Debug, Clone)]
pub struct Watch(pub Sender<Watched>);

/// Data that is handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A tracepoint was hit.
    Sample {
        /// ns of the recording's clock.
        time_ns: u64,
        /// Process that ran.
        pid: u32,
        /// Thread that ran.
        tid: u32,
        /// The tracepoint's payload, which begins with its id.
        raw: Vec<u8>,
    },
    /// A process or thread was born.
    Fork {
        /// Its process.
        pid: u32,
        /// Its parent's.
        ppid: u32,
    },
}

/// One event to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRequest {
    /// Name of the event as requested ("cycles:u").
    pub name: String,
    /// Type, config, modifiers, and whatever the event's own terms set (period, call-graph …).
    pub attr: Attr,
    /// Index of its group's leader in the list; `None` if it is one or has no group.
    pub leader: Option<usize>,
    /// True if its own terms set a period or frequency, which then holds.
    pub own_rate: bool,
    /// Only the leader of the group samples; the members are read with it (`:S`).
    pub leader_samples: bool,
    /// Method for this event's user stacks; `None`: as for the others.
    pub call_graph: Option<CallGraph>,
    /// A tracepoint's filter.
    pub filter: Option<String>,
    /// Children don't inherit this event.
    pub no_inherit: bool,
    /// Its data is a processor's trace, which goes to an AUX area; it takes no samples.
    pub aux: bool,
}

impl RecordOpts {
    /// True if a signal writes the newest part of a processor's trace.
    #[must_use]
    pub fn takes_snapshots(&self) -> bool {
        self.traces() && self.trace.snapshot.is_some()
    }

    /// Whether an event writes a processor's trace.
    #[must_use]
    pub fn traces(&self) -> bool {
        self.events.iter().any(|event| event.aux)
    }
}

impl EventRequest {
    /// An event without group, filter or terms of its own.
    #[must_use]
    pub fn plain(name: &str, attr: Attr) -> Self {
        let name = name.to_owned();
        Self {
            name,
            attr,
            leader: None,
            own_rate: false,
            leader_samples: false,
            call_graph: None,
            filter: None,
            no_inherit: false,
            aux: false,
        }
    }
}

/// Samples per second of running time, if no rate is given. It isn't 1000, to avoid running in step with work that
/// programs do every millisecond.
const USUAL_HZ: u64 = 997;
/// The same when off-CPU time is recorded too. Then samples only divide a time that is counted exactly. Each one
/// costs its thread an interrupt (25 µs on a virtual machine), and 190 bytes.
const USUAL_HZ_WITH_OFF_CPU: u64 = 499;

/// How often to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rate {
    /// As often as suits what else is recorded ([`Rate::usual_hz`]); each hit of a tracepoint.
    #[default]
    Usual,
    /// Samples per second and CPU of running time.
    Hz(u64),
    /// As many as the kernel allows.
    MaxHz,
    /// One sample for this many occurrences.
    Period(u64),
}

impl Rate {
    /// Samples per second if no rate is given.
    #[must_use]
    pub const fn usual_hz(with_off_cpu: bool) -> u64 {
        if with_off_cpu { USUAL_HZ_WITH_OFF_CPU } else { USUAL_HZ }
    }
}

/// How user stacks are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallGraph {
    /// No callchains.
    #[default]
    None,
    /// The kernel follows frame pointers.
    FramePointer,
    /// A copy of this many bytes of stack goes to the file with the registers; reports unwind it.
    Dwarf(u32),
    /// The CPU's branch records, where it has them.
    Lbr,
    /// Unwound here while recording; the file gets plain callchains.
    Live,
}

/// Which of the files seen are kept for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepFiles {
    /// All.
    #[default]
    All,
    /// Those that can't be opened under their name: of containers, deleted, in memory only.
    Unreachable,
    /// None.
    None,
}

/// Where the records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A file; an existing one is kept as FILE.old.
    File(PathBuf),
    /// Standard output, in pipe mode.
    Stdout,
    /// Nowhere: only the summary is wanted.
    Discard,
}

/// Extra fields in samples and extra records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)]
pub struct Extra {
    /// `PERF_SAMPLE_*` bits to add.
    pub sample_type: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits; 0 for none.
    pub branches: u64,
    /// Registers as of the interrupt (mask).
    pub regs_intr: u64,
    /// Registers of user mode (mask), beyond what stacks need.
    pub regs_user: u64,
    /// Mappings of data as well.
    pub data_maps: bool,
    /// Counts per task (`inherit_stat`).
    pub stat: bool,
    /// Context switches.
    pub switches: bool,
    /// Namespaces of tasks.
    pub namespaces: bool,
    /// Cgroups of tasks.
    pub cgroups: bool,
}

/// When to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delay {
    /// With the command's exec.
    #[default]
    None,
    /// So long after it.
    After(Duration),
    /// Never by itself (`-D -1`): a command of [`RecordOpts::control`] starts it. Until then it reports processes
    /// only.
    Off,
}
