//! Texts of `-h`: one line an option, so that the common ones fit on a screen. `--help` has them whole.

use super::WIDTH;
use clap::{Arg, Command};

/// Columns before an option: `  -o, `.
const BEFORE: usize = 6;
/// Columns between an option and its text.
const BETWEEN: usize = 2;
/// Columns for the purpose of a subcommand.
const SUBCOMMAND_ROOM: usize = WIDTH - 14;
/// Narrowest column of texts.
const LEAST: usize = 24;

/// The command with the text of each option and argument cut after the clauses that fit next to it.
pub(super) fn with_one_line_each(command: Command) -> Command {
    let shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help";
    let options = command.get_arguments().filter(|arg| shown(arg) && !arg.is_positional());
    let widest = options.map(|arg| BEFORE + arg.to_string().chars().count()).max().unwrap_or(0);
    let positionals = command.get_positionals().filter(shown);
    let widest_argument = positionals.map(|arg| 2 + arg.to_string().chars().count()).max().unwrap_or(0);
    let widest = widest.max(widest_argument);
    let room = WIDTH.saturating_sub(widest + BETWEEN).max(LEAST);
    command.mut_args(|arg| in_one_line(arg, room)).mut_subcommands(|below| {
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        let is_hidden = below.is_hide_set() || below.get_name() == "help";
        below.about(first_clauses(&about, SUBCOMMAND_ROOM)).hide(is_hidden)
    })
}

fn in_one_line(arg: Arg, room: usize) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    let default: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let cut = first_clauses(&help, room);
    let taken = cut.chars().count() + " [default: ]".len() + default.join(" ").len();
    let has_room = default.is_empty() || arg.is_hide_default_value_set() || taken <= room;
    let arg = arg.help(cut).hide_default_value(!has_room).hide_possible_values(true);
    arg.visible_alias(None::<&str>)
}

/// The text up to the last clause that fits into `room` columns; at least its first clause.
fn first_clauses(text: &str, room: usize) -> String {
    const ENDS: [&str; 5] = [": ", "; ", ". ", " (", " ["];
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut ends: Vec<usize> =
        ENDS.iter().flat_map(|end| text.match_indices(end)).map(|(at, _)| at).collect();
    ends.sort_unstable();
    // A comma may be inside a list, which would lose its end.
    let comma = || text.find(", ").filter(|&at| ends.first().is_none_or(|&end| at < end));
    let fits = |at: &&usize| text[..**at].chars().count() <= room && is_whole(&text[..**at]);
    let end = ends.iter().rev().find(fits).copied().or_else(comma).or(ends.first().copied());
    end.map_or(text, |at| &text[..at]).to_owned()
}

/// True if each bracket that is opened is closed.
fn is_whole(text: &str) -> bool {
    [("(", ")"), ("[", "]"), ("{", "}")]
        .iter()
        .all(|(open, close)| text.matches(open).count() == text.matches(close).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_after_the_last_clause_that_fits() {
        let text = "Only these calls: names, patterns (a, b), groups";
        assert_eq!(first_clauses(text, 80), text);
        assert_eq!(first_clauses(text, 36), "Only these calls: names, patterns");
        assert_eq!(first_clauses(text, 5), "Only these calls");
        assert_eq!(first_clauses("A {x: y}: list", 12), "A {x: y}");
        assert_eq!(first_clauses("In these, all their threads", 12), "In these");
        assert_eq!(first_clauses("One clause", 5), "One clause");
    }
}
