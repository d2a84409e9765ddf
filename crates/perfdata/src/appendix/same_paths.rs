//! Files that have one path in a recording and are several, as `/lib/libc.so.6` of the machine and of a container:
//! tally's appendix, after the open calls of spans. The header's list of build-ids has only paths.
//
// Layout: docs/formats/same-paths.md. In the byte order of the file.

use crate::appendix::open_spans::OpenSpans;
use crate::appendix::section::{Section, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tSP1";

/// A file by its path and inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAtPath {
    /// As records of mappings have it.
    pub path: Vec<u8>,
    /// Its inode number, as in the same records.
    pub inode: u64,
    /// Its build-id.
    pub build_id: Vec<u8>,
}

/// All files whose path another one has too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SamePaths {
    /// In no order.
    pub files: Vec<FileAtPath>,
}

impl SamePaths {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the open calls of spans; none without files.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.files.is_empty() {
            return p.bytes;
        }
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        for file in &self.files {
            p.u64(file.inode);
            p.u32(length(&file.path));
            p.u32(length(&file.build_id));
            p.raw(&file.path);
            p.raw(&file.build_id);
            p.pad(8);
        }
        p.bytes
    }
}

impl Section for SamePaths {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = OpenSpans;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let mut read = Self::default();
        for _ in 0..w.u32()? {
            let (inode, path_len, id_len) = (w.u64()?, w.u32()?, w.u32()?);
            let padded = u64::from(path_len).checked_add(id_len.into())?.checked_next_multiple_of(8)?;
            let (path, rest) = w.take(padded)?.split_at_checked(usize::try_from(path_len).ok()?)?;
            let build_id = rest.get(..usize::try_from(id_len).ok()?)?.to_vec();
            read.files.push(FileAtPath { path: path.to_vec(), inode, build_id });
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::open_spans::OpenSpan;

    #[test]
    fn files_survive_after_open_calls_and_without_them() {
        let file =
            |inode, id: u8| FileAtPath { path: b"/lib/libc.so.6".to_vec(), inode, build_id: vec![id; 20] };
        let same = SamePaths { files: vec![file(7, 1), file(8, 2)] };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = same.to_bytes(endian);
            assert_eq!(SamePaths::read(&bytes, endian), Some(same.clone()));
            let call = OpenSpan { function: "handle".to_owned(), tid: 7, begin_ns: 100 };
            let open = OpenSpans { calls: vec![call] }.to_bytes(endian);
            assert_eq!(SamePaths::read(&[open, bytes.clone()].concat(), endian), Some(same.clone()));
            assert_eq!(SamePaths::read(&bytes[..bytes.len() - 1], endian), None);
        }
        assert!(SamePaths::default().to_bytes(Endian::Little).is_empty());
    }
}
