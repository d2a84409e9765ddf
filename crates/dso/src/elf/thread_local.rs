//! Place of a thread-local variable that a program or library offers to others.
//
// Source: "ELF Handling For Thread-Local Storage" (Drepper), the x86-64 psABI, and how opentelemetry-ebpf-profiler reads
// them (interpreter/threadcontext/tlsaccess.go).

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{
    LittleEndian, Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SymbolFlags,
    elf,
};

use crate::{ObjectFile, Svma};

/// How the variable's address is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadLocalAccess {
    /// In the file itself: at this offset from the thread pointer. Only for a program, not for a library.
    Fixed(i64),
    /// The loader writes the offset from the thread pointer here.
    OffsetAt(Svma),
    /// The loader writes the module's number here, and the offset in the module's block after it.
    PairAt(Svma),
    /// A descriptor. Its second word is the offset from the thread pointer, which is negative, or the address of such a
    /// pair.
    DescriptorAt(Svma),
}

/// Finds a variable that has the size of a pointer; `None` if the file doesn't offer it, or for other processors.
#[must_use]
pub fn thread_local_access(object: &ObjectFile, name: &str) -> Option<ThreadLocalAccess> {
    let file = ElfFile64::<LittleEndian>::parse(&**object.bytes()).ok()?;
    let is_it = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return false };
        st_info.st_type() == elf::STT_TLS && symbol.section_index().is_some() && symbol.name() == Ok(name)
    };
    let symbol = file.dynamic_symbols().find(is_it).filter(|symbol| symbol.size() == 8)?;
    let mut found = None;
    for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        let named = || file.dynamic_symbol_table()?.symbol_by_index(index).ok()?.name().ok();
        let access = match r_type {
            elf::R_X86_64_TLSDESC => ThreadLocalAccess::DescriptorAt(Svma(offset)),
            elf::R_X86_64_DTPMOD64 => ThreadLocalAccess::PairAt(Svma(offset)),
            elf::R_X86_64_TPOFF64 => ThreadLocalAccess::OffsetAt(Svma(offset)),
            _ => continue,
        };
        if named() == Some(name) {
            found = Some(access);
            break;
        }
    }
    found.or_else(|| {
        let headers = file.elf_program_headers().iter();
        let of = headers.copied().find(|of| of.p_type(LittleEndian) == elf::PT_TLS)?;
        // The program's block ends at the thread pointer, rounded up to its alignment.
        let size = of.p_memsz(LittleEndian).checked_next_multiple_of(of.p_align(LittleEndian).max(1))?;
        Some(ThreadLocalAccess::Fixed(symbol.address().wrapping_sub(size).cast_signed()))
    })
}
