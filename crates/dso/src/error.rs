//! Errors of an object file as a whole. (An unknown name isn't an error: see `Missing`.)

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::{Missing, Refused};

/// Why a file could not be taken as an object file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Not ELF, or an ELF header that contradicts itself.
    #[error("not a readable ELF file: {0}")]
    Elf(&'static str),
    /// The section is compressed and its content damaged.
    #[error("section {name}: damaged compressed data")]
    Compressed {
        /// The section's name.
        name: String,
    },
    /// The section would become larger than its own size justifies, or than the process has room for.
    #[error("section {name} is not read: {bytes} bytes are more than its size can justify")]
    TooLarge {
        /// The section's name.
        name: String,
        /// Stated size.
        bytes: u64,
    },
    /// The DWARF is damaged at its root (damage in one unit costs only that unit).
    #[error("DWARF: {0}")]
    Dwarf(gimli::Error),
}

impl Error {
    /// The same, as the reason for a missing name.
    pub fn missing(&self) -> Missing {
        match self {
            Self::Io { source, .. } => missing_of_io(source),
            Self::Elf(_) => Missing::NotElf,
            Self::Compressed { .. } | Self::TooLarge { .. } | Self::Dwarf(_) => Missing::NoDebugInfo,
        }
    }
}

/// The reason for an I/O error.
pub(crate) fn missing_of_io(e: &io::Error) -> Missing {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()) {
        Some(Refused::NotRegular(_)) => return Missing::NotRegular,
        Some(Refused::TooLarge { .. } | Refused::Sparse { .. }) => return Missing::TooLarge,
        Some(Refused::WrongOwner { .. }) => return Missing::ForeignOwner,
        _ => {}
    }
    match e.kind() {
        io::ErrorKind::PermissionDenied => Missing::NoPermission,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Missing::NoFile,
        _ => Missing::NotElf,
    }
}
