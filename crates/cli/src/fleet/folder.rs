//! The folder of a fleet: files found by the names of folders, and files written whole or not at all.

use anyhow::Context;
use dso::MappedFile;
use exchange::fleet::{FleetFilter, IntervalKey, Ledger, RECORDINGS, SAMPLES};
use record::output_file::{create_folders, write_whole};
use std::path::{Path, PathBuf};

/// The files of stacks that a question is about, in the order of their names.
///
/// # Errors
/// The folder can't be listed.
pub fn find(root: &Path, filter: &FleetFilter) -> anyhow::Result<Vec<(IntervalKey, PathBuf)>> {
    names(root).with_context(|| format!("can't read {}", root.display()))?;
    Ok(files_of(&root.join(SAMPLES), filter))
}

fn files_of(table: &Path, filter: &FleetFilter) -> Vec<(IntervalKey, PathBuf)> {
    let mut found = Vec::new();
    for date in below(table, filter) {
        for host in below(&table.join(&date), filter) {
            let folder = table.join(&date).join(&host);
            let files = names(&folder).unwrap_or_default();
            found.extend(files.iter().filter_map(|file| {
                let key = IntervalKey::of_names([&date, &host], file)?;
                filter.takes(&key).then(|| (key, folder.join(file)))
            }));
        }
    }
    found
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

/// Writes an interval's stacks, then what they add up to.
///
/// # Errors
/// One can't be written: then nothing of it is left.
pub fn store(root: &Path, key: &IntervalKey, samples: &[u8], recordings: &[u8]) -> anyhow::Result<()> {
    store_table(&root.join(SAMPLES), key, samples)?;
    store_table(&root.join(RECORDINGS), key, recordings)
}

fn store_table(table: &Path, key: &IntervalKey, file: &[u8]) -> anyhow::Result<()> {
    let folder = key.folders().iter().fold(table.to_owned(), |path, name| path.join(name));
    create_folders(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let path = folder.join(key.file());
    write_whole(&path, file).with_context(|| format!("can't write {}", path.display()))
}

/// The notes that a question is about with their machines, oldest first.
#[must_use]
pub fn notes(root: &Path, filter: &FleetFilter) -> Vec<(String, Ledger)> {
    let files = files_of(&root.join(RECORDINGS), filter).into_iter();
    files
        .filter_map(|(key, path)| Some((key.host, Ledger::read(&MappedFile::open(&path).ok()?).ok()?)))
        .collect()
}

/// Removes the days of a machine before `oldest` (`2026-11-27`); returns how many folders.
pub fn remove_before(root: &Path, host: &str, oldest: &str) -> u64 {
    let of_host = FleetFilter { hosts: vec![host.to_owned()], ..FleetFilter::default() };
    let mut removed = 0;
    for table in [SAMPLES, RECORDINGS].map(|table| root.join(table)) {
        for date in below(&table, &of_host) {
            let day = date.strip_prefix("date=").unwrap_or_default();
            let old = below(&table.join(&date), &of_host).into_iter().filter(|_| day < oldest);
            for host in old.map(|host| table.join(&date).join(host)) {
                removed += u64::from(std::fs::remove_dir_all(host).is_ok());
                // Other machines may still have files of that day: then it stays.
                let _ = std::fs::remove_dir(table.join(&date));
            }
        }
    }
    removed
}
