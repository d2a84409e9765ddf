//! Which files the functions to be probed are in: the program, processes' programs, libraries.

use crate::error::Context;
use dso::MapLine;
use std::fs;
use std::path::{Path, PathBuf};

use super::probe_selection::ProbeSelection;

/// One file to look through.
pub struct SearchedFile {
    /// To be read.
    pub path: PathBuf,
    /// Name if it is a library.
    pub library: Option<String>,
    /// Only in this process; 0: in all.
    pub pid: u32,
}

/// The files to look through.
///
/// # Errors
/// If a process or a library is not there.
pub fn searched_files(
    pids: &[u32],
    program: Option<&Path>,
    selection: &ProbeSelection,
) -> crate::Result<Vec<SearchedFile>> {
    let mut sources = Vec::new();
    if let Some(program) = program {
        // Processes that it forks run the same file; so no process is singled out.
        sources.push(SearchedFile { path: program.to_owned(), library: None, pid: 0 });
        for library in selection.libraries() {
            sources.push(SearchedFile {
                path: find_library(library, program)?,
                library: Some(library.to_owned()),
                pid: 0,
            });
        }
    }
    for &pid in pids {
        let exe = fs::read_link(format!("/proc/{pid}/exe"))
            .with_context(|| format!("can't attach to process {pid}: no such process, or not ours"))?;
        sources.push(SearchedFile { path: rooted(pid, &exe), library: None, pid });
        for library in selection.libraries() {
            let maps = maps(pid).unwrap_or_default();
            let names = maps.iter().map(|map| String::from_utf8_lossy(&map.name).into_owned());
            let path = names.map(PathBuf::from).find(|path| is_named(path, library)).with_context(|| {
                format!("process {pid} has no library {library} mapped; /proc/{pid}/maps lists its libraries")
            })?;
            sources.push(SearchedFile { path: rooted(pid, &path), library: Some(library.to_owned()), pid });
        }
    }
    Ok(sources)
}

/// The mappings of a process; `None` if it is gone or not ours to read.
pub(super) fn maps(pid: u32) -> Option<Vec<MapLine>> {
    let text = dso::system_file::read(format!("/proc/{pid}/maps")).ok()?;
    Some(text.split(|byte| *byte == b'\n').filter_map(dso::parse_map_line).collect())
}

/// The file as the process has it: in its own root where that is another.
#[must_use]
pub fn rooted(pid: u32, path: &Path) -> PathBuf {
    let through = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    let same = |a: &Path, b: &Path| {
        use std::os::unix::fs::MetadataExt;
        let (a, b) = (fs::metadata(a).ok(), fs::metadata(b).ok());
        a.zip(b).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    if same(path, &through) || !through.exists() { path.to_owned() } else { through }
}

/// `libc` and `libc.so.6` both mean `/lib/libc.so.6`.
fn is_named(path: &Path, library: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path == Path::new(library) || name == library || name.starts_with(&format!("{library}.so"))
}

/// Where the loader would find a library of the program, or its installer would put it.
///
/// # Errors
/// If it is in none of these places.
pub fn find_library(library: &str, program: &Path) -> crate::Result<PathBuf> {
    if library.contains('/') {
        return Ok(PathBuf::from(library));
    }
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let by_triple = [format!("/lib/{triple}"), format!("/usr/lib/{triple}")];
    let others = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(str::to_owned);
    let system = by_triple.into_iter().chain(others);
    let folder = program.parent().unwrap_or(program);
    let beside = [folder.to_owned(), folder.join("../lib"), folder.join("lib")];
    std::env::split_paths(&own)
        .chain(beside)
        .chain(system.map(PathBuf::from))
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .find(|path| is_named(path, library))
        .and_then(|path| path.canonicalize().ok())
        .with_context(|| {
            format!("no library {library} in the usual places; give its path: FUNC@/path/{library}")
        })
}
