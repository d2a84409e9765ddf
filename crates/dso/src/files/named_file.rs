//! The room for files that the user of this program named on its command line.
//!
//! Whoever runs the program may name a pipe (`<(zcat kallsyms.gz)`), a file of /proc or a device, and waits for it if
//! it makes them wait. Paths from any other source are the business of [`crate::files::untrusted_file`].

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens the file at `path` for reading.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// All bytes of the file at `path`.
///
/// # Errors
/// The system's.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// The text in the file at `path`.
///
/// # Errors
/// The system's, and `InvalidData` if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}
