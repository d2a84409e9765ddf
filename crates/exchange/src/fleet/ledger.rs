//! Sums and cost of one interval of one machine: written next to the profiles, to check them against.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Sums of an interval over all services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Sum of each kind of value, such as `cpu` in ns.
    pub kinds: BTreeMap<String, u64>,
    /// Profiles that were written.
    pub services: u64,
    /// CPU time that the agent and what it started have used since it began, ns; 0 without an agent.
    pub agent_cpu_ns: u64,
    /// How long the agent has been running, ns.
    pub agent_age_ns: u64,
    /// Intervals left out since then: failed, or too expensive.
    pub left_out: u64,
}

impl Ledger {
    /// As JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let value = json!({
            "schema_version": 1, "kinds": self.kinds, "services": self.services,
            "agent_cpu_ns": self.agent_cpu_ns, "agent_age_ns": self.agent_age_ns, "left_out": self.left_out,
        });
        format!("{value}\n")
    }

    /// Reads it; `None` for other text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let kinds = value.get("kinds")?.as_object()?.iter();
        let kinds = kinds.map(|(name, sum)| Some((name.clone(), sum.as_u64()?))).collect::<Option<_>>()?;
        Some(Self {
            kinds,
            services: number("services")?,
            agent_cpu_ns: number("agent_cpu_ns")?,
            agent_age_ns: number("agent_age_ns")?,
            left_out: number("left_out")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_read_as_written_and_other_text_is_refused() {
        let ledger = Ledger { kinds: [("cpu".to_owned(), 7)].into(), services: 2, ..Ledger::default() };
        assert_eq!(Ledger::parse(ledger.to_text().as_bytes()), Some(ledger));
        assert_eq!(Ledger::parse(b"{}"), None);
        assert_eq!(Ledger::parse(b"{\"kinds\":{\"cpu\":-1}}"), None);
    }
}
