//! Fuzz entry points: ordinary functions that must return, whatever the bytes.
//!
//! Random bytes never pass for an ELF file, so some targets patch a real one (the vdso of this machine) at
//! places that the input names.

use std::sync::{Arc, OnceLock};

use crate::code::disasm;
use crate::elf::build_id;
use crate::elf::plt;
use crate::kernel::kallsyms::Kallsyms;
use crate::kernel::vdso;
use crate::symtab::made_lines::MadeLines;
use crate::symtab::perf_map;
use crate::unwind::arm::example_file::Example;
use crate::unwind::{AddressSpace, FrameSize, MadeFrame, Regs, Stack, UnwindInfo, Unwinder};
use crate::{Avma, BuildId, Bytes, FileOffset, Machine, ObjectFile, Svma, SymbolTable, demangle};

/// One target.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("arm_tables", fuzz_arm_tables),
    ("build_id", fuzz_build_id),
    ("demangle", fuzz_demangle),
    ("disassembly", fuzz_disassembly),
    ("eh_frame", fuzz_eh_frame),
    ("elf", fuzz_elf),
    ("elf_patched", fuzz_elf_patched),
    ("kallsyms", fuzz_kallsyms),
    ("sdt", fuzz_sdt),
    ("map_line", fuzz_map_line),
    ("perf_map", fuzz_perf_map),
    ("symbol_index", fuzz_symbol_index),
    ("unwind", fuzz_unwind),
];

/// A line of `/proc/PID/maps`.
pub fn fuzz_map_line(bytes: &[u8]) {
    if let Some(map) = crate::parse_map_line(bytes) {
        let _offset = map.offset_of(map.end);
    }
}

/// Code and exception tables of 32-bit ARM, in turn a piece of the input each.
pub fn fuzz_arm_tables(bytes: &[u8]) {
    let (code, tables) = bytes.split_at(bytes.len() / 2);
    let (index, table) = tables.split_at(tables.len() / 2);
    // Distances near zero, so that the index leads to the code and the table.
    let near = |(at, byte): (usize, &u8)| if at % 4 < 2 || at % 8 == 7 { *byte } else { 0 };
    let near: Vec<u8> = index.iter().enumerate().map(near).collect();
    for index in [index, &near] {
        if let Some(object) = (Example { code, index, table }).object() {
            walk(&Arc::new(object), bytes);
        }
    }
}

/// Notes and hex.
pub fn fuzz_build_id(bytes: &[u8]) {
    build_id::parse_notes(bytes);
    if let Some(id) = std::str::from_utf8(bytes).ok().and_then(BuildId::parse) {
        assert_eq!(BuildId::parse(&id.to_string()), Some(id));
    }
}

/// Mangled names.
pub fn fuzz_demangle(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    for prefix in ["", "_ZN", "_R", "_Z"] {
        let name = format!("{prefix}{name}");
        let _ = (crate::brief(&demangle(&name)), crate::brief(&name));
        crate::demangle_with_parameters(&name);
    }
}

/// Code of both machines.
pub fn fuzz_disassembly(bytes: &[u8]) {
    // A function's worth: instructions are independent, so more of them only take longer.
    let bytes = &bytes[..bytes.len().min(4096)];
    for machine in [Machine::X86_64, Machine::X86, Machine::Aarch64] {
        for syntax in [disasm::Syntax::Att, disasm::Syntax::Intel] {
            let code = disasm::disassemble(machine, bytes, Svma(0x1000), syntax, &|_| None);
            assert_eq!(code.iter().map(|i| i.len).sum::<usize>(), bytes.len());
        }
    }
}

/// A file as it is.
pub fn fuzz_elf(bytes: &[u8]) {
    if let Ok(object) = ObjectFile::parse(Bytes::from_vec(bytes.to_vec())) {
        visit(&Arc::new(object));
    }
}

/// A real file, damaged at the places the input names: (offset u16, value u8)*.
pub fn fuzz_elf_patched(bytes: &[u8]) {
    if let Some(object) = patched(bytes) {
        visit(&Arc::new(object));
    }
}

/// The rules of a real file whose frame sections are replaced by the input from the given place on.
pub fn fuzz_eh_frame(bytes: &[u8]) {
    let Some(image) = image() else { return };
    let Ok(object) = ObjectFile::parse(image.clone()) else { return };
    let Some(section) = object.section(".eh_frame").and_then(|s| s.file.clone()) else { return };
    let mut copy = image.to_vec();
    let at = section.start as usize;
    let Some(room) = copy.get_mut(at..at + bytes.len().min((section.end - section.start) as usize)) else {
        return;
    };
    room.copy_from_slice(&bytes[..room.len()]);
    if let Ok(object) = ObjectFile::parse(Bytes::from_vec(copy)) {
        walk(&Arc::new(object), bytes);
    }
}

/// A program with probes of its authors.
pub fn fuzz_sdt(bytes: &[u8]) {
    crate::elf::sdt::fuzz(bytes);
}

/// kallsyms text.
pub fn fuzz_kallsyms(bytes: &[u8]) {
    if let Ok(kallsyms) = Kallsyms::parse(bytes) {
        assert!(kallsyms.kernel.iter().all(|s| kallsyms.kernel.find(s.start).is_some()));
    }
}

/// perf-PID.map text.
pub fn fuzz_perf_map(bytes: &[u8]) {
    let table = perf_map::parse(bytes);
    for symbol in table.iter() {
        assert!(table.find(symbol.start).is_some());
    }
    let lines = MadeLines::parse(bytes);
    let mut frames = Vec::new();
    for symbol in table.iter() {
        lines.frames(symbol.start, &table, &mut frames);
    }
}

/// A file of the symbol index, with and without a right head.
pub fn fuzz_symbol_index(bytes: &[u8]) {
    let with_head = || {
        let names = u32::try_from(bytes.len() % 64).unwrap_or(0);
        let count = (bytes.len() as u32 - names) / 24;
        let mut file = crate::symtab::MAGIC.to_vec();
        [count, names, 0, 0].iter().for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
        file.extend_from_slice(&bytes[..(count * 24 + names) as usize]);
        file
    };
    for file in [bytes.to_vec(), with_head()] {
        let Some(table) = SymbolTable::from_bytes(Bytes::from_vec(file)) else { continue };
        table.iter().for_each(|s| assert!(table.find(s.start).is_none_or(|f| f.name.len() <= bytes.len())));
    }
}

/// Registers and a stack of the input over real rules.
pub fn fuzz_unwind(bytes: &[u8]) {
    let Some(object) = image().and_then(|i| ObjectFile::parse(i.clone()).ok()) else { return };
    walk(&Arc::new(object), bytes);
}

fn image() -> Option<&'static Bytes> {
    static IMAGE: OnceLock<Option<Bytes>> = OnceLock::new();
    IMAGE.get_or_init(|| vdso::own().ok().map(|o| o.bytes().clone())).as_ref()
}

fn patched(patches: &[u8]) -> Option<ObjectFile> {
    let mut copy = image()?.to_vec();
    for patch in patches.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([patch[0], patch[1]])) % copy.len();
        copy[at] = patch[2];
    }
    ObjectFile::parse(Bytes::from_vec(copy)).ok()
}

/// Asks everything a file can be asked.
fn visit(object: &Arc<ObjectFile>) {
    let table = SymbolTable::load(object, None);
    for symbol in table.iter().take(1000) {
        table.find(symbol.start);
        object.file_offset_of(symbol.start).and_then(|offset| object.svma_of(offset));
        object.bytes_at(symbol.start, 16);
    }
    plt::stubs(object);
    object.debug_link();
    object.alt_link();
    object.svma_of_mapping(FileOffset(0), 4096);
    for section in object.sections() {
        let _ = object.section_bytes(&section.name);
    }
    walk(object, &[0x5a; 256]);
}

/// Walks a stack of `bytes` from several places of the file.
fn walk(object: &Arc<ObjectFile>, bytes: &[u8]) {
    let (base, sp) = (0x7f00_0000_0000, 0x7fff_0000_0000);
    let mut space = AddressSpace::new();
    space.map(Avma(base), Avma(base + 0x10_0000), Svma(0), UnwindInfo::new(object.clone()));
    let mut unwinder = Unwinder::new();
    let word = |i: usize| bytes.iter().skip(8 * i).take(8).fold(0u64, |w, b| w << 8 | u64::from(*b));
    let made = base + 0x2000;
    space.map_anonymous(Avma(made), Avma(made + 0x2000));
    for (at, size) in [(0, FrameSize::Interpreter), (1, FrameSize::Bytes(word(1) as u16))] {
        let start = made + at * 0x1000 + word(0) % 0x800;
        space.know_frame(&MadeFrame { code: Avma(start)..Avma(start + 0x800), size });
    }
    for machine in [Machine::X86_64, Machine::Aarch64, Machine::Arm] {
        let mask = Regs::perf_mask(machine);
        for place in 0..8 {
            let mut values: Vec<u64> = (0..33).map(|i| sp + word(i) % 4096).collect();
            let pc = base + word(place).wrapping_add(512 * place as u64) % 0x4000;
            let (pc_at, sp_at) = match machine {
                Machine::X86_64 => (8, 7),
                Machine::Arm => (15, 13),
                _ => (32, 31),
            };
            (values[pc_at], values[sp_at]) = (pc, sp);
            let Some(regs) = Regs::from_perf(machine, mask, &values) else { continue };
            let mut out = Vec::new();
            unwinder.unwind(&space, &regs, Stack::new(Avma(sp), bytes), 256, &mut out);
            assert!(out.len() <= 256);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sections begin near the largest address.
    #[test]
    fn an_elf_file_at_the_end_of_all_addresses_is_read() {
        fuzz_elf(include_bytes!("../../../tests/hostile/elf_at_the_end_of_addresses"));
    }

    #[test]
    fn every_target_returns_on_noise_and_on_mutations() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut noise = |len: usize| -> Vec<u8> {
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            };
            (0..len).map(|_| next()).collect()
        };
        for (_, target) in TARGETS {
            for len in [0, 1, 3, 24, 48, 100, 300, 3000] {
                target(&noise(len));
            }
        }
    }
}
