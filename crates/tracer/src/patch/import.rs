//! Imported functions: the slots of an object's table through which it calls them lead to the tracer.
//!
//! Where the loader has filled a slot already (`-z now`), the tracer calls the address in it. Where it is to
//! be filled at the first call, the relocation is redirected from the slot to the tracer's own record of the
//! function: the loader then puts the address there, and the slot keeps leading to the tracer.

use crate::layout::sleds::Sled;
use crate::patch::object::{DYNAMIC, LoadedObject, RELRO};
use crate::patch::stubs::Stubs;
use crate::sys;

// Layout: Elf64_Dyn { i64 tag; u64 value }. Source: System V gABI, "Dynamic Section".
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

// Layout: Elf64_Rela. Source: System V gABI, "Relocation".
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

const DT_PLTRELSZ: i64 = 2;
const DT_JMPREL: i64 = 23;

/// The relocations of an object's imported functions.
#[derive(Clone, Copy)]
struct RelocationTable {
    first: *mut Relocation,
    count: usize,
}

impl RelocationTable {
    /// Addresses, the end exclusive.
    fn range(self) -> (usize, usize) {
        let from = self.first as usize;
        (from, from + self.count * size_of::<Relocation>())
    }
}

fn relocations(object: &LoadedObject) -> Option<RelocationTable> {
    let mut at = object.segment(DYNAMIC)?.start(object.bias) as *const Dynamic;
    let (mut table, mut bytes) = (0, 0);
    loop {
        // SAFETY: the loader read the same section, which ends with a tag of 0.
        let entry = unsafe { &*at };
        match entry.tag {
            0 => break,
            DT_JMPREL => table = entry.value,
            DT_PLTRELSZ => bytes = entry.value as usize,
            _ => {}
        }
        // SAFETY: the end was not met.
        at = unsafe { at.add(1) };
    }
    // Some loaders leave the value as the file has it.
    let table = if table < object.bias { table + object.bias } else { table };
    let count = bytes / size_of::<Relocation>();
    (bytes > 0).then_some(RelocationTable { first: table as *mut Relocation, count })
}

/// Hooks an object's slots that `sleds` names.
pub fn hook(object: &LoadedObject, sleds: impl Iterator<Item = Sled>, stubs: &mut Stubs) {
    let relocations = relocations(object);
    let relro = object.segment(RELRO).map(|relro| relro.pages(object.bias));
    if let Some((from, to)) = relro {
        sys::protect(from, to - from, sys::PROT.0 | sys::PROT.1);
    }
    let table = relocations.map(RelocationTable::range);
    // The same pages may contain code.
    let pages = table.map(|(from, to)| (from & !4095, (to + 4095) & !4095, object.protection(from as u64)));
    // A table that is not writable for a moment stays as it is; then only slots filled already are hooked.
    let writable =
        pages.is_some_and(|(from, to, before)| sys::protect(from, to - from, before | sys::PROT.1));
    for sled in sleds {
        hook_one(object, sled, stubs, relocations.filter(|_| writable));
    }
    if let Some((from, to, before)) = pages {
        sys::protect(from, to - from, before);
    }
    if let Some((from, to)) = relro {
        sys::protect(from, to - from, sys::PROT.0);
    }
}

fn hook_one(object: &LoadedObject, sled: Sled, stubs: &mut Stubs, table: Option<RelocationTable>) {
    let slot = object.bias.wrapping_add(sled.svma) as *mut u64;
    if !slot.is_aligned() || !writable(object, slot as u64) {
        return;
    }
    // SAFETY: a slot of the object's table, found by its relocations; the loader has set it up.
    let content = unsafe { slot.read_volatile() };
    if content == 0 || Stubs::is_one(object, content) {
        return;
    }
    let is_filled_later = object.has_code_at(content);
    let relocation = if is_filled_later { table.and_then(|table| find(table, sled.svma)) } else { None };
    if is_filled_later && relocation.is_none() {
        return;
    }
    let Some((stub, target)) = stubs.add_site(content, slot as u64, &sled) else { return };
    if let Some(relocation) = relocation {
        // SAFETY: within the table, which was just made writable.
        unsafe { (*relocation).offset = (target as u64).wrapping_sub(object.bias) };
    }
    // SAFETY: as above; a word is written at once, so that another thread finds the old or the new.
    unsafe { slot.write_volatile(stub as u64) };
}

/// Whether memory can be written: a slot outside of what was made writable is left alone.
fn writable(object: &LoadedObject, at: u64) -> bool {
    let mut word = [0; 8];
    let may_be = || object.protection(at) & sys::PROT.1 != 0;
    sys::read_memory(at, &mut word) == word.len() && sys::write_memory(at, &word).unwrap_or_else(may_be)
}

fn find(table: RelocationTable, svma: u64) -> Option<*mut Relocation> {
    (0..table.count).map(|at| table.first.wrapping_add(at)).find(|relocation| {
        // SAFETY: within the table, which is loaded.
        unsafe { (**relocation).offset == svma }
    })
}
