//! The flags of recording by uprobes.

/// What only uprobes can do.
#[derive(clap::Args)]
#[command(next_help_heading = "Uprobes: any program, and running ones")]
pub struct ProbeArgs {
    /// Attach to this process (can be repeated)
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Stop after this many seconds
    #[arg(short, long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Use uprobes even if the program is instrumented
    #[arg(long)]
    pub uprobes: bool,
    /// Also what the functions of -P call, N deep (direct calls, read off the code)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub callees: u32,
    /// No single calls, only counts and times by function, summed up in the kernel
    #[arg(long)]
    pub counts: bool,
    /// Take the probes off a function called more often per second (0: never)
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub max_rate: u64,
    /// See returns by return probes instead of at the return instructions (never with exceptions)
    #[arg(long)]
    pub return_probes: bool,
    /// Also the kernel's part of each call, as deep as can be: system calls, page faults, waits
    #[arg(short = 'K', long, value_name = "DEPTH")]
    pub kernel_depth: Option<u32>,
}
