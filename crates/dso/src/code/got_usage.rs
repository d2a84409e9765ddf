//! Slots of a file's table of addresses through which its code calls functions of others directly (`-fno-plt`, rustc's
//! default): those from which no pointer is taken.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use rustc_hash::FxHashMap;

use crate::code::regs_aarch64::{RegValue, TrackedRegs};
use crate::{ElfSection, Machine, ObjectFile, Svma};

/// How the code uses a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// It calls, or jumps to, what the slot holds.
    pub calls: bool,
    /// It reads the address itself: to call it later, or to compare and pass it on.
    pub reads: bool,
}

/// How the file's code uses those of its slots for which `is_one`; none for a machine other than x86-64 and aarch64.
pub fn slot_uses(object: &ObjectFile, is_one: &dyn Fn(Svma) -> bool) -> FxHashMap<Svma, SlotUse> {
    let mut uses = FxHashMap::default();
    let code = object.sections().iter().filter(|section| section.executable);
    match object.machine() {
        Machine::X86_64 => code.for_each(|section| add_uses(object, section, is_one, &mut uses)),
        Machine::Aarch64 => {
            // The PLT's own code jumps through slots, too.
            let code = code.filter(|section| !section.name.starts_with(".plt"));
            code.for_each(|section| add_uses_aarch64(object, section, is_one, &mut uses));
        }
        _ => {}
    }
    uses
}

/// The section's bytes; `None` if the file lacks them.
fn code_of<'a>(object: &'a ObjectFile, section: &ElfSection) -> Option<&'a [u8]> {
    let bytes = usize::try_from(section.svma.end - section.svma.start).unwrap_or(0);
    object.bytes_at(Svma(section.svma.start), bytes)
}

/// `ret`.
const RETURN: u32 = 0xd65f_03c0;

fn add_uses_aarch64(
    object: &ObjectFile,
    section: &ElfSection,
    is_one: &dyn Fn(Svma) -> bool,
    uses: &mut FxHashMap<Svma, SlotUse>,
) {
    let Some(code) = code_of(object, section) else { return };
    let mut registers = TrackedRegs::default();
    let words = code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    for (word, at) in words.zip((section.svma.start..).step_by(4)) {
        if let RegValue::Loaded(slot) = registers.callee(word, at)
            && is_one(Svma(slot))
        {
            uses.entry(Svma(slot)).or_default().calls = true;
        }
        for slot in registers.read(word).map(Svma).filter(|slot| is_one(*slot)) {
            uses.entry(slot).or_default().reads = true;
        }
        registers.take(word, at);
        if word == RETURN {
            // Another function begins.
            registers = TrackedRegs::default();
        }
    }
}

fn add_uses(
    object: &ObjectFile,
    section: &ElfSection,
    is_one: &dyn Fn(Svma) -> bool,
    uses: &mut FxHashMap<Svma, SlotUse>,
) {
    let Some(code) = code_of(object, section) else { return };
    let mut decoder = Decoder::with_ip(64, code, section.svma.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        // Bytes that aren't an instruction are skipped one by one: data among code.
        if instruction.code() == Code::INVALID || !instruction.is_ip_rel_memory_operand() {
            continue;
        }
        let slot = Svma(instruction.memory_displacement64());
        if is_one(slot) {
            let calls =
                matches!(instruction.flow_control(), FlowControl::IndirectCall | FlowControl::IndirectBranch);
            let known: &mut SlotUse = uses.entry(slot).or_default();
            known.calls |= calls;
            known.reads |= !calls;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_slot_that_is_only_called_is_distinguished_from_one_that_is_read() {
        let dir = std::env::temp_dir().join(format!("tally-slots-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, library) = (dir.join("a.c"), dir.join("a.so"));
        let text = "int called(void); int jumped(void); int read(void);
            int f(void) { return called() + 1; }  int g(void) { return jumped(); }
            int (*h(void))(void) { return read() ? read : 0; }";
        std::fs::write(&source, text).unwrap();
        let flags = ["-O2", "-fno-plt", "-fPIC", "-shared", "-o"];
        let built = Command::new("gcc").args(flags).arg(&library).arg(&source).status();
        if cfg!(target_arch = "x86_64") && built.is_ok_and(|status| status.success()) {
            let object = ObjectFile::open(&library).unwrap();
            let names = crate::elf::plt::slot_names(&object);
            let uses = slot_uses(&object, &|slot| names.contains_key(&slot));
            let of = |name: &str| {
                names.iter().find(|(_, known)| *known == name).map(|(slot, _)| uses[slot]).unwrap()
            };
            let only_called = SlotUse { calls: true, reads: false };
            assert_eq!((of("called"), of("jumped")), (only_called, only_called));
            assert!(of("read").reads);
        } else {
            println!("skipped: no gcc for x86-64");
        }
        let _ = std::fs::remove_dir_all(&dir);
    }
}
