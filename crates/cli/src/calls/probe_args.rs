//! The flags of recording by uprobes.

use super::record_spec::{Callees, ProbeSpec};

/// Flags that only uprobes have.
#[derive(clap::Args)]
#[command(next_help_heading = "Uprobes: any program, and running ones")]
pub struct ProbeArgs {
    /// Attach to this process (can be repeated)
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Stop after this many seconds
    #[arg(short, long, value_name = "SECONDS", value_parser = crate::flags::recording::parse_seconds)]
    pub duration: Option<f64>,
    /// Use uprobes even if the program is instrumented
    #[arg(long)]
    pub uprobes: bool,
    /// Also what the functions of -P call, N deep; with FUNC, as with -P FUNC, 1 deep by default (direct
    /// calls, read off the code)
    #[arg(long, value_name = "N|FUNC[:N]")]
    pub callees: Option<Callees>,
    /// Only counts and times by function: the kernel sums up, single calls are not kept
    #[arg(long)]
    pub counts: bool,
    /// Only how often functions are called, no times: about half the price, and nothing is done where they end
    #[arg(long, conflicts_with_all = ["return_probes", "kernel_depth"])]
    pub entries: bool,
    /// Take the probes off a function called more often per second (0: never) [default: as often as takes half a CPU
    /// here, at most 50000]
    #[arg(long, value_name = "N")]
    pub max_rate: Option<u64>,
    /// See returns by return probes instead of at the return instructions (never with exceptions)
    #[arg(long)]
    pub return_probes: bool,
    /// Also the kernel's part of each call, as deep as can be: system calls, page faults, waits
    #[arg(short = 'K', long, value_name = "DEPTH")]
    pub kernel_depth: Option<u32>,
}

impl ProbeArgs {
    /// The same without clap.
    #[must_use]
    pub fn spec(&self) -> ProbeSpec {
        ProbeSpec {
            pid: self.pid.clone(),
            duration: self.duration,
            uprobes: self.uprobes,
            callees: self.callees.clone(),
            counts: self.counts,
            entries: self.entries,
            max_rate: self.max_rate,
            return_probes: self.return_probes,
            kernel_depth: self.kernel_depth,
        }
    }
}
