//! Files of the requests to disks: tally's appendix, after the descriptors.
//!
//! The kernel's events of a request have its place on the disk only.
//
// Layout: docs/formats/disk-files.md. In the byte order of the file.

use crate::appendix::descriptors::NamedDescriptors;
use crate::appendix::section::{Section, padded_text, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tDF1";

/// Longest time between a request's event and the look at its pages, both at its issue, ns.
const SAME_MOMENT_NS: u64 = 20_000_000;

/// Owner of the memory that a request reads into or writes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileOwner {
    /// A file.
    File,
    /// The disk itself: metadata of its file system, mostly.
    Device,
    /// Memory of a process, by direct I/O of a file that isn't known.
    Memory,
    /// Buffers of the file system or of a layer below it.
    Buffers,
    /// Memory of a process, swapped.
    Swap,
    /// Further files of requests with many.
    More,
}

impl FileOwner {
    /// All, each at its number minus one.
    const ALL: [Self; 6] = [Self::File, Self::Device, Self::Memory, Self::Buffers, Self::Swap, Self::More];

    /// Owner with this number, as files and the recorder's program have it; `None` for unknown ones.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
    }

    fn number(self) -> u32 {
        Self::ALL.iter().zip(1..).find(|(owner, _)| **owner == self).map_or(0, |(_, number)| number)
    }
}

/// A file that requests were for, or what else they were for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DiskFile {
    /// Kind.
    pub owner: FileOwner,
    /// Its file system's device, major × 2^20 + minor; 0 if it has none.
    pub device: u32,
    /// Number of its inode; 0 if it has none.
    pub inode: u64,
    /// It had no name in any folder when it was seen: deleted, but open.
    pub is_deleted: bool,
    /// Path, or what is known of it; empty if the kernel had no name.
    pub path: String,
}

/// One file's part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPart {
    /// When it went to the driver, ns of the recording's clock.
    pub time_ns: u64,
    /// First sector of the whole request, 512 bytes each.
    pub sector: u64,
    /// The disk, major × 2^20 + minor.
    pub device: u32,
    /// Bytes of this file.
    pub bytes: u32,
    /// Index of the file.
    pub file: u32,
    /// Thread that requested it, as the recording numbers it; 0 if it isn't visible there.
    pub tid: u32,
    /// A kernel thread requested it: writeback, or a file system's journal.
    pub by_kernel: bool,
    /// It went past the page cache.
    pub is_direct: bool,
}

/// All files of the requests of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskFiles {
    /// Why there are none; empty if files were recorded.
    pub refused: String,
    /// Parts that were lost: there was no room.
    pub lost: u64,
    /// Each file once.
    pub files: Vec<DiskFile>,
    /// By disk, sector and time.
    pub parts: Vec<RequestPart>,
    /// Indices of the parts by thread and time.
    by_thread: Vec<u32>,
}

impl DiskFiles {
    /// From parts in any order.
    #[must_use]
    pub fn new(files: Vec<DiskFile>, mut parts: Vec<RequestPart>, lost: u64) -> Self {
        parts.sort_by_key(|part| (part.device, part.sector, part.time_ns));
        let mut by_thread: Vec<(u32, u64, u32)> =
            parts.iter().zip(0..).map(|(part, at)| (part.tid, part.time_ns, at)).collect();
        by_thread.sort_unstable();
        let by_thread = by_thread.into_iter().map(|(.., at)| at).collect();
        Self { refused: String::new(), lost, files, parts, by_thread }
    }

    /// None, for this reason.
    #[must_use]
    pub fn refused(why: String) -> Self {
        Self { refused: why, ..Self::default() }
    }

    /// True if the recording tried to find files.
    #[must_use]
    pub fn were_wanted(&self) -> bool {
        !self.refused.is_empty() || !self.parts.is_empty()
    }

    /// Parts of the request of a disk that went to the driver at this moment; empty if it wasn't seen.
    #[must_use]
    pub fn parts_of(&self, device: u32, sector: u64, issue_ns: u64) -> &[RequestPart] {
        let first = self.parts.partition_point(|part| (part.device, part.sector) < (device, sector));
        let end = self.parts.partition_point(|part| (part.device, part.sector) <= (device, sector));
        let same = self.parts.get(first..end).unwrap_or_default();
        let away = |part: &&RequestPart| part.time_ns.abs_diff(issue_ns);
        let Some(nearest) = same.iter().min_by_key(away).filter(|part| away(part) <= SAME_MOMENT_NS) else {
            return &[];
        };
        let from = same.partition_point(|part| part.time_ns < nearest.time_ns);
        let to = same.partition_point(|part| part.time_ns <= nearest.time_ns);
        same.get(from..to).unwrap_or_default()
    }

    /// Parts that a thread requested in a span of time, by time.
    pub fn requested_in(
        &self,
        tid: u32,
        span: std::ops::RangeInclusive<u64>,
    ) -> impl DoubleEndedIterator<Item = &RequestPart> {
        let part = |at: &u32| self.parts.get(*at as usize);
        let is_before =
            |at: &u32, moment: (u32, u64)| part(at).is_some_and(|of| (of.tid, of.time_ns) < moment);
        let from = self.by_thread.partition_point(|at| is_before(at, (tid, *span.start())));
        let to = self.by_thread.partition_point(|at| is_before(at, (tid, span.end().saturating_add(1))));
        self.by_thread.get(from..to).unwrap_or_default().iter().filter_map(part)
    }

    /// The newest part that a thread requested in a span of time; `None` if it requested none.
    #[must_use]
    pub fn newest_of(&self, tid: u32, span: std::ops::RangeInclusive<u64>) -> Option<&RequestPart> {
        self.requested_in(tid, span).next_back()
    }

    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the descriptors; none if no files were wanted.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if !self.were_wanted() {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        p.u64(self.parts.len() as u64);
        p.u64(self.lost);
        put_text(&mut p, &self.refused);
        for file in &self.files {
            p.u32(file.owner.number());
            p.u32(file.device);
            p.u64(file.inode);
            p.u64(u64::from(file.is_deleted));
            put_text(&mut p, &file.path);
        }
        for part in &self.parts {
            p.u64(part.time_ns);
            p.u64(part.sector);
            [part.device, part.bytes, part.file, part.tid].into_iter().for_each(|word| p.u32(word));
            p.u64(u64::from(part.by_kernel) | u64::from(part.is_direct) << 1);
        }
        p.bytes
    }
}

impl Section for DiskFiles {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = NamedDescriptors;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let (count, parts, lost) = (w.u32()?, w.u64()?, w.u64()?);
        let refused = text(w)?;
        let mut files = Vec::new();
        for _ in 0..count {
            let (owner, device, inode, flags) = (w.u32()?, w.u32()?, w.u64()?, w.u64()?);
            let owner = FileOwner::of_number(owner)?;
            files.push(DiskFile { owner, device, inode, is_deleted: flags & 1 != 0, path: text(w)? });
        }
        let mut all = Vec::new();
        for _ in 0..parts {
            let (time_ns, sector, device, bytes) = (w.u64()?, w.u64()?, w.u32()?, w.u32()?);
            let (file, tid, flags) = (w.u32()?, w.u32()?, w.u64()?);
            let (by_kernel, is_direct) = (flags & 1 != 0, flags & 2 != 0);
            all.push(RequestPart { time_ns, sector, device, bytes, file, tid, by_kernel, is_direct });
        }
        Some(Self { refused, ..Self::new(files, all, lost) })
    }
}

fn text(w: &mut Wire<'_>) -> Option<String> {
    let bytes = w.u64()?;
    padded_text(w, bytes)
}

fn put_text(p: &mut Put, text: &str) {
    p.u64(text.len() as u64);
    p.raw(text.as_bytes());
    p.pad(8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(time_ns: u64, sector: u64, file: u32, tid: u32) -> RequestPart {
        let (device, bytes) = (8 << 20, 4096);
        RequestPart { time_ns, sector, device, bytes, file, tid, by_kernel: tid == 9, is_direct: false }
    }

    fn some() -> DiskFiles {
        let file = |owner, path: &str| DiskFile {
            owner,
            device: 8 << 20,
            inode: 12,
            is_deleted: path.is_empty(),
            path: path.to_owned(),
        };
        let files =
            vec![file(FileOwner::File, "/a"), file(FileOwner::Device, ""), file(FileOwner::More, "b")];
        let parts =
            vec![part(900, 64, 1, 9), part(100, 64, 0, 7), part(100, 64, 1, 7), part(50_000_000, 64, 2, 7)];
        DiskFiles::new(files, parts, 3)
    }

    #[test]
    fn files_survive_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = some().to_bytes(endian);
            assert_eq!(DiskFiles::read(&bytes, endian), Some(some()));
            assert_eq!(DiskFiles::read(&bytes[..bytes.len() - 1], endian), None);
            let refused = DiskFiles::refused("no BPF".to_owned());
            assert_eq!(DiskFiles::read(&refused.to_bytes(endian), endian), Some(refused));
        }
        assert!(DiskFiles::default().to_bytes(Endian::Little).is_empty());
    }

    #[test]
    fn parts_of_a_request_are_those_at_its_issue() {
        let all = some();
        let files = |issue_ns| all.parts_of(8 << 20, 64, issue_ns).iter().map(|part| part.file);
        assert_eq!(files(110).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(files(890).collect::<Vec<_>>(), [1]);
        assert_eq!(files(50_000_001).collect::<Vec<_>>(), [2]);
        assert_eq!(files(25_000_000).count(), 0, "none is near");
        assert_eq!(all.parts_of(8 << 20, 72, 110).len(), 0);
    }

    #[test]
    fn the_newest_request_of_a_thread_is_the_last_before_the_moment() {
        let all = some();
        let file = |span| all.newest_of(7, span).map(|part| part.file);
        assert_eq!(file(0..=200), Some(1));
        assert_eq!(file(0..=60_000_000), Some(2));
        assert_eq!(file(101..=200), None);
        assert!(all.newest_of(8, 0..=1000).is_none());
    }
}
