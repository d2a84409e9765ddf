//! Bytes of files: mapped when large, copied when small. The only unsafe code of this crate.
//!
//! The trap of mapping a file that others may write: if it is truncated under us, touching a page past
//! its new end is SIGBUS. Files that are rewritten in place are small in practice (perf-PID.map, scripts'
//! outputs), so files up to [`COPY_LIMIT`] are copied; larger ones keep their descriptor, and
//! [`Mmap::is_intact`] tells before a long read whether the size still is what was mapped. Compilers and
//! package managers replace files by rename, which leaves our mapping alone.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use crate::bounds::Room;
use crate::untrusted_file::{FileRule, Refused};

/// Files up to this many bytes are copied instead of mapped.
pub const COPY_LIMIT: u64 = 128 * 1024;

/// A file's bytes, read-only.
#[derive(Debug)]
pub struct Mmap {
    bytes: Storage,
    /// What decompressed bytes take of the process's bound.
    _room: Option<Room>,
}

impl From<Storage> for Mmap {
    fn from(bytes: Storage) -> Self {
        Self { bytes, _room: None }
    }
}

#[derive(Debug)]
enum Storage {
    Copied(Vec<u8>),
    Mapped { map: memmap2::Mmap, file: File },
}

impl Mmap {
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

    /// The bytes of an open regular file, from its start whatever its cursor says.
    pub fn from_file(file: File) -> io::Result<Self> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // No further than the stated size: files of /proc state 0, and some of them have no end.
        if meta.len() <= COPY_LIMIT {
            let mut bytes = Vec::with_capacity(meta.len() as usize);
            file.take(meta.len()).read_to_end(&mut bytes)?;
            return Ok(Storage::Copied(bytes).into());
        }
        // SAFETY: the mapping is private and read-only and lives as long as `Storage`. That nobody
        // shrinks the file is the module's documented assumption, checked by `is_intact`.
        let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file)? };
        Ok(Storage::Mapped { map, file }.into())
    }

    /// Bytes that are in memory already.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Storage::Copied(bytes).into()
    }

    /// Gives the memory of `range` back: what is read of it again comes from the file again. For whoever
    /// passes once through a file larger than the memory it may take. Bytes not mapped stay.
    pub fn release(&self, range: Range<usize>) {
        let Storage::Mapped { map, .. } = &self.bytes else { return };
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

    /// Whether the file still has the size that was mapped: false means that reading may trap.
    pub fn is_intact(&self) -> bool {
        match &self.bytes {
            Storage::Copied(_) => true,
            Storage::Mapped { map, file } => file.metadata().is_ok_and(|m| m.len() >= map.len() as u64),
        }
    }
}

impl Deref for Mmap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Storage::Copied(v) => v,
            Storage::Mapped { map, .. } => map,
        }
    }
}

/// A cheaply cloned range of a shared file.
#[derive(Clone, Debug)]
pub struct Bytes {
    owner: Arc<Mmap>,
    range: Range<usize>,
}

impl Bytes {
    /// All of `map`.
    pub fn new(map: Mmap) -> Self {
        let range = 0..map.len();
        Self { owner: Arc::new(map), range }
    }

    /// Bytes in memory.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::new(Mmap::from_vec(bytes))
    }

    /// Bytes that were decompressed into memory.
    pub(crate) fn unpacked(bytes: Vec<u8>, room: Room) -> Self {
        Self::new(Mmap { bytes: Storage::Copied(bytes), _room: Some(room) })
    }

    /// The part `range` of these bytes, `None` if it reaches past their end.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let base = self.range.start;
        Some(Self { owner: self.owner.clone(), range: base + range.start..base + range.end })
    }

    /// See [`Mmap::is_intact`].
    pub fn is_intact(&self) -> bool {
        self.owner.is_intact()
    }

    /// These bytes for the rest of the program's life: their file is never unmapped. For the one user
    /// that can't borrow, the line resolver, whose library borrows from what it also holds.
    pub fn leak(self) -> &'static [u8] {
        let owner: &'static Arc<Mmap> = Box::leak(Box::new(self.owner));
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
    fn a_large_file_is_mapped_and_its_truncation_is_seen() {
        let path = std::env::temp_dir().join(format!("tally-mmap-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        let map = Mmap::open(&path).unwrap();
        assert_eq!((map.len(), map[1 << 19], map.is_intact()), (1 << 20, 7, true));
        File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        assert!(!map.is_intact());
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
    fn directories_are_refused() {
        assert!(Mmap::open(Path::new("/")).is_err());
    }

    #[test]
    fn a_file_of_proc_has_no_bytes() {
        assert_eq!(Mmap::open(Path::new("/proc/self/pagemap")).unwrap().len(), 0);
        assert_eq!(Mmap::from_file(File::open("/proc/self/pagemap").unwrap()).unwrap().len(), 0);
    }
}
