//! Misspelt options: the nearest of the command's own is told.
//!
//! clap compares beginnings, so that `--sotr` is `--control` to it; and it looks among hidden options, too.

use crate::flags::Flags;
use clap::builder::Arg;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory};
use record::event::nearest;
use std::ffi::OsString;

/// `error` with the nearest option of the command that `args` name, or of none.
pub fn with_nearest(mut error: Error, args: &[OsString]) -> Error {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return error;
    };
    let Some(typed) = typed.strip_prefix("--").map(str::to_owned) else { return error };
    let program = Flags::command();
    let command = args.iter().skip(1).find_map(|arg| program.find_subcommand(arg)).unwrap_or(&program);
    match nearest(&typed, long_options(command)).into_iter().next() {
        Some(near) => error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{near}"))),
        None => error.remove(ContextKind::SuggestedArg),
    };
    error
}

/// The long options that help shows.
fn long_options(command: &Command) -> impl Iterator<Item = String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(Arg::get_long).map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn error(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let error = Flags::try_parse_from(&args).err().expect("a misspelt line");
        with_nearest(error, &args).to_string()
    }

    #[test]
    fn a_misspelt_command_or_option_gets_the_nearest_name() {
        assert!(error(&["tally", "flmae"]).contains("'flame'"));
        assert!(error(&["tally", "flame", "--revrse"]).contains("'--reverse'"));
        assert!(error(&["tally", "report", "--sotr", "comm"]).contains("'--sort'"));
        assert!(error(&["tally", "stat", "--repaet", "3", "true"]).contains("'--repeat'"));
    }

    #[test]
    fn an_option_that_is_like_none_gets_no_name() {
        assert!(!error(&["tally", "report", "--xyzzy"]).contains("similar"));
    }
}
