//! Flags of `tally report` about its form: browsed, text, HTML.

use crate::flags::colour_arg::ColourArg;
use std::path::PathBuf;

/// Where and in which form the report is shown.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct ReportOutputArgs {
    /// Print text
    #[arg(long, conflicts_with = "tui", alias = "stdio2")]
    pub stdio: bool,
    /// As --color, in perf's spelling
    #[arg(long, value_enum, hide = true)]
    pub stdio_color: Option<ColourArg>,
    /// Browse in the terminal
    #[arg(long)]
    pub tui: bool,
    /// Write one HTML file for a browser
    ///
    /// flame graph and functions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tui", "stdio"])]
    pub html: Option<PathBuf>,
    /// Leave out rows below this share
    ///
    /// (percent of the total)
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub percent_limit: f64,
    /// Widths of the columns from left to right; 0 for as wide as the content
    #[arg(short = 'w', long, value_name = "N,N", value_delimiter = ',')]
    pub column_widths: Vec<u16>,
    /// Separate columns by this character
    #[arg(short = 't', long, value_name = "CHAR")]
    pub field_separator: Option<char>,
    /// Rows only, no comments
    #[arg(short, long)]
    pub quiet: bool,
    /// perf's flag: events without samples are left out anyway
    #[arg(long, hide = true, conflicts_with = "no_skip_empty")]
    pub skip_empty: bool,
    /// Show events without samples
    #[arg(long)]
    pub no_skip_empty: bool,
}
