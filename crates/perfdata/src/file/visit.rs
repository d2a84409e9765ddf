//! The pass over all records: framing, decompression, order, counting.

mod inflated;
mod source;

use std::ops::ControlFlow;

use self::inflated::Inflated;
use self::source::Source;
use crate::abi::*;
use crate::file::frames::{Frame, Step};
use crate::file::sorter::Key;
use crate::{Error, FileDiagnostics, Item, Order, PerfData};

type Sink<'f> = dyn FnMut(&[Item<'_>]) -> ControlFlow<()> + 'f;

/// One pass.
struct Pass<'p, 'a, 'f> {
    source: Source<'p, 'a>,
    sink: &'f mut Sink<'f>,
    inflated: Inflated,
}

pub(super) fn visit<'f>(
    file: &PerfData<'_>,
    order: Order,
    batch: usize,
    sink: &'f mut Sink<'f>,
) -> FileDiagnostics {
    let mut pass = Pass { source: Source::new(file, order, batch), sink, inflated: Inflated::default() };
    // A break leaves the counts of what was seen up to there.
    let _ = pass.run();
    let Source { mut diagnostics, sorter, .. } = pass.source;
    diagnostics.out_of_order = sorter.out_of_order;
    diagnostics
}

impl<'a> Pass<'_, 'a, '_> {
    fn run(&mut self) -> ControlFlow<()> {
        if self.source.order == Order::Time && self.source.batch > 1 {
            self.run_ahead()?;
        }
        let mut items: Vec<Item<'a>> = Vec::new();
        loop {
            match self.source.frames.step() {
                Step::Frame(frame) => self.file_frame(&frame, &mut items)?,
                Step::Damage(error) => self.source.diagnostics.problem(error),
                Step::End(left) => {
                    self.source.end_of_file(left);
                    self.end_of_inflated();
                    break;
                }
            }
        }
        self.emit(&mut items)?;
        let rest = self.source.sorter.finish();
        self.source.ready.extend(rest);
        self.deliver_ready()
    }

    /// Hands out what comes before the first compressed record, each batch while the next one is read on another core.
    fn run_ahead(&mut self) -> ControlFlow<()> {
        let Self { source, sink, .. } = self;
        // Used by turns: new memory for every batch would cost as much as reading its records.
        let (mut items, mut next) = (Vec::new(), Vec::new());
        source.next_batch(&mut items);
        while !items.is_empty() {
            let flow = rayon::in_place_scope(|scope| {
                scope.spawn(|_| source.next_batch(&mut next));
                sink(&items)
            });
            flow?;
            std::mem::swap(&mut items, &mut next);
        }
        ControlFlow::Continue(())
    }

    /// Decompressed bytes left after the last whole record.
    fn end_of_inflated(&mut self) {
        let carry = &self.inflated.carry;
        if !carry.is_empty() {
            let (what, have) = ("the last record (decompressed)", carry.len() as u64);
            let size = crate::record::Header::parse(carry, self.source.file.endian()).map_or(8, |h| h.size);
            let offset = self.source.end_offset;
            self.source.diagnostics.problem(Error::Truncated { what, offset, needed: u64::from(size), have });
        }
    }

    /// A record of the file itself.
    fn file_frame(&mut self, frame: &Frame<'a>, items: &mut Vec<Item<'a>>) -> ControlFlow<()> {
        let type_ = frame.header.type_;
        let source = &mut self.source;
        source.count(type_);
        let offset = source.base + frame.offset as u64;
        match source.order {
            Order::File => {
                source.push_item(frame, offset, items);
                if items.len() >= source.batch {
                    self.emit(items)?;
                }
            }
            Order::Time => source.queue(frame, 0),
        }
        match type_ {
            PERF_RECORD_FINISHED_ROUND if self.source.order == Order::Time => {
                let is_due = self.source.finish_round();
                // Decompressed blocks are memory of our own: they go as soon as they may.
                let is_due = is_due || !self.inflated.segments.is_empty();
                if is_due { self.deliver_ready() } else { ControlFlow::Continue(()) }
            }
            PERF_RECORD_COMPRESSED | PERF_RECORD_COMPRESSED2 => {
                self.emit(items)?;
                self.compressed(frame, offset)
            }
            _ => ControlFlow::Continue(()),
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

    fn deliver_ready(&mut self) -> ControlFlow<()> {
        let mut keys = std::mem::take(&mut self.source.ready);
        let flow = self.deliver(&keys);
        keys.clear();
        self.source.ready = keys;
        flow
    }

    /// Hands out sorted keys in batches, then drops the blocks that are done.
    fn deliver(&mut self, keys: &[Key]) -> ControlFlow<()> {
        let segments = std::mem::take(&mut self.inflated.segments);
        let (batch, endian) = (self.source.batch, self.source.file.endian());
        let mut flow = ControlFlow::Continue(());
        let mut items = Vec::with_capacity(batch.min(keys.len()));
        for key in keys {
            match segments.get(&key.segment) {
                Some(segment) => {
                    if let Some(frame) = Frame::at(&segment.bytes, key.offset, endian) {
                        self.source.push_item(&frame, segment.offset, &mut items);
                    }
                }
                None => self.source.push_key(*key, &mut items),
            }
            if items.len() >= batch {
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
