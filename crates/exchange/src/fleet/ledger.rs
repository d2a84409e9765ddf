//! Sums and cost of one interval of one machine: the table `recordings`, to check the samples against.

use crate::export::samples::SampleSet;
use crate::import::ImportError;
use crate::parquet::{self, ColumnKind, ColumnSchema, ColumnValues, ParquetWriter, TextColumn};
use std::collections::BTreeMap;
use std::io;

/// Columns of the table `recordings`: a row for each kind of value of an interval.
pub const RECORDING_COLUMNS: &[ColumnSchema] = &[
    ColumnSchema { name: "time", kind: ColumnKind::TimeUs },
    ColumnSchema { name: "host", kind: ColumnKind::Text },
    ColumnSchema { name: "kind", kind: ColumnKind::Text },
    ColumnSchema { name: "total", kind: ColumnKind::Number },
    ColumnSchema { name: "agent_cpu_ns", kind: ColumnKind::Number },
    ColumnSchema { name: "agent_age_ns", kind: ColumnKind::Number },
    ColumnSchema { name: "left_out", kind: ColumnKind::Number },
];

/// Sums of an interval over all services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Sum of each kind of value, such as `cpu` in ns.
    pub kinds: BTreeMap<String, u64>,
    /// CPU time that the agent and what it started have used since it began, ns; 0 without an agent.
    pub agent_cpu_ns: u64,
    /// How long the agent has been running, ns.
    pub agent_age_ns: u64,
    /// Intervals left out since then: failed, or too expensive.
    pub left_out: u64,
}

impl Ledger {
    /// Sum of each kind of value. Without any, CPU time of 0: the machine was idle.
    #[must_use]
    pub fn kinds_of(samples: &SampleSet<'_>) -> BTreeMap<String, u64> {
        let kinds = samples.kinds.iter().map(|kind| (kind.name.clone(), kind.total));
        let idle = samples.kinds.is_empty().then(|| ("cpu".to_owned(), 0));
        kinds.chain(idle).collect()
    }

    /// As a file, of an interval of `host` that began `start_us` after 1970.
    ///
    /// # Errors
    /// None in practice: it is written to memory.
    pub fn to_file(&self, host: &str, start_us: i64) -> io::Result<Vec<u8>> {
        let (mut hosts, mut names) = (TextColumn::default(), TextColumn::default());
        for name in self.kinds.keys() {
            hosts.push(host);
            names.push(name);
        }
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let same = |value: i64| ColumnValues::Numbers(vec![value; self.kinds.len()]);
        let columns = [
            same(start_us),
            ColumnValues::Texts(hosts),
            ColumnValues::Texts(names),
            ColumnValues::Numbers(self.kinds.values().map(|total| number(*total)).collect()),
            same(number(self.agent_cpu_ns)),
            same(number(self.agent_age_ns)),
            same(number(self.left_out)),
        ];
        let mut file = Vec::new();
        let mut writer = ParquetWriter::new(&mut file, RECORDING_COLUMNS)?;
        writer.group(&columns)?;
        writer.finish()?;
        Ok(file)
    }

    /// Reads the file of an interval.
    ///
    /// # Errors
    /// If it is damaged, or another table.
    pub fn read(file: &[u8]) -> Result<Self, ImportError> {
        let table = parquet::read(file)?;
        let other = || ImportError::Unsupported("Parquet of another table than tally's recordings");
        let names = table.texts("kind").ok_or_else(other)?;
        let numbers = |name| table.numbers(name).ok_or_else(other);
        let value = |number: i64| u64::try_from(number).unwrap_or_default();
        let last = |name| Ok(numbers(name)?.last().copied().map_or(0, value));
        let totals = numbers("total")?.iter().enumerate();
        Ok(Self {
            kinds: totals.map(|(row, total)| (names.text(row).to_owned(), value(*total))).collect(),
            agent_cpu_ns: last("agent_cpu_ns")?,
            agent_age_ns: last("agent_age_ns")?,
            left_out: last("left_out")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_machine_has_no_cpu_time() {
        let profile = profile::Profile::default();
        let kinds = Ledger::kinds_of(&SampleSet::of(&profile, true));
        assert_eq!(kinds, [("cpu".to_owned(), 0)].into());
    }

    #[test]
    fn a_ledger_is_read_as_written_and_another_table_is_refused() {
        let kinds = [("cpu".to_owned(), 7), ("wall".to_owned(), 9)].into();
        let ledger = Ledger { kinds, agent_cpu_ns: 3, agent_age_ns: 4, left_out: 5 };
        assert_eq!(Ledger::read(&ledger.to_file("h1", 1).expect("in memory")), Ok(ledger));
        let mut other = Vec::new();
        let writer = ParquetWriter::new(&mut other, crate::export::parquet::SAMPLE_COLUMNS);
        writer.and_then(ParquetWriter::finish).expect("in memory");
        assert!(matches!(Ledger::read(&other), Err(ImportError::Unsupported(_))));
    }
}
