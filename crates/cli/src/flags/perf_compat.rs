//! Flags of perf that mean nothing here: taken, so that its command lines work, or refused with what to do instead.

mod table;

pub use table::{
    AnnotateFlags, DiffFlags, NO_SCRIPTS, ProbeFlags, RecordFlags, ReportFlags, ScriptFlags, StatFlags,
};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use std::marker::PhantomData;

/// A flag of perf's.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without the two dashes.
    pub long: &'static str,
    /// The letter, if it has one.
    pub short: Option<char>,
    /// Whether a value follows.
    pub value: FlagValue,
    /// Replacement; `None`: the flag is taken, and changes nothing.
    pub instead: Option<&'static str>,
}

/// Whether a flag has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagValue {
    /// None.
    No,
    /// Always.
    Needed,
    /// After an equals sign.
    Optional,
    /// Always; with this one the flag changes nothing.
    Unless(&'static str),
}

impl Flag {
    /// Taken without effect.
    pub const fn taken(long: &'static str, value: FlagValue) -> Self {
        Self { long, short: None, value, instead: None }
    }

    /// Refused.
    pub const fn refused(long: &'static str, value: FlagValue, instead: &'static str) -> Self {
        Self { long, short: None, value, instead: Some(instead) }
    }

    /// With a letter.
    pub const fn or(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    /// `--gtk`, `-M (--metrics)`: the user may have typed either.
    fn spelled(&self) -> String {
        match self.short {
            Some(short) => format!("-{short} (--{})", self.long),
            None => format!("--{}", self.long),
        }
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.long).long(self.long).hide(true);
        let arg = match self.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        match self.value {
            FlagValue::No => arg.action(ArgAction::Count),
            FlagValue::Needed | FlagValue::Unless(_) => {
                arg.action(ArgAction::Append).allow_hyphen_values(true)
            }
            FlagValue::Optional => arg.action(ArgAction::Append).num_args(0..=1).require_equals(true),
        }
    }
}

impl Flag {
    /// Whether all values given are the one that changes nothing.
    fn has_no_effect(&self, matches: &ArgMatches) -> bool {
        let FlagValue::Unless(usual) = self.value else { return false };
        matches.get_many::<String>(self.long).into_iter().flatten().all(|value| value == usual)
    }
}

/// The flags of one command.
pub trait FlagTable {
    /// The command, for messages: `tally stat`.
    const COMMAND: &'static str;
    /// All of them.
    const FLAGS: &'static [Flag];
}

/// Which flags of a table were given; to be flattened into a command's own.
#[derive(Clone, Debug, Default)]
pub struct PerfCompatFlags<T> {
    given: Vec<Flag>,
    table: PhantomData<T>,
}

impl<T: FlagTable> PerfCompatFlags<T> {
    /// Refuses what can't be done, with what can be done instead.
    ///
    /// # Errors
    /// One of the refused flags was given.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.given.iter().find_map(|flag| Some((flag.spelled(), flag.instead?))) {
            Some((flag, instead)) => anyhow::bail!("{flag} is not for {}: {instead}", T::COMMAND),
            None => Ok(()),
        }
    }
}

impl<T: FlagTable> FromArgMatches for PerfCompatFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |flag: &&Flag| {
            let is_typed = matches.value_source(flag.long) == Some(ValueSource::CommandLine);
            is_typed && !flag.has_no_effect(matches)
        };
        Ok(Self { given: T::FLAGS.iter().filter(is_given).copied().collect(), table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: FlagTable> clap::Args for PerfCompatFlags<T> {
    fn augment_args(command: Command) -> Command {
        T::FLAGS.iter().fold(command, |command, flag| command.arg(flag.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Clone, Debug, Default)]
    struct Some2;
    impl FlagTable for Some2 {
        const COMMAND: &'static str = "tally x";
        const FLAGS: &'static [Flag] = &[
            Flag::taken("asm-raw", FlagValue::No),
            Flag::refused("gtk", FlagValue::Optional, "use --html").or('k'),
            Flag::refused("percentage", FlagValue::Unless("absolute"), "shares are of all samples"),
        ];
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        perf: PerfCompatFlags<Some2>,
    }

    #[test]
    fn a_flag_is_taken_or_refused_with_its_remedy() {
        let check = |words: &[&str]| {
            Line::try_parse_from(words).map_err(anyhow::Error::from).and_then(|line| line.perf.check())
        };
        assert!(check(&["x"]).is_ok() && check(&["x", "--asm-raw", "--asm-raw"]).is_ok());
        let error = check(&["x", "--gtk=3"]).expect_err("refused").to_string();
        assert_eq!(error, "-k (--gtk) is not for tally x: use --html");
        assert!(check(&["x", "-k"]).is_err());
        assert!(check(&["x", "--percentage", "absolute"]).is_ok());
        assert!(check(&["x", "--percentage", "relative"]).is_err());
    }
}
