//! `tally mcp`: answers an assistant's questions about recordings over standard input and output.

mod server;

use exchange::mcp::RunRights;
use server::{ServedFiles, serve};
use std::process::ExitCode;

/// Serve an assistant over standard input and output (Model Context Protocol)
///
/// The assistant gets tools: verdict, why, tree, callers, annotate, waits, blame, locks and diff. Each reads a recording
/// in this folder and answers within a number of tokens, with the next call that is worth most.
///
/// Nothing is run and no process is recorded without --allow-run. Then the assistant may run any command as you.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally mcp                      answer questions about recordings in this folder
  tally mcp --allow-run          record commands and processes as well
  claude mcp add tally -- tally mcp      register it with an assistant")]
pub struct Args {
    /// Offer the tool record: run commands and record processes, up to 60 seconds
    #[arg(long)]
    allow_run: bool,
    /// Read and write recordings outside of this folder, too
    #[arg(long)]
    allow_any_path: bool,
}

/// Runs the command.
///
/// # Errors
/// Standard input or output fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let rights = if args.allow_run { RunRights::MayRun } else { RunRights::ReadOnly };
    let files = if args.allow_any_path { ServedFiles::Any } else { ServedFiles::below_current_folder()? };
    serve(rights, &files)?;
    Ok(ExitCode::SUCCESS)
}
