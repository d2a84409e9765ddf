//! Compressed records: pieces of what they become, kept until the records in them were handed out.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::Pass;
use crate::bounds::{Expansion, HELD_BYTES};
use crate::file::compress::Inflater;
use crate::file::frames::{Frame, Frames, Step};
use crate::file::sorter::Key;
use crate::{Error, Item, Order, Record};

/// A decompressed piece: whole records only, in the order they came.
pub(super) struct Segment {
    pub(super) bytes: Vec<u8>,
    /// File offset of the `COMPRESSED` record that completed it.
    pub(super) offset: u64,
    /// Records not yet handed out.
    waiting: usize,
}

/// State of the compressed records of a pass.
#[derive(Default)]
pub(super) struct Inflated {
    pub(super) segments: BTreeMap<u32, Segment>,
    /// Number of the latest segment; 0 is the file itself.
    latest: u32,
    /// Bytes of all segments.
    held: usize,
    inflater: Option<Inflater>,
    /// Beginning of a record whose end is in the next piece.
    pub(super) carry: Vec<u8>,
    expansion: Expansion,
    /// They became more than they justify: nothing more is taken from them.
    is_over: bool,
}

/// Reason for records that expand beyond all bounds.
const TOO_MUCH: &str = "they hold more than their size can justify";

impl Inflated {
    /// Drops the segments whose records have all been handed out.
    pub(super) fn release(&mut self, keys: &[Key]) {
        for key in keys.iter().filter(|k| k.segment != 0) {
            let Some(segment) = self.segments.get_mut(&key.segment) else { continue };
            segment.waiting = segment.waiting.saturating_sub(1);
            if segment.waiting == 0 {
                self.held = self.held.saturating_sub(segment.bytes.len());
                self.segments.remove(&key.segment);
            }
        }
    }

    fn keep(&mut self, segment: Segment) {
        self.held += segment.bytes.len();
        self.segments.insert(self.latest, segment);
    }
}

impl<'a> Pass<'_, 'a, '_> {
    /// Decompresses a record and takes the records out of it.
    pub(super) fn compressed(&mut self, frame: &Frame<'a>, offset: u64) -> ControlFlow<()> {
        let Ok(Item { record: Record::Compressed(mut data), .. }) =
            self.source.file.layouts.parse(frame, offset)
        else {
            if self.source.order == Order::Time {
                self.source.diagnostics.problem(Error::ShortRecord { offset, type_: frame.header.type_ });
            }
            return ControlFlow::Continue(());
        };
        self.source.diagnostics.compressed_bytes.0 += data.len() as u64;
        self.inflated.expansion.feed(data.len());
        while !self.inflated.is_over && self.inflate_piece(&mut data, offset)? {}
        if self.inflated.is_over {
            self.source.diagnostics.problem(Error::Decompress { offset, reason: TOO_MUCH });
        }
        ControlFlow::Continue(())
    }

    /// Takes the next piece out of `data`; false if that was the last.
    fn inflate_piece(&mut self, data: &mut &[u8], offset: u64) -> ControlFlow<(), bool> {
        let mut bytes = std::mem::take(&mut self.inflated.carry);
        let before = bytes.len();
        let result = self.inflated.inflater.get_or_insert_with(Inflater::new).inflate(data, &mut bytes);
        let came = bytes.len() - before;
        self.source.diagnostics.compressed_bytes.1 += came as u64;
        if !self.inflated.expansion.expand(came) {
            self.inflated.is_over = true;
            return ControlFlow::Continue(true);
        }
        self.segment(bytes, offset)?;
        match result {
            Ok(more) => ControlFlow::Continue(more),
            Err(reason) => {
                self.source.diagnostics.problem(Error::Decompress { offset, reason });
                ControlFlow::Continue(false)
            }
        }
    }

    fn segment(&mut self, bytes: Vec<u8>, offset: u64) -> ControlFlow<()> {
        self.inflated.latest = self.inflated.latest.wrapping_add(1).max(1);
        let id = self.inflated.latest;
        let mut frames = Frames::new(&bytes, 0, self.source.file.endian());
        let (mut items, mut waiting) = (Vec::new(), 0);
        let left = loop {
            let before = frames.rest().len();
            let step = frames.step();
            let is_damage = matches!(step, Step::Damage(_));
            if is_damage && !self.inflated.expansion.skip(before - frames.rest().len()) {
                self.inflated.is_over = true;
                break 0;
            }
            match step {
                Step::Frame(frame) if !self.inflated.expansion.admit(frame.header) => {
                    self.inflated.is_over = true;
                    break 0;
                }
                Step::Frame(frame) if self.source.order == Order::Time => {
                    self.source.count(frame.header.type_);
                    self.source.queue(&frame, id);
                    waiting += 1;
                }
                Step::Frame(frame) => {
                    self.source.count(frame.header.type_);
                    self.source.push_item(&frame, offset, &mut items);
                    if items.len() >= self.source.batch {
                        self.emit(&mut items)?;
                    }
                }
                Step::Damage(Error::BadRecordSize { type_, size, .. }) => {
                    self.source.diagnostics.problem(Error::BadRecordSize { offset, type_, size });
                }
                Step::Damage(error) => self.source.diagnostics.problem(error),
                Step::End(left) => break left,
            }
        };
        self.emit(&mut items)?;
        self.inflated.carry = bytes.get(bytes.len() - left..).unwrap_or_default().to_vec();
        if waiting > 0 {
            self.inflated.keep(Segment { bytes, offset, waiting });
            self.make_room()?;
        }
        ControlFlow::Continue(())
    }

    /// Hands out records before their turn while too many bytes wait.
    fn make_room(&mut self) -> ControlFlow<()> {
        let data = self.source.file.data();
        let most = HELD_BYTES.saturating_add(data.len());
        if self.inflated.held > most {
            let older = self.source.sorter.finish_half();
            self.source.ready.extend(older);
            self.deliver_ready()?;
        }
        if self.inflated.held > most {
            let all = self.source.sorter.finish();
            self.source.ready.extend(all);
            self.deliver_ready()?;
        }
        ControlFlow::Continue(())
    }
}
