//! Profiles of a fleet: written by service, and added up by machine.

use crate::export::pprof;
use crate::export::samples::SampleSet;
use crate::import::{Gathered, ImportError, gather_into};
use profile::profile::TaskId;
use std::collections::BTreeMap;
use std::io;

/// The profile of each service, by its name, as files of pprof. `service_of` is asked once for each thread.
///
/// # Errors
/// None in practice: they are written to memory.
pub fn stored(
    samples: &SampleSet<'_>,
    command: &str,
    mut service_of: impl FnMut(TaskId) -> String,
) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut tasks: BTreeMap<String, Vec<TaskId>> = BTreeMap::new();
    for at in 0..samples.profile.tasks().len() {
        let task = TaskId::from_index(at);
        tasks.entry(service_of(task)).or_default().push(task);
    }
    let mut files = BTreeMap::new();
    for (service, tasks) in tasks {
        let of_service = samples.of_tasks(&tasks);
        if !of_service.stacks.is_empty() {
            let mut file = Vec::new();
            pprof::write(&mut file, &of_service, command)?;
            files.insert(service, file);
        }
    }
    Ok(files)
}

/// The samples of all tasks but the kernel's idle ones, which run while a CPU has nothing to do.
#[must_use]
pub fn without_idle<'p>(samples: &SampleSet<'p>) -> SampleSet<'p> {
    let tasks = samples.profile.tasks().iter().enumerate();
    let busy = tasks.filter(|(_, task)| task.pid != 0).map(|(at, _)| TaskId::from_index(at));
    samples.of_tasks(&busy.collect::<Vec<_>>())
}

/// What was read of a fleet: one sum for each machine.
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
