//! The sums of all profiles that a question is about.

use super::source::FleetSource;
use crate::reading::{load, wall};
use anyhow::bail;
use exchange::export::samples::ValueUnit;
use exchange::fleet::FleetFilter;
use exchange::fleet::screen::AnswerScope;
use perfdata::PerfData;
use profile::Profile;
use profile::view::flame::{Unit, unit_of};
use std::path::Path;

/// The profile of each machine by its name, and the number of files.
pub struct MergedFleet {
    /// By machine.
    pub hosts: Vec<(String, Profile)>,
    /// Files read.
    pub files: u64,
}

impl MergedFleet {
    /// Reads and adds up.
    ///
    /// # Errors
    /// The folder or the server can't be read, or has nothing for the question.
    pub fn read(source: &FleetSource, filter: &FleetFilter) -> anyhow::Result<Self> {
        let merged = source.profiles(filter)?;
        let files = merged.files;
        if files == 0 {
            bail!("{}: no profiles of these services, hosts and times", source.name());
        }
        let mut hosts = Vec::new();
        for (host, gathered) in &merged.finish()? {
            let bytes = gathered.to_perf_data()?;
            let file = PerfData::open(&bytes)?;
            let name = source.name();
            let loaded =
                load::load_file(Path::new(&name), &file, wall::load_opts(), &mut load::Progress::silent())?;
            hosts.push((host.clone(), loaded.profile));
        }
        Ok(Self { hosts, files })
    }

    /// All machines as one.
    #[must_use]
    pub fn sum(&self) -> Profile {
        let mut sum = Profile::default();
        self.hosts.iter().for_each(|(_, profile)| sum.merge(profile));
        sum
    }

    /// Scope of an answer from `profile`.
    #[must_use]
    pub fn scope<'p>(&self, profile: &'p Profile, event: usize) -> AnswerScope<'p> {
        let unit = match unit_of(&profile.events[event]) {
            Unit::Nanoseconds => ValueUnit::Nanoseconds,
            _ => ValueUnit::Count,
        };
        let total = profile.total(event).period;
        let event = profile.events[event].name.as_str();
        AnswerScope { files: self.files, hosts: self.hosts.len(), event, unit, total }
    }
}

/// The event of this name.
///
/// # Errors
/// If the profiles have none, with the names they have.
pub fn event_of(profile: &Profile, name: &str) -> anyhow::Result<usize> {
    let names = || profile.events.iter().map(|event| event.name.as_str());
    match names().position(|known| known == name) {
        Some(event) => Ok(event),
        None => bail!("no values of '{name}': there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}
