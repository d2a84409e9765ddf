//! Drafts: held records written as a complete file, which is kept or removed once it has been judged.

use super::RecordingSink;
use crate::files::part_names::PartNames;
use perfdata::Features;
use std::path::PathBuf;

impl RecordingSink {
    /// Time at which the oldest of the held records came, ns of the monotonic clock; `None` if none is held.
    #[must_use]
    pub fn held_since_ns(&self) -> Option<u64> {
        self.parts.as_ref()?.held_since_ns()
    }

    /// Completes the present file with the held records, which stay held. Nothing else may be written before
    /// [`RecordingSink::keep_draft`] or [`RecordingSink::remove_draft`]. `None` if it can't be written.
    pub fn write_draft(&mut self, features: &Features, appendix: &[u8]) -> Option<PathBuf> {
        let parts = self.parts.take()?;
        parts.copy_held(|record| self.with(|w| w.write_raw(record)));
        self.parts = Some(parts);
        let written = self.bytes();
        let finished = self.writer.take().map(|writer| writer.finish(features, appendix));
        self.draft_bytes = written;
        match finished {
            Some(Err(error)) => self.failed = self.failed.take().or(Some(error)),
            Some(Ok(_)) if self.failed.is_none() => {
                return self.names.as_ref().and_then(PartNames::whereabouts);
            }
            _ => {}
        }
        None
    }

    /// The draft becomes one of the files.
    pub fn keep_draft(&mut self) {
        self.complete_bytes += self.draft_bytes;
        let kept = self.names.as_mut().map_or(Ok(()), |names| names.file_is_complete(true));
        self.after_draft(kept);
    }

    /// The draft goes.
    pub fn remove_draft(&mut self) {
        let removed = self.names.as_mut().map_or(Ok(()), PartNames::remove_unfinished);
        self.after_draft(removed);
    }

    fn after_draft(&mut self, settled: std::io::Result<()>) {
        self.draft_bytes = 0;
        if self.failed.is_none() {
            self.failed = settled.and_then(|()| self.begin_file()).err();
        }
    }
}
