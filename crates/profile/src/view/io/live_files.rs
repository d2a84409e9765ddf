//! Files of requests while they are recorded.

use super::FileTarget;
use super::files::files_among;
use crate::tracepoints::block_io::Request;
use perfdata::appendix::disk_files::DiskFiles;
use std::collections::VecDeque;

/// Batches kept: at one in 20 ms, those of the last 20 s.
const KEPT: usize = 1000;

/// Files that were found lately, by batch.
#[derive(Debug, Default)]
pub struct LiveFiles {
    /// The newest first.
    batches: VecDeque<DiskFiles>,
    is_refused: bool,
}

impl LiveFiles {
    /// Adds those of a moment, or the reason why there are none.
    pub fn add(&mut self, found: DiskFiles) {
        self.is_refused |= !found.refused.is_empty();
        self.batches.push_front(found);
        self.batches.truncate(KEPT);
    }

    /// Files of a request, in words; empty for one without data. `None` while they may still come.
    #[must_use]
    pub fn words(&self, comm: &str, request: &Request) -> Option<String> {
        if request.moved_bytes() == 0 || self.is_refused {
            return Some(String::new());
        }
        let found = self.batches.iter().map(|batch| files_among(batch, comm, request));
        let is_seen = |files: &Vec<(FileTarget, bool, u64)>| {
            files.iter().any(|(target, ..)| *target != FileTarget::NotSeen)
        };
        let files = found.into_iter().find(is_seen)?;
        let words: Vec<String> = files.iter().map(|(file, ..)| file.words()).collect();
        Some(words.join(", "))
    }
}
