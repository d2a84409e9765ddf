//! The flags of `tally report`, in perf's spelling.

mod causes;
mod columns;
mod lists;
mod output;
mod selection;
mod stacks;

use super::values::parse_keys;
use crate::flags::header_args::HeaderArgs;
use crate::flags::name_args::NameArgs;
use crate::flags::perf_compat::{PerfCompatFlags, ReportFlags};
use causes::CauseArgs;
use columns::ColumnArgs;
use lists::RecordListArgs;
use output::ReportOutputArgs;
use profile::view::report::SortKey;
use selection::SelectionArgs;
use stacks::StackArgs;
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
  comm dso symbol pid tid cpu cgroup container label srcline srcfile parent trace time
  weight …
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
    /// Causes of waiting.
    #[command(flatten)]
    pub causes: CauseArgs,
    /// With --wall: how much of it.
    #[command(flatten)]
    pub wall_args: crate::reading::wall::WallArgs,
    /// Columns, and the keys of rows.
    #[command(flatten)]
    pub columns: ColumnArgs,
    /// Samples and rows that are shown.
    #[command(flatten)]
    pub only: SelectionArgs,
    /// Where and in which form the report is shown.
    #[command(flatten)]
    pub output: ReportOutputArgs,
    /// Call graphs, inlined functions, branch stacks.
    #[command(flatten)]
    pub stacks: StackArgs,
    /// Records listed instead of a report, or after it.
    #[command(flatten)]
    pub lists: RecordListArgs,
    /// perf's flag: how Intel PT is decoded
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    pub itrace: Option<String>,
    /// perf's flag for its browser: samples kept for each row
    #[arg(long, value_name = "N", hide = true)]
    pub samples: Option<u32>,
    /// Flags about the file's header.
    #[command(flatten)]
    pub header: HeaderArgs,
    /// Where names come from
    #[command(flatten)]
    pub names: NameArgs,
    /// Read names of JIT code (/tmp/perf-PID.map) whoever wrote them
    #[arg(short, long)]
    pub force: bool,
    /// Flags that only perf has.
    #[command(flatten)]
    pub perf: PerfCompatFlags<ReportFlags>,
    /// Print counts and times of reading the file
    #[arg(short, long)]
    pub verbose: bool,
    /// Text that function names contain, or the recording
    #[arg(value_name = "SYMBOL|FILE")]
    pub what: Option<String>,
}

impl Args {
    /// Where names come from, with the flags of other groups.
    #[must_use]
    pub fn name_sources(&self) -> NameArgs {
        NameArgs { force: self.force, ..self.names.clone() }
    }

    /// Takes one thread of `--comms` or `--tid` as `--thread`, for the wall clock.
    ///
    /// # Errors
    /// The wall clock is asked for, but by a filter that it doesn't have.
    pub fn name_thread(&mut self) -> anyhow::Result<()> {
        let only = &self.only;
        let of_whole =
            self.wall && self.output.html.is_none() || self.causes.blame || self.causes.critical_path;
        if of_whole && (only.time.is_some() || only.cpu.is_some()) {
            anyhow::bail!(
                "--wall, --blame and --critical-path are about the whole recording, because sums of short waits have no \
                 time and no CPU: leave --time and --cpu out, or select a part in the page of --html"
            );
        }
        if !self.wall || self.wall_args.waits.thread.is_some() {
            return Ok(());
        }
        let is_list = only.comms.len() > 1 || only.tid.len() > 1;
        let has_other = !(only.dsos.is_empty() && only.symbols.is_empty() && only.pid.is_empty());
        if is_list || has_other {
            anyhow::bail!("--wall: only one thread can be selected: --thread NAME|TID");
        }
        let by_name = only.comms.first().cloned();
        self.wall_args.waits.thread = by_name.or_else(|| only.tid.first().map(i32::to_string));
        Ok(())
    }

    /// The first key of `--sort` that is about labels.
    ///
    /// # Errors
    /// `--sort` has unknown keys.
    pub fn label_key(&self) -> anyhow::Result<Option<SortKey>> {
        let Some(sort) = &self.columns.sort else { return Ok(None) };
        Ok(parse_keys("--sort", sort)?.into_iter().find(|key| matches!(key, SortKey::Label(_))))
    }

    /// The file to read, and the text function names have to contain.
    pub fn input_and_filter(&self) -> (PathBuf, Option<String>) {
        let mut filter = self.only.symbol_filter.clone();
        let mut input = self.input.clone();
        if let Some(what) = &self.what {
            let path = PathBuf::from(what);
            if input.is_none() && (path.is_file() || super::calls::is_one(&path)) {
                input = Some(path);
            } else if filter.is_none() {
                filter = Some(what.clone());
            }
        }
        let default = || super::calls::default_input().unwrap_or_else(|| PathBuf::from("perf.data"));
        (input.unwrap_or_else(default), filter)
    }
}
