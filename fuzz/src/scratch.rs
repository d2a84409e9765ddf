//! A private folder for the files of one input.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::parcel::Parcel;

/// The folder in which the seeds were recorded. Every mention of it is replaced by the scratch folder. That path has
/// the same length, so that mappings, debug information and sources still match.
pub const RECORDED_IN: &str = "/dev/shm/tally-fuzz.@@@@@@@@";

/// Path of the scratch folder of the process `pid`.
pub fn folder_of(pid: u32) -> PathBuf {
    format!("/dev/shm/tally-fuzz.{pid:08x}").into()
}

/// Removes the folders of processes that were killed.
pub fn remove_abandoned() {
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("tally-fuzz."));
        let Some(pid) = pid.and_then(|hex| u32::from_str_radix(hex, 16).ok()) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            // The next run tries again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder of this process alone, removed when dropped.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// An empty folder.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn new() -> io::Result<Self> {
        let path = folder_of(std::process::id());
        let make = || std::fs::DirBuilder::new().mode(0o700).create(&path);
        if make().is_err() {
            // Left by a killed process that had our pid.
            std::fs::remove_dir_all(&path)?;
            make()?;
        }
        Ok(Self { path })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the parts of `parcel`, those with odd names as `part-N`.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn unpack(&self, parcel: &Parcel) -> io::Result<()> {
        let own = self.path.to_string_lossy();
        for (at, part) in parcel.parts.iter().enumerate() {
            let name = if is_plain(&part.name) { part.name.clone() } else { format!("part-{at}") };
            let path = self.path.join(&name);
            if let Some((folder, _)) = name.split_once('/') {
                // A file of this name may be there: then writing fails, and the part is left out.
                let _ = std::fs::create_dir(self.path.join(folder));
            }
            match std::fs::write(&path, replaced(&part.bytes, RECORDED_IN.as_bytes(), own.as_bytes())) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next process with this pid tries again.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// True for a file name, with at most one folder, of harmless characters.
fn is_plain(name: &str) -> bool {
    let fits = |word: &str| {
        !word.is_empty() && !word.starts_with('.') && word.bytes().all(|byte| byte.is_ascii_graphic())
    };
    name.len() < 100 && name.split('/').count() <= 2 && name.split('/').all(fits)
}

/// `bytes` with every `old` replaced by `new`, which has the same length.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let mut at = 0;
    while at + old.len() <= copy.len() {
        if copy[at..].starts_with(old) {
            copy[at..at + old.len()].copy_from_slice(new);
            at += old.len();
        } else {
            at += 1;
        }
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::ParcelPart;

    #[test]
    fn parts_are_unpacked_below_the_folder_and_mention_it() {
        let part = |name: &str, bytes: &str| ParcelPart { name: name.to_owned(), bytes: bytes.into() };
        let parts = vec![
            part("perf.data", &format!("<{RECORDED_IN}/app>")),
            part("calls/info", "x"),
            part("../outside", "y"),
            part("/etc/outside", "z"),
        ];
        let scratch = Scratch::new().expect("/dev/shm is writable");
        scratch.unpack(&Parcel { parts }).expect("there is room");
        let own = scratch.path().to_path_buf();
        let read = |name: &str| std::fs::read_to_string(own.join(name)).ok();
        assert_eq!(read("perf.data"), Some(format!("<{}/app>", own.display())));
        assert_eq!(["calls/info", "part-2", "part-3"].map(read).map(Option::unwrap), ["x", "y", "z"]);
        drop(scratch);
        assert!(!own.exists());
    }
}
