//! The parts of an object file that naming and unwinding some of its functions needs: what an archive keeps of it.
//!
//! Everything stays at its place in the file, so that headers and offsets hold. Left out are data, the code of other
//! functions, and their symbols and debug information; readers get zeros there.

mod dwarf;
mod ranges;
mod symbols;

use crate::ObjectFile;
pub use ranges::KeptRanges;
use std::ops::Range;

/// Loaded sections that are kept whole: unwind tables, dynamic symbols, stubs, notes, Go's function table.
const KEPT_SECTIONS: &[&str] = &[
    ".eh_frame",
    ".note",
    ".dynsym",
    ".dynstr",
    ".dynamic",
    ".gnu.version",
    ".rela.plt",
    ".rel.plt",
    ".plt",
    ".got",
    ".interp",
    ".ARM.",
];
/// Sections without use for names and stacks.
const LEFT_OUT: &[&str] = &[
    ".debug_loc",
    ".debug_macro",
    ".debug_macinfo",
    ".debug_pub",
    ".debug_gnu_pub",
    ".debug_types",
    ".debug_names",
    ".debug_gdb",
    ".gdb_index",
    ".comment",
    ".rela.",
    ".rel.",
    ".llvm",
    ".stab",
];
/// Executable sections up to this size (`.init`, stubs) are kept whole.
const SMALL_CODE: u64 = 4096;

/// Needed parts of an object file.
#[derive(Clone, Copy, Debug)]
pub enum Needed<'a> {
    /// Names and unwind rules for code in these ranges of stated addresses: sorted, not overlapping.
    Code(&'a [Range<u64>]),
    /// All debug information, of a file that other files refer to.
    AllDebugInfo,
}

/// Parts of a file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptParts {
    /// File offsets; sorted, not overlapping.
    pub pieces: Vec<Range<u64>>,
    /// The bytes of the pieces, one after the other.
    pub content: Vec<u8>,
}

/// The parts of `object` that are needed. A file without section headers is kept whole.
#[must_use]
pub fn kept_parts(object: &ObjectFile, needed: Needed<'_>) -> KeptParts {
    let mut kept = KeptRanges::default();
    if object.sections().is_empty() {
        kept.add(0..object.bytes().len() as u64);
        return kept.copied_from(object.bytes());
    }
    headers(object).into_iter().for_each(|r| kept.add(r));
    let pruned = match needed {
        Needed::Code(used) => {
            let mut pruned = symbols::add_used(object, used, &mut kept);
            pruned.extend(dwarf::add_used(object, used, &mut kept));
            used.iter().filter_map(|used| code_in_file(object, used)).for_each(|range| kept.add(range));
            pruned
        }
        Needed::AllDebugInfo => Vec::new(),
    };
    for section in object.sections() {
        let Some(file) = section.file.clone() else { continue };
        let is_whole = if section.svma.is_empty() {
            !LEFT_OUT.iter().any(|left_out| section.name.starts_with(left_out))
        } else if section.executable {
            file.end - file.start <= SMALL_CODE || section.name.starts_with(".plt")
        } else {
            is_kept_loaded(&section.name)
        };
        if is_whole && !pruned.contains(&section.name.as_str()) {
            kept.add(file);
        }
    }
    kept.copied_from(object.bytes())
}

fn is_kept_loaded(name: &str) -> bool {
    KEPT_SECTIONS.iter().any(|kept| name.starts_with(kept)) || name.contains("gopclntab")
}

/// Where code is in the file.
fn code_in_file(object: &ObjectFile, code: &Range<u64>) -> Option<Range<u64>> {
    let segment = object.segments().iter().find(|segment| segment.svma.contains(&code.start))?;
    let start = segment.file.start.checked_add(code.start - segment.svma.start)?;
    let end = start.saturating_add(code.end - code.start).min(segment.file.end);
    (start < end).then_some(start..end)
}

/// The ELF header, and the tables of segments and sections.
fn headers(object: &ObjectFile) -> Vec<Range<u64>> {
    let bytes = object.bytes();
    let read = |at: usize, len: usize| -> u64 {
        let field = bytes.get(at..at + len).unwrap_or_default();
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if object.is_little_endian() { field.iter().rev().fold(0, join) } else { field.iter().fold(0, join) }
    };
    // Offsets, sizes and counts of the two tables: System V ABI, "ELF Header".
    let (header, word, at, sizes) =
        if object.is_64() { (64, 8, [0x20, 0x28], 0x36) } else { (52, 4, [0x1c, 0x20], 0x2a) };
    let table = |which: usize| {
        let start = read(at[which], word);
        let (entry, count) = (read(sizes + which * 4, 2), read(sizes + which * 4 + 2, 2));
        // A count of 0 with a table: there are more than fit, and the table ends the file.
        let len = if count == 0 && start != 0 { u64::MAX } else { entry * count };
        start..start.saturating_add(len)
    };
    vec![0..header, table(0), table(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DebugSearch, LineResolver, SourceFrame, Svma, SymbolTable};

    fn own() -> ObjectFile {
        ObjectFile::open(&std::env::current_exe().unwrap()).unwrap()
    }

    fn restored(parts: &KeptParts, len: u64) -> ObjectFile {
        ObjectFile::parse(crate::Bytes::sparse(len, &parts.pieces, &parts.content).unwrap()).unwrap()
    }

    fn frames(object: &ObjectFile, at: Svma) -> Vec<SourceFrame> {
        let mut resolver = LineResolver::open(object, &DebugSearch::default()).unwrap().unwrap();
        let mut frames = Vec::new();
        resolver.frames(at, &mut frames).unwrap();
        frames
    }

    #[test]
    fn used_functions_keep_their_names_lines_code_and_unwind_rules() {
        let whole = own();
        let table = SymbolTable::load(&whole, None);
        let symbol = table.iter().find(|s| s.name.contains("used_functions_keep_their_names")).unwrap();
        let (start, used) = (symbol.start, symbol.start.0..symbol.end.0);
        let parts = kept_parts(&whole, Needed::Code(&[used]));
        let len = whole.bytes().len() as u64;
        assert!((parts.content.len() as u64) < len / 4, "{} of {len} bytes", parts.content.len());
        let part = restored(&parts, len);
        let found = SymbolTable::load(&part, None);
        assert_eq!(found.find(start).map(|s| s.name.to_owned()), Some(symbol.name.to_owned()));
        assert_eq!(part.bytes_at(start, 16), whole.bytes_at(start, 16));
        assert_eq!(frames(&part, start), frames(&whole, start));
        assert_eq!(
            part.section_bytes(".eh_frame").unwrap().as_deref(),
            whole.section_bytes(".eh_frame").unwrap().as_deref()
        );
        assert_eq!(part.build_id(), whole.build_id());
    }

    #[test]
    fn all_debug_information_is_kept_where_others_refer_to_it() {
        let whole = own();
        let parts = kept_parts(&whole, Needed::AllDebugInfo);
        let part = restored(&parts, whole.bytes().len() as u64);
        let section =
            |file: &ObjectFile, name: &str| file.section_bytes(name).unwrap().map(|bytes| bytes.to_vec());
        assert_eq!(section(&part, ".debug_info"), section(&whole, ".debug_info"));
        assert!(part.section_bytes(".text").unwrap().unwrap().iter().all(|byte| *byte == 0));
    }
}
