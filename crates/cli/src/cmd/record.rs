//! `tally record`: samples into perf.data.

mod registers;
mod tracing;

use std::path::PathBuf;
use std::process::ExitCode;

use perfdata::abi::*;
use record::control::ControlPaths;
use record::opts::{KeepFiles, Output, RecordOpts, SwitchOutput};
use record::summary::{RunSummary, StackQuality};

use crate::flags::perf_only::{PerfOnly, RecordFlags};
use crate::flags::recording::{self, SamplingArgs, TargetArgs, parse_bytes, parse_switch_output};
use crate::terminal::out;
use crate::terminal::status_line::{self, StatusLine};
use tracing::TracingArgs;
pub use tracing::spelled_out;

/// Sample a command, processes or the whole machine into perf.data, with complete stacks
///
/// Stacks are unwound while recording: the file holds ordinary callchains that stock perf reads as well.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally record -- ./app               sample a command
  tally record -p 1234 -- sleep 5     a running process, for five seconds
  tally record -a -F 499 -- sleep 10  the whole machine
  tally record -e page-faults -c 1 -- ./app
  tally record --overwrite --switch-output -p 1234  keep the newest samples; kill -USR2 writes them
  tally record -o - -- ./app | tally report -i -
Every branch, on machines with Intel PT (tally calls -i perf.data shows the calls):
  tally record -e intel_pt/cyc/u -m,64M -- ./app
  tally record -e intel_pt//u -Se -p 1234      the newest 4 MiB of each CPU: at kill -USR2, and at the end
  tally record -e intel_pt//u --filter 'filter main @ ./app' -- ./app")]
#[allow(clippy::struct_excessive_bools)]
pub struct Args {
    /// Whom.
    #[command(flatten)]
    pub target: TargetArgs,
    /// What and how.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// File to write; - is standard output (pipe mode). An existing file becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", help_heading = "File")]
    pub output: PathBuf,
    /// Compress with zstd
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    #[arg(help_heading = "File")]
    pub compression_level: Option<i32>,
    /// Stop after this many bytes (B, K, M, G)
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "File")]
    pub max_size: Option<u64>,
    /// Another file at each SIGUSR2, each SIZE or each TIME, named FILE.YYYYMMDDhhmmssNN
    #[arg(long, value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "signal", value_parser = parse_switch_output, help_heading = "File")]
    pub switch_output: Option<SwitchOutput>,
    /// With --switch-output: keep this many files, the newest
    #[arg(long, value_name = "N", requires = "switch_output", help_heading = "File")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub switch_max_files: Option<u16>,
    /// Append the time to the file's name
    #[arg(long, help_heading = "File")]
    pub timestamp_filename: bool,
    /// Keep only the newest samples, in memory
    ///
    /// and write them at the end or at each --switch-output
    #[arg(long, help_heading = "File")]
    pub overwrite: bool,
    /// Take commands from a pipe: enable, disable, snapshot, evlist, ping, stop; with ACK answer each by 'ack'
    #[arg(long, value_name = "fd:CTL[,ACK]|fifo:CTL[,ACK]", value_parser = ControlPaths::parse)]
    pub control: Option<ControlPaths>,
    /// Don't write build-ids
    #[arg(short = 'B', long, help_heading = "File")]
    pub no_buildid: bool,
    /// Don't put the files seen into the build-id cache
    #[arg(short = 'N', long, help_heading = "File")]
    pub no_buildid_cache: bool,
    /// Mappings of data as well, and the data address of each sample
    #[arg(short, long, help_heading = "Samples")]
    pub data: bool,
    /// The CPU of each sample
    #[arg(long, help_heading = "Samples")]
    pub sample_cpu: bool,
    /// The time of each sample (always on; perf's flag)
    #[arg(short = 'T', long, hide = true)]
    pub timestamp: bool,
    /// The period of each sample (always on; perf's flag)
    #[arg(short = 'P', long, hide = true)]
    pub period: bool,
    /// Hardware-given weight of each sample
    #[arg(short = 'W', long, help_heading = "Samples")]
    pub weight: bool,
    /// Raw data of tracepoints (always on for them; perf's flag)
    #[arg(short = 'R', long, hide = true)]
    pub raw_samples: bool,
    /// Physical address of the data of each sample
    #[arg(long, help_heading = "Samples")]
    pub phys_data: bool,
    /// Page size of the data address of each sample
    #[arg(long, help_heading = "Samples")]
    pub data_page_size: bool,
    /// Page size of the code address of each sample
    #[arg(long, help_heading = "Samples")]
    pub code_page_size: bool,
    /// Counts of each task at its end
    #[arg(short, long, help_heading = "Samples")]
    pub stat: bool,
    /// Branch records of any kind
    #[arg(short = 'b', long, help_heading = "Samples")]
    pub branch_any: bool,
    /// Branch records of these kinds: any_call, any_ret, ind_call, cond …, and u, k where
    #[arg(short = 'j', long, value_name = "KINDS", help_heading = "Samples", conflicts_with = "branch_any")]
    pub branch_filter: Option<String>,
    /// The state of hardware transactions
    #[arg(long, help_heading = "Samples")]
    pub transaction: bool,
    /// Registers of user mode at each sample: ip,sp,… (without a list: all; =? names them)
    #[arg(long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Samples")]
    pub user_regs: Option<String>,
    /// Registers at the very moment of each sample, in the kernel as well
    #[arg(short = 'I', long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Samples")]
    pub intr_regs: Option<String>,
    /// Leave out samples of tally itself
    #[arg(long, help_heading = "Samples")]
    pub exclude_perf: bool,
    /// Record with this real-time priority (SCHED_FIFO), 1 to 99
    #[arg(short = 'r', long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub realtime: Option<i32>,
    /// Don't sample: only what processes do
    #[arg(short = 'n', long, help_heading = "Samples")]
    pub no_samples: bool,
    /// Write at once (rings are looked at every 50 ms anyway; perf's flag)
    #[arg(long, hide = true)]
    pub no_buffering: bool,
    /// Processor traces.
    #[command(flatten)]
    pub tracing: TracingArgs,
    /// What perf has and we don't.
    #[command(flatten)]
    pub perf: PerfOnly<RecordFlags>,
    /// Print no summary at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Print more
    #[arg(short, long)]
    pub verbose: bool,
}

/// Records, then reports in a few lines what was written and how complete it is.
///
/// # Errors
/// Flags that contradict each other. Failures of recording itself are shown, and become the exit status.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let opts = args.opts()?;
    let status = (!args.quiet).then(|| StatusLine::of(&opts.target));
    let recorded = record::record(&opts);
    drop(status);
    match recorded {
        Ok(summary) => {
            if !args.quiet {
                tell(&summary, args.verbose);
            }
            Ok(recording::exit_code(&summary))
        }
        Err(error) => Ok(recording::failed(&error)),
    }
}

impl Args {
    /// All flags, as `record` takes them.
    ///
    /// # Errors
    /// Flags that contradict each other or can't be read.
    pub fn opts(&self) -> anyhow::Result<RecordOpts> {
        self.perf.check()?;
        let mut opts = RecordOpts { target: self.target.target()?, ..RecordOpts::default() };
        self.sampling.apply(&mut opts)?;
        if self.quiet {
            opts.observers.on_catch_up = |_| {};
        }
        self.tracing.apply(&mut opts)?;
        opts.sampling.no_samples = self.no_samples;
        opts.file.output =
            if self.output.as_os_str() == "-" { Output::Stdout } else { Output::File(self.output.clone()) };
        opts.file.compression = self.compression_level;
        opts.file.max_size_bytes = self.max_size;
        self.several_files(&mut opts)?;
        opts.span.control = self.control.clone();
        opts.observers.tell = |line| out::note(line);
        opts.observers.on_progress = status_line::advance;
        opts.file.no_build_ids = self.no_buildid;
        opts.file.keep_files = if self.no_buildid_cache { KeepFiles::None } else { KeepFiles::All };
        opts.file.command_line = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
        (opts.realtime, opts.sampling.exclude_self) = (self.realtime, self.exclude_perf);
        if let Some(list) = &self.user_regs {
            opts.extra.regs_user = registers::parse("--user-regs", list)?;
        }
        if let Some(list) = &self.intr_regs {
            opts.extra.regs_intr = registers::parse("--intr-regs", list)?;
        }
        opts.extra.data_maps = self.data;
        opts.extra.stat = self.stat;
        let bits = [
            (self.data, PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC),
            (self.sample_cpu, PERF_SAMPLE_CPU),
            (self.weight, PERF_SAMPLE_WEIGHT),
            (self.phys_data, PERF_SAMPLE_ADDR | PERF_SAMPLE_PHYS_ADDR),
            (self.data_page_size, PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE),
            (self.code_page_size, PERF_SAMPLE_CODE_PAGE_SIZE),
            (self.transaction, PERF_SAMPLE_TRANSACTION),
        ];
        for (wanted, bit) in bits {
            opts.extra.sample_type |= if wanted { bit } else { 0 };
        }
        if self.branch_any {
            opts.extra.branches = PERF_SAMPLE_BRANCH_ANY;
        }
        if let Some(filter) = &self.branch_filter {
            opts.extra.branches = record::event::parse_branch_filter(filter)?;
        }
        Ok(opts)
    }
}

impl Args {
    /// The flags that make several files of one recording.
    fn several_files(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        if opts.file.output == Output::Stdout && (self.switch_output.is_some() || self.overwrite) {
            anyhow::bail!("--switch-output and --overwrite write files: name one by -o FILE");
        }
        if opts.traces() && (self.switch_output.is_some() || self.overwrite) {
            anyhow::bail!(
                "--switch-output and --overwrite are for samples; of a trace -S keeps the newest part"
            );
        }
        opts.file.overwrite = self.overwrite;
        opts.file.timestamp_filename = self.timestamp_filename;
        opts.file.switch_output = self
            .switch_output
            .clone()
            .map(|several| SwitchOutput { most_files: self.switch_max_files.map(usize::from), ..several });
        Ok(())
    }
}

fn tell(summary: &RunSummary, verbose: bool) {
    for notice in &summary.notices {
        let text = if verbose { notice.to_string() } else { notice.brief() };
        out::note(&format!("tally: {text}"));
    }
    let kib = summary.recorder.file_bytes.div_ceil(1024);
    let place = summary.file.as_ref().map_or_else(|| "-".to_owned(), |f| f.display().to_string());
    let event = match summary.more_events {
        0 => summary.event.clone(),
        more => format!("{} and {more} other event{}", summary.event, if more == 1 { "" } else { "s" }),
    };
    let trace = summary.recorder.trace_bytes;
    let what = match (trace, summary.lost.samples) {
        (0, samples) => format!("{samples} samples of {event}"),
        (trace, 0) => format!("{} KiB of trace of {event}", trace.div_ceil(1024)),
        (trace, samples) => format!("{samples} samples, {} KiB of trace", trace.div_ceil(1024)),
    };
    out::note(&format!("[ tally record: {place}: {what}, {kib} KiB ]"));
    if let Some(line) = quality_line(&summary.quality) {
        out::note(&format!("[ {line} ]"));
    }
    let lost = summary.lost.lost_records + summary.lost.lost_samples;
    if lost > 0 {
        let total = summary.lost.samples + lost;
        let threads = summary.lost.by_thread.iter().take(3);
        let threads: Vec<_> = threads.map(|(tid, comm, n)| format!("{n} in thread {tid} {comm}")).collect();
        let line = format!(
            "[ lost {lost} of {total} records ({}): rings were full; try a larger -m or a lower -F ]",
            threads.join(", ")
        );
        out::note(&line);
    }
    if verbose {
        let used = &summary.recorder;
        let ms = (used.user_ns + used.system_ns) / 1_000_000;
        out::note(&format!(
            "[ recorder: {ms} ms CPU in {} ms, {} MiB memory, {} bytes per sample ]",
            summary.wall_ns / 1_000_000,
            used.peak_memory_bytes >> 20,
            used.sample_bytes / summary.lost.samples.max(1),
        ));
    }
}

/// "stacks: 99.2 % complete; 0.5 % cut after 65528 bytes (thread 7 x)"; `None` without user stacks.
fn quality_line(quality: &StackQuality) -> Option<String> {
    if quality.stacks == 0 {
        return None;
    }
    let pct = |n: u64| n as f64 * 100.0 / quality.stacks as f64;
    let mut parts = vec![format!("stacks: {:.1} % complete", pct(quality.complete + quality.joined))];
    if quality.joined > 0 {
        parts.push(format!("of them {:.1} % joined", pct(quality.joined)));
    }
    for stop in quality.stopped.iter().take(3) {
        let place = stop.dso.as_ref().map_or_else(String::new, |d| format!(" in {d}"));
        parts.push(format!("{:.1} % {}{place}", pct(stop.count), stop.reason));
    }
    Some(out::harmless(&parts.join("; ")).into_owned())
}
