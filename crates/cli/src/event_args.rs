//! `-e` and `--filter` in the order of the command line, shared by the commands that open events.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use record::event::{self, EventSource, EventSpec, Opt};

use crate::out;

/// The values of all `-e` and `--filter` options; flatten it into a command's arguments.
#[derive(Debug, Clone, Default)]
pub struct EventArgs {
    /// Text and whether it is a filter.
    given: Vec<(String, bool)>,
}

impl EventArgs {
    /// True without any `-e`.
    pub fn is_empty(&self) -> bool {
        self.given.iter().all(|(_, filter)| *filter)
    }

    /// The events named, in order.
    ///
    /// # Errors
    /// An [`event::Error`] for a wrong text; [`explain`] shows its place.
    pub fn parse(&self, source: &dyn EventSource) -> Result<Vec<EventSpec>, event::Error> {
        let opts = self
            .given
            .iter()
            .map(|(text, filter)| if *filter { Opt::Filter(text) } else { Opt::Events(text) });
        event::parse_opts(&opts.collect::<Vec<_>>(), source)
    }
}

/// Tells a wrong event text with its caret on standard error; the exit status for it.
pub fn explain(error: &event::Error) -> ExitCode {
    out::complain(&error.to_string());
    out::note(&error.caret());
    ExitCode::from(2)
}

impl FromArgMatches for EventArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all: Vec<(usize, String, bool)> = Vec::new();
        for (id, filter) in [("event", false), ("filter", true)] {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            let indices = matches.indices_of(id).into_iter().flatten();
            all.extend(indices.zip(values).map(|(index, text)| (index, text, filter)));
        }
        all.sort();
        Ok(Self { given: all.into_iter().map(|(_, text, filter)| (text, filter)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for EventArgs {
    fn augment_args(command: Command) -> Command {
        let event = Arg::new("event").short('e').long("event").value_name("EVENT").action(ArgAction::Append);
        let filter = Arg::new("filter").long("filter").value_name("FILTER").action(ArgAction::Append);
        command
            .arg(event.help(
                "Events, as `tally list` names them: cycles:u, cs,faults, {a,b}, cpu/event=0x3c/, block:*",
            ))
            .arg(
                filter
                    .allow_hyphen_values(true)
                    .help("Keep only hits of the -e before it whose fields fit: 'prev_pid == 7'"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_stay_behind_their_events() {
        let command = EventArgs::augment_args(Command::new("t"));
        let line = ["t", "-e", "cs", "--filter", "a", "-e", "b:c", "--filter=d"];
        let args = EventArgs::from_arg_matches(&command.get_matches_from(line)).expect("parses");
        let given: Vec<_> = args.given.iter().map(|(t, f)| (t.as_str(), *f)).collect();
        assert_eq!(given, [("cs", false), ("a", true), ("b:c", false), ("d", true)]);
        assert!(!args.is_empty());
    }
}
