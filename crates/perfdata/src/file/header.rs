//! The first bytes of a file: which mode, which byte order, where the sections are.
//
// Layout: struct perf_file_header { u64 magic, size, attr_size; section attrs, data, event_types; u64 flags[4]; }
//         (104 bytes); struct perf_pipe_file_header { u64 magic, size; } (16 bytes); section { u64 offset, size; }
// Source: linux v7.2 tools/perf/util/header.[ch].

use crate::wire::{Endian, Put, Wire};
use crate::{Error, ReadMode};

/// A range of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSection {
    /// First byte, from the file's beginning.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The file header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// File or pipe.
    pub mode: ReadMode,
    /// Byte order of the recording machine.
    pub endian: Endian,
    /// Size field of this header: 104 (file) or 16 (pipe).
    pub size: u64,
    /// Bytes of an attribute in the attribute section, its ids' section included (file mode).
    pub attr_size: u64,
    /// Attributes (file mode).
    pub attrs: FileSection,
    /// Records. In a pipe everything after the header.
    pub data: FileSection,
    /// Which header features are there, one bit each (file mode).
    pub features: [u64; 4],
}

/// The magic as bytes of a little-endian file.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";
/// The magic as bytes of a big-endian file.
const MAGIC_SWAPPED: &[u8; 8] = b"2ELIFREP";
/// The magic of perf until 2011, in either byte order.
const MAGIC_OF_2009: &[u8; 8] = b"PERFFILE";
/// Bytes of the header in file mode before there were features.
const HEADER_SIZE_WITHOUT_FEATURES: u64 = 72;
/// Bytes of the header in file mode.
pub(crate) const FILE_HEADER_SIZE: u64 = 104;
/// Bytes of the header in pipe mode.
pub(crate) const PIPE_HEADER_SIZE: u64 = 16;

impl FileHeader {
    /// Reads the header at the beginning of a file.
    ///
    /// # Errors
    /// [`Error::BadMagic`], [`Error::Truncated`] or [`Error::BadValue`] (header size).
    pub fn parse(bytes: &[u8]) -> Result<FileHeader, Error> {
        let have = bytes.len() as u64;
        let magic: Option<&[u8; 8]> = bytes.first_chunk();
        let endian = match magic {
            Some(MAGIC) => Endian::Little,
            Some(MAGIC_SWAPPED) => Endian::Big,
            Some(MAGIC_OF_2009) => size_order(bytes),
            _ => return Err(Error::BadMagic { found: bytes.iter().take(8).copied().collect() }),
        };
        let truncated = |needed| Error::Truncated { what: "file header", offset: 0, needed, have };
        let mut w = Wire::new(bytes.get(8..).unwrap_or_default(), endian);
        let size = w.u64().ok_or(truncated(PIPE_HEADER_SIZE))?;
        if size == PIPE_HEADER_SIZE {
            return Ok(Self::pipe(endian, have));
        }
        if size == HEADER_SIZE_WITHOUT_FEATURES {
            return Self::parse_file(&mut w, endian, size).ok_or(truncated(size));
        }
        if size < FILE_HEADER_SIZE {
            return Err(Error::BadValue { what: "file header size", offset: 8, value: size });
        }
        Self::parse_file(&mut w, endian, size).ok_or(truncated(FILE_HEADER_SIZE))
    }

    fn pipe(endian: Endian, have: u64) -> FileHeader {
        FileHeader {
            mode: ReadMode::Pipe,
            endian,
            size: PIPE_HEADER_SIZE,
            attr_size: 0,
            attrs: FileSection::default(),
            data: FileSection { offset: PIPE_HEADER_SIZE, size: have.saturating_sub(PIPE_HEADER_SIZE) },
            features: [0; 4],
        }
    }

    fn parse_file(w: &mut Wire<'_>, endian: Endian, size: u64) -> Option<FileHeader> {
        let attr_size = w.u64()?;
        let attrs = section(w)?;
        let data = section(w)?;
        let _event_types = section(w)?;
        let features = match size {
            HEADER_SIZE_WITHOUT_FEATURES => [0; 4],
            _ => [w.u64()?, w.u64()?, w.u64()?, w.u64()?],
        };
        Some(FileHeader { mode: ReadMode::File, endian, size, attr_size, attrs, data, features })
    }

    /// Numbers of the features that are there, ascending.
    pub fn feature_numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let bits = self.features;
        bits.into_iter().zip([0u32, 64, 128, 192]).flat_map(|(word, base)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| base + bit)
        })
    }

    pub(crate) fn write(&self, p: &mut Put) {
        p.raw(MAGIC);
        p.u64(self.size);
        if self.mode == ReadMode::Pipe {
            return;
        }
        p.u64(self.attr_size);
        for s in [self.attrs, self.data, FileSection::default()] {
            p.u64(s.offset);
            p.u64(s.size);
        }
        for word in self.features {
            p.u64(word);
        }
    }
}

/// Byte order of a header whose magic does not show it: the size after the magic is a small number.
fn size_order(bytes: &[u8]) -> Endian {
    let size = bytes.get(8..16).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    if size <= u64::from(u32::MAX) { Endian::Little } else { Endian::Big }
}

/// Two words: offset and size.
pub(crate) fn section(w: &mut Wire<'_>) -> Option<FileSection> {
    Some(FileSection { offset: w.u64()?, size: w.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_first_layout_tell_their_byte_order_by_their_size() {
        for (endian, size, features) in [
            (Endian::Little, 72, [0; 4]),
            (Endian::Big, 72, [0; 4]),
            (Endian::Little, 104, [7; 4]),
            (Endian::Big, 104, [7; 4]),
        ] {
            let word = |number: u64| match endian {
                Endian::Little => number.to_le_bytes(),
                Endian::Big => number.to_be_bytes(),
            };
            let words = [size, 80, 104, 80, 200, 1000, 0, 0, 7, 7, 7, 7];
            let bytes: Vec<u8> =
                MAGIC_OF_2009.iter().copied().chain(words.into_iter().flat_map(word)).collect();
            let header = FileHeader::parse(&bytes).expect("a header");
            assert_eq!((header.endian, header.mode, header.attr_size), (endian, ReadMode::File, 80));
            assert_eq!(
                (header.attrs, header.data),
                (FileSection { offset: 104, size: 80 }, FileSection { offset: 200, size: 1000 })
            );
            assert_eq!(header.features, features);
        }
    }
}
