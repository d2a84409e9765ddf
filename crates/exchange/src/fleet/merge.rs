//! Profiles of a fleet: written by service, and added up by machine.

use crate::export::pprof;
use crate::export::samples::{SampleSet, ValuedStack};
use crate::import::{Gathered, ImportError, gather_into};
use profile::profile::TaskId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;

/// The profile of each service, by its name, as files of pprof. `service_of` is asked once for each thread with values.
///
/// # Errors
/// None in practice: they are written to memory.
pub fn stored(
    mut samples: SampleSet<'_>,
    command: &str,
    mut service_of: impl FnMut(TaskId) -> String,
) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut services: FxHashMap<TaskId, String> = FxHashMap::default();
    let mut of_services: BTreeMap<String, Vec<ValuedStack>> = BTreeMap::new();
    for stack in std::mem::take(&mut samples.stacks) {
        let service = services.entry(stack.task).or_insert_with(|| service_of(stack.task));
        of_services.entry(service.clone()).or_default().push(stack);
    }
    let mut files = BTreeMap::new();
    for (service, stacks) in of_services {
        samples = samples.with_stacks(stacks);
        let mut file = Vec::new();
        pprof::write(&mut file, &samples, command)?;
        files.insert(service, file);
    }
    Ok(files)
}

/// The samples of all tasks but the kernel's idle ones, which run while a CPU has nothing to do.
#[must_use]
pub fn without_idle(mut samples: SampleSet<'_>) -> SampleSet<'_> {
    let mut stacks = std::mem::take(&mut samples.stacks);
    stacks.retain(|stack| samples.profile.task(stack.task).pid != 0);
    samples.with_stacks(stacks)
}

/// Profiles read of a fleet: one sum for each machine.
#[derive(Default)]
pub struct FleetProfiles {
    /// By machine.
    pub hosts: BTreeMap<String, Gathered>,
    /// Files that were added.
    pub files: u64,
}

impl FleetProfiles {
    /// Adds a file of a machine.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn add(&mut self, host: &str, file: &[u8]) -> Result<(), ImportError> {
        gather_into(file, self.hosts.entry(host.to_owned()).or_default())?;
        self.files += 1;
        Ok(())
    }
}
