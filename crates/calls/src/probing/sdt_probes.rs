//! Probes that programs' authors placed, of files, and of perf's cache.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Context, bail};
use dso::elf::sdt::probes;
use dso::{FileRule, ObjectFile};
use perfdata::text::glob;

/// One name, with where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdt {
    /// `sdt_libstdcxx:catch`, as perf calls it.
    pub name: String,
    /// The file it is in; `None` if it is only in perf's cache.
    pub file: Option<PathBuf>,
    /// Addresses in the file, ascending.
    pub at: Vec<u64>,
    /// Where its arguments are, in assembler's words.
    pub arguments: String,
    /// It is reached only while someone has asked for it.
    pub has_semaphore: bool,
}

/// Those of `files` (names or patterns of paths); without any, those of the libraries installed and of perf's cache.
///
/// # Errors
/// A file that is not there or no program.
pub fn events(files: &[&str]) -> crate::Result<Vec<Sdt>> {
    let mut all = Vec::new();
    if files.is_empty() {
        for path in libraries() {
            all.extend(ObjectFile::open(&path).map(|file| of_file(&path, &file)).unwrap_or_default());
        }
        let of_files: BTreeSet<String> = all.iter().map(|sdt: &Sdt| sdt.name.clone()).collect();
        all.extend(cached().into_iter().filter(|name| !of_files.contains(name)).map(|name| Sdt {
            name,
            file: None,
            at: Vec::new(),
            arguments: String::new(),
            has_semaphore: false,
        }));
    }
    for file in files {
        for path in paths(file)? {
            let object =
                ObjectFile::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
            all.extend(of_file(&path, &object));
        }
    }
    Ok(all)
}

fn of_file(path: &Path, file: &ObjectFile) -> Vec<Sdt> {
    let mut by_name: BTreeMap<String, Sdt> = BTreeMap::new();
    for probe in probes(file) {
        let name = format!("sdt_{}:{}", probe.provider, probe.name);
        let event = by_name.entry(name.clone()).or_insert_with(|| Sdt {
            name,
            file: Some(path.to_owned()),
            at: Vec::new(),
            arguments: probe.arguments.clone(),
            has_semaphore: probe.semaphore.is_some(),
        });
        event.at.push(probe.at.0);
    }
    by_name.into_values().collect()
}

/// The file itself, or those in its folder that fit the pattern of its name.
fn paths(file: &str) -> crate::Result<Vec<PathBuf>> {
    if !glob::is_glob(file) {
        return Ok(vec![
            super::definition::find_program(Path::new(file)).with_context(|| format!("no file {file}"))?,
        ]);
    }
    let (folder, pattern) = file.rsplit_once('/').unwrap_or((".", file));
    let folder = if folder.is_empty() { "/" } else { folder };
    let names = std::fs::read_dir(folder).with_context(|| format!("cannot read {folder}"))?.flatten();
    let fits = names.filter(|name| glob::matches(pattern, &name.file_name().to_string_lossy()));
    let mut found: Vec<PathBuf> = fits.map(|name| name.path()).filter(|path| path.is_file()).collect();
    found.retain(|path| ObjectFile::open(path).is_ok());
    found.sort();
    if found.is_empty() {
        bail!("no program or library fits {file}");
    }
    Ok(found)
}

/// Every shared library in the folders where the linker looks, once.
fn libraries() -> BTreeSet<PathBuf> {
    let folders = super::definition::LIBRARIES.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    let names = folders.flatten().flatten().map(|entry| entry.path());
    let libraries =
        names.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().contains(".so")));
    libraries.filter_map(|path| std::fs::canonicalize(path).ok()).filter(|path| path.is_file()).collect()
}

/// Statically defined probes that `perf buildid-cache --add` noted under `~/.debug`.
fn cached() -> Vec<String> {
    let Some(home) = std::env::var_os("HOME") else { return Vec::new() };
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from(home).join(".debug"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name() == "probes" {
                found.extend(sdt_names(&path));
            } else if depth < 12 && entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Larger lists are not read: those of the largest libraries have some 100 KB.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// The `%sdt_…` lines of one cache file.
fn sdt_names(file: &Path) -> Vec<String> {
    let text = FileRule::up_to(MAX_LIST_BYTES).read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let names = text.lines().filter_map(|l| l.strip_prefix('%')?.split('=').next());
    names.map(|n| n.trim().to_owned()).filter(|n| n.starts_with("sdt_")).collect()
}
