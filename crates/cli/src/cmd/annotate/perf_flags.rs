//! Flags of `perf annotate` that mean nothing here, or can't be had: taken, or refused by name with the reason.

/// Of perf's command lines.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PerfFlags {
    /// The text has one form only
    #[arg(long, hide = true)]
    stdio2: bool,
    /// --color decides
    #[arg(long, hide = true, value_name = "MODE")]
    stdio_color: Option<String>,
    /// Names are shown as in the source
    #[arg(long, hide = true)]
    demangle: bool,
    /// As above
    #[arg(long, hide = true)]
    demangle_kernel: bool,
    /// Modules' symbols are the running kernel's
    #[arg(short, long, hide = true)]
    modules: bool,
    /// Only a vmlinux of the very kernel is taken
    #[arg(long, hide = true)]
    ignore_vmlinux: bool,
    /// Refused
    #[arg(long, hide = true)]
    tui: bool,
    /// Refused
    #[arg(long, hide = true)]
    gtk: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    itrace: Option<Option<String>>,
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
        let refused = [
            (
                "--tui",
                self.tui,
                "tally report shows annotated code in the terminal: a or Enter on a function",
            ),
            (
                "--gtk",
                self.gtk,
                "tally report shows annotated code in the terminal: a or Enter on a function",
            ),
            ("--itrace", self.itrace.is_some(), "recorded samples are shown; tally calls decodes Intel PT"),
            ("-D", self.dump_raw_trace, "tally dump prints all records"),
        ];
        match refused.iter().find(|(_, given, _)| *given) {
            Some((flag, _, instead)) => anyhow::bail!("{flag} is not for tally annotate: {instead}"),
            None => Ok(()),
        }
    }
}
