//! Flags of `perf stat` that mean nothing here, or can't be had: taken, or refused by name with the reason.

use std::ffi::{OsStr, OsString};

/// Of perf's command lines.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PerfFlags {
    /// Equal names of several PMUs are summed up anyway
    #[arg(long, hide = true)]
    hybrid_merge: bool,
    /// The lines are reported one by one already, unless they are one event of the user's
    #[arg(long, hide = true)]
    no_merge: bool,
    /// Refused
    #[arg(short = 'M', long, value_name = "NAMES", hide = true)]
    metrics: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    metric_no_group: bool,
    /// Refused
    #[arg(long, hide = true)]
    metric_no_merge: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "N")]
    td_level: Option<u32>,
    /// Refused
    #[arg(long, hide = true, value_name = "PORTS", num_args = 0..=1, require_equals = true)]
    iostat: Option<Option<String>>,
    /// Refused
    #[arg(long, hide = true)]
    smi_cost: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "TYPE")]
    cputype: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    percore_show_thread: bool,
    /// Refused
    #[arg(short = 'b', long, hide = true, value_name = "ID")]
    bpf_prog: Option<String>,
    /// Refused
    #[arg(long, hide = true)]
    bpf_counters: bool,
    /// Refused
    #[arg(long, hide = true, value_name = "FILE")]
    bpf_attr_map: Option<String>,
}

impl PerfFlags {
    /// Refuses what can't be done, with what can be done instead. `command` is what would be run: perf takes the
    /// words `record` and `report` for commands of its own.
    ///
    /// # Errors
    /// One of the flags was given.
    pub fn check(&self, command: &[OsString]) -> anyhow::Result<()> {
        let tables = "the vendors' tables of metrics are not built in; --metric-only prints what follows from the \
                      usual events (GHz, insn per cycle, % of branches and caches)";
        let by_core = "use --per-core for sums, -A for each CPU";
        let bpf =
            "counters are the kernel's own; -p PID counts in a process, -a --for-each-cgroup in cgroups";
        let refused = [
            ("-M", self.metrics.is_some(), tables),
            ("--metric-no-group", self.metric_no_group, tables),
            ("--metric-no-merge", self.metric_no_merge, tables),
            ("--td-level", self.td_level.is_some(), "--topdown has the first level only"),
            (
                "--iostat",
                self.iostat.is_some(),
                "it takes the IIO counters of Intel's servers; tally io times disks",
            ),
            ("--smi-cost", self.smi_cost, "count -e msr/smi/,msr/aperf/ where `tally list pmu` has them"),
            (
                "--cputype",
                self.cputype.is_some(),
                "name the PMU in the event: cpu_core/cycles/, cpu_atom/cycles/",
            ),
            ("--percore-show-thread", self.percore_show_thread, by_core),
            ("--bpf-prog", self.bpf_prog.is_some(), bpf),
            ("--bpf-counters", self.bpf_counters, bpf),
            ("--bpf-attr-map", self.bpf_attr_map.is_some(), bpf),
        ];
        if let Some((flag, _, instead)) = refused.iter().find(|(_, given, _)| *given) {
            anyhow::bail!("{flag} is not for tally: {instead}");
        }
        match command.first().map(OsString::as_os_str).and_then(OsStr::to_str) {
            Some(word @ ("record" | "report")) => {
                anyhow::bail!(
                    "{word} must be the first word after stat: tally stat {word} … (a program of that name is run by ./{word})"
                )
            }
            _ => Ok(()),
        }
    }
}
