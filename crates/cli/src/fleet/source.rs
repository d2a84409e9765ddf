//! Places that have the profiles of a fleet: a folder, or a server.

use super::{folder, net};
use crate::terminal::out;
use anyhow::Context;
use display::number::count_of;
use dso::MappedFile;
use exchange::fleet::clickhouse::{self, ClickHouse};
use exchange::fleet::{FleetFilter, FleetProfiles, Ledger};
use std::path::PathBuf;
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
        let mut profiles = FleetProfiles::default();
        let mut unread = Vec::new();
        match self {
            Self::Folder(root) => {
                for (_, path) in folder::find(root, filter)? {
                    let added = MappedFile::open(&path).map_err(anyhow::Error::from);
                    let added = added.and_then(|map| Ok(profiles.add_file(&map, filter)?));
                    unread.extend(added.err().map(|why| format!("{}: {why}", path.display())));
                }
            }
            Self::Server(server) => {
                clickhouse::add_stacks(&ask(server, &server.stacks_query(filter))?, &mut profiles)?;
                let intervals = ask(server, &server.intervals_query(filter))?;
                profiles.files = intervals.trim().parse().context("no number of intervals")?;
            }
        }
        if let Some(first) = unread.first() {
            let count = count_of(unread.len() as u64, "profile is", "profiles are");
            out::note(&format!("tally fleet: {count} left out: {first}"));
        }
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

fn ask(server: &ClickHouse, query: &str) -> anyhow::Result<String> {
    let place = || format!("{}:{}", server.url.host, server.url.port);
    let stream = net::connect(&server.url, PATIENCE)?;
    server.ask(stream, query).with_context(|| format!("{} doesn't answer the query", place()))
}
