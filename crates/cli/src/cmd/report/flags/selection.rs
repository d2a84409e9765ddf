//! Flags of `tally report` that select samples and rows.

use crate::flags::event_switch_args::EventSwitchArgs;

/// Samples and rows that are shown.
#[derive(clap::Args)]
pub struct SelectionArgs {
    /// Between which events samples count
    #[command(flatten)]
    pub switch: EventSwitchArgs,
    /// Only threads of these names
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
    /// Base of percentages when samples are filtered: absolute (all) or relative (those shown)
    #[arg(long, value_name = "absolute|relative")]
    pub percentage: Option<String>,
    /// Only samples at which this many threads ran, such as 1,3-5
    #[arg(long, value_name = "N|N-M")]
    pub parallelism: Option<String>,
    /// Only CPUs of this socket
    #[arg(long, value_name = "N")]
    pub socket_filter: Option<u32>,
    /// Leave out samples without a name
    #[arg(short = 'U', long)]
    pub hide_unresolved: bool,
}
