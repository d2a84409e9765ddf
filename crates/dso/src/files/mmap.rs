//! Bytes of files: mapped when large, copied when small. The only unsafe code of this crate.
//!
//! Compilers and package managers replace files by rename, which leaves our mapping alone. A file that is
//! truncated under us reads as zeros from its new end on, instead of raising SIGBUS (see [`guard`]), and
//! [`MappedFile::is_intact`] is false afterwards. A mapping keeps no descriptor.

mod guard;

pub use guard::{has_any_shrunk, release_all, shrunken_files};

use guard::Region;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounds::Room;
use crate::files::file_identity::FileIdentity;
use crate::files::untrusted_file::{FileRule, Refused};

/// Files up to this many bytes are copied instead of mapped.
pub const COPY_LIMIT: u64 = 128 * 1024;

/// A file's bytes, read-only.
#[derive(Debug)]
pub struct MappedFile {
    bytes: Storage,
    identity: Option<FileIdentity>,
    /// Share of the process's bound that decompressed bytes take.
    _room: Option<Room>,
}

#[derive(Debug)]
enum Storage {
    Copied(Vec<u8>),
    Mapped(Guarded),
    /// Memory of no file, in which pages that were not written take no room.
    Sparse(memmap2::Mmap),
}

/// A mapping whose file may shrink.
#[derive(Debug)]
struct Guarded {
    map: memmap2::Mmap,
    region: &'static Region,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.region.unregister();
    }
}

impl MappedFile {
    /// Opens the regular file at `path`, however large. Pipes, devices and directories are refused with
    /// `InvalidInput` and without opening them. A file that states no size, as those of /proc, has no bytes.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_by(&FileRule::up_to(u64::MAX), path)
    }

    /// Opens the file at `path` if it satisfies `rule`; an empty file has no bytes.
    ///
    /// # Errors
    /// The rule's [`Refused`] is the inner error of the result.
    pub fn open_by(rule: &FileRule, path: &Path) -> io::Result<Self> {
        match rule.open(path) {
            Ok(file) => Self::from_file(file),
            Err(Refused::Empty) => Ok(Self::from_vec(Vec::new())),
            Err(refused) => Err(refused.into()),
        }
    }

    /// The bytes of an open regular file, from its start, wherever its cursor is.
    pub fn from_file(file: File) -> io::Result<Self> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let identity = Some(FileIdentity::of(&meta));
        // No further than the stated size: files of /proc state 0, and some of them have no end.
        if meta.len() <= COPY_LIMIT {
            let mut bytes = Vec::with_capacity(meta.len() as usize);
            file.take(meta.len()).read_to_end(&mut bytes)?;
            return Ok(Self { bytes: Storage::Copied(bytes), identity, _room: None });
        }
        // SAFETY: the mapping is private and read-only and lives as long as `Storage`; the region makes reading past
        // the end of a file that shrinks harmless. No value is read twice where a change in between would be unsound.
        let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file)? };
        let region = Region::register(&map, name_of(&file));
        Ok(Self { bytes: Storage::Mapped(Guarded { map, region }), identity, _room: None })
    }

    /// Bytes that are in memory already.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self { bytes: Storage::Copied(bytes), identity: None, _room: None }
    }

    /// Which file it was when it was opened; `None` for bytes that were in memory already.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.identity
    }

    /// Gives the memory of `range` back: what is read of it again comes from the file again. For whoever
    /// passes once through a file larger than the memory it may take. Bytes not mapped stay.
    pub fn release(&self, range: Range<usize>) {
        let Storage::Mapped(Guarded { map, .. }) = &self.bytes else { return };
        let end = range.end.min(map.len());
        if range.start >= end {
            return;
        }
        // SAFETY: the mapping is private and was never written to, so that dropped pages are read again from
        // the file, with the same bytes as long as nobody changes it (see `is_intact`).
        let told = unsafe {
            map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, end - range.start)
        };
        drop(told); // a kernel that refuses only keeps the memory
    }

    /// Whether all that was read so far was the file's; false if zeros were read in place of what it lost.
    pub fn is_intact(&self) -> bool {
        match &self.bytes {
            Storage::Copied(_) | Storage::Sparse(_) => true,
            Storage::Mapped(Guarded { region, .. }) => !region.has_shrunk(),
        }
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Storage::Copied(v) => v,
            Storage::Mapped(Guarded { map, .. }) | Storage::Sparse(map) => map,
        }
    }
}

/// The path under which an open file is reached now, for messages.
fn name_of(file: &File) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// A cheaply cloned range of a shared file.
#[derive(Clone, Debug)]
pub struct Bytes {
    owner: Arc<MappedFile>,
    range: Range<usize>,
}

impl Bytes {
    /// All of `map`.
    pub fn new(map: MappedFile) -> Self {
        let range = 0..map.len();
        Self { owner: Arc::new(map), range }
    }

    /// Bytes in memory.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::new(MappedFile::from_vec(bytes))
    }

    /// `len` bytes of memory: `content` at the ranges `pieces`, one after the other, and zeros elsewhere.
    ///
    /// # Errors
    /// If a piece reaches past `len`, the content is not as long as the pieces, or there is no memory.
    pub fn sparse(len: u64, pieces: &[Range<u64>], content: &[u8]) -> io::Result<Self> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let len = usize::try_from(len).ok().filter(|&len| len > 0).ok_or_else(damaged)?;
        let mut map = memmap2::MmapMut::map_anon(len)?;
        let mut rest = content;
        for piece in pieces {
            let to = map.get_mut(piece.start as usize..piece.end as usize).ok_or_else(damaged)?;
            let (bytes, after) = rest.split_at_checked(to.len()).ok_or_else(damaged)?;
            to.copy_from_slice(bytes);
            rest = after;
        }
        let bytes = Storage::Sparse(map.make_read_only()?);
        Ok(Self::new(MappedFile { bytes, identity: None, _room: None }))
    }

    /// Bytes that were decompressed into memory.
    pub(crate) fn unpacked(bytes: Vec<u8>, room: Room) -> Self {
        Self::new(MappedFile { bytes: Storage::Copied(bytes), identity: None, _room: Some(room) })
    }

    /// The part `range` of these bytes, `None` if it reaches past their end.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let base = self.range.start;
        Some(Self { owner: self.owner.clone(), range: base + range.start..base + range.end })
    }

    /// See [`MappedFile::identity`].
    pub fn identity(&self) -> Option<FileIdentity> {
        self.owner.identity()
    }

    /// See [`MappedFile::is_intact`].
    pub fn is_intact(&self) -> bool {
        self.owner.is_intact()
    }

    /// These bytes for the rest of the program's life: their file is never unmapped. For the one user
    /// that can't borrow, the line resolver, whose library borrows from what it also holds.
    pub fn leak(self) -> &'static [u8] {
        let owner: &'static Arc<MappedFile> = Box::leak(Box::new(self.owner));
        &owner[self.range]
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.owner.get(self.range.clone()).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_that_shrinks_reads_as_zeros_and_is_named() {
        let path = std::env::temp_dir().join(format!("tally-mmap-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        let (map, other) = (MappedFile::open(&path).unwrap(), MappedFile::open(&path).unwrap());
        assert_eq!((map.len(), map[1 << 19], map.is_intact()), (1 << 20, 7, true));
        File::options().write(true).open(&path).unwrap().set_len(8192).unwrap();
        assert_eq!((map[8191], map.is_intact()), (7, true), "what is left is read as before");
        assert_eq!((map[8192], map[(1 << 20) - 1], map.is_intact()), (0, 0, false));
        assert!(map[8192..].iter().all(|byte| *byte == 0), "page after page");
        assert!(other.is_intact(), "nothing was read of it");
        // Still mapped, and once more when it is gone.
        assert!(shrunken_files().contains(&path));
        drop(map);
        assert!(shrunken_files().contains(&path) && !shrunken_files().contains(&path));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn more_mappings_than_a_block_holds_are_guarded() {
        let path = std::env::temp_dir().join(format!("tally-mmaps-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 18]).unwrap();
        let maps: Vec<MappedFile> = (0..300).map(|_| MappedFile::open(&path).unwrap()).collect();
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let sums: Vec<u32> = maps.iter().map(|map| map.iter().map(|byte| u32::from(*byte)).sum()).collect();
        assert_eq!(sums, vec![0; 300]);
        assert!(maps.iter().all(|map| !map.is_intact()));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn released_files_are_read_again() {
        let path = std::env::temp_dir().join(format!("tally-release-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        let map = MappedFile::open(&path).unwrap();
        assert!(map.iter().all(|byte| *byte == 7));
        release_all();
        // Still mapped, to the file as it is now.
        std::fs::write(&path, vec![8u8; 1 << 20]).unwrap();
        assert!(map.iter().all(|byte| *byte == 8));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_slice_of_a_slice_stays_inside() {
        let b = Bytes::from_vec((0..10).collect());
        let s = b.slice(2..8).unwrap();
        assert_eq!(&*s.slice(1..3).unwrap(), &[3, 4]);
        assert!(s.slice(1..7).is_none());
    }

    #[test]
    fn sparse_bytes_are_zero_outside_of_their_pieces() {
        let bytes = Bytes::sparse(1 << 30, &[1..3, 100..102], b"abcd").unwrap();
        assert_eq!((bytes.len(), &bytes[..4], &bytes[99..103]), (1 << 30, &b"\0ab\0"[..], &b"\0cd\0"[..]));
        assert!(
            Bytes::sparse(8, std::slice::from_ref(&(6..9)), b"abc").is_err()
                && Bytes::sparse(8, std::slice::from_ref(&(6..8)), b"a").is_err()
        );
    }

    #[test]
    fn directories_are_refused() {
        assert!(MappedFile::open(Path::new("/")).is_err());
    }

    #[test]
    fn a_file_of_proc_has_no_bytes() {
        assert_eq!(MappedFile::open(Path::new("/proc/self/pagemap")).unwrap().len(), 0);
        assert_eq!(MappedFile::from_file(File::open("/proc/self/pagemap").unwrap()).unwrap().len(), 0);
    }
}
