//! Observers of a recording while it goes on.

use perfdata::appendix::disk_files::DiskFiles;
use std::sync::mpsc::Sender;

/// Observers of a recording while it goes on.
#[derive(Debug, Clone)]
pub struct Observers {
    /// Also hands samples on while recording.
    pub watch: Option<SampleWatch>,
    /// Called each second after the end with the number of bytes that the unwinder still has to process.
    pub on_catch_up: fn(u64),
    /// Called with a line for the user while the recording goes on.
    pub on_notice: fn(&str),
    /// Called twice a second while the target runs, with the number of samples so far.
    pub on_progress: fn(u64),
}

impl Default for Observers {
    fn default() -> Self {
        Self { watch: None, on_catch_up: |_| {}, on_notice: |_| {}, on_progress: |_| {} }
    }
}

/// Where tracepoint samples are handed on, in time order, to be shown at once. When nobody listens any more, the
/// recording ends.
#[derive(Debug, Clone)]
pub struct SampleWatch(pub Sender<Watched>);

/// Data that is handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A tracepoint was hit.
    Sample {
        /// ns of the recording's clock.
        time_ns: u64,
        /// Process that ran.
        pid: u32,
        /// Thread that ran.
        tid: u32,
        /// The tracepoint's payload, which begins with its id.
        raw: Vec<u8>,
    },
    /// A process or thread was born.
    Fork {
        /// Process.
        pid: u32,
        /// Parent's.
        ppid: u32,
    },
    /// Files of requests to disks that were found since the last ones, up to some 20 ms after the requests.
    Files(DiskFiles),
}
