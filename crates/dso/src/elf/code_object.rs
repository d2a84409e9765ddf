//! Writes a small ELF file around the code of one function that a just-in-time compiler made, as `perf inject -j` does.
//!
//! Offsets in the file and stated addresses are the same.
//
// Layout: ELF header, program header, code at TEXT_OFFSET, build-id note, symbols, names, section headers.
// Source: System V ABI, "Object Files"; perf reads jitted-PID-N.so with any such layout (tools/perf/util/genelf.c).

/// Where the code begins, in the file and as a stated address.
pub const TEXT_OFFSET: u64 = 0x80;

const HEADER_BYTES: u16 = 64;
const SEGMENT_BYTES: u16 = 56;
const SECTION_BYTES: u16 = 64;
const SYMBOL_BYTES: u64 = 24;
/// Names of the sections, each with its offset below.
const SECTION_NAMES: &[u8] = b"\0.text\0.note.gnu.build-id\0.symtab\0.strtab\0.shstrtab\0";
const NAME_OFFSETS: [u32; 6] = [0, 1, 7, 26, 34, 42];

/// A function to write.
#[derive(Clone, Copy, Debug)]
pub struct CodeObject<'c> {
    /// `EM_*` of the code.
    pub machine: u16,
    /// The function's name, without NUL.
    pub name: &'c [u8],
    /// Instructions.
    pub code: &'c [u8],
    /// Identifies the file.
    pub build_id: [u8; 20],
}

impl CodeObject<'_> {
    /// The file: 64 bits, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut file = vec![0; TEXT_OFFSET as usize];
        let code = append(&mut file, self.code);
        let note = append(&mut file, &self.note());
        let symbols = append(&mut file, &self.symbols());
        let names = append(&mut file, &[b"\0", self.name, b"\0"].concat());
        let section_names = append(&mut file, SECTION_NAMES);
        let table = append(&mut file, &[]);
        let sections = [
            // Type, flags, place, link, info, alignment, entry size.
            Section { kind: 0, flags: 0, place: (0, 0), link: (0, 0), align: 0, entry: 0 },
            Section { kind: 1, flags: 2 | 4, place: code, link: (0, 0), align: 16, entry: 0 },
            Section { kind: 7, flags: 2, place: note, link: (0, 0), align: 4, entry: 0 },
            Section { kind: 2, flags: 0, place: symbols, link: (4, 1), align: 8, entry: SYMBOL_BYTES },
            Section { kind: 3, flags: 0, place: names, link: (0, 0), align: 1, entry: 0 },
            Section { kind: 3, flags: 0, place: section_names, link: (0, 0), align: 1, entry: 0 },
        ];
        for (section, name) in sections.iter().zip(NAME_OFFSETS) {
            section.write(name, &mut file);
        }
        let head = self.headers(table.0, note.0 + note.1);
        file[..head.len()].copy_from_slice(&head);
        file
    }

    /// ELF header, and one segment from the file's start to `loaded_bytes`.
    fn headers(&self, table: u64, loaded_bytes: u64) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(16, 0);
        put16(&mut head, &[3, self.machine]); // ET_DYN
        put32(&mut head, &[1]);
        put64(&mut head, &[TEXT_OFFSET, HEADER_BYTES.into(), table]);
        put32(&mut head, &[0]);
        put16(&mut head, &[HEADER_BYTES, SEGMENT_BYTES, 1, SECTION_BYTES, 6, 5]);
        put32(&mut head, &[1, 4 | 1]); // PT_LOAD, readable and executable
        put64(&mut head, &[0, 0, 0, loaded_bytes, loaded_bytes, 0x1000]);
        head
    }

    fn note(&self) -> Vec<u8> {
        let mut note = Vec::new();
        put32(&mut note, &[4, 20, 3]); // NT_GNU_BUILD_ID
        note.extend_from_slice(b"GNU\0");
        note.extend_from_slice(&self.build_id);
        note
    }

    /// The empty symbol, and the function as a global one of section 1.
    fn symbols(&self) -> Vec<u8> {
        let mut symbols = vec![0; SYMBOL_BYTES as usize];
        put32(&mut symbols, &[1]);
        symbols.extend_from_slice(&[0x12, 0]); // STB_GLOBAL, STT_FUNC
        put16(&mut symbols, &[1]);
        put64(&mut symbols, &[TEXT_OFFSET, self.code.len() as u64]);
        symbols
    }
}

struct Section {
    kind: u32,
    flags: u64,
    place: (u64, u64),
    link: (u32, u32),
    align: u64,
    entry: u64,
}

impl Section {
    fn write(&self, name: u32, file: &mut Vec<u8>) {
        let address = if self.flags & 2 != 0 { self.place.0 } else { 0 };
        put32(file, &[name, self.kind]);
        put64(file, &[self.flags, address, self.place.0, self.place.1]);
        put32(file, &[self.link.0, self.link.1]);
        put64(file, &[self.align, self.entry]);
    }
}

/// Appends a part at a multiple of 16 bytes. The result is its offset and length.
fn append(file: &mut Vec<u8>, part: &[u8]) -> (u64, u64) {
    file.resize(file.len().next_multiple_of(16), 0);
    let start = file.len() as u64;
    file.extend_from_slice(part);
    (start, part.len() as u64)
}

fn put16(to: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes()));
}

fn put32(to: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes()));
}

fn put64(to: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| to.extend_from_slice(&value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, FileOffset, ObjectFile, Svma, SymbolTable};

    #[test]
    fn the_function_is_read_back_with_its_name_code_and_build_id() {
        let function = CodeObject { machine: 62, name: b"LFoo;bar", code: &[0x90; 33], build_id: [7; 20] };
        let object = ObjectFile::parse(Bytes::from_vec(function.to_bytes())).unwrap();
        assert_eq!(object.build_id().map(|id| id.as_bytes().to_vec()), Some(vec![7; 20]));
        assert_eq!(object.svma_of(FileOffset(TEXT_OFFSET)), Some(Svma(TEXT_OFFSET)));
        assert_eq!(object.bytes_at(Svma(TEXT_OFFSET), 33), Some(&[0x90; 33][..]));
        let table = SymbolTable::load(&object, None);
        let found = table.find(Svma(TEXT_OFFSET + 32)).map(|s| (s.name.to_owned(), s.end.0 - s.start.0));
        assert_eq!(found, Some(("LFoo;bar".to_owned(), 33)));
        assert!(table.find(Svma(TEXT_OFFSET + 33)).is_none());
    }
}
