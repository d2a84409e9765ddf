//! `-e` and `--filter` in the order of the command line, shared by the commands that open events.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use record::event::{self, EventSource, EventSpec, Fault, Opt};

use crate::terminal::out;

/// The values of all `-e` and `--filter` options; flatten it into a command's arguments.
#[derive(Debug, Clone, Default)]
pub struct EventArgs {
    /// Text and whether it is a filter.
    given: Vec<(String, bool)>,
}

impl EventArgs {
    /// As if each text had been given with `-e`.
    pub fn of(events: &[&str]) -> Self {
        Self { given: events.iter().map(|e| ((*e).to_owned(), false)).collect() }
    }

    /// True without any `-e` and `--filter`.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// The events named, in order.
    ///
    /// Well-known tracepoints that this kernel is built without are left out, which is reported on standard error.
    ///
    /// # Errors
    /// An [`event::Error`] for a wrong text; [`explain`] shows its place.
    pub fn parse(&self, source: &dyn EventSource) -> Result<Vec<EventSpec>, event::Error> {
        let mut given = self.given.clone();
        loop {
            let opts = given.iter().map(|(text, filter)| match filter {
                true => Opt::Filter(text),
                false => Opt::Events(text),
            });
            let error = match event::parse_opts(&opts.collect::<Vec<_>>(), source) {
                Ok(events) => return Ok(events),
                Err(error) => error,
            };
            given = leave_out(given, &error).ok_or(error)?;
        }
    }
}

/// Event to sample in place of scheduler tracepoints that are missing.
const INSTEAD: &str = "sched:sched_switch";

/// The options without the tracepoint at fault, if it is one that kernels may lack; `None` for any other fault.
fn leave_out(mut given: Vec<(String, bool)>, error: &event::Error) -> Option<Vec<(String, bool)>> {
    let Fault::UnknownTracepoint(name) = &*error.fault else { return None };
    let needs = event::optional_tracepoint(name)?;
    let at = given.iter().position(|(text, filter)| !filter && *text == error.text)?;
    let text = &error.text;
    let end = text[error.span.end..].find([',', '}']).map_or(text.len(), |i| error.span.end + i);
    let rest = format!("{}{}", text[..error.span.start].trim_end_matches(','), &text[end..]);
    let rest = rest.trim_matches(',').replace("{,", "{");
    let names_nothing = rest.trim_matches(['{', '}']).is_empty();
    let alone = names_nothing && given.iter().filter(|(_, filter)| !filter).count() == 1;
    if alone {
        given[at].0 = INSTEAD.to_owned();
    } else if names_nothing {
        given.remove(at);
    } else {
        given[at].0 = rest;
    }
    let instead = if alone { format!("{INSTEAD} is used instead") } else { "it is left out".to_owned() };
    out::note(&format!("tally: this kernel has no {name} (it needs {needs}): {instead}"));
    Some(given)
}

/// Reports a wrong event text with its caret on standard error; the exit status for it.
pub fn explain(error: &event::Error) -> ExitCode {
    out::complain(&error.to_string());
    out::note_lines(&error.caret());
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
    fn tracepoints_that_kernels_may_lack_are_left_out() {
        let gone = |texts: &[&str], span: std::ops::Range<usize>, at: usize| {
            let given = texts.iter().map(|t| ((*t).to_owned(), false)).collect();
            let text = texts[at].to_owned();
            let fault = Box::new(Fault::UnknownTracepoint(text[span.clone()].to_owned()));
            let error = event::Error { text, span, fault, nearest: Vec::new() };
            leave_out(given, &error).map(|g| g.into_iter().map(|(t, _)| t).collect::<Vec<_>>())
        };
        let name = "sched:sched_stat_wait";
        assert_eq!(gone(&[name], 0..21, 0), Some(vec![INSTEAD.to_owned()]));
        assert_eq!(gone(&["cs", name], 0..21, 1), Some(vec!["cs".to_owned()]));
        assert_eq!(gone(&[&format!("cs,{name}:u,faults")], 3..24, 0), Some(vec!["cs,faults".to_owned()]));
        assert_eq!(gone(&[&format!("{{{name},cs}}:S")], 1..22, 0), Some(vec!["{cs}:S".to_owned()]));
        assert_eq!(gone(&["sched:typo"], 0..10, 0), None);
    }

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
