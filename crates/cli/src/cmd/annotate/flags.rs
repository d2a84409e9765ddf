//! Flags of `tally annotate`.

use crate::flags::perf_compat::{AnnotateFlags, PerfCompatFlags};
use std::path::PathBuf;

/// Show where inside functions the samples fall: source and machine code with percentages
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally annotate -s my_function              browse it on a terminal, from its hottest line on
  tally annotate -s my_function | cat        hottest lines, then the code around them
  tally annotate -s my_function --all        all of its code
  tally annotate --stdio                     every function that was hit, in perf's form
  tally annotate --dsos=app --no-source      machine code only, of one file
  tally annotate -M intel                    Intel syntax
The percentages of a function add up to 100; `tally report` shows a function's own share.")]
pub struct Args {
    /// The recording; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Print all code of each function, in perf's form
    #[arg(long)]
    pub stdio: bool,
    /// Print all code, not only the lines near samples
    #[arg(long)]
    pub all: bool,
    /// Print functions, lines and instructions as JSON
    #[arg(long)]
    pub json: bool,
    /// Write at most N lines of JSON for each function, those with most samples, and what the others add up to
    #[arg(long, value_name = "N", default_value_t = 0, requires = "json")]
    pub max_lines: usize,
    /// Only these files
    #[arg(short = 'd', long, value_name = "FILES", value_delimiter = ',', alias = "dso")]
    pub dsos: Vec<String>,
    /// Only functions of this name
    ///
    /// (with or without the part before its last `::`)
    #[arg(short = 's', long, value_name = "NAMES")]
    pub symbol: Vec<String>,
    /// Interleave source (default)
    #[arg(long, overrides_with = "no_source")]
    pub source: bool,
    /// Machine code only
    #[arg(long, overrides_with = "source")]
    pub no_source: bool,
    /// Syntax of x86 code: att or intel
    #[arg(short = 'M', long, value_name = "STYLE")]
    pub disassembler_style: Option<String>,
    /// Program for machines tally has no disassembler for
    #[arg(long, value_name = "PROGRAM")]
    pub objdump: Option<PathBuf>,
    /// The hottest lines before each function
    ///
    /// and the source line of each instruction with samples
    #[arg(short = 'l', long)]
    pub print_line: bool,
    /// File names with their folders
    #[arg(short = 'P', long)]
    pub full_paths: bool,
    /// Show the bytes of instructions
    #[arg(long)]
    pub asm_raw: bool,
    /// Numbers of samples instead of percentages
    #[arg(short = 'n', long)]
    pub show_nr_samples: bool,
    /// Sums of periods instead of percentages
    #[arg(long, conflicts_with = "show_nr_samples")]
    pub show_total_period: bool,
    /// Base of percentages: local-period, local-hits, global-period or global-hits (local: of the function)
    #[arg(long, value_name = "TYPE", default_value = LOCAL_PERIOD)]
    pub percent_type: String,
    /// Leave out functions below this share
    ///
    /// (percent of all samples)
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub percent_limit: f64,
    /// Leave out functions without code to show
    #[arg(long)]
    pub skip_missing: bool,
    /// Show the events of a group side by side (default for groups of record's {a,b})
    #[arg(long, overrides_with = "no_group")]
    pub group: bool,
    /// Show the events of a group one by one
    #[arg(long, overrides_with = "group")]
    pub no_group: bool,
    /// The kernel with its symbols, for its code and source (default: where distributions put it, else /proc/kcore)
    #[arg(short = 'k', long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
    /// Look for source files below this folder, with or without --prefix-strip
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Leave out this many folders of the recorded names of source files
    #[arg(long, value_name = "N", requires = "prefix")]
    pub prefix_strip: Option<usize>,
    /// Flags of perf that we don't have.
    #[command(flatten)]
    pub perf: PerfCompatFlags<AnnotateFlags>,
    /// Only these CPUs, such as 0-3,5
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Look for object and source files below this folder
    #[arg(long, value_name = "DIR")]
    pub symfs: Option<PathBuf>,
    /// Read names of JIT code (/tmp/perf-PID.map) whoever wrote them
    #[arg(short, long)]
    pub force: bool,
    /// perf's flag; all notes are printed anyway
    #[arg(short, long, hide = true)]
    pub verbose: bool,
    /// No notes
    #[arg(short, long)]
    pub quiet: bool,
    /// The function to show
    #[arg(value_name = "SYMBOL")]
    pub function: Option<String>,
}

/// Base of percentages unless asked otherwise.
pub const LOCAL_PERIOD: &str = "local-period";
