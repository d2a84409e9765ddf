//! The sums of all profiles that a question is about.

use super::folder;
use crate::reading::{load, wall};
use crate::terminal::out;
use anyhow::bail;
use display::number::count_of;
use dso::MappedFile;
use exchange::export::samples::ValueUnit;
use exchange::fleet::screen::AnswerScope;
use exchange::fleet::{FleetFilter, FleetProfiles};
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
    /// Reads and adds up. Files that can't be read are counted on standard error.
    ///
    /// # Errors
    /// The folder can't be listed, or has nothing for the question.
    pub fn read(root: &Path, filter: &FleetFilter) -> anyhow::Result<Self> {
        let mut merged = FleetProfiles::default();
        let mut unread = Vec::new();
        for (key, path) in folder::find(root, filter)? {
            let added = MappedFile::open(&path).map_err(anyhow::Error::from);
            let added = added.and_then(|map| Ok(merged.add(&key.host, &map)?));
            unread.extend(added.err().map(|why| format!("{}: {why}", path.display())));
        }
        if let Some(first) = unread.first() {
            let count = count_of(unread.len() as u64, "profile is", "profiles are");
            out::note(&format!("tally fleet: {count} left out: {first}"));
        }
        if merged.files == 0 {
            bail!("{}: no profiles of these services, hosts and times", root.display());
        }
        let mut hosts = Vec::new();
        for (host, gathered) in &merged.hosts {
            let bytes = gathered.to_perf_data()?;
            let file = PerfData::open(&bytes)?;
            let loaded = load::load_file(root, &file, wall::load_opts(), &mut load::Progress::silent())?;
            hosts.push((host.clone(), loaded.profile));
        }
        Ok(Self { hosts, files: merged.files })
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
