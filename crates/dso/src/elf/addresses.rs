//! Stated addresses and offsets in the file, turned into each other by the segments.

use super::{ObjectFile, Segment};
use crate::{FileOffset, Svma};

impl ObjectFile {
    /// The stated address of the byte at `offset`: what a sample's (address − mapping start + pgoff) is turned into.
    /// For the start of a mapping itself see [`Self::svma_of_mapping`].
    /// Executable segments are asked first, as two segments may share a page of the file.
    /// `None` if no segment loads that byte. For a `.ko` sections take the segments' place.
    pub fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        let of = |s: &Segment| {
            s.file.contains(&offset.0).then(|| s.svma.start.wrapping_add(offset.0 - s.file.start))
        };
        let by_segment = |x: bool| self.segments.iter().filter(|s| s.executable == x).find_map(of);
        by_segment(true).or_else(|| by_segment(false)).or_else(|| self.svma_in_last_page(offset)).map(Svma)
    }

    /// The stated address of the first byte of an executable mapping of `size` bytes from `offset` on. A
    /// mapping covers whole pages and so may start before its segment, in bytes that belong to another one:
    /// [`Self::svma_of`] would answer for that one. `None` if the mapping has no executable segment.
    pub fn svma_of_mapping(&self, offset: FileOffset, size: u64) -> Option<Svma> {
        let end = offset.0.saturating_add(size);
        let overlap = |s: &&Segment| s.file.end.min(end).saturating_sub(s.file.start.max(offset.0));
        let segment =
            self.segments.iter().filter(|s| s.executable).max_by_key(overlap).filter(|s| overlap(s) > 0)?;
        Some(Svma(segment.svma.start.wrapping_add(offset.0.wrapping_sub(segment.file.start))))
    }

    /// A mapping covers whole pages: bytes up to the page's end after a segment belong to it too.
    fn svma_in_last_page(&self, offset: FileOffset) -> Option<u64> {
        let near = |s: &&Segment| {
            s.executable
                && s.file.start & !0xfff <= offset.0
                && offset.0 < s.file.end.saturating_add(0xfff) & !0xfff
        };
        let s = self.segments.iter().find(near)?;
        Some(s.svma.start.wrapping_add(offset.0.wrapping_sub(s.file.start)))
    }

    /// File offset of the byte at `svma`; `None` outside all segments or in .bss.
    pub fn file_offset_of(&self, svma: Svma) -> Option<FileOffset> {
        let of = |s: &Segment| {
            let at = svma.0.checked_sub(s.svma.start)?;
            (at < s.file.end - s.file.start).then(|| FileOffset(s.file.start + at))
        };
        self.segments.iter().find_map(of)
    }

    /// Whether `svma` is in an executable segment.
    pub fn is_code(&self, svma: Svma) -> bool {
        self.segments.iter().any(|s| s.executable && s.svma.contains(&svma.0))
    }

    /// Up to `len` bytes of memory image from `svma` on: fewer at the end of the segment; `None` outside.
    pub fn bytes_at(&self, svma: Svma, len: usize) -> Option<&[u8]> {
        let offset = self.file_offset_of(svma)?.0;
        let end = self.segments.iter().find(|s| s.file.contains(&offset))?.file.end;
        let end = end.min(offset.saturating_add(len as u64)).min(self.bytes.len() as u64);
        self.bytes.get(offset as usize..end as usize)
    }
}
