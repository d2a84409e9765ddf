//! Flags of `perf probe` that mean nothing here, or can't be had: taken, or refused by name with the reason.

/// Of perf's command lines.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PerfFlags {
    /// All notes are printed anyway
    #[arg(short, long, hide = true)]
    verbose: bool,
    /// Names are shown as in the source
    #[arg(long, hide = true)]
    demangle: bool,
    /// As above
    #[arg(long, hide = true)]
    demangle_kernel: bool,
    /// Refused
    #[arg(short = 'k', long, hide = true, value_name = "FILE")]
    vmlinux: Option<String>,
    /// Refused
    #[arg(short, long, hide = true, value_name = "MODULE")]
    module: Option<String>,
    /// Refused
    #[arg(short, long, hide = true, value_name = "DIR")]
    source: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    cache: bool,
    /// Refused
    #[arg(long, hide = true)]
    range: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "RULE")]
    filter: Option<String>,
    /// Refused
    #[arg(long, hide = true, value_name = "DIR")]
    symfs: Option<String>,
    /// Refused
    #[arg(long, hide = true, value_name = "PID")]
    target_ns: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    bootconfig: bool,
}

impl PerfFlags {
    /// Refuses what can't be done, with what can be done instead.
    ///
    /// # Errors
    /// One of the flags was given.
    pub fn check(&self) -> anyhow::Result<()> {
        let kernel = "functions of the kernel and of modules are probed by their symbols: FUNC, FUNC+OFFSET, FUNC%return";
        let refused = [
            ("-k", self.vmlinux.is_some(), kernel),
            ("-m", self.module.is_some(), kernel),
            ("-s", self.source.is_some(), "-L reads source at the path in the debug information"),
            ("--cache", self.cache, "debug information is read each time"),
            ("--range", self.range, "-V shows the variables of one place"),
            ("--filter", self.filter.is_some(), "give -F and -V a pattern"),
            ("--symfs", self.symfs.is_some(), "give the file itself: -x FILE"),
            (
                "--target-ns",
                self.target_ns.is_some(),
                "give the file as it is seen from here: -x /proc/PID/root/FILE",
            ),
            ("--bootconfig", self.bootconfig, "-D prints definitions for the kernel"),
        ];
        match refused.iter().find(|(_, given, _)| *given) {
            Some((flag, _, instead)) => anyhow::bail!("{flag} is not for tally probe: {instead}"),
            None => Ok(()),
        }
    }
}
