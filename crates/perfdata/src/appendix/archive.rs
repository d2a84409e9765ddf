//! Files that a recording carries: the parts of object files that naming its addresses needs (`tally archive`).
//!
//! The block follows the recording's own bytes. perf and older versions of tally don't look there.
//
// Layout: docs/formats/archive.md. Little-endian in every file.

use crate::wire::{Endian, Put, Wire};
use std::borrow::Cow;
use std::io;

/// The last bytes of a file with a block.
const MAGIC: [u8; 8] = *b"TALLYARC";
/// Length of the directory, length of the block, magic.
const TRAILER_BYTES: usize = 24;
/// Bytes of content that need no justification by their packed size.
const FREE_BYTES: u64 = 1 << 20;
/// Bytes that one packed byte may become.
const FOLD: u64 = 64;
/// zstd's level: the time goes into reading the recording, not into packing.
const LEVEL: i32 = 9;

/// The content of an archived file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchivedRole {
    /// Text: the names of code without an ELF file, as in perf-PID.map.
    Names,
    /// The ELF file that was mapped.
    Object,
    /// The ELF file with its debug information, where that is a file of its own.
    DebugFile,
    /// dwz's common part of debug files.
    CommonDebugFile,
}

impl ArchivedRole {
    const ALL: [Self; 4] = [Self::Names, Self::Object, Self::DebugFile, Self::CommonDebugFile];

    fn code(self) -> u32 {
        match self {
            Self::Names => 1,
            Self::Object => 2,
            Self::DebugFile => 3,
            Self::CommonDebugFile => 4,
        }
    }
}

/// The file whose content an entry has. For debug files: the object file that they belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArchivedKey {
    /// The kind of code, as docs/formats/archive.md numbers them.
    pub code_kind: u32,
    /// As recorded, in UTF-8.
    pub path: String,
    /// Empty if the recording has none.
    pub build_id: Vec<u8>,
}

/// A part of a file that was kept: where it begins in the file, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptPiece {
    /// From the file's start, in bytes.
    pub offset: u64,
    /// In bytes.
    pub bytes: u64,
}

/// A file to archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewArchived {
    /// Which file it is.
    pub key: ArchivedKey,
    /// Purpose of the part.
    pub role: ArchivedRole,
    /// Length of the whole file. Bytes outside of the pieces are read as zeros.
    pub file_bytes: u64,
    /// By offset, not overlapping.
    pub pieces: Vec<KeptPiece>,
    /// The pieces' bytes, one after the other.
    pub content: Vec<u8>,
}

/// A file in an archive, its content still packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived<'a> {
    /// Which file it is.
    pub key: ArchivedKey,
    /// Purpose of the part.
    pub role: ArchivedRole,
    /// Length of the whole file.
    pub file_bytes: u64,
    /// By offset, not overlapping, inside of the file.
    pub pieces: Vec<KeptPiece>,
    packed: Cow<'a, [u8]>,
    content_bytes: u64,
}

impl Archived<'_> {
    /// The same, without the recording that it was read from.
    #[must_use]
    pub fn into_owned(self) -> Archived<'static> {
        Archived { packed: Cow::Owned(self.packed.into_owned()), ..self }
    }

    /// Bytes that it takes in the archive.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        self.packed.len() as u64
    }

    /// The pieces' bytes, one after the other; `None` if they are damaged.
    #[must_use]
    pub fn unpack(&self) -> Option<Vec<u8>> {
        let bytes = usize::try_from(self.content_bytes).ok()?;
        if bytes == self.packed.len() {
            return Some(self.packed.to_vec());
        }
        let justified = FREE_BYTES.saturating_add(self.packed_bytes().saturating_mul(FOLD));
        if self.content_bytes > justified {
            return None;
        }
        zstd::bulk::decompress(&self.packed, bytes).ok().filter(|content| content.len() == bytes)
    }
}

/// The block to append to a recording.
///
/// # Errors
/// If zstd refuses to compress.
pub fn to_bytes(files: &[NewArchived]) -> io::Result<Vec<u8>> {
    let mut block = Put::new(Endian::Little);
    let mut directory = Put::new(Endian::Little);
    for file in files {
        let packed = packed(&file.content)?;
        put_entry(&mut directory, file, block.bytes.len(), packed.len());
        block.raw(&packed);
        block.pad(8);
    }
    let (directory, blobs) = (directory.bytes, block.bytes.len());
    block.raw(&directory);
    block.count(directory.len());
    block.count(blobs + directory.len() + TRAILER_BYTES);
    block.raw(&MAGIC);
    Ok(block.bytes)
}

/// Compressed, or as it is where that would not be read again or saves nothing.
fn packed(content: &[u8]) -> io::Result<Vec<u8>> {
    let packed = zstd::bulk::compress(content, LEVEL)?;
    let justified = FREE_BYTES.saturating_add((packed.len() as u64).saturating_mul(FOLD));
    let is_good = packed.len() < content.len() && content.len() as u64 <= justified;
    Ok(if is_good { packed } else { content.to_vec() })
}

fn put_entry(p: &mut Put, file: &NewArchived, offset: usize, packed: usize) {
    let len = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    p.u32(file.role.code());
    p.u32(file.key.code_kind);
    p.u32(len(file.key.path.len()));
    p.u32(len(file.key.build_id.len()));
    p.count(offset);
    p.count(packed);
    p.count(file.content.len());
    p.u64(file.file_bytes);
    p.count(file.pieces.len());
    for piece in &file.pieces {
        p.u64(piece.offset);
        p.u64(piece.bytes);
    }
    p.raw(file.key.path.as_bytes());
    p.raw(&file.key.build_id);
    p.pad(8);
}

/// The file without its block, and the block if there is one.
#[must_use]
pub fn split(file: &[u8]) -> (&[u8], Option<&[u8]>) {
    let split = || {
        let rest = file.strip_suffix(&MAGIC)?;
        let (_, len) = rest.split_last_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok().filter(|&len| len >= TRAILER_BYTES)?;
        file.split_at_checked(file.len().checked_sub(len)?)
    };
    split().map_or((file, None), |(recording, block)| (recording, Some(block)))
}

/// The files in a block; `None` if its directory is damaged.
#[must_use]
pub fn read(block: &[u8]) -> Option<Vec<Archived<'_>>> {
    let rest = block.get(..block.len().checked_sub(TRAILER_BYTES)?)?;
    let len = block.get(rest.len()..)?.first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (blobs, directory) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
    let mut w = Wire::new(directory, Endian::Little);
    let mut files = Vec::new();
    while w.len() > 0 {
        files.push(read_entry(&mut w, blobs)?);
    }
    Some(files)
}

fn read_entry<'a>(w: &mut Wire<'_>, blobs: &'a [u8]) -> Option<Archived<'a>> {
    let (role, code_kind, path, build_id) = (w.u32()?, w.u32()?, w.u32()?, w.u32()?);
    let (offset, packed, content_bytes) = (w.u64()?, w.u64()?, w.u64()?);
    let (file_bytes, pieces) = (w.u64()?, w.u64()?);
    let role = ArchivedRole::ALL.into_iter().find(|known| known.code() == role)?;
    let pieces = read_pieces(w, pieces)?;
    let end = pieces.last().map_or(0, |last| last.offset + last.bytes);
    if end > file_bytes || pieces.iter().map(|piece| piece.bytes).sum::<u64>() != content_bytes {
        return None;
    }
    let text = w.take(path.into())?;
    let id = w.take(build_id.into())?.to_vec();
    let padding = (u64::from(path) + u64::from(build_id)).next_multiple_of(8);
    w.take(padding - u64::from(path) - u64::from(build_id))?;
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(packed).ok()?)?;
    let key = ArchivedKey { code_kind, path: String::from_utf8_lossy(text).into_owned(), build_id: id };
    Some(Archived { key, role, file_bytes, pieces, packed: blobs.get(start..end)?.into(), content_bytes })
}

/// In order and without overlap, or `None`.
fn read_pieces(w: &mut Wire<'_>, count: u64) -> Option<Vec<KeptPiece>> {
    let (mut pieces, mut end) = (Vec::new(), 0u64);
    for _ in 0..count {
        let piece = KeptPiece { offset: w.u64()?, bytes: w.u64()? };
        if piece.offset < end {
            return None;
        }
        end = piece.offset.checked_add(piece.bytes)?;
        pieces.push(piece);
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<NewArchived> {
        let key = |path: &str, build_id: &[u8]| ArchivedKey {
            code_kind: 1,
            path: path.to_owned(),
            build_id: build_id.to_vec(),
        };
        let content: Vec<u8> = (0..5000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let pieces =
            vec![KeptPiece { offset: 64, bytes: 12_000 }, KeptPiece { offset: 1 << 20, bytes: 8000 }];
        vec![
            NewArchived {
                key: key("/usr/bin/a", &[7; 20]),
                role: ArchivedRole::Object,
                file_bytes: 2 << 20,
                pieces,
                content,
            },
            NewArchived {
                key: key("[kernel.kallsyms]", &[]),
                role: ArchivedRole::Names,
                file_bytes: 9,
                pieces: vec![KeptPiece { offset: 0, bytes: 9 }],
                content: b"10 20 foo".to_vec(),
            },
        ]
    }

    #[test]
    fn files_are_read_as_they_were_written() {
        let recording = b"PERFILE2 and so on".as_slice();
        let file = [recording, &to_bytes(&files()).unwrap()].concat();
        let (rest, block) = split(&file);
        assert_eq!(rest, recording);
        let read = read(block.unwrap()).unwrap();
        assert!(read[0].packed_bytes() < 10_000, "compressed");
        for (read, written) in read.iter().zip(files()) {
            assert_eq!(
                (&read.key, read.role, read.file_bytes),
                (&written.key, written.role, written.file_bytes)
            );
            assert_eq!((&read.pieces, read.unpack()), (&written.pieces, Some(written.content)));
        }
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_cut_or_changed_block_is_refused_without_panic() {
        let file = [b"PERFILE2".as_slice(), &to_bytes(&files()).unwrap()].concat();
        for len in 0..file.len() {
            assert_eq!(split(&file[..len]).1, None, "{len}");
        }
        for at in 8..file.len() {
            let mut file = file.clone();
            file[at] ^= 0x41;
            let files = split(&file).1.and_then(read).unwrap_or_default();
            files.iter().for_each(|file| drop(file.unpack()));
        }
    }

    #[test]
    fn content_that_compresses_beyond_the_bound_is_stored_as_it_is() {
        let content = vec![0; 4 << 20];
        let pieces = vec![KeptPiece { offset: 0, bytes: 4 << 20 }];
        let zeros = NewArchived { content, pieces, file_bytes: 4 << 20, ..files().remove(0) };
        let block = to_bytes(&[zeros]).unwrap();
        assert_eq!(read(&block).unwrap()[0].unpack().map(|content| content.len()), Some(4 << 20));
    }

    #[test]
    fn overlapping_pieces_and_pieces_beyond_the_file_are_refused() {
        let with = |pieces: [(u64, u64); 2]| {
            let pieces = pieces.map(|(offset, bytes)| KeptPiece { offset, bytes }).to_vec();
            read(&to_bytes(&[NewArchived { pieces, ..files().remove(0) }]).unwrap()).is_some()
        };
        assert!(with([(0, 12_000), (12_000, 8000)]));
        assert!(!with([(0, 12_000), (11_999, 8000)]));
        assert!(!with([(0, 12_000), ((2 << 20) - 7999, 8000)]));
        assert!(!with([(0, 12_000), (u64::MAX, 8000)]));
    }
}
