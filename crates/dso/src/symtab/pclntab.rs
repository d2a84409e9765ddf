//! Go's table of functions, `.gopclntab`: names and stack depths, also in stripped programs.
//
// Layout: cmd/link/internal/ld/pcln.go and debug/gosym/pclntab.go, Go 1.18 to 1.26.

use crate::{Bytes, Machine, ObjectFile, Svma};

/// Magic numbers of Go 1.18 and 1.20; the fields read here are the same in both.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// The table's section: of most programs, and of position-independent ones that an external linker made.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Names of generic functions list all their types.
const LONGEST_NAME: usize = 1 << 16;
/// First instructions of `goexit`: a `nop`, so that its second address is one that a call returns to.
const GOEXIT: [(Machine, &[u8]); 2] =
    [(Machine::X86_64, &[0x90, 0xe8]), (Machine::Aarch64, &[0xe0, 0x03, 0x00, 0xaa])];
/// Fields of a function's description: its tables of stack depths, files and lines, and its unit.
const DEPTHS: usize = 16;
const FILES: usize = 20;
const LINES: usize = 24;
const UNIT: usize = 32;
/// Steps of one function's depths; the largest functions have a few thousand.
const MOST_STEPS: usize = 1 << 20;

/// The table of one program.
#[derive(Debug)]
pub(crate) struct Pclntab {
    bytes: Bytes,
    /// Address that functions' addresses are relative to.
    text: u64,
    /// Bytes for one step of a code address.
    quantum: u64,
    functions: usize,
    /// Offset of the functions' names.
    names: usize,
    /// Offsets of the units' lists of files, and of the files' names.
    units: usize,
    files: usize,
    /// Offsets of the tables by code address, and of the functions.
    by_pc: usize,
    data: usize,
}

/// One function of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoFunction {
    pub start: Svma,
    /// Exclusive.
    pub end: Svma,
    /// Offset of its description.
    at: usize,
}

impl Pclntab {
    /// The table of `object`; `None` if it has none, or one of a version that isn't known.
    pub(crate) fn of_object(object: &ObjectFile) -> Option<Self> {
        let name = SECTIONS.iter().find(|name| object.section(name).is_some())?;
        let bytes = object.section_bytes(name).ok()??;
        let code = object.section(".text")?.svma.clone();
        let table = Self::new(bytes, code.start)?;
        // Since Go 1.26 the header doesn't have it, and before it may lack a relocation.
        let stated = table.word(24).filter(|text| code.contains(text));
        let table = Self { text: stated.unwrap_or(code.start), ..table };
        table.is_placed_in(object).then_some(table)
    }

    /// Whether `goexit` is where the table has it: otherwise addresses are relative to another than the one assumed.
    fn is_placed_in(&self, object: &ObjectFile) -> bool {
        let Some(goexit) = self.functions().find(|of| self.is_named(*of, "runtime.goexit")) else {
            return false;
        };
        let Some((_, code)) = GOEXIT.iter().find(|(machine, _)| *machine == object.machine()) else {
            return false;
        };
        object.bytes_at(goexit.start, code.len()).is_some_and(|bytes| bytes == *code)
    }

    fn new(bytes: Bytes, text: u64) -> Option<Self> {
        let header = bytes.get(..8)?;
        let magic = u32::from_le_bytes(header.get(..4)?.try_into().ok()?);
        if !MAGICS.contains(&magic) || header[4..6] != [0, 0] || header[7] != 8 {
            return None;
        }
        let quantum = u64::from(header[6]);
        let mut table =
            Self { bytes, text, quantum, functions: 0, names: 0, units: 0, files: 0, by_pc: 0, data: 0 };
        let offset = |at: usize| usize::try_from(table.word(at)?).ok().filter(|at| *at <= table.bytes.len());
        let [names, units, files, by_pc, data] =
            [offset(32)?, offset(40)?, offset(48)?, offset(56)?, offset(64)?];
        (table.names, table.units, table.files, table.by_pc, table.data) = (names, units, files, by_pc, data);
        let most = (table.bytes.len() - table.data) / 8;
        table.functions = usize::try_from(table.word(8)?).ok().filter(|count| *count < most)?;
        Some(table)
    }

    /// The functions by ascending address.
    pub(crate) fn functions(&self) -> impl Iterator<Item = GoFunction> + '_ {
        (0..self.functions).map_while(|index| self.function(index))
    }

    /// The function around `svma`.
    pub(crate) fn find(&self, svma: Svma) -> Option<GoFunction> {
        let (mut first, mut end) = (0, self.functions);
        while first < end {
            let middle = first.midpoint(end);
            let function = self.function(middle)?;
            if svma < function.start {
                end = middle;
            } else if svma >= function.end {
                first = middle + 1;
            } else {
                return Some(function);
            }
        }
        None
    }

    fn function(&self, index: usize) -> Option<GoFunction> {
        let entry = self.data.checked_add(index.checked_mul(8)?)?;
        let address = |at: usize| Some(Svma(self.text.checked_add(self.half(at)?.into())?));
        let at = self.data.checked_add(self.half(entry + 4)? as usize)?;
        Some(GoFunction { start: address(entry)?, end: address(entry + 8)?, at })
    }

    /// Whether the function has this name; a suffix for its calling convention may follow.
    pub(crate) fn is_named(&self, function: GoFunction, name: &str) -> bool {
        let rest = self.text_of(function).and_then(|text| text.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\0") || rest.starts_with(b".abi0\0"))
    }

    /// The function's name; `None` if it is damaged.
    pub(crate) fn name(&self, function: GoFunction) -> Option<&str> {
        let text = self.text_of(function)?;
        let text = &text[..text.len().min(LONGEST_NAME)];
        let len = text.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&text[..len]).ok()
    }

    /// The function's name and what follows it.
    fn text_of(&self, function: GoFunction) -> Option<&[u8]> {
        let offset = self.half(function.at + 4)?;
        self.bytes.get(self.names.checked_add(offset as usize)?..)
    }

    /// How far the stack pointer at `svma` is below where it was at the function's first instruction.
    pub(crate) fn stack_depth(&self, svma: Svma) -> Option<u32> {
        let value = self.value_at(self.find(svma)?, DEPTHS, svma)?;
        u32::try_from(value).ok()
    }

    /// The source line at `svma`, 1-based; an inlined function's where the code is its.
    pub(crate) fn line_at(&self, svma: Svma) -> Option<u32> {
        let line = self.value_at(self.find(svma)?, LINES, svma)?;
        u32::try_from(line).ok().filter(|line| *line > 0)
    }

    /// The source file at `svma`, as it was compiled; an inlined function's where the code is its.
    pub(crate) fn file_at(&self, svma: Svma) -> Option<&str> {
        let function = self.find(svma)?;
        let number = u32::try_from(self.value_at(function, FILES, svma)?).ok()?;
        let index = usize::try_from(self.half(function.at + UNIT)?.checked_add(number)?).ok()?;
        let offset = self.half(self.units.checked_add(index.checked_mul(4)?)?)?;
        let text = self.bytes.get(self.files.checked_add(usize::try_from(offset).ok()?)?..)?;
        let text = &text[..text.len().min(LONGEST_NAME)];
        std::str::from_utf8(&text[..text.iter().position(|byte| *byte == 0)?]).ok()
    }

    /// The value at `svma` in that of a function's tables whose offset is at `field` of its description.
    fn value_at(&self, function: GoFunction, field: usize, svma: Svma) -> Option<i32> {
        let offset = self.half(function.at + field).filter(|offset| *offset != 0)?;
        let mut at = self.by_pc.checked_add(offset as usize)?;
        let (mut pc, mut value) = (function.start.0, -1i32);
        for step in 0..MOST_STEPS {
            let change = self.varint(&mut at)?;
            if change == 0 && step > 0 {
                return None;
            }
            let change = if change & 1 == 0 { change >> 1 } else { !(change >> 1) };
            value = value.wrapping_add(change as i32);
            pc = pc.checked_add(u64::from(self.varint(&mut at)?) * self.quantum)?;
            if svma.0 < pc {
                return Some(value);
            }
        }
        None
    }

    fn varint(&self, at: &mut usize) -> Option<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = *self.bytes.get(*at)?;
            *at += 1;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn half(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table with functions of 16 bytes each from 0x1000 on, which push 8 bytes with their first byte.
    pub(crate) fn table(names: &[&str]) -> Pclntab {
        let (names_at, depths_at) = (72, 72 + names.iter().map(|name| name.len() + 1).sum::<usize>() + 1);
        let data_at = depths_at + 8;
        let mut bytes = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        for word in [names.len(), 0, 0, names_at, 0, 0, depths_at, data_at] {
            bytes.extend((word as u64).to_le_bytes());
        }
        bytes.extend(names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()));
        // A filler, then depth 0 up to the first byte's end and 8 from there, as the differences 1 and 8.
        bytes.extend([0, 0, 2, 1, 16, 15, 0, 0, 0]);
        bytes.truncate(data_at);
        let described_at = |index: usize| 8 * names.len() + 4 + 20 * index;
        for index in 0..names.len() {
            bytes.extend([16 * index as u32, described_at(index) as u32].map(u32::to_le_bytes).concat());
        }
        bytes.extend((16 * names.len() as u32).to_le_bytes());
        let mut name_at = 0;
        for (index, name) in names.iter().enumerate() {
            bytes.extend([16 * index as u32, name_at, 0, 0, 1].map(u32::to_le_bytes).concat());
            name_at += name.len() as u32 + 1;
        }
        Pclntab::new(Bytes::from_vec(bytes), 0x1000).expect("well-formed")
    }

    #[test]
    fn functions_are_found_by_address_and_compared_by_name() {
        let table = table(&["main.main", "runtime.mcall.abi0"]);
        let found = table.find(Svma(0x101f)).expect("the second");
        assert_eq!((found.start, found.end), (Svma(0x1010), Svma(0x1020)));
        assert!(table.is_named(found, "runtime.mcall") && !table.is_named(found, "runtime.mc"));
        assert_eq!(table.find(Svma(0x1020)), None);
        assert_eq!(table.find(Svma(0xfff)), None);
        let names: Vec<_> = table.functions().filter_map(|function| table.name(function)).collect();
        assert_eq!(names, ["main.main", "runtime.mcall.abi0"]);
    }

    #[test]
    fn the_depth_of_the_stack_follows_the_code_address() {
        let table = table(&["main.main", "main.leaf"]);
        let depths = [0x1010, 0x1011, 0x101f].map(|svma| table.stack_depth(Svma(svma)));
        assert_eq!(depths, [Some(0), Some(8), Some(8)]);
        assert_eq!(table.stack_depth(Svma(0x1020)), None);
    }

    #[test]
    fn a_table_that_claims_more_than_it_holds_is_refused() {
        let whole = table(&["main.main"]).bytes.to_vec();
        for len in 0..72 {
            assert!(Pclntab::new(Bytes::from_vec(whole[..len].to_vec()), 0).is_none(), "{len} bytes");
        }
        for len in 72..whole.len() {
            if let Some(cut) = Pclntab::new(Bytes::from_vec(whole[..len].to_vec()), 0x1000) {
                cut.stack_depth(Svma(0x1004));
            }
        }
        let mut many = whole;
        many[8..16].fill(0xff);
        assert!(Pclntab::new(Bytes::from_vec(many), 0).is_none());
    }
}
