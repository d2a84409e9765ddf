//! The records of a file, read up to where they are handed out: framing, order, counting.

use crate::abi::*;
use crate::file::frames::{Frame, Frames};
use crate::file::read_split::ReadSplitter;
use crate::file::sorter::{Key, Sorter};
use crate::{Error, FileDiagnostics, Item, LostKey, Order, PerfData, Record};

/// A file's records, and how far they are read.
pub(super) struct Source<'p, 'a> {
    pub(super) file: &'p PerfData<'a>,
    pub(super) order: Order,
    pub(super) batch: usize,
    pub(super) diagnostics: FileDiagnostics,
    pub(super) sorter: Sorter,
    /// Sorted, not yet handed out: many rounds are shorter than a batch.
    pub(super) ready: Vec<Key>,
    pub(super) frames: Frames<'a>,
    /// File offset of the first record.
    pub(super) base: u64,
    /// File offset of the end of the last whole record, once that is reached.
    pub(super) end_offset: u64,
    data: &'a [u8],
    reads: ReadSplitter,
    /// Keys of `ready` that batches read ahead have already.
    taken: usize,
    /// Batches are read ahead from `ready` until it is empty.
    is_due: bool,
}

impl<'p, 'a> Source<'p, 'a> {
    pub(super) fn new(file: &'p PerfData<'a>, order: Order, batch: usize) -> Self {
        let (data, base) = (file.data(), file.header.data.offset);
        Self {
            file,
            order,
            batch,
            diagnostics: FileDiagnostics::default(),
            sorter: Sorter::default(),
            ready: Vec::new(),
            frames: Frames::new(data, base, file.endian()),
            base,
            end_offset: base,
            data,
            reads: ReadSplitter::default(),
            taken: 0,
            is_due: false,
        }
    }

    /// Puts the next records in time order into `items`, as many as a batch has at most; none at the first compressed
    /// record, and at the end of what can be handed out before the file's end.
    pub(super) fn next_batch(&mut self, items: &mut Vec<Item<'a>>) {
        items.clear();
        loop {
            if self.is_due {
                self.take_ready(items);
                if !items.is_empty() {
                    return;
                }
            }
            let Some(frame) = self.frames.peek().filter(|frame| !is_compressed(frame)) else { return };
            self.frames.pass(&frame);
            self.count(frame.header.type_);
            self.queue(&frame, 0);
            if frame.header.type_ == PERF_RECORD_FINISHED_ROUND {
                self.is_due = self.finish_round();
            }
        }
    }

    /// Puts a batch of `ready`, which is cleared after the last one, into `items`.
    fn take_ready(&mut self, items: &mut Vec<Item<'a>>) {
        items.reserve(self.batch.min(self.ready.len() - self.taken));
        while items.len() < self.batch
            && let Some(&key) = self.ready.get(self.taken)
        {
            self.taken += 1;
            self.push_key(key, items);
        }
        if self.taken == self.ready.len() {
            self.ready.clear();
            (self.taken, self.is_due) = (0, false);
        }
    }

    /// A round ended: puts its keys to those that are ready, and returns whether these fill a batch.
    pub(super) fn finish_round(&mut self) -> bool {
        let keys = self.sorter.finish_round();
        self.ready.extend(keys);
        self.ready.len() >= self.batch
    }

    /// Notes the bytes left after the last whole record.
    pub(super) fn end_of_file(&mut self, left: usize) {
        let offset = self.base + (self.data.len() - left) as u64;
        self.end_offset = offset;
        self.diagnostics.trailing_bytes = left as u64;
        let stated = self.file.header.data.size;
        if left > 0 {
            let what = "the last record";
            let have = left as u64;
            let rest =
                self.file.bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            let needed =
                crate::record::Header::parse(rest, self.file.endian()).map_or(8, |h| u64::from(h.size));
            self.diagnostics.problem(Error::Truncated { what, offset, needed, have });
        } else if stated != 0 && (self.data.len() as u64) < stated {
            let (what, have) = ("the record section", self.data.len() as u64);
            self.diagnostics.problem(Error::Truncated { what, offset: self.base, needed: stated, have });
        }
    }

    /// Parses the record of the file that a key is of.
    pub(super) fn push_key<'i>(&mut self, key: Key, items: &mut Vec<Item<'i>>)
    where
        'a: 'i,
    {
        if let Some(frame) = Frame::at(self.data, key.offset, self.file.endian()) {
            self.push_item(&frame, self.base + key.offset as u64, items);
        }
    }

    pub(super) fn count(&mut self, type_: u32) {
        *self.diagnostics.records.entry(type_).or_insert(0) += 1;
    }

    pub(super) fn queue(&mut self, frame: &Frame<'_>, segment: u32) {
        let time_ns = self.file.layouts.time_ns(frame);
        self.sorter.push(Key { time_ns, offset: frame.offset, segment });
    }

    /// Parses a frame into `items`, or counts why not.
    pub(super) fn push_item<'i>(&mut self, frame: &Frame<'i>, offset: u64, items: &mut Vec<Item<'i>>) {
        match self.file.layouts.parse(frame, offset) {
            Ok(item) => {
                self.tally(&item);
                match self.order {
                    Order::File => items.push(item),
                    Order::Time => {
                        let advanced = self.reads.push(item, &self.file.layouts, items);
                        self.diagnostics.idle_reads += u64::from(!advanced);
                    }
                }
            }
            Err(error) => {
                self.diagnostics.unreadable_samples += u64::from(frame.header.type_ == PERF_RECORD_SAMPLE);
                self.diagnostics.problem(error);
            }
        }
    }

    /// Counts losses and unknown types.
    fn tally(&mut self, item: &Item<'_>) {
        let key = LostKey { event: item.event, pid_tid: item.sample_id.and_then(|id| id.pid_tid) };
        match &item.record {
            Record::Lost(lost) => {
                let event = self.file.event_of_id(lost.id).or(item.event);
                let count = self.diagnostics.lost.entry(LostKey { event, ..key }).or_default();
                count.records = count.records.saturating_add(lost.lost);
            }
            Record::LostSamples(lost) => {
                let count = self.diagnostics.lost.entry(key).or_default();
                count.samples = count.samples.saturating_add(*lost);
            }
            Record::Other { .. } => self.diagnostics.unknown_records += 1,
            _ => {}
        }
    }
}

fn is_compressed(frame: &Frame<'_>) -> bool {
    matches!(frame.header.type_, PERF_RECORD_COMPRESSED | PERF_RECORD_COMPRESSED2)
}
