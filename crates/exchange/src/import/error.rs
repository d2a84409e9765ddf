//! Why a file of another profiler can't be read.

use std::fmt;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// Protocol buffers of pprof.
    Pprof,
    /// speedscope's own JSON.
    Speedscope,
    /// The Firefox Profiler's processed JSON, which samply writes.
    Firefox,
    /// Chrome's trace with CPU samples, or a `.cpuprofile`.
    Chrome,
    /// A table of tally's rows.
    Parquet,
    /// Folded stacks.
    Folded,
    /// Output of `perf script`.
    PerfScript,
    /// JSON of an unknown kind.
    Json,
    /// A file compressed with gzip.
    Gzip,
}

impl fmt::Display for ImportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pprof => "pprof",
            Self::Speedscope => "speedscope",
            Self::Firefox => "Firefox profile",
            Self::Chrome => "Chrome trace",
            Self::Parquet => "Parquet",
            Self::Folded => "folded stacks",
            Self::PerfScript => "text of perf script",
            Self::Json => "JSON",
            Self::Gzip => "gzip",
        })
    }
}

/// Where in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// A byte of the (decompressed) file.
    Byte(usize),
    /// A path of keys in JSON, such as `profiles[2].samples[7]`.
    Key(String),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(offset) => write!(f, "byte {offset}"),
            Self::Key(path) => f.write_str(path),
        }
    }
}

/// Why a file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file is not of its format.
    #[error("{format}: {problem} at {position}")]
    Malformed {
        /// The format it seems to have.
        format: ImportFormat,
        /// Problem found.
        problem: &'static str,
        /// Where.
        position: Position,
    },
    /// It is larger than is read.
    #[error("{format}: more than {most} bytes")]
    TooLarge {
        /// The format.
        format: ImportFormat,
        /// The bound.
        most: usize,
    },
    /// Its stacks are longer than is read.
    #[error("more than {most} frames in all distinct stacks")]
    TooManyFrames {
        /// The bound.
        most: usize,
    },
    /// JSON that no profiler known here writes.
    #[error("JSON of no known profiler (known: speedscope, Firefox and samply, Chrome and .cpuprofile)")]
    UnknownJson,
    /// A variant of a format that is not read.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl ImportError {
    /// At a byte.
    #[must_use]
    pub fn at(format: ImportFormat, problem: &'static str, offset: usize) -> Self {
        Self::Malformed { format, problem, position: Position::Byte(offset) }
    }

    /// At a key.
    #[must_use]
    pub fn key(format: ImportFormat, problem: &'static str, key: impl Into<String>) -> Self {
        Self::Malformed { format, problem, position: Position::Key(key.into()) }
    }
}
