//! Writes a file that stock perf reads: records as they come, features at the end.
//!
//! ```text
//! file mode:  header | ids | attributes | records … | feature table | [ids | attributes] | features | appendix
//! pipe mode:  header | HEADER_ATTR … | HEADER_FEATURE … | HEADER_TRACING_DATA | records … | HEADER_BUILD_ID …
//! ```
//! The second ids and attributes are there if ids were added while recording.

mod finish;
mod stream;

use std::io;
use std::io::Write;

use crate::abi::PERF_RECORD_SAMPLE;
use crate::file::compress::Deflater;
use crate::file::encode::{attr_size, put_attrs, record_to_bytes, to_record};
use crate::file::header::{FILE_HEADER_SIZE, FileHeader, FileSection, PIPE_HEADER_SIZE};
use crate::file::layout::Layouts;
use crate::file::sink::{Out, WriteSeek};
use crate::record::{Auxtrace, Header};
use crate::wire::Put;
use crate::{Endian, Event, Features, ReadMode, Record, SampleId};

/// How to write.
#[derive(Debug, Clone, Default)]
pub struct WriterOpts {
    /// The events with their ids; records written must fit these attrs.
    pub events: Vec<Event>,
    /// zstd level for the records; `None` = uncompressed.
    pub zstd_level: Option<i32>,
    /// File mode only: names that aren't in the attributes are also written at the beginning, as records, so
    /// that a file whose recorder was killed has them.
    pub early_names: bool,
    /// Pipe mode only: the features written at the beginning, as records.
    pub pipe_features: Features,
}

/// A file being written, in this machine's byte order. Dropping it without [`Writer::finish`] leaves a file that
/// reads up to the last [`Writer::finish_round`].
pub struct Writer<'w> {
    out: Out<'w>,
    opts: WriterOpts,
    /// Records not yet written to the sink, uncompressed.
    buffer: Vec<u8>,
    deflater: Option<Deflater>,
    layouts: Layouts,
    /// First and last time of a sample.
    sample_time_ns: Option<(u64, u64)>,
    attrs: FileSection,
    data: FileSection,
    ids_added: bool,
    records: u64,
    /// Bytes of records before compression.
    uncompressed_bytes: u64,
    /// File offsets of AUXTRACE records, and their size without the trace after them.
    auxtrace_index: Vec<(u64, u64)>,
}

/// How many bytes of records wait before they are written (or compressed).
const BUFFER_BYTES: usize = 256 << 10;
/// The most compressed bytes in one record: its size field has 16 bits.
const MAX_COMPRESSED: usize = 65_535 - Header::SIZE - 7;
/// Bytes that readers should reserve for one decompressed record, for the `COMPRESSED` feature.
const COMPRESSED_ROOM: u32 = 4 << 20;
/// The largest piece compressed at once.
const COMPRESS_PIECE: usize = 1 << 20;

impl<'w> Writer<'w> {
    /// Begins a file: writes header, ids and attributes at the sink's beginning.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn file(out: impl WriteSeek + 'w, opts: WriterOpts) -> io::Result<Writer<'w>> {
        let mut this = Writer::new(Out::File(Box::new(out)), opts)?;
        let mut p = Put::new(Endian::NATIVE);
        p.bytes.resize(to_usize(FILE_HEADER_SIZE), 0);
        this.attrs = put_attrs(&mut p, &this.opts.events, 0);
        this.data.offset = p.bytes.len() as u64;
        let mut head = Put::new(Endian::NATIVE);
        this.header([0; 4]).write(&mut head);
        head.raw(p.bytes.get(head.bytes.len()..).unwrap_or_default());
        this.out.write_all(&head.bytes)?;
        if this.opts.early_names {
            this.write_early_names()?;
        }
        Ok(this)
    }

    /// Begins a stream: writes header, attributes, names and features as records.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn pipe(out: impl Write + Send + 'w, opts: WriterOpts) -> io::Result<Writer<'w>> {
        let mut this = Writer::new(Out::Pipe(Box::new(out)), opts)?;
        let mut head = Put::new(Endian::NATIVE);
        this.header([0; 4]).write(&mut head);
        this.data.offset = PIPE_HEADER_SIZE;
        this.out.write_all(&head.bytes)?;
        this.write_pipe_head()?;
        Ok(this)
    }

    fn new(out: Out<'w>, opts: WriterOpts) -> io::Result<Self> {
        let deflater = opts.zstd_level.map(|level| Deflater::new(level, MAX_COMPRESSED)).transpose()?;
        Ok(Writer {
            layouts: Layouts::new(&opts.events, Endian::NATIVE),
            out,
            opts,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            deflater,
            sample_time_ns: None,
            attrs: FileSection::default(),
            data: FileSection::default(),
            ids_added: false,
            records: 0,
            uncompressed_bytes: 0,
            auxtrace_index: Vec::new(),
        })
    }

    fn header(&self, features: [u64; 4]) -> FileHeader {
        let mode = self.mode();
        let file = mode == ReadMode::File;
        FileHeader {
            mode,
            endian: Endian::NATIVE,
            size: if file { FILE_HEADER_SIZE } else { PIPE_HEADER_SIZE },
            attr_size: u64::from(attr_size(&self.opts.events)) + 16,
            attrs: self.attrs,
            data: self.data,
            features,
        }
    }

    /// Whether it writes a file or a stream.
    #[must_use]
    pub fn mode(&self) -> ReadMode {
        match self.out {
            Out::File(_) => ReadMode::File,
            Out::Pipe(_) => ReadMode::Pipe,
        }
    }

    /// Bytes of records written so far, as in the file (after compression), those waiting in memory included.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data.size + self.buffer.len() as u64
    }

    /// Records written so far.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.records
    }

    /// The events as given, with ids added by [`Writer::add_ids`].
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.opts.events
    }

    /// Adds ids of file descriptors opened later (new threads, hot-plugged CPUs) to an event. They are in the
    /// file from [`Writer::finish`] on; in a stream a further `HEADER_ATTR` would be a new event, so they are
    /// not written there.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn add_ids(&mut self, event: usize, ids: &[u64]) -> io::Result<()> {
        if let Some(e) = self.opts.events.get_mut(event) {
            e.ids.extend_from_slice(ids);
            self.ids_added |= !ids.is_empty();
            self.layouts = Layouts::new(&self.opts.events, Endian::NATIVE);
        }
        Ok(())
    }

    /// Appends whole records exactly as they came from a ring (any number, in this machine's byte order).
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_raw(&mut self, records: &[u8]) -> io::Result<()> {
        self.note_times(records);
        self.buffer.extend_from_slice(records);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.flush_buffer()?;
        // A round of an overloaded recorder is long: a killed one leaves more than the rounds that ended.
        self.rewrite_header([0; 4])
    }

    /// Counts records and keeps the first and last sample time.
    fn note_times(&mut self, records: &[u8]) {
        let mut offset = 0;
        while let Some(frame) = crate::file::frames::Frame::at(records, offset, Endian::NATIVE) {
            offset += frame.bytes.len() + frame.behind.len();
            self.records += 1;
            if frame.header.type_ != PERF_RECORD_SAMPLE {
                continue;
            }
            let time = self.layouts.time_ns(&frame);
            if time != 0 {
                let (first, last) = self.sample_time_ns.unwrap_or((time, time));
                self.sample_time_ns = Some((first.min(time), last.max(time)));
            }
        }
    }

    /// Appends a record in the layout of event number `event`; `id` becomes its trailer if the event has
    /// `sample_id_all` (a sample carries the fields itself).
    ///
    /// # Errors
    /// Those of the sink; [`io::ErrorKind::InvalidInput`] if the record exceeds 65,535 bytes or there is no such
    /// event.
    pub fn write_record(&mut self, event: usize, record: &Record<'_>, id: &SampleId) -> io::Result<()> {
        let event = self.opts.events.get(event);
        let bytes = event.and_then(|e| record_to_bytes(e, record, id)).ok_or(io::ErrorKind::InvalidInput)?;
        self.write_raw(&bytes)
    }

    /// Appends a piece of an AUX area's trace, never compressed: readers map it from the file. The trace is
    /// padded with zeros to whole words; `size` must be the padded size.
    ///
    /// # Errors
    /// Those of the sink; [`io::ErrorKind::InvalidInput`] if `size` is not that of the padded data.
    pub fn write_auxtrace(&mut self, aux: &Auxtrace<'_>) -> io::Result<()> {
        let padded = aux.data.len().next_multiple_of(8);
        if aux.size != padded as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.flush_buffer()?;
        let head = to_record(&Record::Auxtrace(Auxtrace { data: &[], ..*aux }));
        let head = head.ok_or(io::ErrorKind::InvalidInput)?;
        self.auxtrace_index.push((self.data.offset + self.data.size, head.len() as u64));
        self.records += 1;
        self.put_out(&head)?;
        self.put_out(aux.data)?;
        self.put_out([0; 8].get(..padded - aux.data.len()).unwrap_or_default())
    }

    /// Compresses what waits if asked to, and hands it to the sink.
    fn flush_buffer(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.uncompressed_bytes += buffer.len() as u64;
        let result = match self.deflater.take() {
            None => self.put_out(&buffer),
            Some(mut deflater) => {
                let mut pieces = buffer.chunks(COMPRESS_PIECE);
                let result = pieces.try_for_each(|piece| {
                    deflater.deflate(piece, |data| {
                        let bytes =
                            to_record(&Record::Compressed(data)).ok_or(io::ErrorKind::InvalidInput)?;
                        self.put_out(&bytes)
                    })
                });
                self.deflater = Some(deflater);
                result
            }
        };
        self.buffer = buffer;
        self.buffer.clear();
        result
    }

    /// Writes to the sink as part of the record section.
    fn put_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.data.size += bytes.len() as u64;
        Ok(())
    }
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
