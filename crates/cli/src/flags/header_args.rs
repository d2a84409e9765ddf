//! `--header`, `--header-only` and `-I`: the file's facts about its recording.

use crate::text::header::HeaderExtent;

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
    /// How much of the header is shown.
    #[must_use]
    pub fn extent(&self) -> HeaderExtent {
        if self.show_info { HeaderExtent::Full } else { HeaderExtent::Short }
    }
}
