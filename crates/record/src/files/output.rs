//! Where records go: a file, a pipe, or nowhere. A failing disk ends the recording but loses nothing written.

mod draft;

use std::io::{self, BufWriter, Seek};
use std::path::PathBuf;
use std::time::Instant;

use perfdata::record::Auxtrace;
use perfdata::{Event, Features, Record, SampleId, Writer, WriterOpts, record_to_bytes};

use crate::accounting::summary::Notice;
use crate::error::Error;
use crate::files::output_split::Parts;
use crate::files::part_names::{FileFate, PartNames};
use crate::files::round_pace::RoundPace;
use crate::session::opts::{Output, RecordOpts};

/// Records on their way out.
pub struct RecordingSink {
    writer: Option<Writer<'static>>,
    opts: WriterOpts,
    names: Option<PartNames>,
    /// Several files, or only the end of the recording in one.
    parts: Option<Parts>,
    /// Why nothing is written any more.
    failed: Option<io::Error>,
    /// Bytes of records in complete files.
    complete_bytes: u64,
    /// Bytes of records in a draft.
    draft_bytes: u64,
    max_bytes: Option<u64>,
    /// Samples given, as [`RecordingSink::note_sample`] counts them …
    samples: u64,
    /// … and those of them that a reader finds, whatever happens from now on.
    safe_samples: u64,
    round: RoundPace,
}

impl RecordingSink {
    /// Begins the output. An existing file is renamed to FILE.old first, as perf does. With `--overwrite`,
    /// `window_bytes` of records are held.
    pub fn create(opts: &RecordOpts, writer: WriterOpts, window_bytes: usize) -> Result<Self, Error> {
        let mut sink = Self {
            writer: None,
            names: None,
            parts: Parts::wanted(opts, writer.events.first(), window_bytes),
            opts: writer,
            failed: None,
            complete_bytes: 0,
            draft_bytes: 0,
            max_bytes: opts.file.max_size_bytes,
            samples: 0,
            safe_samples: 0,
            round: RoundPace::begin(Instant::now(), 0),
        };
        match &opts.file.output {
            Output::Discard => {}
            Output::File(path) => {
                let fail = |source| Error::Output { path: path.clone(), source };
                sink.names = Some(PartNames::new(path, opts));
                sink.begin_file().map_err(fail)?;
            }
            Output::Stdout => {
                let fail = |source| Error::Output { path: PathBuf::from("standard output"), source };
                let out = BufWriter::with_capacity(1 << 18, io::stdout());
                sink.writer = Some(Writer::pipe(out, sink.opts.clone()).map_err(fail)?);
            }
        }
        Ok(sink)
    }

    fn begin_file(&mut self) -> io::Result<()> {
        let Some(names) = &mut self.names else { return Ok(()) };
        let mut file = names.create()?;
        // To a pipe that has a name, as to standard output.
        let is_pipe = file.stream_position().is_err();
        let file = BufWriter::with_capacity(1 << 18, file);
        let opts = self.opts.clone();
        self.writer = Some(if is_pipe { Writer::pipe(file, opts)? } else { Writer::file(file, opts)? });
        Ok(())
    }

    /// Appends one record as it came.
    pub fn raw(&mut self, record: &[u8]) {
        let passes = self.parts.as_mut().is_none_or(|parts| parts.passes(record));
        if passes {
            self.with(|w| w.write_raw(record));
        }
    }

    /// The next record is a sample that the summary counts.
    pub fn note_sample(&mut self) {
        self.samples += 1;
    }

    /// Number of noted samples that are not in the output because writing failed.
    #[must_use]
    pub fn unwritten_samples(&self) -> u64 {
        if self.failed.is_some() { self.samples - self.safe_samples } else { 0 }
    }

    /// Appends a record in the layout of a file event.
    pub fn record(&mut self, event: usize, record: &Record<'_>, id: &SampleId) {
        if self.parts.is_none() {
            return self.with(|w| w.write_record(event, record, id));
        }
        match self.opts.events.get(event).and_then(|event| record_to_bytes(event, record, id)) {
            Some(bytes) => self.raw(&bytes),
            None => self.failed = self.failed.take().or(Some(io::ErrorKind::InvalidInput.into())),
        }
    }

    /// Appends a piece of a processor's trace.
    pub fn auxtrace(&mut self, piece: &Auxtrace<'_>) {
        self.with(|w| w.write_auxtrace(piece));
    }

    /// Ends the round if it is long enough.
    pub fn finish_long_round(&mut self) {
        let (now, bytes) = (Instant::now(), self.bytes());
        if self.round.is_over(now, bytes) {
            self.finish_round();
            self.round = RoundPace::begin(now, bytes);
        }
    }

    /// Ends a round.
    pub fn finish_round(&mut self) {
        if self.parts.as_ref().is_none_or(|parts| !parts.holds_back()) {
            self.with(Writer::finish_round);
            self.note_safe();
        }
    }

    /// All that was given is where readers find it, if nothing failed.
    fn note_safe(&mut self) {
        if self.failed.is_none() {
            self.safe_samples = self.samples;
        }
    }

    /// The events as the file has them.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.opts.events
    }

    /// Bytes of records written so far, to all files.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        self.complete_bytes + self.bytes()
    }

    /// Bytes of records written so far, to the present file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::data_bytes)
    }

    /// The present file has the size at which another begins.
    #[must_use]
    pub fn is_part_full(&self) -> bool {
        let most = self.parts.as_ref().and_then(Parts::most_bytes);
        most.is_some_and(|most| self.bytes() >= most) && self.failed.is_none()
    }

    /// The file that was written last, where it is now; `None` without one, or if another recording has replaced it.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.names.as_ref().and_then(PartNames::whereabouts)
    }

    /// The notice for the user if another recording has taken the name of the output.
    #[must_use]
    pub fn name_taken(&self) -> Option<Notice> {
        let names = self.names.as_ref()?;
        match names.fate() {
            FileFate::Kept => None,
            FileFate::Moved(now) => Some(Notice::OutputMoved(names.last().to_owned(), Some(now))),
            FileFate::Replaced => Some(Notice::OutputMoved(names.last().to_owned(), None)),
        }
    }

    /// Samples that were recorded and then gave way to newer ones.
    #[must_use]
    pub fn overwritten(&self) -> u64 {
        self.parts.as_ref().map_or(0, Parts::overwritten)
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

    /// Completes the present file and begins the next, which starts with the present state of all processes.
    pub fn next_file(&mut self, features: &Features, appendix: &[u8]) {
        if self.failed.is_some() || self.names.is_none() {
            return;
        }
        if let Err(error) = self.end_file(features, appendix, true).and_then(|()| self.begin_file()) {
            self.failed = Some(error);
            return;
        }
        if let Some(parts) = self.parts.take() {
            parts.write_state(|record| self.with(|w| w.write_raw(record)));
            self.parts = Some(parts);
            self.finish_round();
        }
    }

    /// Writes features and appendix.
    ///
    /// # Errors
    /// Why writing failed, now or before.
    pub fn finish(&mut self, features: &Features, appendix: &[u8]) -> io::Result<()> {
        let end = self.end_file(features, appendix, false);
        if let Err(error) = end {
            self.failed.get_or_insert(error);
        }
        self.note_safe();
        self.failed.as_ref().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
    }

    /// Ends a file that may be one of `several`.
    fn end_file(&mut self, features: &Features, appendix: &[u8], several: bool) -> io::Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.release(|record| self.with(|w| w.write_raw(record)));
            self.parts = Some(parts);
        }
        self.complete_bytes += self.bytes();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.finish(features, appendix)?;
        self.names.as_mut().map_or(Ok(()), |names| names.file_is_complete(several))
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
