//! Files inside a folder of calls, which may come from another machine or another user.

use crate::error::Context;
use dso::{FileRule, MappedFile, Refused};
use std::io;
use std::path::Path;

/// Larger texts are not read. The longest one that tally writes names the functions of a program: 2 million of them
/// with 100 bytes each fit.
const MAX_TEXT_BYTES: u64 = 256 << 20;

/// The bytes of a file of text or of numbers, or why it is not read.
///
/// # Errors
/// If it is absent, too large, no regular file (symbolic links count as such), or can't be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Refused> {
    FileRule::up_to(MAX_TEXT_BYTES).without_links().read(path)
}

/// The same, with the path in the error.
///
/// # Errors
/// As [`read`].
pub fn read_named(path: &Path) -> crate::Result<Vec<u8>> {
    read(path).with_context(|| format!("can't read {}", path.display()))
}

/// The text of a file that not every folder has: empty without it. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// As [`read`], except for an absent file.
pub fn read_if_there(path: &Path) -> crate::Result<String> {
    match read(path) {
        Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(refused) => Err(refused).with_context(|| format!("can't read {}", path.display())),
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// A file of events, which may be of any size: it is mapped, not read.
///
/// # Errors
/// As [`read`], except for its size; if it is large and sparse.
pub fn map(path: &Path) -> io::Result<MappedFile> {
    MappedFile::open_by(&FileRule::up_to(u64::MAX).without_links().dense(), path)
}

/// The same for a file of our own, which may consist of holes.
///
/// # Errors
/// As [`read`], except for its size.
pub fn map_growing(path: &Path) -> io::Result<MappedFile> {
    MappedFile::open_by(&FileRule::up_to(u64::MAX).without_links(), path)
}
