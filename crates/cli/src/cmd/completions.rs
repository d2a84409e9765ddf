//! `tally completions`: what a shell needs to complete commands and options.

use crate::flags::Flags;
use crate::terminal::out;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally completions bash > ~/.local/share/bash-completion/completions/tally
  tally completions zsh > ~/.zfunc/_tally
  tally completions fish > ~/.config/fish/completions/tally.fish")]
pub struct Args {
    /// The shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

/// # Errors
/// If standard output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Flags::command(), "tally", &mut script);
    out::text(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
