//! Flags of `tally report` that list records, tasks and counts.

/// Records listed instead of a report, or after it.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct RecordListArgs {
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
}
