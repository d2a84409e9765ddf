//! Actions at a function: the text after `FUNC@` of `-T`, `-A` and `-R`.

use crate::error::{Context, bail};
use tracer::layout::sleds;

use super::duration::duration_ns_of;
use crate::values::formats::ValueFormat;

/// Actions where a function is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// `sleds::NOT` and the others.
    pub rules: u32,
    /// Value of `sleds::DEPTH`.
    pub depth: u32,
    /// Value of `sleds::TIME` and `sleds::SLOW`.
    pub min_ns: u32,
    /// Arguments to record.
    pub arguments: Arguments,
    /// Whether the result is recorded, and how.
    pub result: ResultSelection,
}

/// How a function's result is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResultSelection {
    /// Not at all.
    #[default]
    None,
    /// As debug information describes it.
    AsDeclared,
    /// In this format.
    As(ValueFormat),
}

/// Which arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Arguments {
    /// None.
    #[default]
    None,
    /// All that debug information describes.
    All,
    /// Those named.
    Listed(Vec<Argument>),
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// One of the floating-point ones, which are counted by themselves.
    pub is_float: bool,
    /// From 0.
    pub number: usize,
    /// How to take it, if that was given.
    pub format: Option<ValueFormat>,
}

impl Trigger {
    /// With rules only.
    #[must_use]
    pub fn of(rules: u32) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Reads words with commas between.
    ///
    /// # Errors
    /// If a word is none of the known ones.
    pub fn parse(text: &str) -> crate::Result<Self> {
        let mut trigger = Self::default();
        for word in text.split(',') {
            trigger.add(word.trim())?;
        }
        Ok(trigger)
    }

    fn add(&mut self, word: &str) -> crate::Result<()> {
        if let Some((name, value)) = word.split_once('=') {
            return self.add_number(name, value);
        }
        self.rules |= match word {
            "trace_on" | "traceon" => sleds::START,
            "trace_off" | "traceoff" => sleds::STOP,
            "filter" => sleds::ONLY,
            "notrace" => sleds::NOT,
            "caller" => sleds::CALLER,
            "backtrace" => sleds::BACKTRACE,
            _ => return self.add_value(word),
        };
        Ok(())
    }

    fn add_number(&mut self, name: &str, value: &str) -> crate::Result<()> {
        match name {
            "depth" => {
                self.rules |= sleds::DEPTH;
                self.depth = value.parse().with_context(|| format!("depth={value}: it is a number"))?;
            }
            "time" | "slow" => {
                self.rules |= if name == "time" { sleds::TIME } else { sleds::SLOW };
                let ns = duration_ns_of(value)?;
                self.min_ns = u32::try_from(ns).ok().with_context(|| format!("{name}=: at most 4 s"))?;
            }
            _ => bail!("{name}={value}: the triggers with a value are depth=N, time=10us and slow=10ms"),
        }
        Ok(())
    }

    fn add_value(&mut self, word: &str) -> crate::Result<()> {
        let (name, format) = match word.split_once('/') {
            Some((name, format)) => (name, Some(ValueFormat::of_flag(format)?)),
            None => (word, None),
        };
        if name == "retval" {
            self.result = format.map_or(ResultSelection::AsDeclared, ResultSelection::As);
            return Ok(());
        }
        let (number, is_float) = match (name.strip_prefix("arg"), name.strip_prefix("fparg")) {
            (Some(number), _) => (number, false),
            (_, Some(number)) => (number, true),
            _ => bail!(
                "{word}: it is trace_on, trace_off, depth=N, time=10us, slow=10ms, backtrace, filter, notrace, caller, argN, \
                 fpargN or retval"
            ),
        };
        let number: usize =
            number.parse().ok().filter(|n| *n > 0).context("arguments are counted from arg1")?;
        let format = if is_float && format.is_none() { Some(ValueFormat::Float(8)) } else { format };
        let argument = Argument { is_float, number: number - 1, format };
        match &mut self.arguments {
            Arguments::Listed(list) => list.push(argument),
            other => *other = Arguments::Listed(vec![argument]),
        }
        Ok(())
    }

    /// Both hold; where they contradict, the later one counts.
    pub fn join(&mut self, other: &Self) {
        self.rules |= other.rules;
        if other.rules & sleds::DEPTH != 0 {
            self.depth = other.depth;
        }
        if other.rules & (sleds::TIME | sleds::SLOW) != 0 {
            self.min_ns = other.min_ns;
        }
        if other.arguments != Arguments::None {
            self.arguments = other.arguments.clone();
        }
        if other.result != ResultSelection::None {
            self.result.clone_from(&other.result);
        }
    }

    /// Whether arguments or results are recorded.
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.arguments != Arguments::None || self.result != ResultSelection::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_words_with_commas() {
        let trigger = Trigger::parse("depth=2,time=10us,arg1,arg3/s,fparg1,retval/x8").unwrap();
        assert_eq!((trigger.depth, trigger.min_ns), (2, 10_000));
        assert_eq!(trigger.rules, sleds::DEPTH | sleds::TIME);
        let argument = |is_float, number, format| Argument { is_float, number, format };
        let wanted = vec![
            argument(false, 0, None),
            argument(false, 2, Some(ValueFormat::Text)),
            argument(true, 0, Some(ValueFormat::Float(8))),
        ];
        assert_eq!(trigger.arguments, Arguments::Listed(wanted));
        assert_eq!(trigger.result, ResultSelection::As(ValueFormat::Hex(1)));
        for wrong in ["arg0", "args", "depth=x", "time=5m", "speed=3", "arg1/q"] {
            assert!(Trigger::parse(wrong).is_err(), "{wrong}");
        }
    }
}
