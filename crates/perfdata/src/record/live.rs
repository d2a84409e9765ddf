//! Records straight from a ring, one at a time: what a recorder needs to know of them.
//!
//! All in this machine's byte order. A [`LiveFormat`] is made once per opened event.

use crate::abi::*;
use crate::attr::Attr;
use crate::record::sample_id::SampleId;
use crate::record::{Context, Header, Record};
use crate::sample::{Sample, SampleFormat};
use crate::wire::{Endian, Wire};

/// How the records of one opened event are laid out.
#[derive(Debug, Clone, Copy)]
pub struct LiveFormat {
    format: SampleFormat,
    /// Bytes of a non-sample record's trailer.
    trailer: usize,
    /// Offset in a sample of its time; `None` without.
    sample_time: Option<usize>,
    /// Offset in a sample of the first field after those of fixed size.
    fixed_end: usize,
}

/// Position of the copied stack in a sample record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSpan {
    /// Offset of the first stack byte; the u64 before it is the size of the space that follows.
    pub start: usize,
    /// Bytes of room.
    pub reserved: usize,
    /// Bytes of the room that are valid, rounded up to whole words.
    pub used: usize,
}

impl LiveFormat {
    /// From the attribute the event was opened with (`sample_id_all` set).
    #[must_use]
    pub fn new(attr: &Attr) -> Self {
        let bits = attr.sample_type;
        let words = |mask: u64| (bits & mask).count_ones() as usize * 8;
        const BEFORE_TIME: u64 = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID;
        const FIXED: u64 = BEFORE_TIME
            | PERF_SAMPLE_TIME
            | PERF_SAMPLE_ADDR
            | PERF_SAMPLE_ID
            | PERF_SAMPLE_STREAM_ID
            | PERF_SAMPLE_CPU
            | PERF_SAMPLE_PERIOD;
        LiveFormat {
            format: SampleFormat::new(attr, Endian::NATIVE),
            trailer: SampleId::size(bits),
            sample_time: (bits & PERF_SAMPLE_TIME != 0).then(|| Header::SIZE + words(BEFORE_TIME)),
            fixed_end: Header::SIZE + words(FIXED),
        }
    }

    /// The layout of its samples.
    #[must_use]
    pub fn sample_format(&self) -> &SampleFormat {
        &self.format
    }

    /// A record's time, without reading the rest of it.
    #[must_use]
    pub fn time_of(&self, record: &[u8]) -> Option<u64> {
        let header = Header::parse(record, Endian::NATIVE)?;
        if header.type_ == PERF_RECORD_SAMPLE {
            return word(record, self.sample_time?);
        }
        let before_time = SampleId::size(self.format.sample_type & PERF_SAMPLE_TID);
        self.sample_time?;
        word(record, record.len().checked_sub(self.trailer)?.checked_add(before_time)?)
    }

    /// Puts another id in place of an event's wherever one record names it: first word of samples, last word of all
    /// others, and the event that a loss is of. For records whose event has `PERF_SAMPLE_IDENTIFIER`.
    // Layout: sample { header; u64 identifier; … }; others { header; …; u64 identifier }; lost { header; u64 id; … }
    // Source: linux v6.18 kernel/events/core.c, perf_output_sample(), __perf_event__output_id_sample(), and
    //         ring_buffer.c, __perf_output_begin() (lost)
    pub fn rename(record: &mut [u8], new_id: impl Fn(u64) -> Option<u64>) {
        let Some(header) = record.first_chunk::<8>() else { return };
        let (kind, _) = Self::type_and_size(u64::from_ne_bytes(*header));
        let last = record.len().saturating_sub(8).max(8);
        let places = match kind {
            PERF_RECORD_SAMPLE => [8, 8],
            PERF_RECORD_LOST => [8, last],
            _ => [last, last],
        };
        for at in places {
            let Some(word) = record.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>()) else {
                continue;
            };
            if let Some(id) = new_id(u64::from_ne_bytes(*word)) {
                *word = id.to_ne_bytes();
            }
        }
    }

    /// The event id a record carries (`PERF_SAMPLE_IDENTIFIER`): first in a sample, last in other records.
    #[must_use]
    pub fn identifier_of(record: &[u8]) -> Option<u64> {
        let header = Header::parse(record, Endian::NATIVE)?;
        let at =
            if header.type_ == PERF_RECORD_SAMPLE { Header::SIZE } else { record.len().checked_sub(8)? };
        word(record, at)
    }

    /// Type and size in bytes of the record whose first eight bytes, as the machine's own word, are `header`.
    #[must_use]
    pub fn type_and_size(header: u64) -> (u32, usize) {
        let [t0, t1, t2, t3, _, _, s0, s1] = header.to_ne_bytes();
        (u32::from_ne_bytes([t0, t1, t2, t3]), usize::from(u16::from_ne_bytes([s0, s1])))
    }

    /// Finds the stack of a sample whose words can be read by offset with `word_at` (it may be split in two by
    /// the end of a ring). `None` if the event copies none, or if it comes after fields that can't be skipped.
    pub fn find_snapshot(&self, size: usize, word_at: impl Fn(usize) -> Option<u64>) -> Option<StackSpan> {
        const UNSKIPPED: u64 = PERF_SAMPLE_READ | PERF_SAMPLE_BRANCH_STACK;
        let bits = self.format.sample_type;
        if bits & PERF_SAMPLE_STACK_USER == 0 || bits & UNSKIPPED != 0 {
            return None;
        }
        let mut at = self.fixed_end;
        if bits & PERF_SAMPLE_CALLCHAIN != 0 {
            let entries = usize::try_from(word_at(at)?).ok()?;
            at = entries.checked_mul(8)?.checked_add(at + 8)?;
        }
        if bits & PERF_SAMPLE_RAW != 0 {
            // The kernel pads it so that the next field is aligned; its size is the first half of a word.
            let [a, b, c, d, ..] = word_at(at)?.to_ne_bytes();
            let bytes = usize::try_from(u32::from_ne_bytes([a, b, c, d])).ok()?;
            at = bytes.checked_add(4)?.checked_next_multiple_of(8)?.checked_add(at)?;
        }
        if bits & PERF_SAMPLE_REGS_USER != 0 {
            let any = word_at(at)? != PERF_SAMPLE_REGS_ABI_NONE;
            at += 8 + if any { self.format.regs_user.count_ones() as usize * 8 } else { 0 };
        }
        let reserved = usize::try_from(word_at(at)?).ok()?;
        let start = at + 8;
        if reserved == 0 || start.checked_add(reserved)?.checked_add(8)? > size {
            return None;
        }
        let valid = usize::try_from(word_at(start + reserved)?).ok()?;
        Some(StackSpan { start, reserved, used: valid.min(reserved).next_multiple_of(8).min(reserved) })
    }

    /// Reads a whole record with its sample id (empty for a sample, which carries the fields itself).
    #[must_use]
    pub fn parse<'a>(&self, record: &'a [u8]) -> Option<(Record<'a>, SampleId)> {
        let header = Header::parse(record, Endian::NATIVE)?;
        let payload = record.get(Header::SIZE..)?;
        if header.type_ == PERF_RECORD_SAMPLE {
            let sample = Sample::parse(header.misc, payload, &self.format)?;
            return Some((Record::Sample(sample), SampleId::default()));
        }
        let (body, trailer) = payload.split_at_checked(payload.len().checked_sub(self.trailer)?)?;
        let id = SampleId::parse(Wire::new(trailer, Endian::NATIVE), self.format.sample_type)?;
        let context = Context { endian: Endian::NATIVE, read_format: self.format.read_format };
        Some((Record::parse(header, body, &[], context)?, id))
    }
}

/// Makes a record's stack room end with its used part. `record` is as [`StackSpan`] found it but without the unused
/// bytes, which the caller has left out while copying.
pub fn shorten_snapshot(record: &mut [u8], snapshot: &StackSpan) {
    let size = u16::try_from(record.len()).unwrap_or(u16::MAX);
    if let Some(field) = record.get_mut(6..8) {
        field.copy_from_slice(&size.to_ne_bytes());
    }
    let reserved = (snapshot.used as u64).to_ne_bytes();
    if let Some(field) = snapshot.start.checked_sub(8).and_then(|at| record.get_mut(at..snapshot.start)) {
        field.copy_from_slice(&reserved);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(Endian::NATIVE.u64(bytes.get(at..)?.first_chunk().copied()?))
}
