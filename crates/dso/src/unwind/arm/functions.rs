//! Functions of an ARM file by its symbols: where they are, and in which instruction set they are written.

use object::read::elf::{ElfFile32, Sym};
use object::{Endianness, elf};

use super::instruction::InstructionSet;
use crate::{Machine, ObjectFile};

/// Further symbols are not read.
const MAX_SYMBOLS: usize = 1 << 22;

/// One function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    pub start: u64,
    /// Past the last byte.
    pub end: u64,
    pub set: InstructionSet,
}

/// All functions of a file, by address.
#[derive(Debug, Default)]
pub(super) struct Functions(Vec<Function>);

impl Functions {
    /// From .symtab and .dynsym; none for other machines.
    pub fn new(object: &ObjectFile) -> Self {
        if object.machine() != Machine::Arm {
            return Self::default();
        }
        let Ok(file) = ElfFile32::<Endianness>::parse(&**object.bytes()) else { return Self::default() };
        let mut found = Vec::new();
        for table in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let Ok(symbols) = file.elf_section_table().symbols(file.endian(), file.data(), table) else {
                continue;
            };
            let functions =
                symbols.iter().take(MAX_SYMBOLS).filter(|symbol| symbol.st_type() == elf::STT_FUNC);
            found.extend(functions.filter_map(|symbol| {
                let (value, size) = (symbol.st_value(file.endian()), symbol.st_size(file.endian()));
                let start = u64::from(value & !1);
                let end = start + u64::from(size);
                (size > 0).then_some(Function { start, end, set: InstructionSet::of_address(value.into()) })
            }));
        }
        found.sort_unstable();
        found.dedup();
        Self(found)
    }

    /// The function around `svma`.
    pub fn around(&self, svma: u64) -> Option<Function> {
        self.before(svma).filter(|function| svma < function.end)
    }

    /// The last function that begins at `svma` or before.
    pub fn before(&self, svma: u64) -> Option<Function> {
        let at = self.0.partition_point(|function| function.start <= svma).checked_sub(1)?;
        self.0.get(at).copied()
    }
}
