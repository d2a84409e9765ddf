//! Temporary folders and files: the only place that makes them.
//!
//! A name in `/tmp` that can be guessed belongs to whoever makes it first. So each folder here is new (`mkdir` fails on
//! anything that exists, a symbolic link included), has 80 random bits in its name, and is removed when dropped. Its
//! parent is one in which no other user can rename it.
//!
//! The folder is locked while its tally lives. One that a killed tally left has no lock, and the next tally removes it.
//!
//! | folder | its owner and root | everybody else |
//! |---|---|---|
//! | [`ScratchFolder::private`], 0700 | all | nothing: not even the names of its files |
//! | [`ScratchFolder::for_programs`], 0711 | all | open a file there by its name, if the file's own mode allows it |
//!
//! The second is for files that a traced program opens, above all the preloaded recorder. The program may be another
//! user by then: it dropped its rights and executed something else. It has to find the library, or its loader prints
//! an error into its output. Nothing depends on the folder's name being secret, for `/proc/PID/cmdline` shows it:
//! others can read the library (0644), which is no secret, and can read, add, replace or remove nothing. Recorded
//! data there is 0600, so a program that became another user writes to the files it has open but makes no new ones;
//! those calls are lost. A set-user-ID program never gets that far, because its loader ignores `LD_PRELOAD`. In a
//! container or chroot the folder is found only if it is mounted there, as before.

mod left_behind;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use dso::system_file;

use crate::sys::{mem, random};

/// Where temporary folders are made, after `$TMPDIR`.
const PARENTS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The reason for a missing temporary folder.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// Others could replace it, wherever it is.
    #[error(
        "no folder is safe for temporary files: other users can rename what is in {}; chmod +t it, or set TMPDIR to a folder of your own",
        .0.display()
    )]
    Unguarded(PathBuf),
    /// None of the folders fits what it is needed for.
    #[error("no temporary folder is {0}; set TMPDIR to one that is")]
    Unfit(&'static str),
    /// It can't be made.
    #[error("can't make the temporary folder {}: {source}", path.display())]
    System {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The kind of place that a folder needs.
#[derive(Debug, Clone, Copy)]
pub struct PlaceRule {
    /// True for folders of this kind.
    pub fits: fn(&Path) -> bool,
    /// The kind in words, for the error message.
    pub wanted: &'static str,
}

impl PlaceRule {
    /// Every place fits.
    pub const ANY: Self = Self { fits: |_| true, wanted: "" };
}

/// A folder of our own, removed with all in it when dropped.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
    /// Held as long as the folder is in use.
    _lock: Option<File>,
}

impl ScratchFolder {
    /// A folder that only we can look into. `purpose` is a part of its name.
    ///
    /// # Errors
    /// If there is no safe place for it, or it can't be made.
    pub fn private(purpose: &str) -> Result<Self, ScratchError> {
        Self::within(&parents(), purpose, 0o700, PlaceRule::ANY)
    }

    /// A folder whose files traced programs can open by name, whoever they run as. It is in a place that
    /// fits the rule.
    ///
    /// # Errors
    /// If there is no suitable place, or it can't be made.
    pub fn for_programs(purpose: &str, rule: PlaceRule) -> Result<Self, ScratchError> {
        Self::within(&parents(), purpose, 0o711, rule)
    }

    fn within(parents: &[PathBuf], purpose: &str, mode: u32, rule: PlaceRule) -> Result<Self, ScratchError> {
        let mut why = ScratchError::Unfit(rule.wanted);
        // By their real names, so that no link on the way is read a second time.
        for parent in parents.iter().filter_map(|parent| parent.canonicalize().ok()) {
            if let Some(open) = unguarded_part(&parent) {
                why = ScratchError::Unguarded(open);
            } else if (rule.fits)(&parent) {
                left_behind::sweep(&parent);
                match make(&parent, purpose, mode) {
                    Ok(folder) => return Ok(folder),
                    Err(error) => why = error,
                }
            }
        }
        Err(why)
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Files that can't be removed are left in the temporary folder, where a later run removes them.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn parents() -> Vec<PathBuf> {
    let first = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    first.into_iter().chain(PARENTS.map(PathBuf::from)).collect()
}

/// The folder for temporary files that have no name.
#[must_use]
pub fn nameless_parent() -> PathBuf {
    parents().into_iter().find(|parent| parent.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}

fn make(parent: &Path, purpose: &str, mode: u32) -> Result<ScratchFolder, ScratchError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| ScratchError::System { path, source }
    };
    let path = parent.join(random_name(&format!("tally-{purpose}-")).map_err(fail(parent))?);
    DirBuilder::new().mode(mode).create(&path).map_err(fail(&path))?;
    // A file system without locks keeps what a killed one leaves.
    let lock = left_behind::occupy(&path).unwrap_or_default();
    let folder = ScratchFolder { path, _lock: lock };
    // Whatever the umask left of it.
    fs::set_permissions(&folder.path, fs::Permissions::from_mode(mode)).map_err(fail(&folder.path))?;
    Ok(folder)
}

/// `beginning` and 80 random bits in hexadecimal digits.
///
/// # Errors
/// If the kernel gives no random bytes.
pub fn random_name(beginning: &str) -> io::Result<String> {
    let mut bytes = [0; 10];
    random::fill(&mut bytes)?;
    Ok(bytes.iter().fold(beginning.to_owned(), |name, byte| format!("{name}{byte:02x}")))
}

/// A file in `dir` that no folder lists: nothing is left of it however we end.
///
/// # Errors
/// If `dir` can't be written.
pub fn nameless_file(dir: &Path) -> io::Result<File> {
    let mut how = File::options();
    how.read(true).write(true).mode(0o600);
    how.clone().custom_flags(libc::O_TMPFILE).open(dir).or_else(|_| {
        // Not every file system can do that.
        let path = dir.join(random_name(".tally-")?);
        let file = how.create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    })
}

/// The first folder on the way to `path` (absolute, without links) in which another user could replace an entry;
/// `None` if only we and root can. A folder that can't be read counts as one.
#[must_use]
pub fn unguarded_part(path: &Path) -> Option<PathBuf> {
    let us = mem::effective_uid();
    let unknown = unknown_owner();
    let mut parts: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    parts.reverse();
    parts.into_iter().find(|part| !is_guarded(part, &[0, us], unknown)).map(Path::to_path_buf)
}

fn is_guarded(folder: &Path, trusted: &[u32], unknown: Option<u32>) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;
    fs::symlink_metadata(folder).is_ok_and(|found| {
        let is_owned = trusted.contains(&found.uid()) || Some(found.uid()) == unknown;
        is_owned && found.is_dir() && (found.mode() & OTHERS_WRITE == 0 || found.mode() & STICKY != 0)
    })
}

/// The owner shown for files of users unknown in this user namespace, among them the machine's root; `None` outside
/// of one, where that number is a user like others.
fn unknown_owner() -> Option<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let map = system_file::read_text("/proc/self/uid_map").ok()?;
    let is_whole = map.split_whitespace().filter_map(number).eq([0, 0, u32::MAX]);
    if is_whole { None } else { number(&system_file::read_text("/proc/sys/kernel/overflowuid").ok()?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    #[test]
    fn folders_are_new_and_removed_with_what_is_in_them() {
        let (one, other) = (ScratchFolder::private("test"), ScratchFolder::private("test"));
        let (one, other) = (one.expect("a place"), other.expect("a place"));
        assert_ne!(one.path(), other.path());
        assert_eq!(mode(one.path()), 0o700);
        fs::write(one.path().join("file"), "x").expect("ours");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn programs_of_other_users_can_open_what_they_can_name() {
        let folder = ScratchFolder::for_programs("test", PlaceRule::ANY).expect("a place");
        assert_eq!(mode(folder.path()), 0o711);
    }

    #[test]
    fn a_parent_where_others_can_rename_is_not_used() {
        let outer = ScratchFolder::private("test").expect("a place");
        let parent = outer.path().canonicalize().expect("it is there");
        let within = |mode: u32| {
            fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).expect("ours");
            ScratchFolder::within(std::slice::from_ref(&parent), "test", 0o700, PlaceRule::ANY)
        };
        assert!(matches!(within(0o777), Err(ScratchError::Unguarded(open)) if open == parent));
        assert!(matches!(within(0o770), Err(ScratchError::Unguarded(open)) if open == parent));
        assert!(within(0o1777).is_ok() && within(0o755).is_ok());
        // The same one step further up.
        let inner = parent.join("inner");
        DirBuilder::new().mode(0o700).create(&inner).expect("ours");
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(unguarded_part(&inner).as_deref(), Some(&*parent));
    }

    #[test]
    fn a_folder_of_another_user_is_not_guarded() {
        let folder = ScratchFolder::private("test").expect("a place");
        let owner = fs::metadata(folder.path()).expect("it is there").uid();
        assert!(is_guarded(folder.path(), &[owner], None));
        assert!(!is_guarded(folder.path(), &[owner + 1], None));
        assert!(is_guarded(folder.path(), &[owner + 1], Some(owner)), "in a user namespace");
        assert!(!is_guarded(&folder.path().join("none"), &[owner], None));
    }

    #[test]
    fn a_place_that_does_not_fit_is_passed_over() {
        let (one, other) = (ScratchFolder::private("wrong"), ScratchFolder::private("right"));
        let (one, other) = (one.expect("a place"), other.expect("a place"));
        let parents = [one.path().to_owned(), other.path().to_owned()];
        let rule = PlaceRule { fits: |path| path.to_string_lossy().contains("right"), wanted: "right" };
        let made = ScratchFolder::within(&parents, "test", 0o700, rule).expect("the other");
        assert!(made.path().starts_with(other.path().canonicalize().expect("it is there")));
        let none = ScratchFolder::within(&parents[..1], "test", 0o700, rule);
        assert_eq!(
            none.expect_err("none").to_string(),
            "no temporary folder is right; set TMPDIR to one that is"
        );
    }

    #[test]
    fn a_nameless_file_is_in_no_list() {
        use std::io::{Read, Seek, Write};
        let folder = ScratchFolder::private("test").expect("a place");
        let mut file = nameless_file(folder.path()).expect("ours");
        file.write_all(b"kept").and_then(|()| file.rewind()).expect("room");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("ours");
        assert_eq!((text.as_str(), fs::read_dir(folder.path()).expect("ours").count()), ("kept", 0));
    }
}
