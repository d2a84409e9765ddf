//! Where the records go.

use std::path::PathBuf;
use std::time::Duration;

use crate::spans::Trigger;

/// The file that is written, or the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOpts {
    /// Where the records go.
    pub output: Output,
    /// zstd level of the data section; `None` writes it plain.
    pub compression: Option<i32>,
    /// Stop after this many bytes of output.
    pub max_size_bytes: Option<u64>,
    /// One file after another; `None`: a single one.
    pub switch_output: Option<SwitchOutput>,
    /// Only the newest records are kept, as much as the rings hold together, until the end or a snapshot.
    pub overwrite: bool,
    /// Only records of this last time are kept, where only the newest are.
    pub window: Option<Duration>,
    /// A file is written when one of these fires, and not before.
    pub triggers: Vec<Trigger>,
    /// The name of the output ends with the time it was completed.
    pub timestamp_filename: bool,
    /// Don't write build-ids of the files seen.
    pub no_build_ids: bool,
    /// Which of the files seen are copied into the build-id cache (`~/.debug`).
    pub keep_files: KeepFiles,
    /// The command line to store in the file, program first.
    pub command_line: Vec<String>,
}

impl Default for FileOpts {
    fn default() -> Self {
        Self {
            output: Output::File(PathBuf::from("perf.data")),
            compression: None,
            max_size_bytes: None,
            switch_output: None,
            overwrite: false,
            window: None,
            triggers: Vec::new(),
            timestamp_filename: false,
            no_build_ids: false,
            keep_files: KeepFiles::All,
            command_line: Vec::new(),
        }
    }
}

/// Where the records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A file; an existing one is kept as FILE.old.
    File(PathBuf),
    /// Standard output, in pipe mode.
    Stdout,
    /// Nowhere: only the summary is wanted.
    Discard,
}

/// Which of the files seen are kept for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepFiles {
    /// All.
    #[default]
    All,
    /// Those that can't be opened under their name: of containers, deleted, in memory only.
    Unreachable,
    /// None.
    None,
}

/// When a recording goes on in another file: on `SIGUSR2` and the command `snapshot`, and
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchOutput {
    /// at this size, in bytes;
    pub size_bytes: Option<u64>,
    /// after this time.
    pub every: Option<Duration>,
    /// Number of the newest files that are kept.
    pub most_files: Option<usize>,
}
