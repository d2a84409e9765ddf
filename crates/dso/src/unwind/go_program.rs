//! Where a Go program keeps the list of its goroutines, and the names of its code, without debug info.
//
// Source: runtime/proc.go, Go 1.18 to 1.26: forEachGRace() begins with atomicAllG(), which is inlined into it.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

use super::GoroutineLayout;
use crate::symtab::pclntab::{GoFunction, Pclntab};
use crate::{ObjectFile, Svma};

/// The function that loads the list's length and address before anything else of the program's data.
const LOADS_LIST: &str = "runtime.forEachGRace";
/// Bytes of it that are read.
const MOST_BYTES: usize = 128;

/// Facts about a Go program that are needed to read its goroutines from its memory.
#[derive(Debug)]
pub struct GoProgram {
    table: Pclntab,
    /// Fields of goroutines and threads.
    pub layout: GoroutineLayout,
    /// Where the number of goroutines is that there ever were at a time, a word.
    pub count_at: Svma,
    /// Where the address of the array of their addresses is.
    pub list_at: Svma,
}

/// A function of Go's that is on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoFrame<'p> {
    /// Name with the path of its package.
    pub function: &'p str,
    /// Its source file, as it was compiled; empty if it has none.
    pub file: &'p str,
    /// The line it has reached; its first one where that is an inlined function's, 0 if it has none.
    pub line: u32,
}

impl GoProgram {
    /// The program in this file; `None` if it is not Go's for x86-64, or its code is not as expected.
    #[must_use]
    pub fn of_object(object: &ObjectFile) -> Option<Self> {
        let layout = GoroutineLayout::of_object(object)?;
        let table = Pclntab::of_object(object)?;
        let GoFunction { start, end, .. } = table.functions().find(|of| table.is_named(*of, LOADS_LIST))?;
        let len = usize::try_from(end.0.saturating_sub(start.0)).ok()?.min(MOST_BYTES);
        let code = object.bytes_at(start, len)?;
        let [count_at, list_at] = list_of_code(code, start)?;
        Some(Self { table, layout, count_at, list_at })
    }

    /// The function around the call that returns to `return_address`.
    #[must_use]
    pub fn frame_of(&self, return_address: Svma) -> Option<GoFrame<'_>> {
        let call = Svma(return_address.0.checked_sub(1)?);
        let of = self.table.find(call)?;
        let function = self.table.name(of)?;
        let file = self.table.file_at(of.start).unwrap_or_default();
        let at = if self.table.file_at(call) == Some(file) { call } else { of.start };
        Some(GoFrame { function, file, line: self.table.line_at(at).unwrap_or_default() })
    }
}

/// Addresses of the list's length and of its own address: the first two words that are loaded from fixed places.
fn list_of_code(code: &[u8], start: Svma) -> Option<[Svma; 2]> {
    let is_load = |of: &Instruction| {
        let is_word = of.op0_kind() == OpKind::Register && of.op0_register().size() == 8;
        of.mnemonic() == Mnemonic::Mov && is_word && of.is_ip_rel_memory_operand()
    };
    let loads = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE).into_iter().filter(is_load);
    let mut places = loads.map(|of| Svma(of.ip_rel_memory_address()));
    let (count, list) = (places.next()?, places.next()?);
    (count != list).then_some([count, list])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_what_the_runtime_itself_goes_through() {
        // Go 1.26.8: `MOVQ runtime.allglen(SB), CX` and `MOVQ runtime.allgptr(SB), BX` after the prologue.
        let code = "49 3b 66 10 76 65 55 48 89 e5 48 83 ec 20 48 89 44 24 30 90 48 8b 0d 15 a2 1f 00 48 89 4c 24 \
                    10 48 8b 1d 19 99 1d 00 48 89 5c 24 18 31 d2 eb 30";
        let code: Vec<u8> =
            code.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect();
        let found = list_of_code(&code, Svma(0x44_e180));
        assert_eq!(found, Some([Svma(0x64_83b0), Svma(0x62_7ac0)]));
        assert_eq!(list_of_code(&code[..30], Svma(0x44_e180)), None);
    }
}
