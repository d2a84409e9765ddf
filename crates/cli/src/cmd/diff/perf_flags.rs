//! Flags of `perf diff` that mean nothing here, or can't be had: taken, or refused by name with the reason.

/// Of perf's command lines.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PerfFlags {
    /// Modules' symbols are the running kernel's
    #[arg(short, long, hide = true)]
    modules: bool,
    /// Refused unless relative
    #[arg(long, hide = true, value_name = "TYPE")]
    percentage: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    stream: bool,
    /// Refused
    #[arg(long, hide = true)]
    cycles_hist: bool,
    /// Refused
    #[arg(short = 'k', long, hide = true, value_name = "FILE")]
    vmlinux: Option<String>,
    /// Refused
    #[arg(long, hide = true, value_name = "FILE")]
    kallsyms: Option<String>,
    /// Refused
    #[arg(short = 'D', long, hide = true)]
    dump_raw_trace: bool,
}

impl PerfFlags {
    /// Refuses what can't be done, with what can be done instead.
    ///
    /// # Errors
    /// One of the flags was given.
    pub fn check(&self) -> anyhow::Result<()> {
        let branches = "it compares cycles between branches, which both files would have to hold; \
                        tally diff --paths compares call paths";
        let symbols = "the kernel's symbols are those of /proc/kallsyms or of ~/.debug, by build-id";
        let refused = [
            (
                "--percentage",
                self.percentage.as_deref().is_some_and(|how| how != "absolute"),
                "shares are of all samples",
            ),
            ("--stream", self.stream, branches),
            ("--cycles-hist", self.cycles_hist, branches),
            ("-k", self.vmlinux.is_some(), symbols),
            ("--kallsyms", self.kallsyms.is_some(), symbols),
            ("-D", self.dump_raw_trace, "tally dump prints all records"),
        ];
        match refused.iter().find(|(_, given, _)| *given) {
            Some((flag, _, instead)) => anyhow::bail!("{flag} is not for tally diff: {instead}"),
            None => Ok(()),
        }
    }
}
