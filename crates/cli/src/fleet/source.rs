//! Places that have the profiles of a fleet: a folder, or a server.

use super::{folder, net};
use crate::terminal::out;
use anyhow::Context;
use display::number::count_of;
use dso::MappedFile;
use exchange::fleet::clickhouse::{self, ClickHouse};
use exchange::fleet::{FleetFilter, FleetProfiles, IntervalKey, Ledger, ReadFiles};
use profile::view::ranking::RankRows as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where profiles are.
#[derive(Clone, Debug)]
pub enum FleetSource {
    /// A folder that agents write.
    Folder(PathBuf),
    /// Tables of a server.
    Server(ClickHouse),
}

impl FleetSource {
    /// A folder, or `clickhouse://HOST`.
    ///
    /// # Errors
    /// It is no address of a server, though it begins like one.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with(clickhouse::SCHEME) {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        let server = ClickHouse::parse(text).map(Self::Server);
        server.ok_or_else(|| "an address is like clickhouse://USER:PASSWORD@HOST:8123/DATABASE".to_owned())
    }

    /// How messages name it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Folder(root) => root.display().to_string(),
            Self::Server(server) => format!("{}{}", clickhouse::SCHEME, server.url.host),
        }
    }

    /// Reads and adds up. Files that can't be read are counted on standard error.
    ///
    /// # Errors
    /// The folder can't be listed, or the server doesn't answer.
    pub fn profiles(&self, filter: &FleetFilter) -> anyhow::Result<FleetProfiles> {
        let server = match self {
            Self::Folder(root) => return of_folder(root, filter),
            Self::Server(server) => server,
        };
        let mut profiles = FleetProfiles::default();
        clickhouse::add_stacks(&ask(server, &server.stacks_query(filter))?, filter, &mut profiles)?;
        let intervals = ask(server, &server.intervals_query(filter))?;
        profiles.files = intervals.trim().parse().context("no number of intervals")?;
        Ok(profiles)
    }

    /// The agents' notes with their machines, oldest first.
    ///
    /// # Errors
    /// The server doesn't answer.
    pub fn notes(&self, filter: &FleetFilter) -> anyhow::Result<Vec<(String, Ledger)>> {
        match self {
            Self::Folder(root) => Ok(folder::notes(root, filter)),
            Self::Server(server) => Ok(clickhouse::notes_of(&ask(server, &server.notes_query(filter))?)),
        }
    }
}

fn of_folder(root: &Path, filter: &FleetFilter) -> anyhow::Result<FleetProfiles> {
    let mut files = folder::find(root, filter)?;
    files.rank_by(|(a, _), (b, _)| (&a.host, &a.moment).cmp(&(&b.host, &b.moment)));
    let open = |(_, path): &(IntervalKey, PathBuf)| MappedFile::open(path);
    let read = ReadFiles::of(&files, filter, open)?;
    let count = count_of(read.left_out.len() as u64, "profile is", "profiles are");
    let first = read.left_out.iter().map(|(at, why)| (&files[*at].1, why)).min();
    if let Some((path, why)) = first {
        out::note(&format!("tally fleet: {count} left out: {}: {why}", path.display()));
    }
    Ok(read.profiles)
}

fn ask(server: &ClickHouse, query: &str) -> anyhow::Result<String> {
    let place = || format!("{}:{}", server.url.host, server.url.port);
    let stream = net::connect(&server.url, PATIENCE)?;
    server.ask(stream, query).with_context(|| format!("{} doesn't answer the query", place()))
}
