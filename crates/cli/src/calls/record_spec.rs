//! What to record of a program's calls: the flags of `tally calls record` without clap.

use calls::selection::TraceSpec;
use std::ffi::OsString;
use std::path::PathBuf;

use super::probe_args::Callees;

/// A recording to be made.
#[derive(Clone, Debug)]
pub struct RecordSpec {
    /// The folder to record into.
    pub output: PathBuf,
    /// Calls nested at most this deep.
    pub depth: Option<u32>,
    /// Only functions that these words match.
    pub patch: Vec<String>,
    /// Drop calls that took less, ns.
    pub min_ns: Option<u64>,
    /// Keep only the last bytes of each thread.
    pub max_bytes: Option<u64>,
    /// For programs that record themselves.
    pub trace: TraceSpec,
    /// For uprobes.
    pub probes: ProbeSpec,
    /// Don't record context switches.
    pub no_switches: bool,
    /// No lines about what was recorded.
    pub quiet: bool,
    /// The program and its arguments; empty when attached only.
    pub command: Vec<OsString>,
}

/// What only uprobes can do.
#[derive(Clone, Debug)]
pub struct ProbeSpec {
    /// Processes to attach to.
    pub pid: Vec<u32>,
    /// Stop after this many seconds.
    pub duration: Option<f64>,
    /// Use uprobes even if the program is instrumented.
    pub uprobes: bool,
    /// Also the functions that the selected ones call.
    pub callees: Option<Callees>,
    /// Only sums by function, made in the kernel.
    pub counts: bool,
    /// Only how often functions are called.
    pub entries: bool,
    /// Take the probes off a function called more often per second; 0: never.
    pub max_rate: Option<u64>,
    /// See returns by return probes.
    pub return_probes: bool,
    /// Also the kernel's part of each call, this deep.
    pub kernel_depth: Option<u32>,
}
