//! `tally record`: samples into perf.data.

mod content;
mod file;
mod registers;
mod summary;
mod tracing;

use std::process::ExitCode;

use record::control::ControlPaths;
use record::open::spans::FileTrigger;
use record::opts::RecordOpts;

use crate::flags::perf_compat::{PerfCompatFlags, RecordFlags};
use crate::flags::recording::{self, SamplingArgs, SpanArgs, TargetArgs};
use crate::terminal::out;
use crate::terminal::status_line::{self, StatusLine};
use content::SampleArgs;
use file::RecordFileArgs;
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
  tally record --overwrite --trigger 'span handle > 50ms' -p 1234
  tally record --overwrite --trigger 'rule lock-contention > 30%' -p 1234
  tally record -o - -- ./app | tally report -i -
Every branch, on machines with Intel PT (tally calls -i perf.data shows the calls):
  tally record -e intel_pt/cyc/u -m,64M -- ./app
  tally record -e intel_pt//u -Se -p 1234      the newest 4 MiB of each CPU: at kill -USR2, and at the end
  tally record -e intel_pt//u --filter 'filter main @ ./app' -- ./app")]
#[allow(clippy::struct_excessive_bools)]
pub struct Args {
    /// Target of the recording.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Events and sampling.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Functions whose calls are recorded.
    #[command(flatten)]
    pub spans: SpanArgs,
    /// The file, or several, and what is in it besides records.
    #[command(flatten)]
    pub file: RecordFileArgs,
    /// Take commands from a pipe: enable, disable, snapshot, evlist, ping, stop; with ACK answer each by 'ack'
    #[arg(long, value_name = "fd:CTL[,ACK]|fifo:CTL[,ACK]", value_parser = ControlPaths::parse)]
    pub control: Option<ControlPaths>,
    /// Content of samples.
    #[command(flatten)]
    pub content: SampleArgs,
    /// Record with this real-time priority (SCHED_FIFO), 1 to 99
    #[arg(short = 'r', long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub realtime: Option<i32>,
    /// Write at once (rings are looked at every 50 ms anyway; perf's flag)
    #[arg(long, hide = true)]
    pub no_buffering: bool,
    /// Processor traces.
    #[command(flatten)]
    pub tracing: TracingArgs,
    /// Flags of perf that we don't have.
    #[command(flatten)]
    pub perf: PerfCompatFlags<RecordFlags>,
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
                summary::print_summary(&summary, args.verbose);
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
        self.spans.apply(&mut opts, &FileTrigger::spans(&self.file.trigger))?;
        if self.quiet {
            opts.observers.on_catch_up = |_| {};
        }
        self.tracing.apply(&mut opts)?;
        self.file.apply(&mut opts)?;
        self.content.apply(&mut opts)?;
        opts.span.control = self.control.clone();
        opts.observers.on_notice = |line| out::note(line);
        opts.observers.on_progress = status_line::advance;
        opts.file.command_line = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
        opts.realtime = self.realtime;
        Ok(opts)
    }
}
