//! Why the kernel's own tracers can't be used.

use std::io;
use std::path::{Path, PathBuf};

/// The kernel lacks a tracer or refuses its settings.
#[derive(Debug, thiserror::Error)]
pub enum FtraceError {
    /// A file of the tracer can't be read, made or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel was built without it.
    #[error("no {0} tracer")]
    NoTracer(&'static str),
    /// Somebody else runs a tracer.
    #[error("the tracer {tracer} runs in {}", dir.display())]
    Busy {
        /// The other tracer.
        tracer: String,
        /// The tracing folder.
        dir: PathBuf,
    },
    /// Somebody else traces events.
    #[error("events are traced in {}", .0.display())]
    EventsTraced(PathBuf),
    /// An event's format lacks a field.
    #[error("{} has no {field}", path.display())]
    NoField {
        /// The format file.
        path: PathBuf,
        /// The field.
        field: &'static str,
    },
    /// The top level is taken, and an instance fails too.
    #[error("{top_level}; {instance}")]
    Everywhere {
        /// The error of the top level.
        top_level: Box<FtraceError>,
        /// The error of the instance.
        instance: Box<FtraceError>,
    },
}

impl FtraceError {
    /// Wraps an error of a file: for `map_err`.
    pub fn of_file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
