//! Folders that killed tallies left: a tally keeps a lock on each of its folders, and the kernel releases it with the
//! process, in whatever container that was.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dso::system_file;

use crate::machine::proc;
use crate::sys::mem;

/// Random digits at the end of a folder's name.
const DIGITS: usize = 20;

/// The folder is ours from now on, until the returned value is dropped or we end; `None` if somebody was faster: it is
/// being removed, or already gone.
///
/// # Errors
/// The kernel's.
pub(super) fn occupy(folder: &Path) -> io::Result<Option<File>> {
    let Some(lock) = mem::lock_folder(folder)? else { return Ok(None) };
    let is_there = fs::symlink_metadata(folder).is_ok_and(|now| {
        lock.metadata().is_ok_and(|opened| (opened.dev(), opened.ino()) == (now.dev(), now.ino()))
    });
    Ok(is_there.then_some(lock))
}

/// Removes those of this user in `parent` that nobody has locked and no process has mapped a file of: a program whose
/// recorder was killed may go on with its library.
pub(super) fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name));
    for folder in ours.map(|entry| entry.path()) {
        let is_own = fs::symlink_metadata(&folder)
            .is_ok_and(|found| found.is_dir() && found.uid() == mem::effective_uid());
        if !is_own {
            continue;
        }
        let lock = occupy(&folder).ok().flatten();
        if lock.is_some() && !is_mapped(&folder) {
            // The next tally tries to remove the rest.
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

fn is_name(name: &str) -> bool {
    let Some((begin, end)) = name.rsplit_once('-') else { return false };
    begin.starts_with("tally-") && end.len() == DIGITS && end.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn is_mapped(folder: &Path) -> bool {
    let Some(folder) = folder.to_str() else { return true };
    let has = |pid: &u32| {
        system_file::read_text(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(folder))
    };
    proc::pids().iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::super::ScratchFolder;
    use super::*;

    #[test]
    fn only_folders_that_nobody_holds_are_swept() {
        let outer = ScratchFolder::private("sweep").expect("room");
        let path = |name: &str| outer.path().join(name);
        let (left, held, other) = (
            path("tally-live-0123456789abcdef0123"),
            path("tally-live-0123456789abcdef4567"),
            path("tally-live-mine"),
        );
        for folder in [&left, &held, &other] {
            fs::create_dir(folder).expect("ours");
            fs::write(folder.join("file"), "x").expect("ours");
        }
        let lock = occupy(&held).expect("it is there");
        assert!(lock.is_some());
        sweep(outer.path());
        assert_eq!([left.exists(), held.exists(), other.exists()], [false, true, true]);
        drop(lock);
        sweep(outer.path());
        assert!(!held.exists());
    }
}
