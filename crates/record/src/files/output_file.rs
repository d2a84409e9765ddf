//! Files that tally writes: the only place that creates them.
//!
//! | file | mode | a file of that name | a symbolic link of that name |
//! |---|---|---|---|
//! | a recording: [`create_recording`], [`append_to_recording`] | 0600 | becomes FILE.old | becomes FILE.old, its target is left alone |
//! | an export: [`create_export`], [`append_export`] | by umask | is overwritten | is followed |
//! | a part of a folder of ours: [`write_part`], [`append_part`] | 0600 | is overwritten | is an error |
//!
//! Recorded data (names, paths, arguments, pieces of stacks) is for its owner only, as perf has it. An export is made
//! to be shown to others.
//!
//! Terminals, pipes and devices (`/dev/null`, `/dev/stdout`, a FIFO) are written to as they are, never made, renamed or
//! removed. In a folder where everybody may make files (`/tmp`), what another user has put under the name is never
//! written to. These are the rules of `fs.protected_symlinks`, `fs.protected_regular` and `fs.protected_fifos`, which
//! not every machine has switched on.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::sys::mem;

const OWNER_ONLY: u32 = 0o600;

/// The kind of file that already has the name of a file to be written.
enum Found {
    Nothing,
    File(Metadata),
    /// A symbolic link to a file or to nothing.
    Link,
    /// A pipe or device, which is written to as it is.
    Stream,
}

/// The file of a recording, readable and writable by its owner alone. An existing file of that name becomes FILE.old,
/// unless it is empty.
///
/// # Errors
/// It can't be made, or the old one not be renamed.
pub fn create_recording(path: &Path) -> io::Result<File> {
    match find(path)? {
        Found::Nothing => {}
        Found::Stream => return open_stream(path, &mut readable_too(), empty),
        Found::File(file) if file.len() == 0 && is_ours_alone(&file) => return take_empty(path),
        Found::File(_) | Found::Link => keep_old(path)?,
    }
    readable_too().create_new(true).mode(OWNER_ONLY).open(path)
}

/// A file for others to look at, empty, with the rights that the umask leaves.
///
/// # Errors
/// It can't be opened, or another user has put it there.
pub fn create_export(path: &Path) -> io::Result<File> {
    open_export(path, File::options().write(true), empty)
}

/// The same, to append to what it holds.
///
/// # Errors
/// As [`create_export`].
pub fn append_export(path: &Path) -> io::Result<File> {
    open_export(path, File::options().append(true), |_| Ok(()))
}

/// Writes all of an export.
///
/// # Errors
/// As [`create_export`], or it can't be written.
pub fn write_export(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create_export(path)?.write_all(bytes.as_ref())
}

fn empty(file: &File) -> io::Result<()> {
    file.set_len(0)
}

fn open_export(path: &Path, how: &mut OpenOptions, begin: fn(&File) -> io::Result<()>) -> io::Result<File> {
    let found = find(path)?;
    match found {
        Found::Nothing => return how.create_new(true).open(path),
        Found::Stream => return open_stream(path, how, begin),
        Found::File(_) | Found::Link => refuse_planted(path)?,
    }
    let file = match found {
        // Where it leads, nothing may be yet.
        Found::Link => how.create(true).open(path)?,
        _ => how.custom_flags(libc::O_NOFOLLOW).open(path)?,
    };
    begin(&file)?;
    Ok(file)
}

/// Makes a folder and those above it, for others to read.
///
/// # Errors
/// One can't be made.
pub fn create_folders(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Ending of the name of a file that is not whole yet: no reader of a folder takes it for one of its own.
pub const UNFINISHED: &str = ".unfinished";

/// Writes all of an export, or leaves what was there: it gets its name when it is whole.
///
/// # Errors
/// As [`create_export`], or it can't be written: then nothing of it is left.
pub fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(UNFINISHED);
    let unfinished = path.with_file_name(name);
    let written = create_export(&unfinished).and_then(|mut file| {
        file.write_all(bytes.as_ref())?;
        file.sync_data()?;
        fs::rename(&unfinished, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Writes a file of a folder of ours.
///
/// # Errors
/// It can't be written, or is a link.
pub fn write_part(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut how = File::options();
    how.write(true).create(true).truncate(true).mode(OWNER_ONLY).custom_flags(libc::O_NOFOLLOW);
    how.open(path)?.write_all(bytes.as_ref())
}

/// Opens a file of a folder of ours to append to it; made if it isn't there.
///
/// # Errors
/// It can't be opened, or is a link.
pub fn append_part(path: &Path) -> io::Result<File> {
    let mut how = File::options();
    how.append(true).create(true).mode(OWNER_ONLY).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Appends to a finished recording; nothing happens to links, streams and files that are gone.
///
/// # Errors
/// It can't be opened or written.
pub fn append_to_recording(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if !matches!(find(path)?, Found::File(_)) {
        return Ok(());
    }
    File::options().append(true).custom_flags(libc::O_NOFOLLOW).open(path)?.write_all(bytes)
}

/// Whether `path` is written to as it is, so that it can't get another name.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    matches!(find(path), Ok(Found::Stream))
}

/// Removes a recording that came to nothing; streams and links are left alone.
pub fn remove_recording(path: &Path) {
    if matches!(find(path), Ok(Found::File(_))) {
        // It has no more information than a missing one.
        let _ = fs::remove_file(path);
    }
}

fn readable_too() -> OpenOptions {
    let mut how = File::options();
    how.read(true).write(true);
    how
}

fn find(path: &Path) -> io::Result<Found> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let kind = found.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if kind.is_file() {
        return Ok(Found::File(found));
    }
    let is_link = kind.is_symlink();
    let leads_to_file = || fs::metadata(path).map_or(true, |target| target.is_file());
    if is_link && (is_planted(path) || leads_to_file() && !is_of_system(path)) {
        return Ok(Found::Link);
    }
    if is_link && fs::metadata(path)?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !is_link {
        refuse_planted(path)?;
    }
    Ok(Found::Stream)
}

/// `/dev/stdout`, `/proc/self/fd/3` and the like: links to an open file of any kind.
fn is_of_system(path: &Path) -> bool {
    let parent = parent_of(path).canonicalize().unwrap_or_default();
    parent == Path::new("/dev") || parent.starts_with("/proc")
}

fn open_stream(path: &Path, how: &mut OpenOptions, begin: fn(&File) -> io::Result<()>) -> io::Result<File> {
    let file = how.custom_flags(libc::O_NOCTTY).open(path)?;
    // `-o /dev/stdout > FILE`: as if FILE had been named.
    if file.metadata()?.is_file() {
        begin(&file)?;
    }
    Ok(file)
}

fn is_ours_alone(file: &Metadata) -> bool {
    file.uid() == mem::effective_uid() && file.nlink() == 1
}

/// An empty file of ours, made by `mktemp` or mounted into a container: nothing to keep, so it stays where it is.
fn take_empty(path: &Path) -> io::Result<File> {
    let file = readable_too().custom_flags(libc::O_NOFOLLOW).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || !is_ours_alone(&found) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody changes it just now"));
    }
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    Ok(file)
}

fn keep_old(path: &Path) -> io::Result<()> {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    fs::rename(path, &old).map_err(|error| {
        let old = PathBuf::from(old);
        let why =
            format!("what has this name can't become {}: {error}; choose another with -o", old.display());
        io::Error::new(error.kind(), why)
    })
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether another user has put it into a folder where everybody may.
///
/// Source: linux v6.18 fs/namei.c: may_follow_link(), may_create_in_sticky().
fn is_planted(path: &Path) -> bool {
    const STICKY_FOR_ALL: u32 = 0o1002;
    let (Ok(found), Ok(folder)) = (fs::symlink_metadata(path), fs::metadata(parent_of(path))) else {
        return false;
    };
    folder.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL
        && found.uid() != mem::effective_uid()
        && found.uid() != folder.uid()
}

/// Refuses files for which [`is_planted`] is true.
///
/// # Errors
/// With the owner and the remedy.
pub fn refuse_planted(path: &Path) -> io::Result<()> {
    if !is_planted(path) {
        return Ok(());
    }
    let owner = fs::symlink_metadata(path)?.uid();
    let why = format!(
        "user {owner} has put it into a folder where everybody may write; choose another name with -o"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests;
