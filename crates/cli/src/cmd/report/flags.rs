//! The flags of `tally report`, in perf's spelling.

use crate::flags::colour_arg::ColourArg;
use crate::flags::header_args::HeaderArgs;
use crate::flags::name_args::NameArgs;
use crate::flags::perf_only::{PerfOnly, ReportFlags};
use crate::flags::switch_args::SwitchArgs;
use std::path::PathBuf;

/// Show where the samples of a recording fall: in the terminal to browse, or as text
#[derive(clap::Args)]
#[command(args_override_self = true)]
#[command(after_help = "\
Examples:
  tally report                                      browse perf.data (text if not on a terminal)
  tally report --stdio --no-children -g graph       own time, with the callers as a tree
  tally report --stdio --sort comm,dso              per command and file
  tally report --stdio --dsos=app,libc.so.6         these files only
  tally report --stdio -F overhead,sample,sym       the columns to show
  tally report --blame                              what the main thread's waits were for
  tally report --critical-path --from parse         which functions could make it shorter
Fields and keys: overhead overhead_children overhead_sys overhead_us sample period
  comm dso symbol pid tid cpu srcline srcfile parent trace time weight …
  and the fields of tracepoints by name")]
pub struct Args {
    /// Recording [default: perf.data, - is stdin]
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Waiting time too (record with --off-cpu)
    ///
    /// on-CPU, runnable and blocked time of threads and functions
    #[arg(long)]
    pub wall: bool,
    /// One thread's time, with what other threads did while it waited for them
    ///
    /// (the main thread's, or of --thread; record with --off-cpu)
    #[arg(long, conflicts_with_all = ["wall", "html", "tui"])]
    pub blame: bool,
    /// What the run waited for at each moment, backwards from the main thread's end
    ///
    /// (or the end of --thread), and how much shorter it could be at most without each function
    #[arg(long, conflicts_with_all = ["wall", "blame", "html", "tui"])]
    pub critical_path: bool,
    /// With --critical-path: from when this function is first seen
    #[arg(long, value_name = "FUNC", requires = "critical_path")]
    pub from: Option<String>,
    /// With --critical-path: to when this function is last seen
    #[arg(long, value_name = "FUNC", requires = "critical_path")]
    pub to: Option<String>,
    /// With --blame, --critical-path: as JSON
    #[arg(long)]
    pub json: bool,
    /// With --wall: how much of it.
    #[command(flatten)]
    pub wall_args: crate::reading::wall::WallArgs,
    /// Print text
    #[arg(long, conflicts_with = "tui", alias = "stdio2")]
    pub stdio: bool,
    /// As --color, in perf's spelling
    #[arg(long, value_enum, hide = true)]
    pub stdio_color: Option<ColourArg>,
    /// A tree with a level for each sort key, as text
    #[arg(long, conflicts_with_all = ["fields", "tui"])]
    pub hierarchy: bool,
    /// Between which events samples count
    #[command(flatten)]
    pub switch: SwitchArgs,
    /// Browse in the terminal
    #[arg(long)]
    pub tui: bool,
    /// Write one HTML file for a browser
    ///
    /// flame graph and functions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tui", "stdio"])]
    pub html: Option<PathBuf>,
    /// Group samples by these keys
    #[arg(short, long, value_name = "KEYS")]
    pub sort: Option<String>,
    /// Show these columns
    #[arg(short = 'F', long, value_name = "FIELDS")]
    pub fields: Option<String>,
    /// Call graphs, such as graph,0.5,caller
    ///
    /// graph|fractal|flat|folded|none, minimum %, limit, caller|callee, function|address|srcline, percent|period|count
    #[arg(short = 'g', long, value_name = "HOW", num_args = 0..=1, default_missing_value = "")]
    pub call_graph: Option<String>,
    /// Call graphs from the root
    #[arg(short = 'G', long)]
    pub inverted: bool,
    /// Count samples at callers as well (default with call chains)
    #[arg(long, overrides_with = "no_children")]
    pub children: bool,
    /// Count samples at the leaf only
    #[arg(long, overrides_with = "children")]
    pub no_children: bool,
    /// Only these commands
    #[arg(short = 'c', long, value_name = "NAMES", value_delimiter = ',', alias = "comm")]
    pub comms: Vec<String>,
    /// Only samples in these files
    #[arg(short = 'd', long, value_name = "FILES", value_delimiter = ',', alias = "dso")]
    pub dsos: Vec<String>,
    /// Only samples in these functions
    #[arg(short = 'S', long, value_name = "NAMES", value_delimiter = ',', alias = "symbol")]
    pub symbols: Vec<String>,
    /// Only functions whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub symbol_filter: Option<String>,
    /// Only these processes
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pub pid: Vec<i32>,
    /// Only these threads
    #[arg(long, value_name = "TIDS", value_delimiter = ',')]
    pub tid: Vec<i32>,
    /// Only these CPUs, such as 0-3,5
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub cpu: Option<String>,
    /// Only this time: FROM,TO in seconds, either may be empty; or parts: 10%-20%, 10%/2
    #[arg(long, value_name = "FROM,TO")]
    pub time: Option<String>,
    /// Leave out rows below this share
    ///
    /// (percent of the total)
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub percent_limit: f64,
    /// What percentages refer to when samples are filtered: absolute (all) or relative (those shown)
    #[arg(long, value_name = "absolute|relative")]
    pub percentage: Option<String>,
    /// Look at this many frames of a chain
    #[arg(long, value_name = "N")]
    pub max_stack: Option<usize>,
    /// What counts as parent for the sort key `parent` (regular expression)
    #[arg(short = 'p', long, value_name = "REGEX")]
    pub parent: Option<String>,
    /// With the sort key `parent`: leave out samples without one
    #[arg(short = 'x', long)]
    pub exclude_other: bool,
    /// Fold callees of these functions into them (regular expression)
    #[arg(long, value_name = "REGEX")]
    pub ignore_callees: Option<String>,
    /// Show inlined functions (default when the lines are read anyway)
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Show no inlined functions
    #[arg(long, overrides_with = "inline")]
    pub no_inline: bool,
    /// A column with the number of samples
    #[arg(short = 'n', long)]
    pub show_nr_samples: bool,
    /// A column with the sum of the periods
    #[arg(long)]
    pub show_total_period: bool,
    /// Columns for kernel and user time
    #[arg(long, alias = "show-cpu-utilization")]
    pub showcpuutilization: bool,
    /// Show the events of a group side by side (default for groups of record's {a,b})
    #[arg(long, overrides_with = "no_group")]
    pub group: bool,
    /// Show the events of a group one by one
    #[arg(long, overrides_with = "group")]
    pub no_group: bool,
    /// Sort by this event of the group: 0 is the first
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub group_sort_idx: usize,
    /// Show samples even if there are branch stacks
    #[arg(long)]
    pub no_branch_stack: bool,
    /// Show the branches of branch stacks (default if there are any)
    #[arg(short = 'b', long, conflicts_with = "no_branch_stack")]
    pub branch_stack: bool,
    /// Only CPUs of this socket
    #[arg(long, value_name = "N")]
    pub socket_filter: Option<u32>,
    /// Rows by where memory accesses were answered from (recorded with -d and -W)
    #[arg(long)]
    pub mem_mode: bool,
    /// Widths of the columns from left to right; 0 for as wide as the content
    #[arg(short = 'w', long, value_name = "N,N", value_delimiter = ',')]
    pub column_widths: Vec<u16>,
    /// Length of a slice for the sort key `time`: 10ms, 500us, 1s
    #[arg(long, value_name = "TIME")]
    pub time_quantum: Option<String>,
    /// The fields of tracepoints one by one, not as the kernel prints them
    #[arg(long)]
    pub raw_trace: bool,
    /// After the report, the counts of each thread (recorded with -s)
    #[arg(short = 'T', long)]
    pub threads: bool,
    /// Form of -T: pretty or raw
    #[arg(long, value_name = "pretty|raw", requires = "threads")]
    pub pretty: Option<String>,
    /// Numbers of records by type and event
    #[arg(long)]
    pub stats: bool,
    /// The threads of the recording
    #[arg(long)]
    pub tasks: bool,
    /// The threads, with what their processes had mapped
    #[arg(long)]
    pub mmaps: bool,
    /// perf's dump of all records; `tally dump` prints them
    #[arg(short = 'D', long, hide = true)]
    pub dump_raw_trace: bool,
    /// perf's flag: how Intel PT is decoded
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    pub itrace: Option<String>,
    /// perf's flag: events without samples are left out anyway
    #[arg(long, hide = true, conflicts_with = "no_skip_empty")]
    pub skip_empty: bool,
    /// perf's flag for its browser: samples kept for each row
    #[arg(long, value_name = "N", hide = true)]
    pub samples: Option<u32>,
    /// Of the file's header.
    #[command(flatten)]
    pub header: HeaderArgs,
    /// Separate columns by this character
    #[arg(short = 't', long, value_name = "CHAR")]
    pub field_separator: Option<char>,
    /// Rows only, no comments
    #[arg(short, long)]
    pub quiet: bool,
    /// Leave out samples without a name
    #[arg(short = 'U', long)]
    pub hide_unresolved: bool,
    /// Show events without samples
    #[arg(long)]
    pub no_skip_empty: bool,
    /// Where names come from
    #[command(flatten)]
    pub names: NameArgs,
    /// Read names of JIT code (/tmp/perf-PID.map) whoever wrote them
    #[arg(short, long)]
    pub force: bool,
    /// What only perf has.
    #[command(flatten)]
    pub perf: PerfOnly<ReportFlags>,
    /// Print counts and times of reading the file
    #[arg(short, long)]
    pub verbose: bool,
    /// Text that function names contain, or the recording
    #[arg(value_name = "SYMBOL|FILE")]
    pub what: Option<String>,
}

impl Args {
    /// The file to read, and the text function names have to contain.
    pub fn input_and_filter(&self) -> (PathBuf, Option<String>) {
        let mut filter = self.symbol_filter.clone();
        let mut input = self.input.clone();
        if let Some(what) = &self.what {
            let path = PathBuf::from(what);
            if input.is_none() && path.is_file() {
                input = Some(path);
            } else if filter.is_none() {
                filter = Some(what.clone());
            }
        }
        (input.unwrap_or_else(|| PathBuf::from("perf.data")), filter)
    }
}
