//! `tally flame`: stacks in, flame graph (SVG) or folded stacks out.

use std::path::PathBuf;
use std::process::ExitCode;

/// Draw a flame graph (SVG), or print folded stacks, from perf.data, `perf script` text or folded text
#[derive(clap::Args)]
pub struct Args {
    /// The input; `-` is standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// Leaf to root: merge by the function that ran
    #[arg(long)]
    pub reverse: bool,
}

/// Runs the command.
///
/// # Errors
/// If the input can't be read or the output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("{}: reading this input is not built yet", args.input.display())
}
