//! One AUX area's trace as the file holds it: pieces of one stream.

use profile::view::ranking::RankRows as _;
use std::borrow::Cow;
use std::ops::Range;

use intelpt::{find_psb, snapshot_overlap};
use perfdata::{Item, PerfData};

/// Bytes of the AUXTRACE record in front of its trace.
const RECORD_BYTES: u64 = 48;
/// Pieces are padded to this size.
const WORD_BYTES: usize = 8;
/// Bytes of a PSB.
const PSB_BYTES: u64 = 16;

/// Contents of one AUXTRACE record.
#[derive(Clone, Debug)]
struct Part<'a> {
    /// Offset in the AUX area's stream, as the recorder counted.
    offset: u64,
    /// Offset in [`Buffer`]'s stream, which has no holes.
    at: u64,
    bytes: Cow<'a, [u8]>,
}

impl Part<'_> {
    fn cut_front(&mut self, count: usize) {
        match &mut self.bytes {
            Cow::Borrowed(bytes) => *bytes = &bytes[count..],
            Cow::Owned(bytes) => drop(bytes.drain(..count)),
        }
    }
}

/// One AUX area's trace, in the order it was written. Offsets count the bytes that are there.
#[derive(Clone, Debug, Default)]
pub struct Buffer<'a> {
    /// CPU, unless it is a thread's.
    pub cpu: Option<u32>,
    /// Thread, if it is one's.
    pub tid: Option<i32>,
    parts: Vec<Part<'a>>,
    /// Recorder's offsets at which the processor stopped because the area was full.
    full_at: Vec<u64>,
    /// Positions of missing bytes: the bytes after one don't join those before it.
    breaks: Vec<u64>,
    /// The parts are snapshots: their offsets are places in the area, and each starts over.
    snapshots: bool,
}

impl<'a> Buffer<'a> {
    pub(super) fn new(cpu: Option<u32>, tid: Option<i32>, snapshots: bool) -> Self {
        Self { cpu, tid, snapshots, ..Self::default() }
    }

    /// Adds an AUXTRACE record's trace: the file's own bytes, or a copy where the record was unpacked.
    pub(super) fn push(&mut self, file: &PerfData<'a>, item: &Item<'_>, offset: u64, data: &[u8]) {
        let start = usize::try_from(item.offset + RECORD_BYTES).unwrap_or(usize::MAX);
        let end = start.saturating_add(data.len());
        let bytes = match file.bytes().get(start..end) {
            Some(own) if std::ptr::eq(own.as_ptr(), data.as_ptr()) => Cow::Borrowed(own),
            _ => Cow::Owned(data.to_vec()),
        };
        self.parts.push(Part { offset, at: 0, bytes });
    }

    /// The area was full when this much had been written.
    pub(super) fn full(&mut self, offset: u64) {
        self.full_at.push(offset);
    }

    /// Puts the parts in order once all records are read. Bytes recorded twice (snapshots overlap) are taken once.
    pub(super) fn arrange(&mut self) {
        if self.snapshots {
            return self.arrange_snapshots();
        }
        self.parts.rank_by_key(|part| part.offset);
        self.trim_padding();
        let (mut at, mut told) = (0, None);
        for part in &mut self.parts {
            let twice = told.map_or(0, |told: u64| told.saturating_sub(part.offset));
            let twice = usize::try_from(twice).unwrap_or(usize::MAX).min(part.bytes.len());
            part.cut_front(twice);
            part.offset = part.offset.saturating_add(twice as u64);
            part.at = at;
            if told.is_some_and(|told| told < part.offset) {
                self.breaks.push(at);
            }
            at += part.bytes.len() as u64;
            told = Some(told.unwrap_or(0).max(part.offset.saturating_add(part.bytes.len() as u64)));
        }
        let full_at = std::mem::take(&mut self.full_at);
        let stops: Vec<u64> = full_at.into_iter().filter_map(|offset| self.at_offset(offset)).collect();
        self.breaks.extend(stops);
        self.breaks.sort_unstable();
        self.breaks.dedup();
    }

    /// Snapshots, in the order they were taken. Bytes that one repeats from the one before are taken once, and the two
    /// join. Without a repetition the bytes between them are unknown.
    fn arrange_snapshots(&mut self) {
        let mut at = 0;
        for number in 0..self.parts.len() {
            let (before, rest) = self.parts.split_at_mut(number);
            let part = &mut rest[0];
            if let Some(before) = before.last() {
                match snapshot_overlap(&before.bytes, &part.bytes) {
                    Some(bytes) => part.cut_front(bytes),
                    None => self.breaks.push(at),
                }
            }
            part.at = at;
            at += part.bytes.len() as u64;
        }
        // Their flags have offsets that don't apply here.
        self.full_at.clear();
        self.breaks.dedup();
    }

    /// Recorders pad a piece to whole words, though the next one begins where its trace ends.
    fn trim_padding(&mut self) {
        let nexts: Vec<u64> = self.parts.iter().skip(1).map(|part| part.offset).collect();
        for (part, next) in self.parts.iter_mut().zip(nexts) {
            let end = part.offset.saturating_add(part.bytes.len() as u64);
            let padded = usize::try_from(end.saturating_sub(next)).unwrap_or(usize::MAX);
            let kept = part.bytes.len().saturating_sub(padded);
            if padded >= WORD_BYTES || part.bytes[kept..].iter().any(|byte| *byte != 0) {
                continue;
            }
            match &mut part.bytes {
                Cow::Borrowed(bytes) => *bytes = &bytes[..kept],
                Cow::Owned(bytes) => bytes.truncate(kept),
            }
        }
    }

    /// Position of the byte at the recorder's offset; `None` if it is missing.
    fn at_offset(&self, offset: u64) -> Option<u64> {
        let part =
            self.parts.get(self.parts.partition_point(|part| part.offset <= offset).checked_sub(1)?)?;
        let within = offset - part.offset;
        (within <= part.bytes.len() as u64).then_some(part.at + within)
    }

    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.at + part.bytes.len() as u64)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stretches without holes, in order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = std::iter::once(0).chain(self.breaks.iter().copied());
        let ends = self.breaks.iter().copied().chain([self.len()]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|run| !run.is_empty())
    }

    /// The part that holds offset `at`.
    fn part(&self, at: u64) -> usize {
        self.parts.partition_point(|part| part.at <= at).saturating_sub(1)
    }

    /// The bytes of a range, cut at the end of the trace; a copy only where it spans records.
    #[must_use]
    pub fn bytes(&self, range: Range<u64>) -> Cow<'_, [u8]> {
        let end = range.end.min(self.len());
        let mut joined = Cow::Borrowed(&[][..]);
        for part in self.parts.get(self.part(range.start)..).unwrap_or_default() {
            if part.at >= end {
                break;
            }
            let within = |offset: u64| (offset.saturating_sub(part.at) as usize).min(part.bytes.len());
            let bytes = &part.bytes[within(range.start)..within(end)];
            if joined.is_empty() {
                joined = Cow::Borrowed(bytes);
            } else if !bytes.is_empty() {
                joined.to_mut().extend_from_slice(bytes);
            }
        }
        joined
    }

    /// Offset of the first PSB that begins within `range`.
    #[must_use]
    pub fn find_psb(&self, range: Range<u64>) -> Option<u64> {
        let mut at = range.start;
        while at < range.end {
            let part = self.parts.get(self.part(at))?;
            let part_end = (part.at + part.bytes.len() as u64).min(range.end);
            if let Some(found) = find_psb(&self.bytes(at..part_end), 0) {
                return Some(at + found as u64);
            }
            // One may cross the end of the part.
            let near = part_end.saturating_sub(PSB_BYTES - 1).max(at);
            let across = self.bytes(near..part_end + PSB_BYTES - 1);
            if let Some(found) = find_psb(&across, 0).filter(|found| near + (*found as u64) < range.end) {
                return Some(near + found as u64);
            }
            at = part_end.max(at + 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(parts: &[(u64, &'static [u8])]) -> Buffer<'static> {
        let parts =
            parts.iter().map(|(offset, bytes)| Part { offset: *offset, at: 0, bytes: (*bytes).into() });
        let mut buffer = Buffer { parts: parts.collect(), ..Buffer::default() };
        buffer.arrange();
        buffer
    }

    #[test]
    fn a_range_over_two_records_is_joined_and_one_within_is_not_copied() {
        let buffer = buffer(&[(4, b"efgh"), (0, b"abcd")]);
        assert_eq!(buffer.len(), 8);
        assert_eq!(*buffer.bytes(2..6), *b"cdef");
        assert!(matches!(buffer.bytes(4..7), Cow::Borrowed(b"efg")));
        assert!(buffer.runs().eq(std::iter::once(0..8)));
    }

    #[test]
    fn missing_bytes_part_the_runs_and_bytes_told_twice_are_taken_once() {
        let gap = buffer(&[(0, b"abcd"), (10, b"kl")]);
        assert_eq!(gap.runs().collect::<Vec<_>>(), [0..4, 4..6]);
        let twice = buffer(&[(0, b"abcd"), (2, b"cdef")]);
        assert!(twice.runs().eq(std::iter::once(0..6)));
        assert_eq!(*twice.bytes(0..6), *b"abcdef");
    }

    #[test]
    fn padding_behind_a_piece_is_not_taken_for_the_next_ones_beginning() {
        let padded = buffer(&[(0, b"abcde\0\0\0"), (5, b"fg\0hijkl")]);
        assert_eq!(*padded.bytes(0..20), *b"abcdefg\0hijkl");
        assert!(padded.runs().eq(std::iter::once(0..13)));
    }

    #[test]
    fn snapshots_are_joined_only_where_one_tells_again_how_the_other_ended() {
        let psb = [2u8, 0x82].repeat(8);
        let first = [&[9, 9][..], &psb, &[0x19, 1, 2, 3, 4, 5, 6, 7, 0xaa]].concat();
        let again = [&first[10..], &[0xbb, 0xcc]].concat();
        let other = [&psb[..], &[0x19, 8, 2, 3, 4, 5, 6, 7]].concat();
        let parts = [first.clone(), again, other.clone()];
        let parts = parts.map(|bytes| Part { offset: 0, at: 0, bytes: Cow::Owned(bytes) });
        let mut buffer = Buffer { parts: parts.to_vec(), snapshots: true, ..Buffer::default() };
        buffer.arrange();
        // The second begins in the middle of the first's last boundary, so it doesn't repeat that one as a whole.
        assert_eq!(buffer.runs().count(), 3);
        let whole = [first.clone(), [&first[2..], &[0xbb, 0xcc]].concat(), other];
        let parts = whole.map(|bytes| Part { offset: 0, at: 0, bytes: Cow::Owned(bytes) });
        let mut buffer = Buffer { parts: parts.to_vec(), snapshots: true, ..Buffer::default() };
        buffer.arrange();
        let joined = first.len() as u64 + 2;
        assert_eq!(buffer.runs().collect::<Vec<_>>(), [0..joined, joined..joined + 24]);
        assert_eq!(*buffer.bytes(0..joined), *[&first[..], &[0xbb, 0xcc]].concat());
    }

    #[test]
    fn a_full_area_parts_the_runs_where_it_was_full() {
        let mut full = Buffer {
            parts: vec![Part { offset: 100, at: 0, bytes: b"abcd"[..].into() }],
            ..Buffer::default()
        };
        full.full(102);
        full.arrange();
        assert_eq!(full.runs().collect::<Vec<_>>(), [0..2, 2..4]);
    }

    #[test]
    fn a_psb_across_two_records_is_found() {
        let psb = [2u8, 0x82].repeat(8);
        let (first, second) = psb.split_at(7);
        let parts = [(0, [&[0x59, 1][..], first].concat()), (9, [second, &[0x59, 2][..]].concat())];
        let parts = parts.map(|(offset, bytes)| Part { offset, at: 0, bytes: Cow::Owned(bytes) });
        let mut buffer = Buffer { parts: parts.to_vec(), ..Buffer::default() };
        buffer.arrange();
        assert_eq!(buffer.find_psb(0..buffer.len()), Some(2));
        assert_eq!(buffer.find_psb(3..buffer.len()), None);
        assert_eq!(buffer.find_psb(0..2), None);
    }
}
