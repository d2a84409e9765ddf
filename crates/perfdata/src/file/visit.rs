//! The pass over all records: framing, decompression, order, counting.

mod inflated;

use std::ops::ControlFlow;

use self::inflated::Inflated;
use crate::abi::*;
use crate::file::frames::{Frame, Frames, Step};
use crate::file::read_split::ReadSplitter;
use crate::file::sorter::{Key, Sorter};
use crate::{Error, FileDiagnostics, Item, LostKey, Order, PerfData, Record};

type Sink<'f> = dyn FnMut(&[Item<'_>]) -> ControlFlow<()> + 'f;

/// One pass.
struct Pass<'p, 'a, 'f> {
    file: &'p PerfData<'a>,
    order: Order,
    batch: usize,
    sink: &'f mut Sink<'f>,
    diagnostics: FileDiagnostics,
    sorter: Sorter,
    /// Sorted, not yet handed out: many rounds are shorter than a batch.
    ready: Vec<Key>,
    inflated: Inflated,
    reads: ReadSplitter,
}

pub(super) fn visit<'f>(
    file: &PerfData<'_>,
    order: Order,
    batch: usize,
    sink: &'f mut Sink<'f>,
) -> FileDiagnostics {
    let mut pass = Pass {
        file,
        order,
        batch,
        sink,
        diagnostics: FileDiagnostics::default(),
        sorter: Sorter::default(),
        ready: Vec::new(),
        inflated: Inflated::default(),
        reads: ReadSplitter::default(),
    };
    // A break leaves the counts of what was seen up to there.
    let _ = pass.run();
    pass.diagnostics.out_of_order = pass.sorter.out_of_order;
    pass.diagnostics
}

impl<'a> Pass<'_, 'a, '_> {
    fn run(&mut self) -> ControlFlow<()> {
        let data = self.file.data();
        let base = self.file.header.data.offset;
        let mut frames = Frames::new(data, base, self.file.endian());
        let mut items: Vec<Item<'a>> = Vec::new();
        loop {
            match frames.step() {
                Step::Frame(frame) => self.file_frame(data, base, &frame, &mut items)?,
                Step::Damage(error) => self.diagnostics.problem(error),
                Step::End(left) => {
                    self.end_of_file(base + (data.len() - left) as u64, left);
                    break;
                }
            }
        }
        self.emit(&mut items)?;
        let rest = self.sorter.finish();
        self.ready.extend(rest);
        self.deliver_ready(data, base)
    }

    /// Bytes left after the last whole record.
    fn end_of_file(&mut self, offset: u64, left: usize) {
        self.diagnostics.trailing_bytes = left as u64;
        let said = self.file.header.data.size;
        if left > 0 {
            let what = "the last record";
            let have = left as u64;
            let rest =
                self.file.bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            let needed =
                crate::record::Header::parse(rest, self.file.endian()).map_or(8, |h| u64::from(h.size));
            self.diagnostics.problem(Error::Truncated { what, offset, needed, have });
        } else if said != 0 && (self.file.data().len() as u64) < said {
            let (what, have) = ("the record section", self.file.data().len() as u64);
            let offset = self.file.header.data.offset;
            self.diagnostics.problem(Error::Truncated { what, offset, needed: said, have });
        }
        if !self.inflated.carry.is_empty() {
            let (what, have) = ("the last record (decompressed)", self.inflated.carry.len() as u64);
            let size =
                crate::record::Header::parse(&self.inflated.carry, self.file.endian()).map_or(8, |h| h.size);
            self.diagnostics.problem(Error::Truncated { what, offset, needed: u64::from(size), have });
        }
    }

    /// A record of the file itself.
    fn file_frame(
        &mut self,
        data: &'a [u8],
        base: u64,
        frame: &Frame<'a>,
        items: &mut Vec<Item<'a>>,
    ) -> ControlFlow<()> {
        let type_ = frame.header.type_;
        self.count(type_);
        let offset = base + frame.offset as u64;
        match self.order {
            Order::File => {
                self.push_item(frame, offset, items);
                if items.len() >= self.batch {
                    self.emit(items)?;
                }
            }
            Order::Time => self.queue(frame, 0),
        }
        match type_ {
            PERF_RECORD_FINISHED_ROUND if self.order == Order::Time => {
                let keys = self.sorter.finish_round();
                self.ready.extend(keys);
                // Decompressed blocks are memory of our own: they go as soon as they may.
                let is_due = self.ready.len() >= self.batch || !self.inflated.segments.is_empty();
                if is_due { self.deliver_ready(data, base) } else { ControlFlow::Continue(()) }
            }
            PERF_RECORD_COMPRESSED | PERF_RECORD_COMPRESSED2 => {
                self.emit(items)?;
                self.compressed(frame, offset)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn count(&mut self, type_: u32) {
        *self.diagnostics.records.entry(type_).or_insert(0) += 1;
    }

    fn queue(&mut self, frame: &Frame<'_>, segment: u32) {
        let time_ns = self.file.layouts.time_ns(frame);
        self.sorter.push(Key { time_ns, offset: frame.offset, segment });
    }

    /// Parses a frame into `items`, or counts why not.
    fn push_item<'i>(&mut self, frame: &Frame<'i>, offset: u64, items: &mut Vec<Item<'i>>) {
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

    fn emit(&mut self, items: &mut Vec<Item<'_>>) -> ControlFlow<()> {
        if items.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = (self.sink)(items);
        items.clear();
        flow
    }

    fn deliver_ready(&mut self, data: &'a [u8], base: u64) -> ControlFlow<()> {
        let mut keys = std::mem::take(&mut self.ready);
        let flow = self.deliver(data, base, &keys);
        keys.clear();
        self.ready = keys;
        flow
    }

    /// Hands out sorted keys in batches, then drops the blocks that are done.
    fn deliver(&mut self, data: &'a [u8], base: u64, keys: &[Key]) -> ControlFlow<()> {
        let segments = std::mem::take(&mut self.inflated.segments);
        let mut flow = ControlFlow::Continue(());
        let mut items = Vec::with_capacity(self.batch.min(keys.len()));
        for key in keys {
            let (bytes, offset) = match segments.get(&key.segment) {
                Some(s) => (s.bytes.as_slice(), s.offset),
                None => (data, base + key.offset as u64),
            };
            if let Some(frame) = Frame::at(bytes, key.offset, self.file.endian()) {
                self.push_item(&frame, offset, &mut items);
            }
            if items.len() >= self.batch {
                flow = self.emit(&mut items);
                if flow.is_break() {
                    break;
                }
            }
        }
        if flow.is_continue() {
            flow = self.emit(&mut items);
        }
        drop(items);
        self.inflated.segments = segments;
        self.inflated.release(keys);
        flow
    }
}
