//! A copy of a recording with mappings of JIT code, or with build-ids, for tools that don't find these themselves.

mod build_ids;
mod jit_code;
mod rewrite;

pub use build_ids::missing_build_ids;
pub use jit_code::{JitMappings, NewMapping, write_code};
pub use rewrite::{Added, rewrite};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Creates a file at a path: only the caller knows how files are created safely.
pub type CreateFile<'a> = &'a dyn Fn(&Path) -> io::Result<File>;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// Raw records are copied as they are.
    #[error("the recording is from a machine of the other byte order, which can't be rewritten here")]
    OtherByteOrder,
    /// Records refer to positions in the file.
    #[error("recordings with a processor trace can't be rewritten")]
    ProcessorTrace,
    /// A file can't be created or written.
    #[error("can't write {}: {error}", .path.display())]
    Unwritable {
        /// Path of the file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

impl InjectError {
    /// For a failure at `path`.
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Unwritable { path: path.to_owned(), error }
    }
}
