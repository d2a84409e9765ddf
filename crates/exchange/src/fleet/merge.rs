//! Rows of a fleet added up by machine.

use super::FleetFilter;
use crate::export::samples::SampleSet;
use crate::import::{Gathered, ImportError, RowSums, SampleRows, StackRow};
use profile::view::wall::{Part, part_name};
use std::collections::BTreeMap;

/// The samples of all tasks but the kernel's idle ones, which run while a CPU has nothing to do.
#[must_use]
pub fn without_idle(mut samples: SampleSet<'_>) -> SampleSet<'_> {
    let mut stacks = std::mem::take(&mut samples.stacks);
    stacks.retain(|stack| samples.profile.task(stack.task).pid != 0);
    samples.with_stacks(stacks)
}

/// Rows read of a fleet: one sum for each machine.
#[derive(Default)]
pub struct FleetProfiles {
    hosts: BTreeMap<String, RowSums>,
    /// Intervals that were added.
    pub files: u64,
}

impl FleetProfiles {
    /// Adds the rows of a file that are of the services asked for.
    ///
    /// # Errors
    /// If it can't be read: then nothing is added, unless its stacks are too many.
    pub fn add_file(&mut self, file: &[u8], filter: &FleetFilter) -> Result<(), ImportError> {
        let rows = SampleRows::read(file)?;
        let mut any = false;
        for row in rows.iter().filter(|row| filter.takes_service(row.service)) {
            self.add(&row)?;
            any = true;
        }
        self.files += u64::from(any);
        Ok(())
    }

    /// Adds a row. Threads of one name are one; time off the CPU is a kind of value of its own, too.
    ///
    /// # Errors
    /// If the stacks of a machine are too many.
    pub fn add(&mut self, row: &StackRow<'_>) -> Result<(), ImportError> {
        if !self.hosts.contains_key(row.host) {
            self.hosts.insert(row.host.to_owned(), RowSums::default());
        }
        let Some(sums) = self.hosts.get_mut(row.host) else { return Ok(()) };
        let row = StackRow { pid: 0, tid: 0, ..*row };
        sums.add(&row)?;
        if row.kind == "wall" && row.state != part_name(Part::On) {
            sums.add(&StackRow { kind: "off_cpu", ..row })?;
        }
        Ok(())
    }

    /// The sums, by machine.
    ///
    /// # Errors
    /// If one is too large.
    pub fn finish(self) -> Result<BTreeMap<String, Gathered>, ImportError> {
        self.hosts.into_iter().map(|(host, sums)| Ok((host, sums.finish()?))).collect()
    }
}
