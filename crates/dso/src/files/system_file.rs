//! The room for files at fixed places of the system: /proc, /sys, tracefs, and a few of /etc and /lib. They are read,
//! and those of tracefs are written, but none is ever created.
//!
//! Their paths consist of fixed words, of numbers, and of names that the kernel listed. Those that the kernel makes up
//! state no size or a wrong one, so they are read to their end, which the kernel's own tables bound. A path that another
//! party can choose is the business of [`crate::files::untrusted_file`]; that includes paths below `/proc/PID/root` and
//! `/proc/PID/cwd`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Opens the file at `path` for reading.
///
/// # Errors
/// The system's.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    File::open(path)
}

/// Opens the file at `path` for reading, such as one of tracefs's pipes: reading what is not there yet is an error and
/// does not wait.
///
/// # Errors
/// The system's.
pub fn open_without_waiting(path: impl AsRef<Path>) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
}

/// All bytes of the file at `path`.
///
/// # Errors
/// The system's.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// The text in the file at `path`.
///
/// # Errors
/// The system's, and `InvalidData` if it is not UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    // Without a size to go by, the library would begin with 32 bytes: ten system calls for a list of mappings.
    const FIRST: usize = 16 << 10;
    let mut text = String::with_capacity(FIRST);
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// All bytes of a file that gives everything to the first read and nothing to a second one, as tracefs's
/// `header_page` does: reading by small pieces, as [`read`] begins, loses the rest.
///
/// # Errors
/// The system's.
pub fn read_by_large_pieces(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut all = Vec::new();
    let mut piece = vec![0u8; 256 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&piece[..n]),
        }
    }
}

/// Writes a setting of the kernel in place of what it was.
///
/// # Errors
/// The system's; `NotFound` if there is no such setting.
pub fn write(path: impl AsRef<Path>, text: &str) -> io::Result<()> {
    // Truncating empties lists (set_graph_function) and buffers (trace).
    File::options().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// Opens a list of the kernel, such as `uprobe_events`, to add lines to it.
///
/// # Errors
/// The system's; `NotFound` if there is no such list.
pub fn open_to_append(path: impl AsRef<Path>) -> io::Result<File> {
    File::options().append(true).open(path)
}
