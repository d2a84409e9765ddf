use super::*;
use std::collections::BTreeSet;

/// Every command with its words, the program itself without words.
fn commands() -> Vec<(String, Command)> {
    fn add(command: &Command, path: &str, list: &mut Vec<(String, Command)>) {
        list.push((path.trim().to_owned(), command.clone()));
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            add(below, &format!("{path} {}", below.get_name()), list);
        }
    }
    let mut list = Vec::new();
    add(&Flags::command(), "", &mut list);
    list
}

fn words(path: &str) -> Vec<&str> {
    path.split_whitespace().collect()
}

#[test]
fn every_option_of_a_long_command_is_in_one_group() {
    for (path, command) in commands() {
        let shown: BTreeSet<&str> = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set() && !arg.is_positional() && arg.get_id() != "help")
            .filter_map(Arg::get_long)
            .filter(|name| !is_in(&GLOBAL, name))
            .collect();
        let Some(HelpLayout(_, groups)) = LAYOUTS.iter().find(|HelpLayout(words, _)| *words == path) else {
            assert!(shown.len() <= 12, "tally {path}: {} options and no layout", shown.len());
            continue;
        };
        let placed: Vec<&str> = groups.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
        let distinct: BTreeSet<&str> = placed.iter().copied().collect();
        assert_eq!(placed.len(), distinct.len(), "tally {path}: an option is in two groups");
        assert_eq!(shown, distinct, "tally {path}: options and layout differ");
    }
}

#[test]
fn every_layout_belongs_to_a_command() {
    let paths: BTreeSet<String> = commands().into_iter().map(|(path, _)| path).collect();
    for HelpLayout(path, _) in LAYOUTS {
        assert!(paths.contains(*path), "no command {path}");
    }
}

#[test]
fn the_overview_has_each_command_once() {
    let mut listed: Vec<&str> =
        overview::PURPOSES.iter().flat_map(|(_, commands)| commands.iter().map(|(name, _)| *name)).collect();
    listed.sort_unstable();
    let program = Flags::command();
    let mut there: Vec<&str> =
        program.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
    there.push("help");
    there.sort_unstable();
    assert_eq!(listed, there);
}

#[test]
fn help_fits_into_80_columns_and_short_help_on_a_screen() {
    let mut long = Vec::new();
    for (path, _) in commands() {
        for extent in [Extent::Screen, Extent::All] {
            let text = text(&words(&path), extent);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "tally {path}: {line}");
            }
            let lines = text.lines().count();
            if !path.is_empty() && extent == Extent::Screen && lines > 28 {
                long.push(format!("tally {path} -h: {lines} lines"));
            }
        }
    }
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn every_command_has_examples() {
    for (path, _) in commands() {
        let text = text(&words(&path), Extent::All);
        assert!(text.contains("Examples:\n"), "tally {path} has no examples");
    }
}

#[test]
fn a_heading_holds_only_its_own_options() {
    let text = text(&["report"], Extent::All);
    let waiting =
        text.split("Waiting time (with --wall, --blame, --critical-path):\n").nth(1).expect("the heading");
    let group = waiting.split("\n\n").next().expect("its options");
    assert!(group.contains("--idle") && !group.contains("--sort"), "{group}");
}

#[test]
fn the_kind_of_help_and_the_command_come_from_the_line() {
    let of = |line: &str| {
        let words = words(line);
        (path_of(&words).join(" "), is_short(&words))
    };
    assert_eq!(of("report -h"), ("report".to_owned(), true));
    assert_eq!(of("calls record --help"), ("calls record".to_owned(), false));
    assert_eq!(of("help calls live"), ("calls live".to_owned(), false));
    assert_eq!(of("--help"), (String::new(), false));
    assert_eq!(of("record -vh"), ("record".to_owned(), true));
}

#[test]
fn topics_are_pages_of_plain_text() {
    let list = topics::page("topics").expect("the list");
    for topic in topics::TOPICS {
        assert!(list.contains(topic.name));
        let lines: Vec<&str> = topic.page.lines().collect();
        assert!(lines.len() <= 60, "{}: {} lines", topic.name, lines.len());
        for line in lines {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", topic.name);
        }
    }
    assert_eq!(topics::page("nothing"), None);
}
