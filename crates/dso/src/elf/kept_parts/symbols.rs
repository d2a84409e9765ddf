//! Symbols of used code: their entries in `.symtab` and names in `.strtab`.

use super::ranges::KeptRanges;
use crate::ObjectFile;
use std::ops::Range;

/// Adds the symbols of code in `used`, and those that begin where it ends: they end the ones before. The result
/// names the sections of which no more is needed.
pub(super) fn add_used(object: &ObjectFile, used: &[Range<u64>], kept: &mut KeptRanges) -> Vec<&'static str> {
    let place = |name: &str| object.section(name).filter(|s| !s.compressed)?.file.clone();
    // Without .shstrtab the names of sections are in .strtab, too.
    let (Some(symbols), Some(names), Some(_)) = (place(".symtab"), place(".strtab"), place(".shstrtab"))
    else {
        return Vec::new();
    };
    let bytes: &[u8] = object.bytes();
    let part = |range: &Range<u64>| bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
    let entry_bytes = if object.is_64() { 24 } else { 16 };
    let strings = part(&names);
    for (index, entry) in part(&symbols).chunks_exact(entry_bytes).enumerate() {
        let symbol = Entry::read(entry, object.is_little_endian());
        if !symbol.is_of(used) {
            continue;
        }
        let start = symbols.start + (index * entry_bytes) as u64;
        kept.add(start..start + entry_bytes as u64);
        let text = strings.get(symbol.name as usize..).unwrap_or_default();
        let len = memchr::memchr(0, text).map_or(text.len(), |nul| nul + 1);
        kept.add(names.start + symbol.name..names.start + symbol.name + len as u64);
    }
    // The empty entry and name that begin the tables.
    kept.add(symbols.start..symbols.start + 1);
    kept.add(names.start..names.start + 1);
    vec![".symtab", ".strtab"]
}

/// The fields of a symbol that are needed here.
struct Entry {
    name: u64,
    value: u64,
    size: u64,
}

impl Entry {
    /// System V ABI, "Symbol Table": the 32-bit entry has another order than the 64-bit one.
    fn read(entry: &[u8], is_little_endian: bool) -> Self {
        let read = |at: usize, len: usize| -> u64 {
            let field = entry.get(at..at + len).unwrap_or_default();
            let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
            if is_little_endian { field.iter().rev().fold(0, join) } else { field.iter().fold(0, join) }
        };
        let (value, size) =
            if entry.len() == 24 { (read(8, 8), read(16, 8)) } else { (read(4, 4), read(8, 4)) };
        Self { name: read(0, 4), value, size }
    }

    fn is_of(&self, used: &[Range<u64>]) -> bool {
        // One byte more at the start: the symbol that begins where a used function ends.
        let range = self.value.saturating_sub(1)..self.value.saturating_add(self.size.max(1));
        super::ranges::overlaps(used, &range)
    }
}
