//! Flags of `tally report` about columns and sort keys.

use profile::view::report::ReportField;

/// Columns, and the keys of rows.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct ColumnArgs {
    /// A tree with a level for each sort key, as text
    #[arg(long, conflicts_with_all = ["fields", "tui"])]
    pub hierarchy: bool,
    /// Group samples by these keys
    #[arg(short, long, value_name = "KEYS")]
    pub sort: Option<String>,
    /// Show these columns
    #[arg(short = 'F', long, value_name = "FIELDS")]
    pub fields: Option<String>,
    /// First by share of the wall clock: a sample counts less the more threads ran then
    #[arg(long)]
    pub latency: bool,
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
    /// Rows by where memory accesses were answered from (recorded with -d and -W)
    #[arg(long)]
    pub mem_mode: bool,
    /// Length of a slice for the sort key `time`: 10ms, 500us, 1s
    #[arg(long, value_name = "TIME")]
    pub time_quantum: Option<String>,
    /// The fields of tracepoints one by one, not as the kernel prints them
    #[arg(long)]
    pub raw_trace: bool,
}

impl ColumnArgs {
    /// Whether there is a column `latency`: shares with callees have none, so rows are without them.
    #[must_use]
    pub fn has_latency(&self) -> bool {
        let lists = [&self.sort, &self.fields].into_iter().flatten();
        let names = lists.flat_map(|list| list.split(','));
        let is_latency =
            |name: &str| ReportField::parse(name.trim_start_matches('+')) == Some(ReportField::Latency);
        self.latency || names.into_iter().any(is_latency)
    }
}
