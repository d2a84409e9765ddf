//! The moment at which a flight recorder writes a file: at a call that took too long, or at a finding in its window.

use super::{SpanTrigger, TriggerError};
use std::fmt::Display;

/// Text that is no trigger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileTriggerError {
    /// It has another form.
    #[error("'{0}' is not a trigger: want 'span FUNC > 50ms' or 'rule NAME > 30%'")]
    Form(String),
    /// It is about a call.
    #[error(transparent)]
    Span(#[from] TriggerError),
    /// It is about a rule.
    #[error("{0}")]
    Rule(String),
}

/// One of `--trigger`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileTrigger {
    /// A call took too long.
    Span(SpanTrigger),
    /// The window has a finding: a rule, as [`crate::opts::WindowJudge`] takes it.
    Rule(String),
}

impl FileTrigger {
    /// `span FUNC > 50ms` or `rule NAME > 30%`; `checked` gives the usual form of a rule, or why it is none.
    ///
    /// # Errors
    /// The text has another form, or names no rule.
    pub fn parse<E: Display>(
        text: &str,
        checked: impl Fn(&str) -> Result<String, E>,
    ) -> Result<Self, FileTriggerError> {
        match text.trim().split_once(' ') {
            Some(("rule", rule)) => match checked(rule) {
                Ok(rule) => Ok(Self::Rule(rule)),
                Err(error) => Err(FileTriggerError::Rule(error.to_string())),
            },
            Some(("span", _)) => Ok(Self::Span(SpanTrigger::parse(text)?)),
            _ => Err(FileTriggerError::Form(text.to_owned())),
        }
    }

    /// Triggers about calls.
    #[must_use]
    pub fn spans(triggers: &[Self]) -> Vec<SpanTrigger> {
        let span = |trigger: &Self| if let Self::Span(span) = trigger { Some(span.clone()) } else { None };
        triggers.iter().filter_map(span).collect()
    }

    /// Triggers about findings.
    pub(crate) fn rules(triggers: &[Self]) -> impl Iterator<Item = &String> {
        triggers.iter().filter_map(|trigger| if let Self::Rule(rule) = trigger { Some(rule) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_calls_and_rules() {
        let parse = |text: &str| {
            FileTrigger::parse(text, |rule| {
                if rule == "convoy" { Ok(rule.to_owned()) } else { Err(format!("no rule '{rule}'")) }
            })
        };
        let triggers = ["span handle > 50ms", "rule convoy"].map(|text| parse(text).expect("a trigger"));
        assert_eq!(FileTrigger::spans(&triggers), [SpanTrigger::parse("span handle > 50ms").expect("one")]);
        assert_eq!(FileTrigger::rules(&triggers).collect::<Vec<_>>(), ["convoy"]);
        assert_eq!(parse("rule lock"), Err(FileTriggerError::Rule("no rule 'lock'".to_owned())));
        let words = |text| parse(text).expect_err("no trigger").to_string();
        assert!(words("convoy").ends_with("want 'span FUNC > 50ms' or 'rule NAME > 30%'"));
        assert!(words("span handle").contains("want 'span FUNC > 50ms'"));
    }
}
