//! Help: `-h` on one screen, `--help` with everything, `tally help TOPIC`.
//!
//! The parser knows all options in the order of their declaration. This module only arranges them for printing.

mod did_you_mean;
mod examples;
mod layout;
mod overview;
mod short_form;
mod topics;

pub use did_you_mean::with_nearest;

use crate::flags::Flags;
use crate::terminal::{out, pager};
use clap::{Arg, Command, CommandFactory};
use display::number::count_of;
use display::term;
use layout::{GLOBAL, HelpGroup, HelpLayout, LAYOUTS};
use std::ffi::OsString;
use std::process::ExitCode;

/// Columns of all help texts.
pub const WIDTH: usize = 80;

/// How much help was requested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// `-h`: options that most people use.
    Screen,
    /// `--help`, `tally help COMMAND`.
    All,
}

/// The page for `tally help TOPIC`; `None` for other command lines.
pub fn topic(args: &[OsString]) -> Option<String> {
    match args {
        [_, help, name] if help == "help" => topics::page(name.to_str()?),
        _ => None,
    }
}

/// Prints a topic or another long text.
///
/// # Errors
/// Standard output can't be written.
pub fn print(text: &str) -> anyhow::Result<ExitCode> {
    pager::start();
    out::text(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The five lines that `tally` alone prints.
pub fn welcome() -> &'static str {
    overview::WELCOME
}

/// The help that `args` request, for a command line on which the parser found `-h`, `--help` or `help`.
pub fn requested(args: &[OsString]) -> String {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    let extent = if is_short(&words) { Extent::Screen } else { Extent::All };
    text(&path_of(&words), extent)
}

/// Whether the first request for help is `-h`, also as part of a cluster (`-vh`).
fn is_short(words: &[&str]) -> bool {
    let is_cluster = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.contains('h');
    let first = words.iter().find(|word| is_cluster(word) || word.starts_with("--h") || **word == "help");
    first.is_some_and(|word| is_cluster(word))
}

/// The words of the command whose help is requested, without `help` itself.
fn path_of<'w>(words: &[&'w str]) -> Vec<&'w str> {
    let program = Flags::command();
    let mut command = &program;
    let mut path = Vec::new();
    for word in words.iter().take_while(|word| **word != "-h" && !word.starts_with("--h")) {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            path.push(*word);
        }
    }
    path
}

/// The program and each of its commands as in `--help`, for manual pages: `tally`, `tally-calls`, `tally-calls-record` …
pub fn pages() -> Vec<(String, Command)> {
    let mut program = Flags::command();
    program.build();
    let mut pages = vec![("tally".to_owned(), program.clone())];
    add_pages(&program, &mut Vec::new(), &mut pages);
    pages
}

/// The pages of the commands below one command, which `path` leads to.
fn add_pages<'c>(above: &'c Command, path: &mut Vec<&'c str>, pages: &mut Vec<(String, Command)>) {
    let shown =
        above.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    for command in shown {
        path.push(command.get_name());
        pages.push((
            format!("tally-{}", path.join("-")),
            arranged(command.clone(), &path.join(" "), Extent::All),
        ));
        add_pages(command, path, pages);
        path.pop();
    }
}

fn text(path: &[&str], extent: Extent) -> String {
    let mut program = Flags::command().max_term_width(WIDTH);
    if path.is_empty() {
        program = with_overview(program);
    }
    program.build();
    let mut command = program;
    for word in path {
        let Some(below) = command.find_subcommand(word) else { break };
        command = below.clone();
    }
    let mut command = arranged(command.max_term_width(WIDTH), &path.join(" "), extent);
    let help = command.render_help();
    if term::colours_stdout() { help.ansi().to_string() } else { help.to_string() }
}

/// The program with its commands grouped by purpose.
fn with_overview(program: Command) -> Command {
    let (heading, literal) = (*program.get_styles().get_header(), *program.get_styles().get_literal());
    let groups = overview::groups(
        |text| format!("{heading}{text}{heading:#}"),
        |text| format!("{literal}{text}{literal:#}"),
    );
    let options = format!("{heading}Options{heading:#}");
    program.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\n{options}\n{{options}}{{after-help}}"
    ))
}

/// The command with its options under their headings; with `Extent::Screen` without those of few users.
fn arranged(command: Command, path: &str, extent: Extent) -> Command {
    let layout = LAYOUTS.iter().find(|HelpLayout(words, _)| *words == path);
    let name = command.get_bin_name().unwrap_or("tally");
    let hidden = command.get_arguments().filter(|arg| !is_shown(arg, layout, extent)).count();
    let is_all = extent == Extent::All;
    let about = command.get_long_about().filter(|_| is_all).or(command.get_about()).cloned();
    let after = command.get_after_long_help().filter(|_| is_all).or(command.get_after_help()).cloned();
    let before = command.get_before_long_help().filter(|_| is_all).cloned();
    let after = after.map_or(String::new(), |text| text.to_string());
    // The list of subcommands takes the room of an example.
    let most = examples::SHORT - usize::from(command.has_subcommands());
    let mut after = examples::wrapped(&if is_all { after } else { examples::shortened(&after, most) });
    if hidden > 0 {
        let more =
            format!("`{name} --help` lists {}.", count_of(hidden as u64, "more option", "more options"));
        after = if after.is_empty() { more } else { format!("{after}\n\n{more}") };
    }
    let mut command = command.disable_help_flag(true).after_help(after);
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(before) = before {
        command = command.before_help(before);
    }
    let command = command.mut_args(|arg| placed(arg, layout, extent));
    if is_all { command } else { short_form::with_one_line_each(command) }
}

/// True for options that help of this extent shows, and for those that are never shown.
fn is_shown(arg: &Arg, layout: Option<&HelpLayout>, extent: Extent) -> bool {
    let Some(name) = arg.get_long() else { return true };
    if is_in(&GLOBAL, name) {
        return extent == Extent::All;
    }
    let Some(HelpLayout(_, groups)) = layout else { return true };
    let is_common = groups.first().is_some_and(|group| is_in(group, name));
    extent == Extent::All || is_common || arg.is_hide_set() || name == "help"
}

fn is_in(group: &HelpGroup, name: &str) -> bool {
    let (_, names) = group;
    names.split_whitespace().any(|word| word == name)
}

/// The line that `-h` shows, and the details after it.
fn in_one_paragraph(long: &str) -> String {
    long.split("\n\n").fold(String::new(), |text, part| match () {
        () if text.is_empty() => part.to_owned(),
        () if part.starts_with(['(', '[']) || part.starts_with("and ") => format!("{text} {part}"),
        () => format!("{text}; {part}"),
    })
}

/// An option under its heading, at its place.
fn placed(arg: Arg, layout: Option<&HelpLayout>, extent: Extent) -> Arg {
    let is_shown = is_shown(&arg, layout, extent);
    let arg = match arg.get_long_help().filter(|_| extent == Extent::All).cloned() {
        Some(long) => arg.help(in_one_paragraph(&long.to_string())),
        None => arg,
    };
    if arg.is_positional() {
        return arg.help_heading(None::<&str>);
    }
    let arg = if is_shown && arg.get_id() != "help" { arg } else { arg.hide(true) };
    let Some(name) = arg.get_long().map(str::to_owned) else { return arg };
    if is_in(&GLOBAL, &name) {
        let arg = arg.display_order(999);
        return if layout.is_some() { arg.help_heading(Some(GLOBAL.0)) } else { arg };
    }
    let Some(HelpLayout(_, groups)) = layout else { return arg };
    let mut places =
        groups.iter().flat_map(|(heading, names)| names.split_whitespace().map(move |n| (heading, n)));
    let Some((at, (heading, _))) = places.by_ref().enumerate().find(|(_, (_, word))| *word == name) else {
        return arg;
    };
    let arg = arg.display_order(at);
    if heading.is_empty() { arg.help_heading(None::<&str>) } else { arg.help_heading(Some(*heading)) }
}

#[cfg(test)]
mod tests;
