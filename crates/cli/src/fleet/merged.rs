//! The sums of all profiles that a question is about.

use super::source::FleetSource;
use crate::reading::{load, wall};
use anyhow::bail;
use exchange::export::samples::ValueUnit;
use exchange::fleet::screen::{AnswerScope, why_nothing};
use exchange::fleet::{FleetFilter, FleetSums};
use exchange::import::RowSums;
use perfdata::PerfData;
use profile::Profile;
use profile::view::flame::{Unit, unit_of};
use rayon::prelude::*;
use std::path::Path;

/// The profiles of the machines, and the number of files.
pub struct MergedFleet<P> {
    /// Profiles of all, or their sum.
    pub profiles: P,
    /// Machines.
    pub hosts: usize,
    /// Files read.
    pub files: u64,
}

impl MergedFleet<Vec<(String, Profile)>> {
    /// Reads and adds up: the profile of each machine by its name.
    ///
    /// # Errors
    /// The folder or the server can't be read, or has nothing for the question.
    pub fn by_host(source: &FleetSource, filter: &FleetFilter) -> anyhow::Result<Self> {
        Self::read(source, filter, |all, host, profile| all.push((host, profile)))
    }

    /// All machines as one.
    #[must_use]
    pub fn sum(&self) -> Profile {
        let mut sum = Profile::default();
        self.profiles.iter().for_each(|(_, profile)| sum.merge(profile));
        sum
    }
}

impl MergedFleet<Profile> {
    /// Reads and adds up: all machines as one.
    ///
    /// # Errors
    /// The folder or the server can't be read, or has nothing for the question.
    pub fn as_one(source: &FleetSource, filter: &FleetFilter) -> anyhow::Result<Self> {
        let filter = FleetFilter { sums: FleetSums::OfAll, ..filter.clone() };
        Self::read(source, &filter, |sum, _, profile| sum.merge(&profile))
    }

    /// All machines as one, and the event that is the filter's kind of value.
    ///
    /// # Errors
    /// As above, or nothing has this kind: then the error names those that there are.
    pub fn of_kind(source: &FleetSource, filter: &FleetFilter) -> anyhow::Result<(Self, usize)> {
        let kind = filter.kind.as_deref().unwrap_or_default();
        let fleet = Self::as_one(source, filter)?;
        if let Ok(event) = event_of(&fleet.profiles, kind) {
            return Ok((fleet, event));
        }
        let all = FleetFilter { kind: None, ..filter.clone() };
        let fleet = Self::as_one(source, &all)?;
        let event = event_of(&fleet.profiles, kind)?;
        Ok((fleet, event))
    }
}

impl<P: Default> MergedFleet<P> {
    /// `add` is given the machines one after the other, by name.
    fn read(
        source: &FleetSource,
        filter: &FleetFilter,
        mut add: impl FnMut(&mut P, String, Profile),
    ) -> anyhow::Result<Self> {
        let merged = source.profiles(filter)?;
        let files = merged.files;
        if files == 0 {
            // The notes are about all services.
            let notes = if filter.services.is_empty() { source.notes(filter)? } else { Vec::new() };
            bail!("{}: {}", source.name(), why_nothing(&notes));
        }
        let hosts = merged.hosts.len();
        let (mut sums, mut profiles) = (merged.into_sums(), P::default());
        let name = source.name();
        while sums.len() > 0 {
            // A few at once: each needs memory of its own.
            let some: Vec<_> = sums.by_ref().take(rayon::current_num_threads()).collect();
            let some: Vec<anyhow::Result<_>> =
                some.into_par_iter().map(|(host, sums)| Ok((host, profile_of(sums, &name)?))).collect();
            for loaded in some {
                let (host, profile) = loaded?;
                add(&mut profiles, host, profile);
            }
        }
        Ok(Self { profiles, hosts, files })
    }
}

fn profile_of(sums: RowSums, source: &str) -> anyhow::Result<Profile> {
    let bytes = sums.finish()?.to_perf_data()?;
    let file = PerfData::open(&bytes)?;
    let opts = wall::load_opts();
    Ok(load::load_file(Path::new(source), &file, opts, &mut load::Progress::silent())?.profile)
}

impl<P> MergedFleet<P> {
    /// Scope of an answer from `profile`.
    #[must_use]
    pub fn scope<'p>(&self, profile: &'p Profile, event: usize) -> AnswerScope<'p> {
        let unit = match unit_of(&profile.events[event]) {
            Unit::Nanoseconds => ValueUnit::Nanoseconds,
            _ => ValueUnit::Count,
        };
        let total = profile.total(event).period;
        let event = profile.events[event].name.as_str();
        AnswerScope { files: self.files, hosts: self.hosts, event, unit, total }
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
