//! From an ELF file's tables to a [`SymbolTable`]: .symtab, .dynsym, .gnu_debugdata and PLT stubs.
//!
//! Takes what perf takes: functions, IFUNCs and objects, and labels in code sections.

use object::read::elf::{ElfFile, FileHeader, SectionHeader, Sym};
use object::{Endianness, elf};

use crate::bounds::{self, Allowance};
use crate::code::reached_end::reached_end;
use crate::code::ruby_waits;
use crate::elf::plt;
use crate::elf::unpack;
use crate::symtab::pclntab::Pclntab;
use crate::symtab::{Binding, SymbolSource, SymbolTable, SymbolTableBuilder};
use crate::{Machine, ObjectFile, Svma};

/// Further entries of a table are not read: a sparse file can claim billions. The largest browsers have 4 million.
const MAX_SYMBOLS: usize = 1 << 25;

impl SymbolTable {
    /// The symbols of `object`, with those of its debug file `debug` in front if there is one.
    /// An empty table (source `None`) if neither has any.
    pub fn load(object: &ObjectFile, debug: Option<&ObjectFile>) -> Self {
        let mut builder =
            match debug.filter(|d| d.has_symtab()).or_else(|| object.has_symtab().then_some(object)) {
                Some(file) => collect(file, elf::SHT_SYMTAB, SymbolSource::Symtab),
                None => dynamic(object),
            };
        let has_names = !builder.is_empty();
        for stub in plt::stubs(object) {
            builder.push(stub.start, stub.size, &stub.name, Binding::Local);
        }
        if has_names || !builder.is_empty() { builder.build() } else { Self::empty() }
    }
}

fn dynamic(object: &ObjectFile) -> SymbolTableBuilder {
    let mut exported = collect(object, elf::SHT_DYNSYM, SymbolSource::Dynsym);
    exported.end_unsized(|room| reached_end(object, room));
    let mini = debug_data(object).map(|mini| collect(&mini, elf::SHT_SYMTAB, SymbolSource::DebugData));
    let Some(mut builder) = mini.or_else(|| of_go(object)) else {
        let is_ruby = has_name(&exported, ruby_waits::EXPORTED);
        return if is_ruby { with_waits_of_ruby(object, &exported.build()) } else { exported };
    };
    builder.extend_missing(&exported.build());
    builder
}

fn has_name(table: &SymbolTableBuilder, name: &str) -> bool {
    let mut same_length = table.candidates.iter().filter(|symbol| symbol.name_len as usize == name.len());
    let begins =
        |at: u32| table.names.get(at as usize..).is_some_and(|rest| rest.starts_with(name.as_bytes()));
    same_length.any(|symbol| begins(symbol.name_at))
}

/// The exported functions of a stripped Ruby, and those in which its threads wait.
fn with_waits_of_ruby(object: &ObjectFile, exported: &SymbolTable) -> SymbolTableBuilder {
    let mut builder = SymbolTableBuilder::new(SymbolSource::Dynsym);
    for function in ruby_waits::find(object, exported) {
        builder.push(function.start, function.size, function.name, Binding::Local);
    }
    let mut all = SymbolTableBuilder::new(SymbolSource::Dynsym);
    all.extend_missing(exported);
    all.extend_missing(&builder.build());
    all
}

/// The functions of a stripped Go program, which its runtime names itself.
fn of_go(object: &ObjectFile) -> Option<SymbolTableBuilder> {
    let table = Pclntab::of_object(object)?;
    let mut builder = SymbolTableBuilder::new(SymbolSource::DebugData);
    let mut allowance = Allowance::of(object.bytes().len());
    for function in table.functions() {
        let Some(name) = table.name(function) else { continue };
        if !allowance.take(name.len()) {
            bounds::refuse(object.path(), "function names");
            break;
        }
        builder.push(function.start, function.end.0.saturating_sub(function.start.0), name, Binding::Global);
    }
    Some(builder)
}

/// The small ELF file in `.gnu_debugdata`, as Fedora and Android ship it.
fn debug_data(object: &ObjectFile) -> Option<ObjectFile> {
    let name = ".gnu_debugdata";
    let packed = object.section_bytes(name).ok()??;
    ObjectFile::parse(unpack::xz(object, name, &packed)?).ok()
}

fn collect(object: &ObjectFile, table: elf::SectionType, source: SymbolSource) -> SymbolTableBuilder {
    let mut builder = SymbolTableBuilder::new(source);
    match object::File::parse(&**object.bytes()) {
        Ok(object::File::Elf64(file)) => collect_class(&file, object, table, &mut builder),
        Ok(object::File::Elf32(file)) => collect_class(&file, object, table, &mut builder),
        _ => {}
    }
    builder
}

fn collect_class<H: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, H>,
    object: &ObjectFile,
    table: elf::SectionType,
    out: &mut SymbolTableBuilder,
) {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let Ok(symbols) = sections.symbols(endian, file.data(), table) else { return };
    let mut names = Allowance::of(file.data().len());
    for (index, symbol) in symbols.enumerate().take(MAX_SYMBOLS) {
        let Ok(section) = symbols.symbol_section(endian, symbol, index) else { continue };
        let Some(header) = section.and_then(|s| sections.section(s).ok()) else { continue };
        let section_name = sections.section_name(endian, header).unwrap_or_default();
        if !is_wanted(symbol.st_type(), symbol.st_visibility(), section_name) {
            continue;
        }
        let name = symbols.symbol_name(endian, symbol).unwrap_or_default();
        if name.is_empty() || is_mapping_symbol(object.machine(), name) {
            continue;
        }
        if !names.take(name.len()) {
            bounds::refuse(object.path(), "symbol names");
            return;
        }
        let mut start: u64 = symbol.st_value(endian).into();
        if object.is_relocatable() {
            start = start.wrapping_add(header.sh_offset(endian).into());
        }
        if object.machine() == Machine::Arm && symbol.st_type() == elf::STT_FUNC {
            start &= !1; // the Thumb bit
        }
        let binding = match symbol.st_bind() {
            elf::STB_LOCAL => Binding::Local,
            elf::STB_WEAK => Binding::Weak,
            _ => Binding::Global,
        };
        out.push(Svma(start), symbol.st_size(endian).into(), &String::from_utf8_lossy(name), binding);
    }
}

fn is_wanted(kind: elf::SymbolType, visibility: elf::SymbolVisibility, section: &[u8]) -> bool {
    let in_section = |part: &[u8]| memchr::memmem::find(section, part).is_some();
    match kind {
        elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT => true,
        elf::STT_NOTYPE => {
            !matches!(visibility, elf::STV_HIDDEN | elf::STV_INTERNAL)
                && (in_section(b".text") || in_section(b".data"))
        }
        _ => false,
    }
}

/// `$a $d $t $x` mark ARM code and data, they name nothing.
fn is_mapping_symbol(machine: Machine, name: &[u8]) -> bool {
    matches!(machine, Machine::Arm | Machine::Aarch64 | Machine::RiscV)
        && name[0] == b'$'
        && matches!(name.get(1), Some(b'a' | b'd' | b't' | b'x'))
        && matches!(name.get(2), None | Some(b'.'))
}
