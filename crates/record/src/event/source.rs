//! Where the parser learns what this machine has: sysfs' PMUs and tracefs' tracepoints.
//!
//! The parser sees only the trait, so that its tests bring a machine of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dso::system_file;

use super::tracefs::tracefs;

/// Reads the kernel's descriptions of events.
pub trait EventSource {
    /// Content of `/sys/bus/event_source/devices/<path>`, e.g. `cpu/format/umask`.
    fn read_pmu(&self, path: &str) -> io::Result<String>;
    /// Names in `/sys/bus/event_source/devices/<path>`, sorted; `""` lists the PMUs.
    fn list_pmu(&self, path: &str) -> io::Result<Vec<String>>;
    /// Content of `<tracefs>/events/<path>`, e.g. `sched/sched_switch/id`.
    fn read_tracefs(&self, path: &str) -> io::Result<String>;
    /// Folders in `<tracefs>/events/<path>`, sorted; `""` lists the systems.
    fn list_tracefs(&self, path: &str) -> io::Result<Vec<String>>;
}

/// The machine we run on.
#[derive(Debug, Clone)]
pub struct SystemSource {
    pmus: PathBuf,
    events: PathBuf,
}

impl SystemSource {
    /// Looks for tracefs.
    #[must_use]
    pub fn new() -> Self {
        let events = tracefs().join("events");
        Self { pmus: PathBuf::from("/sys/bus/event_source/devices"), events }
    }
}

impl Default for SystemSource {
    fn default() -> Self {
        Self::new()
    }
}

impl EventSource for SystemSource {
    fn read_pmu(&self, path: &str) -> io::Result<String> {
        system_file::read_text(below(&self.pmus, path)?)
    }

    fn list_pmu(&self, path: &str) -> io::Result<Vec<String>> {
        list(&below(&self.pmus, path)?, false)
    }

    fn read_tracefs(&self, path: &str) -> io::Result<String> {
        system_file::read_text(below(&self.events, path)?)
    }

    fn list_tracefs(&self, path: &str) -> io::Result<Vec<String>> {
        list(&below(&self.events, path)?, true)
    }
}

/// `root/path`, refused when `path` would leave `root`.
fn below(root: &Path, path: &str) -> io::Result<PathBuf> {
    if path.split('/').any(|part| part == ".." || part.contains('\0')) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(if path.is_empty() { root.to_owned() } else { root.join(path) })
}

fn list(folder: &Path, only_folders: bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if only_folders && !entry.file_type()?.is_dir() {
            continue;
        }
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
