//! Findings that a flight recorder waits for: `lock-contention > 30%`.

use super::EXPLAINED_BY;
use super::rules::RULES;

/// Rules that need counters or the machine's state, which a recording alone doesn't have.
const NEED_MORE: [&str; 9] = [
    "interrupts",
    "steal",
    "cgroup-throttled",
    "preemption",
    "disk-saturated",
    "memory-pressure",
    "page-faults",
    "network-loss",
    "memory-bound",
];

/// No fault of a program.
const CALM: [&str; 1] = ["idle"];

/// A finding by its name, if its share is large enough.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLimit {
    /// The rule's name, one of [`RuleLimit::names`].
    pub name: &'static str,
    /// The finding's share of thread time must be larger, 0 to 1; 0 wherever the rule makes a finding.
    pub over: f64,
}

/// Text that names no such finding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleLimitError {
    /// Its form.
    #[error("'{0}' is not a rule: want NAME or 'NAME > 30%'")]
    Form(String),
    /// The rule is a finding of tally run only.
    #[error("a recording alone doesn't show '{0}', only tally run does; rules: {1}")]
    NeedsMore(String, String),
    /// There is no rule of this name.
    #[error("no rule '{0}'; rules: {1}")]
    Unknown(String, String),
}

impl RuleLimit {
    /// `NAME` or `NAME > 30%`.
    ///
    /// # Errors
    /// The text has another form, or the name isn't one of a rule that a recording shows.
    pub fn parse(text: &str) -> Result<Self, RuleLimitError> {
        let wrong = || RuleLimitError::Form(text.to_owned());
        let (name, over) = match text.split_once('>') {
            None => (text.trim(), 0.0),
            Some((name, limit)) => {
                let percent = limit.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
                let percent: f64 = percent.parse().map_err(|_| wrong())?;
                (
                    name.trim(),
                    Some(percent / 100.0).filter(|over| (0.0..1.0).contains(over)).ok_or_else(wrong)?,
                )
            }
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let all = || Self::names().collect::<Vec<_>>().join(", ");
        match Self::names().find(|of| *of == name) {
            Some(name) => Ok(Self { name, over }),
            None if NEED_MORE.contains(&name) => Err(RuleLimitError::NeedsMore(name.to_owned(), all())),
            None => Err(RuleLimitError::Unknown(name.to_owned(), all())),
        }
    }

    /// Names of the rules that a recording shows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let is_shown = |name: &&str| !NEED_MORE.contains(name) && !CALM.contains(name);
        RULES.iter().map(|rule| rule.name).filter(is_shown)
    }

    /// True if a finding of this name and share is over the limit: the rule's own, or one that was made in its place, as a
    /// convoy is of lock contention.
    #[must_use]
    pub fn is_passed(&self, name: &str, share: f64) -> bool {
        let replaces =
            |(better, left_out): &(&str, &[&str])| *better == name && left_out.contains(&self.name);
        (name == self.name || EXPLAINED_BY.iter().any(replaces)) && share > self.over
    }

    /// As [`RuleLimit::parse`] takes it.
    #[must_use]
    pub fn text(&self) -> String {
        if self.over > 0.0 { format!("{} > {}%", self.name, self.over * 100.0) } else { self.name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::examples::firing;
    use crate::verdict::facts::{RateFacts, SystemFacts};

    #[test]
    fn rules_are_a_name_and_a_share() {
        let limit = |name, over| Ok(RuleLimit { name, over });
        assert_eq!(RuleLimit::parse("lock-contention > 30%"), limit("lock-contention", 0.3));
        assert_eq!(RuleLimit::parse(" disk>2.5 % "), limit("disk", 0.025));
        assert_eq!(RuleLimit::parse("convoy"), limit("convoy", 0.0));
        for text in ["lock-contention > 30%", "disk > 2.5%", "convoy"] {
            assert_eq!(RuleLimit::parse(text).map(|limit| limit.text()), Ok(text.to_owned()));
        }
        for wrong in ["", "disk > 30", "disk > x%", "disk > 100%", "disk > -1%", "lock wait > 3%", "> 5%"] {
            assert_eq!(RuleLimit::parse(wrong), Err(RuleLimitError::Form(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn other_names_are_answered_by_the_list_of_names() {
        let words = |text: &str| RuleLimit::parse(text).map_err(|error| error.to_string());
        let unknown = words("lock").expect_err("no such rule");
        assert!(unknown.starts_with("no rule 'lock'; rules: cpu-bound, serial-bottleneck"), "{unknown}");
        assert!(unknown.contains("lock-contention") && !unknown.contains("steal"), "{unknown}");
        let more = words("steal > 5%").expect_err("needs the machine's counters");
        assert!(more.starts_with("a recording alone doesn't show 'steal'"), "{more}");
    }

    #[test]
    fn each_of_the_rules_makes_its_finding_without_counters() {
        for rule in RULES {
            let mut facts = firing(rule.number);
            facts.rates = RateFacts { switches_per_s: facts.rates.switches_per_s, ..RateFacts::default() };
            facts.system = SystemFacts { cpus: facts.system.cpus, ..SystemFacts::default() };
            let shows = (rule.ask)(&facts).is_some();
            let is_named = RuleLimit::names().any(|name| name == rule.name) || CALM.contains(&rule.name);
            assert_eq!(shows, is_named, "{}", rule.name);
        }
    }

    #[test]
    fn a_finding_passes_by_its_share() {
        let limit = RuleLimit { name: "disk", over: 0.3 };
        assert_eq!([0.3, 0.31].map(|share| limit.is_passed("disk", share)), [false, true]);
        assert!(!limit.is_passed("convoy", 0.9));
        let lock = RuleLimit { name: "lock-contention", over: 0.3 };
        assert!(lock.is_passed("convoy", 0.9) && !lock.is_passed("convoy", 0.2));
    }
}
