//! Lists of processes and threads as shells make them: `-p "$(pgrep app)"` has a line for each.

use crate::flags::Flags;
use clap::{Arg, Command, CommandFactory};
use std::ffi::OsString;

/// Options whose value is such a list.
const LISTS: [&str; 4] = ["-p", "--pid", "-t", "--tid"];

/// `args` with commas in such lists. Words of the command that is to be recorded are left as they are.
pub fn with_commas(mut args: Vec<OsString>) -> Vec<OsString> {
    let has_blanks = |arg: &OsString| arg.as_encoded_bytes().iter().any(u8::is_ascii_whitespace);
    if !args.iter().any(has_blanks) {
        return args;
    }
    let program = Flags::command();
    let Some(command) = args.get(1).and_then(|name| program.find_subcommand(name)) else { return args };
    let mut at = 2;
    while let Some(arg) = args.get(at).and_then(|arg| arg.to_str()).map(str::to_owned) {
        if !arg.starts_with('-') || arg == "--" {
            break;
        }
        let takes_next = takes_next(command, &arg);
        if takes_next && LISTS.contains(&arg.as_str()) {
            let list = args.get(at + 1).and_then(|value| value.to_str()).and_then(commas);
            args[at + 1..].iter_mut().take(1).zip(list).for_each(|(value, list)| *value = list.into());
        }
        at += if takes_next { 2 } else { 1 };
    }
    args
}

/// `1\n2 3\n` as `1,2,3`; `None` for what is not numbers.
fn commas(text: &str) -> Option<String> {
    let is_list = text.chars().all(|c| c.is_ascii_digit() || c.is_ascii_whitespace() || c == ',');
    let numbers =
        text.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|number| !number.is_empty());
    is_list.then(|| numbers.collect::<Vec<_>>().join(","))
}

/// True for an option whose value is the next word.
fn takes_next(command: &Command, option: &str) -> bool {
    let takes = |arg: &Arg| {
        let values = arg.get_num_args().is_none_or(|range| range.min_values() > 0);
        arg.get_action().takes_values() && values && !arg.is_require_equals_set()
    };
    let mut arguments = command.get_arguments();
    let Some(long) = option.strip_prefix("--") else {
        // Only the last of letters put together can have the next word as its value.
        let letter = option.chars().nth(1).filter(|_| option.chars().count() == 2);
        return arguments.any(|arg| arg.get_short().is_some() && arg.get_short() == letter && takes(arg));
    };
    let is = |arg: &&Arg| {
        arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|names| names.contains(&long))
    };
    arguments.find(is).is_some_and(takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(words: &[&str]) -> String {
        let args = with_commas(words.iter().map(OsString::from).collect());
        args.join("|".as_ref()).into_string().expect("UTF-8")
    }

    #[test]
    fn lists_of_lines_get_commas() {
        assert_eq!(spelled(&["tally", "run", "-o", "f", "-p", "12\n34\n"]), "tally|run|-o|f|-p|12,34");
        assert_eq!(spelled(&["tally", "stat", "--pid", "1 2", "ls"]), "tally|stat|--pid|1,2|ls");
        assert_eq!(spelled(&["tally", "record", "-t", "x y"]), "tally|record|-t|x y");
    }

    #[test]
    fn words_of_the_recorded_command_stay() {
        let own = ["tally", "run", "--no-off-cpu", "./app", "-p", "1 2"];
        assert_eq!(spelled(&own), own.join("|"));
        let own = ["tally", "record", "-g", "--", "-p", "1 2"];
        assert_eq!(spelled(&own), own.join("|"));
    }
}
