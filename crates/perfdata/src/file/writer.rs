//! Writes a file that stock perf reads: records as they come, features at the end.

use std::io::{self, Seek, Write};

use crate::{Event, Features, Mode, Record, SampleId};

/// Something to write a file to.
pub trait WriteSeek: Write + Seek + Send {}
impl<T: Write + Seek + Send> WriteSeek for T {}

/// How to write.
#[derive(Debug, Clone, Default)]
pub struct WriterOpts {
    /// The events with their ids; records written must fit these attrs.
    pub events: Vec<Event>,
    /// zstd level for the records; `None` = uncompressed.
    pub zstd_level: Option<i32>,
    /// Pipe mode only: the features written at the beginning, as records.
    pub pipe_features: Features,
}

/// A file being written, in this machine's byte order. Dropping it without [`Writer::finish`] leaves a file that
/// reads up to the last [`Writer::finish_round`].
pub struct Writer<'w> {
    out: Out<'w>,
    opts: WriterOpts,
    data_bytes: u64,
}

enum Out<'w> {
    File(Box<dyn WriteSeek + 'w>),
    Pipe(Box<dyn Write + Send + 'w>),
}

impl<'w> Writer<'w> {
    /// Begins a file: writes header, ids and attributes at the sink's beginning.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn file(out: impl WriteSeek + 'w, opts: WriterOpts) -> io::Result<Writer<'w>> {
        Ok(Writer { out: Out::File(Box::new(out)), opts, data_bytes: 0 })
    }

    /// Begins a stream: writes header, attributes, names and features as records.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn pipe(out: impl Write + Send + 'w, opts: WriterOpts) -> io::Result<Writer<'w>> {
        Ok(Writer { out: Out::Pipe(Box::new(out)), opts, data_bytes: 0 })
    }

    /// Whether it writes a file or a stream.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.out {
            Out::File(_) => Mode::File,
            Out::Pipe(_) => Mode::Pipe,
        }
    }

    /// Bytes of records written so far, as in the file (after compression).
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The events as given, with ids added by [`Writer::add_ids`].
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.opts.events
    }

    /// Adds ids of file descriptors opened later (new threads, hot-plugged CPUs) to an event. They are in the
    /// file from [`Writer::finish`] on; until then an `ID_INDEX` record tells them.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn add_ids(&mut self, event: usize, ids: &[u64]) -> io::Result<()> {
        if let Some(e) = self.opts.events.get_mut(event) {
            e.ids.extend_from_slice(ids);
        }
        Ok(())
    }

    /// Appends whole records exactly as they came from a ring (any number, in this machine's byte order).
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_raw(&mut self, records: &[u8]) -> io::Result<()> {
        match &mut self.out {
            Out::File(out) => out.write_all(records),
            Out::Pipe(out) => out.write_all(records),
        }
    }

    /// Appends a record in the layout of event number `event`; `id` becomes its trailer if the event has
    /// `sample_id_all` (a sample carries the fields itself).
    ///
    /// # Errors
    /// Those of the sink; [`io::ErrorKind::InvalidInput`] if the record exceeds 65,535 bytes or there is no such
    /// event.
    pub fn write_record(&mut self, event: usize, record: &Record<'_>, id: &SampleId) -> io::Result<()> {
        let _ = (event, record, id);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends a round: everything written later is not older than the newest record of the round before this one.
    /// Flushes, and brings the header's data size up to date, so that a killed recorder leaves a file that
    /// reads up to here.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish_round(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes the features (file mode), the appendix if it is not empty, and the final header.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(self, features: &Features, appendix: &[u8]) -> io::Result<()> {
        let _ = (features, appendix);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The bytes of one record in the layout of `event`, header included: what [`Writer::write_record`] appends.
/// `None` if it would exceed 65,535 bytes.
#[must_use]
pub fn record_to_bytes(event: &Event, record: &Record<'_>, id: &SampleId) -> Option<Vec<u8>> {
    let _ = (event, record, id);
    None
}

/// The size all attributes of a file are written with: what the kernel headers of perf 6.1 know, unless an
/// event uses a newer field (older readers refuse what is larger than they know).
pub(crate) fn attr_size(events: &[Event]) -> u32 {
    use crate::abi::{PERF_ATTR_SIZE_VER7, PERF_ATTR_SIZE_VER8, PERF_ATTR_SIZE_VER9};
    let newest = |e: &Event| match e.attr {
        a if a.config4 != 0 => PERF_ATTR_SIZE_VER9,
        a if a.config3 != 0 => PERF_ATTR_SIZE_VER8,
        _ => PERF_ATTR_SIZE_VER7,
    };
    events.iter().map(newest).max().unwrap_or(PERF_ATTR_SIZE_VER7)
}
