//! Names for PLT stubs: `malloc@plt` for the jump through which a file calls malloc.
//!
//! A stub is identified by its jump: its code names a slot of the global offset table, and the relocation of
//! that slot names the function. So lazy, IBT (`.plt.sec`) and `.plt.got` stubs are one case. Where the code
//! isn't understood, stubs are matched in order with `.rela.plt` as the linker lays them out.

use object::Endianness;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, Rel, Rela, SectionHeader};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bounds::Allowance;
use crate::{ElfSection, Machine, ObjectFile, Svma};

/// One stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Where it starts.
    pub start: Svma,
    /// Length in bytes.
    pub size: u64,
    /// `name@plt`.
    pub name: String,
}

/// All stubs whose function is known, by section.
pub fn stubs(object: &ObjectFile) -> Vec<Stub> {
    let slots = match object::File::parse(&**object.bytes()) {
        Ok(object::File::Elf64(file)) => slots(&file),
        Ok(object::File::Elf32(file)) => slots(&file),
        _ => return Vec::new(),
    };
    if slots.is_empty() {
        return Vec::new();
    }
    let mut names = Allowance::of(object.bytes().len());
    let mut bytes = Allowance::of(object.bytes().len());
    let of = |s: &ElfSection| {
        stubs_of_section(object, s, &mut |start| slots.get(&start).filter(|name| names.take(name.len())))
    };
    object
        .sections()
        .iter()
        .filter(|s| matches!(s.name.as_str(), ".plt" | ".plt.sec" | ".plt.got"))
        .take_while(|s| bytes.take(((s.svma.end - s.svma.start) as usize).min(object.bytes().len())))
        .flat_map(of)
        .collect()
}

/// A function that the file calls through a slot of its table, filled at the load or at the first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The slot.
    pub slot: Svma,
    /// The function's name, without a version.
    pub name: String,
}

/// Names of all symbols that the file's relocations refer to: what it needs of others, and of itself by name.
pub fn referenced(object: &ObjectFile) -> FxHashSet<String> {
    let slots = match object::File::parse(&**object.bytes()) {
        Ok(object::File::Elf64(file)) => slots(&file),
        Ok(object::File::Elf32(file)) => slots(&file),
        _ => Slots::default(),
    };
    let name = |name: String| name.strip_suffix("@plt").unwrap_or(&name).to_owned();
    slots.into_values().map(name).collect()
}

/// Content of slots in a file's table of addresses, by name: functions and variables of others, and its own that
/// others may replace.
pub fn slot_names(object: &ObjectFile) -> FxHashMap<Svma, String> {
    let slots = match object::File::parse(&**object.bytes()) {
        Ok(object::File::Elf64(file)) => slots(&file),
        _ => Slots::default(),
    };
    let name = |name: String| name.strip_suffix("@plt").unwrap_or(&name).to_owned();
    slots.into_iter().map(|(slot, stub)| (Svma(slot), name(stub))).collect()
}

/// Names of the libraries that the file is linked to, in the order of its dynamic section.
pub fn needed(object: &ObjectFile) -> Vec<String> {
    match object::File::parse(&**object.bytes()) {
        Ok(object::File::Elf64(file)) => needed_of(&file),
        Ok(object::File::Elf32(file)) => needed_of(&file),
        _ => Vec::new(),
    }
}

fn needed_of<H: FileHeader<Endian = Endianness>>(file: &ElfFile<'_, H>) -> Vec<String> {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let Ok(table) = sections.dynamic_table(endian, data) else { return Vec::new() };
    let entries = table.iter().filter(|entry| entry.tag == elf::DT_NEEDED);
    let mut names = Allowance::of(data.len());
    entries
        .filter_map(|entry| table.string(entry).ok())
        .take_while(|name| names.take(name.len()))
        .map(|name| String::from_utf8_lossy(name).into())
        .collect()
}

/// The functions an x86-64 or aarch64 file imports by jump slots, in the order of their relocations.
pub fn imports(object: &ObjectFile) -> Vec<Import> {
    match (object::File::parse(&**object.bytes()), object.machine()) {
        (Ok(object::File::Elf64(file)), Machine::X86_64) => imports_of(&file, elf::R_X86_64_JUMP_SLOT),
        (Ok(object::File::Elf64(file)), Machine::Aarch64) => imports_of(&file, elf::R_AARCH64_JUMP_SLOT),
        _ => Vec::new(),
    }
}

/// Slots that an x86-64 or aarch64 file reads, that are filled when it is loaded and may be of others: functions and
/// variables.
pub fn loaded_imports(object: &ObjectFile) -> Vec<Import> {
    match (object::File::parse(&**object.bytes()), object.machine()) {
        (Ok(object::File::Elf64(file)), Machine::X86_64) => imports_of(&file, elf::R_X86_64_GLOB_DAT),
        (Ok(object::File::Elf64(file)), Machine::Aarch64) => imports_of(&file, elf::R_AARCH64_GLOB_DAT),
        _ => Vec::new(),
    }
}

/// Target of relocations of this kind.
fn imports_of<H: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, H>,
    kind: elf::RelocationType,
) -> Vec<Import> {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let Ok(symbols) = sections.symbols(endian, data, elf::SHT_DYNSYM) else { return Vec::new() };
    let mut found = Vec::new();
    let mut names = Allowance::of(data.len());
    for section in sections.iter() {
        let Ok(Some((relocations, _))) = section.rela(endian, data) else { continue };
        if !names.take(size_of_val(relocations)) {
            break;
        }
        for relocation in relocations.iter().filter(|r| r.r_type(endian, false) == kind) {
            let symbol = symbols.symbol(object::SymbolIndex(relocation.r_sym(endian, false) as usize));
            let name = symbol.ok().and_then(|symbol| symbols.symbol_name(endian, symbol).ok());
            if let Some(name) = name.filter(|name| !name.is_empty() && names.take(name.len())) {
                let name = String::from_utf8_lossy(name).into_owned();
                found.push(Import { slot: Svma(relocation.r_offset(endian).into()), name });
            }
        }
    }
    found
}

/// GOT slot address → function name.
type Slots = FxHashMap<u64, String>;

fn slots<H: FileHeader<Endian = Endianness>>(file: &ElfFile<'_, H>) -> Slots {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let mut slots = Slots::default();
    let Ok(symbols) = sections.symbols(endian, data, elf::SHT_DYNSYM) else { return slots };
    let relative = relative_kind(file.elf_header().e_machine(endian));
    // Honest relocations do not overlap; names may be shared, but not without end.
    let mut bytes = Allowance::of(data.len());
    let mut names = Allowance::of(data.len());
    let mut add = |offset: u64, symbol: u32| {
        // A slot filled by an indirect function's resolver has no symbol: its stub is plain `@plt`, as in perf.
        let symbol = symbols.symbol(object::SymbolIndex(symbol as usize)).ok();
        let name = symbol.map_or(Some(&b""[..]), |s| symbols.symbol_name(endian, s).ok());
        if let Some(name) = name.filter(|name| names.take(name.len())) {
            slots.insert(offset, format!("{}@plt", String::from_utf8_lossy(name)));
        }
    };
    for section in sections.iter() {
        if let Ok(Some((relocations, _))) = section.rela(endian, data)
            && bytes.take(size_of_val(relocations))
        {
            let named = relocations.iter().filter(|r| Some(r.r_type(endian, false)) != relative);
            named.for_each(|r| add(r.r_offset(endian).into(), r.r_sym(endian, false)));
        }
        if let Ok(Some((relocations, _))) = section.rel(endian, data)
            && bytes.take(size_of_val(relocations))
        {
            relocations.iter().for_each(|r| add(r.r_offset(endian).into(), r.r_sym(endian)));
        }
    }
    slots
}

/// The kind of relocations that have no symbol: large programs have millions of them. `None` for other machines.
fn relative_kind(machine: elf::Machine) -> Option<elf::RelocationType> {
    match machine {
        elf::EM_X86_64 => Some(elf::R_X86_64_RELATIVE),
        elf::EM_AARCH64 => Some(elf::R_AARCH64_RELATIVE),
        _ => None,
    }
}

fn stubs_of_section<'s>(
    object: &ObjectFile,
    section: &ElfSection,
    name_of: &mut dyn FnMut(u64) -> Option<&'s String>,
) -> Vec<Stub> {
    let size: u64 = match (object.machine(), section.name.as_str()) {
        (Machine::X86_64, ".plt.got") if !starts_with_endbr(object, section) => 8,
        (Machine::X86_64 | Machine::Aarch64, _) => 16,
        _ => return Vec::new(),
    };
    let range = section.svma.clone();
    let mut found = Vec::new();
    let mut start = range.start;
    while range.end.checked_sub(start).is_some_and(|left| left >= size) {
        let Some(code) = object.bytes_at(Svma(start), size as usize) else { break };
        let slot = match object.machine() {
            Machine::X86_64 => slot_x86_64(code, start),
            _ => slot_aarch64(code, start),
        };
        if let Some(name) = slot.and_then(&mut *name_of) {
            found.push(Stub { start: Svma(start), size, name: name.clone() });
        }
        // aarch64's .plt header has 32 bytes, its stubs 16: 8 is the finest step that meets all.
        start += size;
    }
    found
}

/// Built with `-z ibtplt`: each stub begins with endbr64 and is twice as long.
fn starts_with_endbr(object: &ObjectFile, section: &ElfSection) -> bool {
    object.bytes_at(Svma(section.svma.start), 4) == Some(&[0xf3, 0x0f, 0x1e, 0xfa])
}

/// `ff 25 disp32`: jmp *disp(%rip), after an optional endbr64 or bnd prefix.
fn slot_x86_64(code: &[u8], start: u64) -> Option<u64> {
    let at = code.windows(2).take(8).position(|w| w == [0xff, 0x25])?;
    let disp = i32::from_le_bytes(code.get(at + 2..at + 6)?.try_into().ok()?);
    Some(start.wrapping_add(at as u64 + 6).wrapping_add_signed(disp.into()))
}

/// `adrp x16, page; ldr x17, [x16, #offset]`, after an optional `bti c`.
fn slot_aarch64(code: &[u8], start: u64) -> Option<u64> {
    let words: Vec<u32> =
        code.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let at = words.iter().position(|w| w & 0x9f00_001f == 0x9000_0010)?;
    let (adrp, ldr) = (words[at], *words.get(at + 1)?);
    if ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = i64::from(((adrp >> 5 & 0x7_ffff) << 2 | (adrp >> 29 & 3)) << 11) as i32 >> 11;
    let page = start.wrapping_add(4 * at as u64) & !0xfff;
    Some(page.wrapping_add_signed(i64::from(pages) << 12).wrapping_add(u64::from(ldr >> 10 & 0xfff) * 8))
}
