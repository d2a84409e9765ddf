//! `--header`, `--header-only` and `-I`: the file's facts about its recording.

use exchange::perf_header::{self, HeaderExtent};
use perfdata::PerfData;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// For commands that read a file.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct HeaderArgs {
    /// The file's header first
    #[arg(long)]
    pub header: bool,
    /// The file's header only
    #[arg(long)]
    pub header_only: bool,
    /// More of the header: processors, memory nodes
    #[arg(short = 'I', long)]
    pub show_info: bool,
}

impl HeaderArgs {
    /// The header of the file at `path` as text.
    pub fn text(&self, path: &Path, file: &PerfData<'_>) -> String {
        let extent = if self.show_info { HeaderExtent::Full } else { HeaderExtent::Short };
        let written = std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let since = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        perf_header::text(file, since.map(|since| since.as_secs()), extent)
    }
}
