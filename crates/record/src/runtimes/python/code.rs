//! Reads code objects from a process's memory: a function's name, file and lines.

use super::line_table::LineTable;
use super::versions::Offsets;

/// Longest name or path read, in characters.
const MOST_CHARACTERS: usize = 4096;
/// Longest table of lines read, in bytes.
const MOST_TABLE_BYTES: usize = 1 << 20;
/// Bytes of a code object that hold all fields read.
const CODE_BYTES: usize = 160;
/// Where every object has its type.
const TYPE_AT: usize = 8;
/// Where a `PyBytesObject` has its size, and where its bytes begin.
// Source: CPython Include/cpython/bytesobject.h
const BYTES_SIZE_AT: usize = 16;
const BYTES_AT: u64 = 32;

/// Reads memory at an address; false if it is not all there.
pub type Memory<'m> = dyn Fn(u64, &mut [u8]) -> bool + 'm;

/// A function, method, module or comprehension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// Name, qualified by its class since 3.11.
    pub name: String,
    /// Source file as it was compiled.
    pub file: String,
    /// The line it begins at.
    pub first_line: u32,
    /// Lines.
    pub table: Vec<u8>,
    /// Format of the table.
    pub format: LineTable,
    /// Changes when another object takes its place.
    pub print: CodePrint,
}

/// Pointers to name, file and table, and the first line.
pub type CodePrint = [u64; 4];

impl CodeObject {
    /// The line of the instruction at `position`; the first line if it has none of its own.
    #[must_use]
    pub fn line_of(&self, position: i64) -> u32 {
        self.format.line_of(&self.table, self.first_line, position).unwrap_or(self.first_line)
    }
}

/// Identifies the code object at `address`: it differs if another one has replaced it. `None` if there is no code
/// object.
#[must_use]
pub fn read_print(memory: &Memory<'_>, offsets: &Offsets, address: u64, code_type: u64) -> Option<CodePrint> {
    let mut bytes = [0; CODE_BYTES];
    if address == 0 || !memory(address, &mut bytes) || word(&bytes, TYPE_AT)? != code_type {
        return None;
    }
    let code = &offsets.code;
    let pointer = |at: u32| word(&bytes, at as usize);
    let first = word(&bytes, (code.first_line & !7) as usize)?;
    let first = if code.first_line & 4 == 0 { first & 0xffff_ffff } else { first >> 32 };
    Some([pointer(code.name)?, pointer(code.file)?, pointer(code.table)?, first])
}

/// The code object at `address`; `None` if there is none, or it can't be read whole.
#[must_use]
pub fn read_code(memory: &Memory<'_>, offsets: &Offsets, address: u64, code_type: u64) -> Option<CodeObject> {
    let print = read_print(memory, offsets, address, code_type)?;
    let [name, file, table, first_line] = print;
    Some(CodeObject {
        name: read_text(memory, offsets, name)?,
        file: read_text(memory, offsets, file)?,
        first_line: u32::try_from(first_line).ok()?,
        table: read_bytes(memory, table)?,
        format: offsets.line_table(),
        print,
    })
}

/// A `str`.
// Layout: PyASCIIObject { …, length at 16, state at 32: interned 0..2, kind 2..5, compact 5, ascii 6 }, characters of
//         `kind` bytes after it, or after PyCompactUnicodeObject if they are not ASCII
// Source: CPython 3.8 to 3.14 Include/cpython/unicodeobject.h
pub(super) fn read_text(memory: &Memory<'_>, offsets: &Offsets, address: u64) -> Option<String> {
    let mut head = [0; 40];
    if !memory(address, &mut head) {
        return None;
    }
    let length = usize::try_from(word(&head, 16)?).ok().filter(|length| *length <= MOST_CHARACTERS)?;
    let state = word(&head, 32)?;
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    if !is_compact || !matches!(kind, 1 | 2 | 4) {
        return None;
    }
    let begin = address.wrapping_add(if is_ascii { offsets.ascii } else { offsets.compact }.into());
    let mut bytes = vec![0; length * kind as usize];
    if !memory(begin, &mut bytes) {
        return None;
    }
    let character = |bytes: &[u8]| {
        let value = bytes.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    Some(bytes.chunks_exact(kind as usize).map(character).collect())
}

/// The content of a `bytes`.
fn read_bytes(memory: &Memory<'_>, address: u64) -> Option<Vec<u8>> {
    let mut head = [0; 24];
    if !memory(address, &mut head) {
        return None;
    }
    let len = usize::try_from(word(&head, BYTES_SIZE_AT)?).ok().filter(|len| *len <= MOST_TABLE_BYTES)?;
    let mut bytes = vec![0; len];
    memory(address.wrapping_add(BYTES_AT), &mut bytes).then_some(bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a process's memory: a code object of 3.11 at 0x1000 with the type 0x77.
    fn memory() -> Vec<u8> {
        let mut bytes = vec![0u8; 0x3000];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        put(0x1008, &0x77u64.to_le_bytes());
        put(0x1000 + 72, &12u32.to_le_bytes());
        put(0x1000 + 112, &0x1200u64.to_le_bytes());
        put(0x1000 + 128, &0x1300u64.to_le_bytes());
        put(0x1000 + 136, &0x1400u64.to_le_bytes());
        put(0x1210, &4u64.to_le_bytes());
        put(0x1220, &(1u32 << 2 | 1 << 5 | 1 << 6).to_le_bytes());
        put(0x1230, b"a.py");
        put(0x1310, &2u64.to_le_bytes());
        put(0x1320, &(2u32 << 2 | 1 << 5).to_le_bytes());
        put(0x1348, &[0x42, 0x04, 0xa9, 0x03]);
        put(0x1410, &2u64.to_le_bytes());
        put(0x1420, &[0xd8, 8]);
        bytes
    }

    #[test]
    fn a_code_object_is_read_with_its_texts() {
        let bytes = memory();
        let read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..at as usize + into.len());
            from.map(|from| into.copy_from_slice(from)).is_some()
        };
        let offsets = Offsets::of((3, 11)).expect("known");
        let code = read_code(&read, &offsets, 0x1000, 0x77).expect("whole");
        assert_eq!((code.name.as_str(), code.file.as_str(), code.first_line), ("тΩ", "a.py", 12));
        assert_eq!(code.table, [0xd8, 8]);
        assert_eq!(read_code(&read, &offsets, 0x1000, 0x78), None, "another type");
        assert_eq!(read_code(&read, &offsets, 0x2fff, 0x77), None, "past the memory");
    }
}
