//! Flags of `perf record` that mean nothing here, or can't be had: taken, or refused by name with the reason.

/// Of perf's command lines.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PerfFlags {
    /// How perf spreads its own work; ours has a thread of its own for it
    #[arg(long, hide = true, value_name = "X", num_args = 0..=1, require_equals = true)]
    aio: Option<Option<String>>,
    /// As `--aio`
    #[arg(long, hide = true, value_name = "X")]
    affinity: Option<String>,
    /// As `--aio`
    #[arg(long, hide = true, value_name = "X")]
    mmap_flush: Option<String>,
    /// As `--aio`
    #[arg(long, hide = true, value_name = "X")]
    num_thread_synthesize: Option<String>,
    /// As `--aio`
    #[arg(long, hide = true, value_name = "X", num_args = 0..=1, require_equals = true)]
    threads: Option<Option<String>>,
    /// Milliseconds for reading one process's mappings; they are read whole
    #[arg(long, hide = true, value_name = "MS")]
    proc_map_timeout: Option<u64>,
    /// Mappings carry build-ids anyway
    #[arg(long, hide = true)]
    buildid_mmap: bool,
    /// Times of the first and last sample are written anyway
    #[arg(long, hide = true)]
    timestamp_boundary: bool,
    /// Each file begins with the processes of its time anyway
    #[arg(long, hide = true)]
    tail_synthesize: bool,
    /// What BPF programs do is written with the kernel's symbols, or not at all
    #[arg(long, hide = true)]
    no_bpf_event: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "EVENT")]
    switch_output_event: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    buildid_all: bool,
    /// Refused
    #[arg(long, hide = true)]
    running_time: bool,
    /// Refused
    #[arg(long, hide = true)]
    kcore: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "WHAT")]
    synth: Option<String>,
    /// Refused
    #[arg(long, hide = true, value_name = "FILE")]
    vmlinux: Option<String>,
}

impl PerfFlags {
    /// Refuses what can't be done, with what can be done instead.
    ///
    /// # Errors
    /// One of the flags was given.
    pub fn check(&self) -> anyhow::Result<()> {
        let refused = [
            (
                "--switch-output-event",
                self.switch_output_event.is_some(),
                "--switch-output goes by size, time or SIGUSR2",
            ),
            (
                "--buildid-all",
                self.buildid_all,
                "build-ids of files with samples are written, and are in every mapping",
            ),
            ("--running-time", self.running_time, "use {a,b}:S, whose samples hold the counts"),
            ("--kcore", self.kcore, "the kernel's symbols are kept in ~/.debug"),
            ("--synth", self.synth.is_some(), "all records that name samples are written"),
            ("--vmlinux", self.vmlinux.is_some(), "the kernel's own symbols are used (/proc/kallsyms)"),
        ];
        match refused.iter().find(|(_, given, _)| *given) {
            Some((flag, _, instead)) => anyhow::bail!("{flag} is not for tally: {instead}"),
            None => Ok(()),
        }
    }
}
