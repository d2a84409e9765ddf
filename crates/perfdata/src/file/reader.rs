//! Reads a file: its header at once, its records as they are asked for.

use std::ops::ControlFlow;

use crate::appendix::archive::{self, Archived};
use crate::file::header::FileHeader;
use crate::file::layout::Layouts;
use crate::file::{open, visit};
use crate::{Endian, Error, Event, Features, FileDiagnostics, Record, SampleId};

/// How a file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReadMode {
    /// With sections, to a seekable file.
    #[default]
    File,
    /// As one stream (`perf record -o -`).
    Pipe,
}

/// In which order records are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// In file order.
    File,
    /// By time, records of equal time in file order; records without a time keep their place relative to the
    /// round they are in. A sample with the counter values of its group (`{a,b}:S`) comes once for each counter
    /// that advanced, with that counter's event, id and period, as perf delivers it.
    Time,
}

/// A record with its position and event.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// Offset in the file; for a record out of compressed data that of the `COMPRESSED` record.
    pub offset: u64,
    /// The record.
    pub record: Record<'a>,
    /// The trailer of records other than samples; `None` for samples, for user records and if the event has no
    /// `sample_id_all`.
    pub sample_id: Option<SampleId>,
    /// Index of the event it belongs to in [`PerfData::events`]; `None` for user records, and for records
    /// whose id is unknown.
    pub event: Option<usize>,
    /// The record's whole bytes, header included (as in the file or in the decompressed data).
    pub raw: &'a [u8],
}

impl Item<'_> {
    /// ns of the recording's clock: a sample's own time, or the trailer's; `None` if it carries none.
    #[must_use]
    pub fn time_ns(&self) -> Option<u64> {
        match &self.record {
            Record::Sample(s) => s.time_ns,
            _ => self.sample_id.and_then(|id| id.time_ns),
        }
    }

    /// Process and thread: a sample's own, or the trailer's.
    #[must_use]
    pub fn pid_tid(&self) -> Option<(u32, u32)> {
        match &self.record {
            Record::Sample(s) => s.pid_tid,
            _ => self.sample_id.and_then(|id| id.pid_tid),
        }
    }

    /// CPU: a sample's own, or the trailer's.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        match &self.record {
            Record::Sample(s) => s.cpu,
            _ => self.sample_id.and_then(|id| id.cpu),
        }
    }
}

/// An open perf.data file over bytes the caller keeps (mapped or read).
#[derive(Debug)]
pub struct PerfData<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) header: FileHeader,
    pub(super) events: Vec<Event>,
    pub(super) features: Features,
    pub(super) appendix: Option<&'a [u8]>,
    pub(super) archive: Option<&'a [u8]>,
    pub(super) problems: Vec<Error>,
    pub(super) layouts: Layouts,
}

impl<'a> PerfData<'a> {
    /// Reads header, events and features; in pipe mode it looks through the stream for them. Damage after the
    /// file header is not an error here: it is listed in [`PerfData::problems`], and everything readable is
    /// read.
    ///
    /// # Errors
    /// If this isn't a perf.data file, or its header is cut off.
    pub fn open(bytes: &'a [u8]) -> Result<PerfData<'a>, Error> {
        let (recording, archive) = archive::split(bytes);
        Ok(PerfData { archive, ..open::open(recording)? })
    }

    /// File or pipe.
    #[must_use]
    pub fn mode(&self) -> ReadMode {
        self.header.mode
    }

    /// Whether the recorder did not get to complete the file, because it was killed or ran out of space: the features
    /// are missing, and the last records may be.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        // What another tool recorded has its sums in the appendix, and may have neither records nor features.
        let is_empty = self.header.features == [0; 4] || self.header.data.size == 0;
        self.header.mode == ReadMode::File && is_empty && self.appendix().is_none()
    }

    /// Byte order of the recording machine; raw tracepoint payloads are in it.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.header.endian
    }

    /// The file header.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The events, in the file's order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The header features.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Problems with header, events and features.
    #[must_use]
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// tally's own appendix after the last feature section; `None` if there is none
    /// (docs/formats/perf-data.md).
    #[must_use]
    pub fn appendix(&self) -> Option<&'a [u8]> {
        self.appendix
    }

    /// The files that `tally archive` added; none if there are none or their directory is damaged.
    #[must_use]
    pub fn archived_files(&self) -> Vec<Archived<'a>> {
        self.archive.and_then(archive::read).unwrap_or_default()
    }

    /// Index of the event with this id. With one event, or in a file without ids, every id is its.
    #[must_use]
    pub fn event_of_id(&self, id: u64) -> Option<usize> {
        self.layouts.event_of_id(id)
    }

    /// All bytes of the file, without its archived files.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Hands every record to `f` until it breaks. Borrowed parts live as long as the call of `f`.
    pub fn visit(&self, order: Order, mut f: impl FnMut(&Item<'_>) -> ControlFlow<()>) -> FileDiagnostics {
        self.visit_batches(order, 1, |items| items.iter().try_for_each(&mut f))
    }

    /// The same in batches of up to `batch` records, for work on several cores: within a batch the records are
    /// in order, and all of them stay borrowed until `f` returns.
    pub fn visit_batches(
        &self,
        order: Order,
        batch: usize,
        mut f: impl FnMut(&[Item<'_>]) -> ControlFlow<()>,
    ) -> FileDiagnostics {
        visit::visit(self, order, batch.max(1), &mut f)
    }

    /// The bytes of the record stream: the data section, as much of it as the file has. A data size of 0 (a
    /// killed recorder) means up to the end.
    pub(super) fn data(&self) -> &'a [u8] {
        let section = self.header.data;
        let start = usize::try_from(section.offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        match usize::try_from(section.size) {
            Ok(size) if size > 0 => rest.get(..size).unwrap_or(rest),
            _ => rest,
        }
    }
}
