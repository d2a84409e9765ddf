//! The folder of a fleet: files found by the names of folders, and files written whole or not at all.

use anyhow::Context;
use dso::MappedFile;
use exchange::fleet::{FleetFilter, IntervalKey, Ledger};
use record::output_file::{create_folders, write_whole};
use std::path::{Path, PathBuf};

/// The service under which notes are kept.
const NOTES: &str = "_tally";

/// The files that a question is about, in the order of their names.
///
/// # Errors
/// The folder can't be listed.
pub fn find(root: &Path, filter: &FleetFilter) -> anyhow::Result<Vec<(IntervalKey, PathBuf)>> {
    let listed = names(root).with_context(|| format!("can't read {}", root.display()))?;
    let mut found = Vec::new();
    for service in listed.iter().filter(|name| filter.enters(name)) {
        for host in below(&root.join(service), filter) {
            for date in below(&root.join(service).join(&host), filter) {
                let folder = root.join(service).join(&host).join(&date);
                let files = names(&folder).unwrap_or_default();
                found.extend(files.iter().filter_map(|file| {
                    let key = IntervalKey::of_names([service, &host, &date], file)?;
                    filter.takes(&key).then(|| (key, folder.join(file)))
                }));
            }
        }
    }
    found.retain(|(key, _)| key.service != NOTES);
    Ok(found)
}

fn below(folder: &Path, filter: &FleetFilter) -> Vec<String> {
    names(folder).unwrap_or_default().into_iter().filter(|name| filter.enters(name)).collect()
}

fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names: Vec<String> =
        folder.read_dir()?.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Writes a profile.
///
/// # Errors
/// It can't be written: then nothing of it is left.
pub fn store(root: &Path, key: &IntervalKey, file: &[u8]) -> anyhow::Result<()> {
    let folder = key.folders().iter().fold(root.to_owned(), |path, name| path.join(name));
    create_folders(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let path = folder.join(key.file());
    write_whole(&path, file).with_context(|| format!("can't write {}", path.display()))
}

/// Writes what an interval of a machine adds up to.
///
/// # Errors
/// It can't be written.
pub fn store_note(root: &Path, key: &IntervalKey, ledger: &Ledger) -> anyhow::Result<()> {
    store(root, &IntervalKey { service: NOTES.to_owned(), ..key.clone() }, ledger.to_text().as_bytes())
}

/// The notes of a machine in a time, oldest first.
#[must_use]
pub fn notes(root: &Path, host: &str, filter: &FleetFilter) -> Vec<Ledger> {
    let filter =
        FleetFilter { services: vec![NOTES.to_owned()], hosts: vec![host.to_owned()], ..filter.clone() };
    let folder = root.join(format!("service={NOTES}"));
    let mut ledgers = Vec::new();
    for host in below(&folder, &filter) {
        for date in below(&folder.join(&host), &filter) {
            let day = folder.join(&host).join(&date);
            for file in names(&day).unwrap_or_default() {
                let service = format!("service={NOTES}");
                let key = IntervalKey::of_names([&service, &host, &date], &file);
                if key.is_some_and(|key| filter.takes(&key)) {
                    ledgers
                        .extend(MappedFile::open(&day.join(file)).ok().and_then(|map| Ledger::parse(&map)));
                }
            }
        }
    }
    ledgers
}

/// Removes the days of a machine before `oldest` (`2026-11-27`); returns how many folders.
pub fn remove_before(root: &Path, host: &str, oldest: &str) -> u64 {
    let of_host = FleetFilter { hosts: vec![host.to_owned()], ..FleetFilter::default() };
    let mut removed = 0;
    for service in names(root).unwrap_or_default().iter().filter(|name| of_host.enters(name)) {
        for host in below(&root.join(service), &of_host) {
            for date in below(&root.join(service).join(&host), &of_host) {
                let day = date.strip_prefix("date=").unwrap_or_default();
                let folder = root.join(service).join(&host).join(&date);
                if !day.is_empty() && day < oldest && std::fs::remove_dir_all(folder).is_ok() {
                    removed += 1;
                }
            }
        }
    }
    removed
}
