//! Where records go: a file, a pipe, or nowhere. A failing disk ends the recording but loses nothing written.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use perfdata::record::Auxtrace;
use perfdata::{Event, Features, Record, SampleId, Writer, WriterOpts};

use crate::error::Error;
use crate::opts::Output;
use crate::summary::Notice;

/// Records on their way out.
pub struct Sink {
    writer: Option<Writer<'static>>,
    /// Why nothing is written any more.
    failed: Option<io::Error>,
    max_bytes: Option<u64>,
    events: Vec<Event>,
}

impl Sink {
    /// Begins the output. An existing file is renamed to FILE.old first, as perf does.
    pub fn create(output: &Output, opts: WriterOpts, max_bytes: Option<u64>) -> Result<Self, Error> {
        let events = opts.events.clone();
        let writer = match output {
            Output::Discard => None,
            Output::File(path) => {
                let fail = |source| Error::Output { path: path.clone(), source };
                keep_old(path).map_err(fail)?;
                let file = File::options()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(path)
                    .map_err(fail)?;
                Some(Writer::file(BufWriter::with_capacity(1 << 18, file), opts).map_err(fail)?)
            }
            Output::Stdout => {
                let fail = |source| Error::Output { path: PathBuf::from("standard output"), source };
                Some(Writer::pipe(BufWriter::with_capacity(1 << 18, io::stdout()), opts).map_err(fail)?)
            }
        };
        Ok(Self { writer, failed: None, max_bytes, events })
    }

    /// Appends records as they came.
    pub fn raw(&mut self, records: &[u8]) {
        self.with(|w| w.write_raw(records));
    }

    /// Appends a record in the layout of a file event.
    pub fn record(&mut self, event: usize, record: &Record<'_>, id: &SampleId) {
        self.with(|w| w.write_record(event, record, id));
    }

    /// Appends a piece of a processor's trace.
    pub fn auxtrace(&mut self, piece: &Auxtrace<'_>) {
        self.with(|w| w.write_auxtrace(piece));
    }

    /// Ends a round.
    pub fn finish_round(&mut self) {
        self.with(Writer::finish_round);
    }

    /// The events as the file has them.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Bytes of records written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::data_bytes)
    }

    /// Why the recording should end now, if it should: the disk is full, the pipe closed, the size limit reached.
    #[must_use]
    pub fn must_stop(&self) -> Option<Notice> {
        match (&self.failed, self.max_bytes) {
            (Some(error), _) => Some(Notice::WriteStopped(error.to_string())),
            (None, Some(max)) if self.bytes() >= max => Some(Notice::SizeReached(max)),
            _ => None,
        }
    }

    /// Writes features and appendix; an error of before is told again.
    pub fn finish(self, features: &Features, appendix: &[u8]) -> io::Result<()> {
        let Some(writer) = self.writer else { return Ok(()) };
        let end = writer.finish(features, appendix);
        match self.failed {
            Some(error) => Err(error),
            None => end,
        }
    }

    fn with(&mut self, write: impl FnOnce(&mut Writer<'static>) -> io::Result<()>) {
        if self.failed.is_some() {
            return;
        }
        if let Some(Err(error)) = self.writer.as_mut().map(write) {
            self.failed = Some(error);
        }
    }
}

fn keep_old(path: &Path) -> io::Result<()> {
    let is_kept = fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0);
    if !is_kept {
        return Ok(());
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    fs::rename(path, old)
}
