//! The one door to files whose path or content another party controls: paths named by a recording or by debug
//! information, `/tmp/perf-PID.map`, jitdumps, files inside a folder of calls, build-id caches.
//!
//! Such a path can lead to a FIFO that blocks for ever, to a device that acts when it is opened (`/dev/watchdog`
//! reboots the machine when it is closed again), to `/proc/self/pagemap`, which never ends, or to a sparse file that
//! fills the memory. Therefore:
//!
//! - The file is examined before it is opened: only regular files are opened, and what was examined is what is opened.
//! - A file that states no size is never opened. That is every file of /proc.
//! - The caller states how many bytes it is ready to read; more is an error, not a shortened file.
//! - Where names can be planted by others, the caller states which users may own the file.
//!
//! `cargo xtask tidy` keeps a list of the files that open files by other means, each with its reason.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use thiserror::Error;

/// Opening never waits, never takes a terminal, and never leaks the descriptor to a child.
const OPEN_FLAGS: i32 = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// Unit of `st_blocks`, whatever the file system's own is.
const BLOCK_BYTES: u64 = 512;

/// Reading the zeros of smaller files costs nothing worth a rule.
const SPARSE_BYTES: u64 = 1 << 30;

/// A file that keeps less than this part of its bytes is sparse; zstd on btrfs goes down to 1/32.
const SPARSE_SHARE: u64 = 64;

/// Conditions for a file to be opened.
#[derive(Clone, Debug)]
pub struct FileRule {
    max_bytes: u64,
    follows_links: bool,
    takes_sparse: bool,
    owners: Option<Vec<u32>>,
}

/// Kind of a file that isn't a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A folder.
    Directory,
    /// A FIFO.
    Pipe,
    /// A Unix socket.
    Socket,
    /// A character or block device.
    Device,
    /// A symbolic link where none is followed.
    Link,
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Link => "a symbolic link",
        })
    }
}

/// Why a file was not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The system refused to examine, open or read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Only regular files are opened.
    #[error("not a regular file but {0}")]
    NotRegular(FileKind),
    /// It states no size: it is empty, or a file of /proc. [`FileRule::read`] reports this as no bytes.
    #[error("the file is empty")]
    Empty,
    /// It holds more than the caller is ready to read.
    #[error("file of {bytes} bytes; at most {max_bytes} are read")]
    TooLarge {
        /// Stated size, or the number of bytes read when it grew meanwhile.
        bytes: u64,
        /// The caller's limit.
        max_bytes: u64,
    },
    /// It is large and consists of holes, for whose zeros nobody paid.
    #[error("sparse file of {bytes} bytes, of which {allocated} exist")]
    Sparse {
        /// Stated size.
        bytes: u64,
        /// Bytes that the file system keeps for it.
        allocated: u64,
    },
    /// It belongs to a user who may have planted it.
    #[error("file owned by user {owner}, not by {}", one_of(allowed))]
    WrongOwner {
        /// The owner's user id.
        owner: u32,
        /// The users who may own it.
        allowed: Vec<u32>,
    },
    /// Only our privileges make it readable, and whoever named it may lack them: see [`crate::files::source_file`].
    #[error("file of user {owner} that not every user may read")]
    Private {
        /// The owner's user id.
        owner: u32,
    },
    /// Another file was put in its place between examining and opening it.
    #[error("the file was replaced while it was opened")]
    Replaced,
}

fn one_of(users: &[u32]) -> String {
    users.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Io(error) => error,
            Refused::NotRegular(_) | Refused::Empty | Refused::Sparse { .. } => {
                Self::new(io::ErrorKind::InvalidInput, refused)
            }
            Refused::TooLarge { .. } => Self::new(io::ErrorKind::FileTooLarge, refused),
            Refused::WrongOwner { .. } | Refused::Private { .. } => {
                Self::new(io::ErrorKind::PermissionDenied, refused)
            }
            Refused::Replaced => Self::other(refused),
        }
    }
}

impl FileRule {
    /// Regular files of at most `max_bytes`; symbolic links are followed, any user may own them.
    #[must_use]
    pub const fn up_to(max_bytes: u64) -> Self {
        Self { max_bytes, follows_links: true, takes_sparse: true, owners: None }
    }

    /// The same, and the last part of the path is not a symbolic link.
    #[must_use]
    pub fn without_links(self) -> Self {
        Self { follows_links: false, ..self }
    }

    /// The same, and the file is not large and sparse: for files that are mapped, whatever their size.
    #[must_use]
    pub fn dense(self) -> Self {
        Self { takes_sparse: false, ..self }
    }

    /// The same, and the file belongs to one of `owners`.
    #[must_use]
    pub fn owned_by(self, owners: Vec<u32>) -> Self {
        Self { owners: Some(owners), ..self }
    }

    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// See [`Refused`]. A file that is refused was not opened.
    pub fn open(&self, path: &Path) -> Result<File, Refused> {
        let nofollow = if self.follows_links { 0 } else { libc::O_NOFOLLOW };
        // O_PATH names the file without opening it: no driver is asked, and nothing waits.
        let place = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_CLOEXEC | nofollow)
            .open(path)?;
        let examined = place.metadata()?;
        self.check(&examined)?;
        let same_file = format!("/proc/self/fd/{}", place.as_raw_fd());
        let opened = match open_readable(Path::new(&same_file), 0) {
            // Without /proc, as in some containers. A file swapped in just now is noticed after it was opened.
            Err(error) if is_absent(&error) => open_readable(path, nofollow)?,
            opened => opened?,
        };
        let meta = opened.metadata()?;
        if (meta.dev(), meta.ino()) != (examined.dev(), examined.ino()) {
            return Err(Refused::Replaced);
        }
        Ok(opened)
    }

    /// All bytes of the file at `path`; none of an empty file.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Refused> {
        let file = match self.open(path) {
            Err(Refused::Empty) => return Ok(Vec::new()),
            file => file?,
        };
        let mut bytes = Vec::with_capacity(file.metadata()?.len().min(self.max_bytes) as usize);
        file.take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        let read = bytes.len() as u64;
        if read > self.max_bytes {
            return Err(Refused::TooLarge { bytes: read, max_bytes: self.max_bytes });
        }
        Ok(bytes)
    }

    fn check(&self, meta: &Metadata) -> Result<(), Refused> {
        if let Some(kind) = kind_unless_regular(meta) {
            return Err(Refused::NotRegular(kind));
        }
        if let Some(allowed) = self.owners.as_ref().filter(|allowed| !allowed.contains(&meta.uid())) {
            return Err(Refused::WrongOwner { owner: meta.uid(), allowed: allowed.clone() });
        }
        let (bytes, allocated) = (meta.len(), meta.blocks().saturating_mul(BLOCK_BYTES));
        if !self.takes_sparse && is_sparse(bytes, allocated) {
            return Err(Refused::Sparse { bytes, allocated });
        }
        match bytes {
            0 => Err(Refused::Empty),
            bytes if bytes > self.max_bytes => Err(Refused::TooLarge { bytes, max_bytes: self.max_bytes }),
            _ => Ok(()),
        }
    }
}

/// A compressing file system keeps less than the size, but not that much less; one that reports 0 does not
/// know. (A file without any data has no magic number, and is refused for that.)
const fn is_sparse(bytes: u64, allocated: u64) -> bool {
    bytes > SPARSE_BYTES && allocated > 0 && allocated < bytes / SPARSE_SHARE
}

fn open_readable(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OPEN_FLAGS | flags).open(path)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn kind_unless_regular(meta: &Metadata) -> Option<FileKind> {
    let kind = meta.file_type();
    if kind.is_file() {
        return None;
    }
    Some(match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_fifo() => FileKind::Pipe,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_symlink() => FileKind::Link,
        () => FileKind::Device,
    })
}

#[cfg(test)]
mod tests;
