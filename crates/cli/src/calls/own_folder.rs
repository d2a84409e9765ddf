//! The folder of a new recording of calls: made, or emptied of an earlier recording, and kept to its owner.
//!
//! Only files that a recording is known to have are ever removed, and only where the list of sleds marks the folder as
//! one. Recorded data is 0600 and its folder 0700. While a preloaded program runs, others may search the folder (0711):
//! the program's loader opens the tracer there, perhaps as another user (see `record::scratch`).

use ::record::output_file::{refuse_planted, write_part};
use ::record::sys::mem;
use anyhow::{Context, bail};
use dso::FileRule;
use profile::view::ranking::RankRows as _;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, FileType, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use calls::recording::{function_list, kernel, switches, totals};
use calls::values;
use tracer::layout::{self, sleds};

/// Name of the tracer's file, by which it is known among what a process has mapped.
pub const TRACER_FILE: &str = "libtally_calls.so";
/// The folder, in the recording's, into which the cost of a call is measured.
const MEASURED: &str = "measured";
/// Ends of the names of files that are numbered by process, thread and time.
const NUMBERED: [&str; 4] = ["calls", "maps", "sleds", "part"];
/// Files that a recording may have by fixed names.
const NAMED: [&str; 9] = [
    sleds::NAME,
    layout::LOST_NAME,
    "info",
    values::NAME,
    function_list::NAME,
    kernel::NAMES,
    totals::NAME,
    switches::NAME,
    TRACER_FILE,
];

/// Makes the folder, or empties it of an earlier recording; an empty list of sleds marks it as one.
///
/// # Errors
/// If the folder holds anything else, is another user's trap, or can't be written.
pub fn prepare(dir: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(_) => take_over(dir)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(dir)?,
        Err(error) => return Err(error).with_context(|| format!("can't look at {}", dir.display())),
    }
    // Few file systems have anything to change.
    let _ = mem::keep_files_in_place(dir);
    let mark = dir.join(sleds::NAME);
    write_part(&mark, sleds::MAGIC).with_context(|| {
        // A folder without a mark would be in the next recording's way.
        let _ = fs::remove_file(&mark).and_then(|()| fs::remove_dir(dir));
        format!("can't write into {}", dir.display())
    })
}

/// Lets programs of other users open what they can name in the folder, or nobody but its owner any more.
///
/// # Errors
/// The kernel's.
pub fn set_searchable(dir: &Path, by_others: bool) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(if by_others { 0o711 } else { 0o700 }))
}

/// The folder to measure into, new; it goes with [`remove_measured`].
///
/// # Errors
/// If it can't be made.
pub fn make_measured(dir: &Path) -> io::Result<PathBuf> {
    let folder = dir.join(MEASURED);
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Removes what [`make_measured`] made.
pub fn remove_measured(folder: &Path) {
    // Files that can't be removed now are no recording, and go with the folder.
    let _ = fs::remove_dir_all(folder);
}

fn make(dir: &Path) -> anyhow::Result<()> {
    let failed = || format!("can't make the folder {}", dir.display());
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    DirBuilder::new().mode(0o700).create(dir).with_context(failed)
}

/// Empties a folder and makes it private.
fn take_over(dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display();
    if fs::symlink_metadata(dir)?.is_symlink() {
        refuse_planted(dir).with_context(|| format!("can't record into {shown}"))?;
    }
    let found = fs::metadata(dir).with_context(|| format!("can't look at {shown}"))?;
    if !found.is_dir() {
        bail!("{shown} is not a folder; choose another name with -o");
    }
    for entry in own_entries(dir)? {
        let removed =
            if entry.ends_with(MEASURED) { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
        removed.with_context(|| format!("can't remove {}", entry.display()))?;
    }
    if found.uid() == mem::effective_uid() {
        return set_searchable(dir, false).with_context(|| format!("can't keep {shown} from others"));
    }
    // The folder's owner could put another tracer there.
    fs::remove_dir(dir)
        .and_then(|()| DirBuilder::new().mode(0o700).create(dir))
        .with_context(|| format!("{shown} belongs to user {} and can't be replaced", found.uid()))
}

/// Everything in the folder, if all of it is of a recording.
fn own_entries(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = dir.display();
    let read = || -> io::Result<Vec<(PathBuf, FileType)>> {
        let entries = fs::read_dir(dir)?.map(|entry| entry.and_then(|e| Ok((e.path(), e.file_type()?))));
        entries.collect()
    };
    let mut entries = read().with_context(|| format!("can't read {shown}"))?;
    entries.rank_by(|a, b| a.0.cmp(&b.0));
    if !entries.is_empty() && !is_marked(dir) {
        bail!("{shown} exists and is not a recording of calls; choose another folder with -o");
    }
    let foreign = entries.iter().find(|(path, kind)| !is_of_recording(path, *kind));
    if let Some((path, _)) = foreign {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        bail!(
            "{shown} holds {name}, which is of no recording of calls; move it elsewhere, or choose another folder with -o"
        );
    }
    Ok(entries.into_iter().map(|(path, _)| path).collect())
}

/// Whether its list of sleds is one, of whatever version, or began as one when a tracer was killed or the disk was full.
fn is_marked(dir: &Path) -> bool {
    let version = &sleds::MAGIC[..sleds::MAGIC.len() - 1];
    let mut begin = Vec::new();
    let path = dir.join(sleds::NAME);
    if fs::symlink_metadata(&path).is_ok_and(|list| list.is_file() && list.len() == 0) {
        return true;
    }
    let list = FileRule::up_to(u64::MAX).without_links().open(&path);
    let is_read = list.is_ok_and(|list| list.take(version.len() as u64).read_to_end(&mut begin).is_ok());
    is_read && version.starts_with(&begin)
}

fn is_of_recording(path: &Path, kind: FileType) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if kind.is_dir() {
        return name == MEASURED;
    }
    if kind.is_fifo() {
        return name == sleds::PIPE_NAME;
    }
    kind.is_file() && (NAMED.contains(&name) || is_numbered(name))
}

/// `PID-TID-N.calls`, `PID-N.maps` and the like.
fn is_numbered(name: &str) -> bool {
    let Some((numbers, end)) = name.rsplit_once('.') else { return false };
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    NUMBERED.contains(&end)
        && (2..=3).contains(&numbers.split('-').count())
        && numbers.split('-').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::record::scratch::ScratchFolder;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    /// A recording as one leaves it.
    fn recording(outer: &ScratchFolder) -> PathBuf {
        let dir = outer.path().join("some/calls");
        prepare(&dir).expect("room");
        for name in [
            "7-7-0.calls",
            "7-0.maps",
            "7-0.sleds",
            "7-7-0.part",
            "info",
            "libtally_calls.so",
            "switches.data",
        ] {
            write_part(&dir.join(name), "x").expect("ours");
        }
        fs::write(make_measured(&dir).expect("ours").join("7-7-0.calls"), "x").expect("ours");
        dir
    }

    #[test]
    fn a_recording_that_got_no_further_than_its_mark_is_replaced() {
        let outer = ScratchFolder::private("marked").expect("room");
        let dir = recording(&outer);
        for mark in [&b""[..], &sleds::MAGIC[..3]] {
            fs::write(dir.join(sleds::NAME), mark).expect("ours");
            prepare(&dir).expect("it is one");
        }
        fs::write(dir.join(sleds::NAME), "mine").expect("ours");
        assert!(prepare(&dir).is_err());
    }

    #[test]
    fn an_earlier_recording_is_replaced() {
        let outer = ScratchFolder::private("test").expect("a place");
        let dir = recording(&outer);
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("ours");
        prepare(&dir).expect("all of it is of a recording");
        let left: Vec<_> =
            fs::read_dir(&dir).expect("ours").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!((left, mode(&dir), mode(&dir.join("sleds"))), (vec!["sleds".into()], 0o700, 0o600));
    }

    #[test]
    fn a_folder_with_foreign_files_is_refused_and_left_as_it_is() {
        for foreign in ["thesis.tex", "7-x.maps", "7.calls", "1-2-3-4.maps", "info.bak", "src/"] {
            let outer = ScratchFolder::private("test").expect("a place");
            let dir = recording(&outer);
            fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("ours");
            match foreign.strip_suffix('/') {
                Some(folder) => fs::create_dir(dir.join(folder)).expect("ours"),
                None => fs::write(dir.join(foreign), "precious").expect("ours"),
            }
            let count = fs::read_dir(&dir).expect("ours").count();
            let refused = prepare(&dir).expect_err("not only ours").to_string();
            let name = foreign.trim_end_matches('/');
            assert!(refused.contains(&format!("holds {name}, which is of no recording")), "{refused}");
            assert_eq!((fs::read_dir(&dir).expect("ours").count(), mode(&dir)), (count, 0o755));
        }
    }

    #[test]
    fn names_alone_make_no_recording() {
        let outer = ScratchFolder::private("test").expect("a place");
        for sleds in [None, Some("not a list of sleds")] {
            let dir = outer.path().join(format!("kernel-{}", sleds.is_some()));
            fs::create_dir(&dir).expect("ours");
            fs::write(dir.join("info"), "precious").expect("ours");
            sleds.into_iter().for_each(|text| fs::write(dir.join("sleds"), text).expect("ours"));
            let refused = prepare(&dir).expect_err("no recording").to_string();
            assert!(refused.contains("is not a recording of calls"), "{refused}");
            assert!(dir.join("info").exists());
        }
    }

    #[test]
    fn links_in_a_recording_are_foreign() {
        let outer = ScratchFolder::private("test").expect("a place");
        let dir = recording(&outer);
        fs::write(outer.path().join("victim"), "precious").expect("ours");
        std::os::unix::fs::symlink(outer.path().join("victim"), dir.join("lost")).expect("ours");
        assert!(prepare(&dir).expect_err("a link").to_string().contains("holds lost"));
    }
}
