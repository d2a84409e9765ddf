//! Splits bytes into records by their size fields, and finds the next record after damage.
//!
//! Does not look into records, except for the length of the data after `AUXTRACE` and `HEADER_TRACING_DATA`.

use crate::abi::{PERF_RECORD_AUXTRACE, PERF_RECORD_BPF_METADATA, PERF_RECORD_HEADER_TRACING_DATA};
use crate::record::Header;
use crate::{Endian, Error};

/// One record's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Where it begins in the bytes given.
    pub(crate) offset: usize,
    pub(crate) header: Header,
    /// Header and payload.
    pub(crate) bytes: &'a [u8],
    /// Data that belongs to it but follows its own size.
    pub(crate) behind: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The payload after the header.
    #[inline]
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.bytes.get(Header::SIZE..).unwrap_or_default()
    }

    /// The frame at `offset`; `None` if no whole one is there.
    #[inline]
    pub(crate) fn at(bytes: &'a [u8], offset: usize, endian: Endian) -> Option<Frame<'a>> {
        let rest = bytes.get(offset..)?;
        let header = Header::parse(rest, endian)?;
        let (record, tail) = rest.split_at_checked(usize::from(header.size))?;
        let payload = record.get(Header::SIZE..)?;
        let behind = match behind_bytes(header, payload, endian) {
            0 => &[],
            len => tail.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(tail),
        };
        Some(Frame { offset, header, bytes: record, behind })
    }
}

/// Number of bytes after the record that belong to it and are not a record.
fn behind_bytes(header: Header, payload: &[u8], endian: Endian) -> u64 {
    match header.type_ {
        PERF_RECORD_AUXTRACE => payload.first_chunk().map_or(0, |b| endian.u64(*b)),
        PERF_RECORD_HEADER_TRACING_DATA => {
            payload.first_chunk().map_or(0, |b| u64::from(endian.u32(*b)).next_multiple_of(8))
        }
        _ => 0,
    }
}

/// Walks over the records of a buffer.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    pos: usize,
    /// File offset of the buffer's first byte, for error messages.
    base: u64,
    endian: Endian,
}

/// One step of [`Frames`].
pub(crate) enum Step<'a> {
    Frame(Frame<'a>),
    /// Framing was lost here; the next step is the first record that looks sound again, if any.
    Damage(Error),
    /// Number of bytes left, which are not a whole record.
    End(usize),
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64, endian: Endian) -> Self {
        Frames { bytes, pos: 0, base, endian }
    }

    /// The bytes not yet walked over.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    /// The next record, if there is a whole one where the walk is.
    pub(crate) fn peek(&self) -> Option<Frame<'a>> {
        Frame::at(self.bytes, self.pos, self.endian)
    }

    /// Walks past a record from [`Self::peek`].
    pub(crate) fn pass(&mut self, frame: &Frame<'a>) {
        self.pos += frame.bytes.len() + frame.behind.len();
    }

    pub(crate) fn step(&mut self) -> Step<'a> {
        if let Some(frame) = self.peek() {
            self.pass(&frame);
            return Step::Frame(frame);
        }
        match Header::parse(self.rest(), self.endian) {
            Some(h) if usize::from(h.size) < Header::SIZE => {
                let offset = self.base + self.pos as u64;
                self.resync();
                Step::Damage(Error::BadRecordSize { offset, type_: h.type_, size: h.size })
            }
            _ => Step::End(self.rest().len()),
        }
    }

    /// Moves to the next place from where a run of plausible records begins, else to the end. Each place is
    /// looked at once and each look follows at most [`RUN`] headers, so this is linear.
    fn resync(&mut self) {
        let start = self.pos + 8;
        self.pos =
            (start..self.bytes.len()).step_by(8).find(|at| self.plausible(*at)).unwrap_or(self.bytes.len());
    }

    fn plausible(&self, mut at: usize) -> bool {
        for _ in 0..RUN {
            if at == self.bytes.len() {
                return true;
            }
            let Some(frame) = Frame::at(self.bytes, at, self.endian) else { return false };
            let h = frame.header;
            let known =
                (1..=KERNEL_TYPES).contains(&h.type_) || (64..=PERF_RECORD_BPF_METADATA).contains(&h.type_);
            if !known || h.size % 8 != 0 {
                return false;
            }
            at += frame.bytes.len() + frame.behind.len();
        }
        true
    }
}

/// How many sound records in a row end the search after damage.
const RUN: usize = 8;
/// The highest type a kernel may be expected to write.
const KERNEL_TYPES: u32 = 40;
