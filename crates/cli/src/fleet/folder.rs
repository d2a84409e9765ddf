//! The folder of a fleet: files found by the names of folders, and files written whole or not at all.

use anyhow::Context;
use dso::MappedFile;
use exchange::fleet::{FleetFilter, IntervalKey, Ledger, RECORDINGS, SAMPLES, SpoolLimits, moment_text};
use record::output_file::{UNFINISHED, create_folders, write_whole};
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

/// Writes what an interval's stacks add up to, then the stacks: where only the first is there, it is known what is missing.
///
/// # Errors
/// One can't be written: then nothing of it is left.
pub fn store(root: &Path, key: &IntervalKey, samples: &[u8], recordings: &[u8]) -> anyhow::Result<()> {
    let note = store_table(&root.join(RECORDINGS), key, recordings)?;
    let stored = store_table(&root.join(SAMPLES), key, samples);
    if stored.is_err() {
        let _ = std::fs::remove_file(note);
    }
    stored.map(drop)
}

fn store_table(table: &Path, key: &IntervalKey, file: &[u8]) -> anyhow::Result<PathBuf> {
    let path = path_of(table, key);
    let folder = path.parent().unwrap_or(table);
    create_folders(folder).with_context(|| format!("can't make {}", folder.display()))?;
    write_whole(&path, file).with_context(|| format!("can't write {}", path.display()))?;
    Ok(path)
}

fn path_of(table: &Path, key: &IntervalKey) -> PathBuf {
    key.folders().iter().fold(table.to_owned(), |path, name| path.join(name)).join(key.file())
}

/// The first second from `began_s` on of which a machine has no profile: a clock that was set back may come to the
/// same moment again.
#[must_use]
pub fn free_second(root: &Path, host: &str, began_s: u64) -> u64 {
    let key = |second| IntervalKey { host: host.to_owned(), moment: moment_text(second) };
    let is_free = |second: &u64| !path_of(&root.join(SAMPLES), &key(*second)).exists();
    (began_s..began_s + 3600).find(is_free).unwrap_or(began_s)
}

/// The notes that a question is about with their machines, oldest first.
#[must_use]
pub fn notes(root: &Path, filter: &FleetFilter) -> Vec<(String, Ledger)> {
    files_of(&root.join(RECORDINGS), filter)
        .into_iter()
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

/// Removes a machine's oldest profiles until the rest has at most so many bytes; returns how many.
pub fn remove_above(root: &Path, host: &str, limits: SpoolLimits) -> u64 {
    let of_host = FleetFilter { hosts: vec![host.to_owned()], ..FleetFilter::default() };
    let files = files_of(&root.join(SAMPLES), &of_host);
    let pair = |key| [SAMPLES, RECORDINGS].map(|table| path_of(&root.join(table), key));
    let size = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.len());
    let sizes: Vec<u64> = files.iter().map(|(key, _)| pair(key).iter().map(size).sum()).collect();
    let surplus = limits.surplus(&sizes);
    for path in files[..surplus].iter().flat_map(|(key, _)| pair(key)) {
        let _ = std::fs::remove_file(&path);
        // The folders of a machine and a day, once they are empty.
        path.ancestors().skip(1).take(2).for_each(|folder| drop(std::fs::remove_dir(folder)));
    }
    surplus as u64
}

/// Removes what a killed agent has not finished.
pub fn remove_unfinished(root: &Path, host: &str) {
    let of_host = FleetFilter { hosts: vec![host.to_owned()], ..FleetFilter::default() };
    for table in [SAMPLES, RECORDINGS].map(|table| root.join(table)) {
        for date in below(&table, &of_host) {
            for host in below(&table.join(&date), &of_host) {
                let folder = table.join(&date).join(host);
                let names = names(&folder).unwrap_or_default();
                let unfinished = names.iter().filter(|name| name.ends_with(UNFINISHED));
                unfinished.for_each(|name| drop(std::fs::remove_file(folder.join(name))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::scratch::ScratchFolder;

    fn key(moment: &str) -> IntervalKey {
        IntervalKey { host: "web1".to_owned(), moment: moment.to_owned() }
    }

    #[test]
    fn the_oldest_profiles_go_and_a_moment_is_used_once() {
        let scratch = ScratchFolder::private("fleet-folder").expect("a folder");
        let root = scratch.path();
        for moment in ["2026-11-26 235900", "2026-11-27 000000", "2026-11-27 000100"] {
            store(root, &key(moment), &[0; 100], &[0; 10]).expect("is written");
        }
        let first_s = 1_795_737_600;
        assert_eq!(moment_text(first_s), "2026-11-27 000000");
        assert_eq!(
            [free_second(root, "web1", first_s), free_second(root, "web2", first_s)],
            [first_s + 1, first_s]
        );
        let limits = SpoolLimits { bytes: 250, every_s: 60 };
        assert_eq!((remove_above(root, "web2", limits), remove_above(root, "web1", limits)), (0, 1));
        let left = find(root, &FleetFilter::default()).expect("a folder");
        let left: Vec<&str> = left.iter().map(|(key, _)| key.moment.as_str()).collect();
        assert_eq!(left, ["2026-11-27 000000", "2026-11-27 000100"]);
        assert!(!root.join("samples/date=2026-11-26").exists());
    }
}
