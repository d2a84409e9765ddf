//! A small ELF file for 32-bit ARM with given code and tables, for tests and for the fuzz target.

use crate::{Bytes, ObjectFile};

/// Stated addresses of its sections; the file is loaded at 0 as it is.
pub(crate) const TEXT: u64 = 0x100;
pub(crate) const INDEX: u64 = 0x1100;
pub(crate) const TABLE: u64 = 0x1900;
const NAMES: u64 = 0x2900;
const HEADERS: u64 = 0x2940;
const SECTION_NAMES: &[u8] = b"\0.text\0.ARM.exidx\0.ARM.extab\0.shstrtab\0";

/// The contents of an example's sections; what is too long is cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Example<'e> {
    pub code: &'e [u8],
    pub index: &'e [u8],
    pub table: &'e [u8],
}

impl Example<'_> {
    /// The file.
    pub(crate) fn object(&self) -> Option<ObjectFile> {
        let mut file = header();
        for (at, end, content) in
            [(TEXT, INDEX, self.code), (INDEX, TABLE, self.index), (TABLE, NAMES, self.table)]
        {
            file.resize(at as usize, 0);
            file.extend_from_slice(&content[..content.len().min((end - at) as usize)]);
        }
        file.resize(NAMES as usize, 0);
        file.extend_from_slice(SECTION_NAMES);
        file.resize(HEADERS as usize, 0);
        // Name, type, flags, address, offset, size, link, info, alignment, size of entries.
        let section = |name: u32, kind: u32, flags: u32, at: u64, size: usize| {
            [name, kind, flags, at as u32, at as u32, size as u32, 0, 0, 4, 0]
        };
        let length = |from: u64, to: u64, content: &[u8]| content.len().min((to - from) as usize);
        let sections = [
            [0; 10],
            section(1, 1, 6, TEXT, length(TEXT, INDEX, self.code)),
            section(7, 0x7000_0001, 2, INDEX, length(INDEX, TABLE, self.index)),
            section(18, 1, 2, TABLE, length(TABLE, NAMES, self.table)),
            section(29, 3, 0, NAMES, SECTION_NAMES.len()),
        ];
        file.extend(sections.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
        ObjectFile::parse(Bytes::from_vec(file)).ok()
    }
}

/// The ELF header, and one segment that loads all.
fn header() -> Vec<u8> {
    const ARM: u16 = 40;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    [3, ARM].iter().for_each(|half| file.extend(half.to_le_bytes()));
    [1, 0, 52, HEADERS as u32, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    [52u16, 32, 1, 40, 5, 4].iter().for_each(|half| file.extend(half.to_le_bytes()));
    let size = HEADERS as u32;
    [1, 0, 0, 0, size, size, 5, 4096].iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
    file
}
