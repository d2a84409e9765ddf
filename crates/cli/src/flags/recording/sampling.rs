//! Sampling: the flags shared by `record` and `run`.

use perfdata::abi::*;
use record::off_cpu::{Tier, WaitDetail};
use record::opts::{CallGraph, Delay, Rate, RecordOpts, SampleExtras};
use record::sys::time::Clock;

use super::events;
use super::value::{RingSizes, parse_bytes, parse_delay, parse_ring_sizes};
use crate::flags::event_args::EventArgs;

/// Flags for the events to sample and how.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sampling")]
#[allow(clippy::struct_excessive_bools)]
pub struct SamplingArgs {
    /// Which events.
    #[command(flatten)]
    pub events: EventArgs,
    /// Samples per second of CPU time, or max
    ///
    /// [default: 997; with --off-cpu 499]
    #[arg(short = 'F', long, value_name = "HZ", conflicts_with = "count")]
    pub freq: Option<String>,
    /// Take a sample every N occurrences of the event
    #[arg(short, long, value_name = "N")]
    pub count: Option<u64>,
    /// Fail rather than lower the frequency to the kernel's limit
    #[arg(long)]
    pub strict_freq: bool,
    /// User stacks: live, fp, dwarf, lbr or no
    ///
    /// [default: live, unwound while recording]; dwarf[,BYTES] copies BYTES of each stack
    #[arg(long, value_name = "MODE", value_parser = parse_call_graph)]
    pub call_graph: Option<CallGraph>,
    /// Callchains (the default; perf's flag)
    #[arg(short = 'g', hide = true)]
    pub with_chains: bool,
    /// Only the kernel's part of callchains
    #[arg(long, conflicts_with = "user_callchains")]
    pub kernel_callchains: bool,
    /// Only the user's part of callchains
    #[arg(long)]
    pub user_callchains: bool,
    /// Only kernel mode
    #[arg(long, conflicts_with = "all_user")]
    pub all_kernel: bool,
    /// Only user mode
    #[arg(long)]
    pub all_user: bool,
    /// Size of each ring, and of each area for processor traces: pages, or with a unit 4M
    #[arg(short, long, value_name = "SIZE[,AREA]", value_parser = parse_ring_sizes)]
    pub mmap_pages: Option<RingSizes>,
    /// Don't follow children
    #[arg(short = 'i', long)]
    pub no_inherit: bool,
    /// Start MS milliseconds after the command; -1: never
    #[arg(short = 'D', long, value_name = "MS", allow_hyphen_values = true, value_parser = parse_delay)]
    pub delay: Option<Delay>,
    /// Clock of the times: monotonic, monotonic_raw, realtime, boottime or tai
    #[arg(short = 'k', long, value_name = "CLOCK", value_parser = parse_clock)]
    pub clockid: Option<Clock>,
    /// No functions of language runtimes (Python): native code only
    #[arg(long)]
    pub no_runtimes: bool,
    /// Write every context switch
    #[arg(long)]
    pub switch_events: bool,
    /// Write the namespaces of processes
    #[arg(long)]
    pub namespaces: bool,
    /// Write the cgroups of tasks, for report --sort container or cgroup
    #[arg(long)]
    pub all_cgroups: bool,
    /// Waiting time too: why, how long, who wakes
    ///
    /// (`tally doctor` shows how well that works on this machine)
    #[arg(long)]
    pub off_cpu: bool,
    /// Take a stack each time a thread has been off the CPU for this many microseconds  [default: 1000]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub off_cpu_period: Option<u64>,
    /// Time off the CPU by no better means than b (tracepoints) or c (looks at /proc): to see what they show, and cost
    #[arg(long, value_name = "TIER", value_parser = parse_tier, hide = true)]
    pub off_cpu_tier: Option<Tier>,
    /// For the agent: few stacks of waits, no names of what is waited for, fewer looks
    #[arg(long, hide = true)]
    pub off_cpu_few: bool,
}

impl SamplingArgs {
    /// Puts these flags into `opts`.
    ///
    /// # Errors
    /// An event or a number that can't be read.
    pub fn apply(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        opts.events = events::parse(&self.events)?;
        for event in &mut opts.events {
            use perfdata::AttrFlags;
            if self.all_kernel {
                event.attr.flags = event.attr.flags.with(AttrFlags::EXCLUDE_USER);
            }
            if self.all_user {
                event.attr.flags = event.attr.flags.with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
            }
        }
        opts.timers = Some(super::TIMERS);
        opts.observers.on_catch_up = super::on_catch_up;
        opts.stacks.runtimes = !self.no_runtimes;
        opts.sampling.all_user = self.all_user;
        opts.sampling.all_kernel = self.all_kernel;
        opts.sampling.rate = self.rate()?;
        opts.sampling.strict_rate = self.strict_freq;
        opts.stacks.call_graph = self.call_graph.unwrap_or(CallGraph::Live);
        opts.stacks.without_user_chains = self.kernel_callchains;
        opts.stacks.without_kernel_chains = self.user_callchains;
        let sizes = self.mmap_pages.unwrap_or_default();
        opts.ring_pages = sizes.pages;
        opts.trace.area_bytes = sizes.area_pages.map(|pages| pages * record::sys::mem::page_bytes());
        opts.sampling.no_inherit = self.no_inherit;
        opts.clock = self.clock(opts.traces())?;
        opts.span.delay = self.delay.unwrap_or_default();
        // Who chose a cgroup asks the report about cgroups, too.
        let cgroups = self.all_cgroups || opts.target.cgroup.is_some();
        let (switches, namespaces) = (self.switch_events, self.namespaces);
        opts.extra = SampleExtras { switches, namespaces, cgroups, ..opts.extra };
        if self.off_cpu || self.off_cpu_period.is_some() || self.off_cpu_tier.is_some() {
            opts.off_cpu = Some(self.off_cpu_options(opts.clock)?);
        }
        if cgroups {
            opts.extra.sample_type |= PERF_SAMPLE_CGROUP;
        }
        Ok(())
    }

    /// The clock of all times: a processor's trace can only be joined with the kernel's own.
    fn clock(&self, traces: bool) -> anyhow::Result<Clock> {
        match self.clockid {
            Some(_) if traces => anyhow::bail!(
                "-k: the times of a processor's trace are those of the kernel's own clock: leave out -k"
            ),
            Some(clock) => Ok(clock),
            None => Ok(if traces { Clock::Perf } else { Clock::Monotonic }),
        }
    }

    fn off_cpu_options(&self, clock: Clock) -> anyhow::Result<record::off_cpu::OffCpuOpts> {
        if clock != Clock::Monotonic {
            anyhow::bail!(
                "--off-cpu counts in CLOCK_MONOTONIC: leave out -k, and processor traces (intel_pt)"
            );
        }
        let mut options = record::off_cpu::OffCpuOpts::default();
        if let Some(us) = self.off_cpu_period {
            options.period_ns = us * 1000;
        }
        options.best = self.off_cpu_tier.unwrap_or(Tier::Engine);
        if self.off_cpu_few {
            options.detail = WaitDetail::Few;
        }
        Ok(options)
    }

    fn rate(&self) -> anyhow::Result<Rate> {
        match (&self.freq, self.count) {
            (_, Some(0)) => anyhow::bail!("-c 0: want at least 1"),
            (_, Some(period)) => Ok(Rate::Period(period)),
            (None, None) => Ok(Rate::default()),
            (Some(text), None) if text == "max" => Ok(Rate::MaxHz),
            (Some(text), None) => match text.parse() {
                Ok(hz @ 1..) => Ok(Rate::Hz(hz)),
                _ => anyhow::bail!("-F {text}: neither a number of samples per second nor max"),
            },
        }
    }
}

fn parse_call_graph(text: &str) -> Result<CallGraph, String> {
    let (mode, size) = text.split_once(',').map_or((text, None), |(m, s)| (m, Some(s)));
    match (mode, size) {
        ("live", None) => Ok(CallGraph::Live),
        ("fp", None) => Ok(CallGraph::FramePointer),
        ("lbr", None) => Ok(CallGraph::Lbr),
        ("no" | "none", None) => Ok(CallGraph::None),
        ("dwarf", None) => Ok(CallGraph::Dwarf(8192)),
        ("dwarf", Some(size)) => match parse_bytes(size)? {
            bytes @ 8..=65_528 => Ok(CallGraph::Dwarf(bytes as u32)),
            _ => Err(format!("dwarf,{size}: the kernel copies 8 to 65528 bytes")),
        },
        _ => Err(format!("unknown call graph '{text}': want live, fp, dwarf[,BYTES], lbr or no")),
    }
}

fn parse_tier(text: &str) -> Result<Tier, String> {
    match text {
        "a" => Ok(Tier::Engine),
        "b" => Ok(Tier::Tracepoints),
        "c" => Ok(Tier::Looks),
        _ => Err(format!("unknown tier '{text}': want a, b or c")),
    }
}

fn parse_clock(text: &str) -> Result<Clock, String> {
    Ok(match text.trim_start_matches("CLOCK_").to_ascii_lowercase().as_str() {
        "monotonic" | "mono" => Clock::Monotonic,
        "monotonic_raw" | "raw" => Clock::MonotonicRaw,
        "realtime" | "real" => Clock::Realtime,
        "boottime" | "boot" => Clock::Boottime,
        "tai" => Clock::Tai,
        _ => {
            return Err(format!(
                "unknown clock '{text}': want monotonic, monotonic_raw, realtime, boottime or tai"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_graph_modes_are_perfs_and_live() {
        assert_eq!(parse_call_graph("dwarf,16K"), Ok(CallGraph::Dwarf(16_384)));
        assert_eq!(parse_call_graph("live"), Ok(CallGraph::Live));
        assert!(parse_call_graph("dwarf,99999").is_err() && parse_call_graph("magic").is_err());
    }
}
