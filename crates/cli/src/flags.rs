//! The command line: one entry per flag, from which parser and help come.

pub mod colour_arg;
pub mod event_args;
pub mod event_switch_args;
pub mod header_args;
pub mod id_lists;
pub mod name_args;
pub mod perf_commands;
pub mod perf_compat;
pub mod perf_config;
pub mod recording;
pub mod shown_names;

use crate::calls::preloaded_tracer::PreloadedTracer;
use crate::cmd::Command;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, FromArgMatches, Parser};
use colour_arg::ColourArg;
use std::ffi::OsString;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Shows where a program's time goes, running and waiting. Reads and writes perf's files, takes its commands.
#[derive(Parser)]
#[command(name = "tally", version = VERSION, styles = STYLES, max_term_width = 80, disable_help_subcommand = false)]
// perf takes any unambiguous beginning of a long option, and its users type them (--no-child).
#[command(infer_long_args = true)]
#[command(after_help = "\
Examples:
  tally run -- ./app             run it; then one screen: where the time went
  tally run -p 1234 -- sleep 5   the same for a running process
  tally report                   browse perf.data (--stdio: print it as text)
  tally flame -o out.svg         flame graph of perf.data or of folded stacks")]
pub struct Flags {
    /// For all commands.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of all commands.
#[derive(clap::Args)]
pub struct OutputFlags {
    /// When to use colours; NO_COLOR in the environment means never
    #[arg(long, global = true, value_enum, default_value_t = ColourArg::Auto)]
    #[arg(value_name = "auto|always|never", hide_possible_values = true, hide_default_value = true)]
    pub color: ColourArg,
    /// Print long text straight to the terminal (TALLY_PAGER or PAGER name the pager, else less)
    #[arg(long, global = true)]
    pub no_pager: bool,
    /// Don't shorten names of functions: with all template arguments
    #[arg(long, global = true)]
    pub full_names: bool,
}

impl Flags {
    /// What a command line requests. Most of a parser's time goes into the definitions of all commands, which only
    /// messages need: those of one command are tried first.
    ///
    /// # Errors
    /// What the parser finds wrong with it, or a request for help.
    pub fn of_command_line(args: &[OsString]) -> Result<Self, clap::Error> {
        let alone = args.get(1).and_then(|word| word.to_str()).and_then(Command::defined_alone);
        let program = || OutputFlags::augment_args(clap::Command::new("tally")).infer_long_args(true);
        let matches = alone.and_then(|command| program().subcommand(command).try_get_matches_from(args).ok());
        match matches.and_then(|matches| Self::from_arg_matches(&matches).ok()) {
            Some(flags) => Ok(flags),
            None => Self::try_parse_from(args),
        }
    }
}

/// The version; of an optimized build also the commit, of a packaged program (`cargo xtask package`) machine and C
/// library.
const VERSION: &str = match option_env!("TALLY_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// Output of `tally --version`, without the line end: the version, and the features that depend on the processor.
pub fn version_line() -> String {
    let features =
        [("bpf", true), ("calls", PreloadedTracer::is_there()), ("timers", !recording::TIMERS.is_empty())];
    let signed = features.map(|(name, is_in)| format!(" {}{name}", if is_in { '+' } else { '-' }));
    format!("tally {VERSION}{}", signed.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn no_flag_contradicts_another() {
        Flags::command().debug_assert();
    }

    #[test]
    fn a_command_alone_has_the_options_that_it_has_among_all() {
        let options = |command: &clap::Command| {
            let ids = command.get_arguments().map(|arg| arg.get_id().to_string());
            (ids.collect::<Vec<_>>(), command.get_subcommands().count())
        };
        let program = Flags::command();
        for command in program.get_subcommands().filter(|command| !command.get_name().contains('-')) {
            let alone = Command::defined_alone(command.get_name()).expect("each is known");
            assert_eq!(options(&alone), options(command), "{}", command.get_name());
        }
        assert!(Command::defined_alone("nothing").is_none());
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let flags = Flags::of_command_line(&args(&["tally", "evlist", "--no-pag", "--full-names"]));
        assert!(flags.is_ok_and(|flags| flags.output.no_pager && flags.output.full_names));
        let wrong = Flags::of_command_line(&args(&["tally", "report", "--no-such"])).err().expect("unknown");
        let all = Flags::try_parse_from(args(&["tally", "report", "--no-such"])).err().expect("unknown");
        assert_eq!(wrong.to_string(), all.to_string());
    }

    #[test]
    fn long_options_may_be_cut_short() {
        assert!(Flags::try_parse_from(["tally", "stat", "--no-inh", "--repe", "2", "true"]).is_ok());
    }
}
