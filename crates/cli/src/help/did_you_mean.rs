//! Misspelt commands and options, and options without a value: suggestions from the command itself and from all others.
//!
//! clap compares beginnings, so that `--sotr` is `--control` to it; and it looks among hidden options, too.

use crate::flags::Flags;
use crate::terminal::pager::is_in_path;
use clap::builder::{Arg, StyledStr};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory};
use record::event::nearest;
use std::ffi::OsString;

/// Words of other tools for what a command of ours does.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("flamegraph", "flame"),
    ("profile", "run"),
    ("benchmark", "stat"),
    ("strace", "record"),
    ("attach", "run"),
    ("view", "report"),
    ("show", "report"),
    ("events", "list"),
    ("compare", "diff"),
    ("offcpu", "run"),
    ("off-cpu", "run"),
    ("live", "top"),
    ("replay", "calls"),
    ("graph", "calls"),
    ("uftrace", "calls"),
];

/// Options of `report` for another view, which may look like commands.
const VIEWS: [&str; 4] = ["wall", "blame", "critical-path", "span"];

/// Options of other tools for the length of a recording. `trace --duration` is something else: perf's least length of a call.
const LENGTH_WORDS: [&str; 5] = ["duration", "seconds", "time", "timeout", "for"];

/// Commands that record for as long as a command of theirs runs.
const RECORDERS: [&str; 4] = ["run", "record", "stat", "trace"];

/// Most commands that a suggestion names.
const MOST_COMMANDS: usize = 3;

/// `error` with suggestions for a misspelt command or option on the line `args`.
pub fn with_nearest(error: Error, args: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => with_command(error, args),
        ErrorKind::UnknownArgument => with_option(error, args),
        ErrorKind::InvalidValue => with_purpose(error, args),
        _ => error,
    }
}

/// The nearest command in place of the three that clap finds similar; for a program the command that profiles it.
fn with_command(mut error: Error, args: &[OsString]) -> Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let program = Flags::command();
    let tip = if VIEWS.contains(&typed.as_str()) {
        Some(format!("it is a view of a recording: tally report --{typed}"))
    } else if args.get(1).is_some_and(|first| first == "help") {
        Some("tally help topics lists the pages, tally --help the commands".to_owned())
    } else {
        (typed.contains('/') || is_in_path(typed))
            .then(|| format!("to profile a program: tally run -- {typed}"))
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        return error;
    }
    let near = OTHER_WORDS.iter().find(|(word, _)| word == typed).map(|(_, command)| (*command).to_owned());
    let names = || visible(&program).map(|command| command.get_name().to_owned());
    if let Some(near) = near.or_else(|| nearest(typed, names()).into_iter().next()) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(near));
    }
    error
}

fn with_option(mut error: Error, args: &[OsString]) -> Error {
    // clap's tip, to write `-- --option`, would make a program of the option.
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return error };
    let Some(typed) = typed.strip_prefix("--").map(str::to_owned) else { return error };
    let program = Flags::command();
    let command = args.iter().skip(1).find_map(|arg| program.find_subcommand(arg)).unwrap_or(&program);
    error.remove(ContextKind::SuggestedArg);
    let other_word = OTHER_WORDS.iter().find(|(word, _)| *word == typed).map(|(_, ours)| (*ours).to_owned());
    let other_word = other_word.filter(|ours| long_options(command).any(|name| name == *ours));
    let own = other_word.or_else(|| nearest(&typed, long_options(command)).into_iter().next());
    let is_length = RECORDERS.contains(&command.get_name()) && LENGTH_WORDS.contains(&typed.as_str());
    let elsewhere = if is_length { Some(length_tip(command)) } else { commands_with(&program, &typed) };
    if let Some(tip) = elsewhere {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    } else if let Some(near) = own {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{near}")));
    }
    error
}

/// For an option without its value: the option's purpose, which names the value.
fn with_purpose(mut error: Error, args: &[OsString]) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (Some(option), Some(value)) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue)) else {
        return error;
    };
    let program = Flags::command();
    let command = args.iter().skip(1).find_map(|arg| program.find_subcommand(arg)).unwrap_or(&program);
    let is_meant = |arg: &&Arg| {
        let name = option.split(' ').next().and_then(|name| name.strip_prefix("--"));
        name.is_some() && arg.get_long() == name
    };
    let purpose = command.get_arguments().find(is_meant).and_then(Arg::get_help);
    if let (true, Some(purpose)) = (value.is_empty(), purpose) {
        let tip = StyledStr::from(format!("{option}: {purpose}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// How to record for some seconds.
fn length_tip(command: &Command) -> String {
    format!("a command after -- sets how long: tally {} -p PID -- sleep 5", command.get_name())
}

/// A line about the commands that have this option.
fn commands_with(program: &Command, option: &str) -> Option<String> {
    let names: Vec<String> = visible(program)
        .filter(|command| long_options(command).any(|name| name == option))
        .map(|command| format!("tally {}", command.get_name()))
        .collect();
    let (first, rest) = names.split_at(names.len().min(MOST_COMMANDS));
    let more = if rest.is_empty() { "" } else { ", …" };
    (!first.is_empty()).then(|| format!("other commands have '--{option}': {}{more}", first.join(", ")))
}

fn visible(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
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
    fn only_the_nearest_command_is_suggested() {
        let text = error(&["tally", "repotr"]);
        assert!(text.contains("'report'") && !text.contains("'record'"), "{text}");
        assert!(error(&["tally", "flamegraph"]).contains("'flame'"));
        assert!(error(&["tally", "compare"]).contains("'diff'"));
    }

    #[test]
    fn a_program_in_place_of_a_command_gets_the_command_that_profiles_it() {
        let text = error(&["tally", "./app", "--flag"]);
        assert!(text.contains("to profile a program: tally run -- ./app"), "{text}");
        assert!(error(&["tally", "sh"]).contains("tally run -- sh"));
        // There is a program of this name on most machines.
        assert!(error(&["tally", "wall"]).contains("tally report --wall"));
        assert!(error(&["tally", "flmae"]).contains("'flame'"));
    }

    #[test]
    fn an_unknown_option_is_not_made_a_program() {
        assert!(error(&["tally", "run", "--flamegraph", "--", "true"]).contains("'--flame'"));
        for option in ["--xyzzy", "-x"] {
            let text = error(&["tally", "run", option, "--", "true"]);
            assert!(!text.contains("as a value"), "{text}");
        }
    }

    #[test]
    fn words_of_other_tools_lead_to_commands_of_ours() {
        let program = Flags::command();
        for (word, command) in OTHER_WORDS {
            assert!(program.find_subcommand(command).is_some(), "{word}");
            assert!(program.find_subcommand(word).is_none(), "{word} is a command");
        }
    }

    #[test]
    fn an_option_of_another_command_names_that_command() {
        let text = error(&["tally", "report", "--flame", "x"]);
        assert!(text.contains("other commands have '--flame': tally run"), "{text}");
    }

    #[test]
    fn an_option_for_a_length_names_the_way_to_give_one() {
        let text = error(&["tally", "run", "-p", "1", "--duration", "5"]);
        assert!(text.contains("tally run -p PID -- sleep 5"), "{text}");
    }

    #[test]
    fn an_option_without_its_value_gets_its_purpose() {
        let text = error(&["tally", "flame", "--html"]);
        assert!(text.contains("tip: --html <FILE>: Write these stacks as a page"), "{text}");
    }

    #[test]
    fn an_option_that_is_like_none_gets_no_name() {
        let text = error(&["tally", "report", "--xyzzy"]);
        assert!(!text.contains("similar") && !text.contains("other commands"), "{text}");
    }
}
