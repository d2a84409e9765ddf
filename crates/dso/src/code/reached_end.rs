//! The end of an exported function whose symbol has no size, by its code.
//!
//! Assembly code often has such symbols, and functions without an exported name follow: `memset` of musl's C library is the
//! last one before its system calls, which would all be shown as `memset`.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use crate::{Machine, ObjectFile, Svma};

/// Longer functions keep the end that they had without looking, in bytes.
const LONGEST: usize = 4096;

/// First address past the function that begins at `room.start`; `None` if its code does not show one within the `room`, where
/// no other symbol begins: on other machines than x86-64, after a jump to a computed address, and if the function is long
/// or isn't code throughout.
pub(crate) fn reached_end(object: &ObjectFile, room: Range<Svma>) -> Option<Svma> {
    if object.machine() != Machine::X86_64 || !object.is_code(room.start) {
        return None;
    }
    let bytes =
        usize::try_from(room.end.0.saturating_sub(room.start.0)).map_or(LONGEST, |room| room.min(LONGEST));
    end_of_flow(object.bytes_at(room.start, bytes)?, room.start.0).map(Svma)
}

/// The end of the first instruction after which nothing before it goes on.
fn end_of_flow(code: &[u8], start: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut furthest = start;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::INVALID {
            return None;
        }
        let flow = instruction.flow_control();
        let jumps = matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
        if jumps && instruction.op0_kind() == OpKind::NearBranch64 {
            furthest = furthest.max(instruction.near_branch64());
        }
        match flow {
            FlowControl::IndirectBranch => return None,
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::Exception
                if instruction.next_ip() > furthest =>
            {
                return Some(instruction.next_ip());
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::SymbolTable;
    use crate::code::function_starts::FunctionStarts;

    /// Neither has a size, and only the first is exported.
    const SOURCE: &str = "
        .globl exported
        .type exported, @function
        exported: test %edi, %edi
                  je 1f
                  ret
        1:        xor %eax, %eax
                  ret
        .type hidden, @function
        hidden:   mov $24, %eax
                  lea label(%rip), %rdx
                  syscall
        label:    ret
        ";

    fn build(folder: &Path) -> Option<()> {
        std::fs::create_dir_all(folder).ok()?;
        std::fs::write(folder.join("t.s"), SOURCE).ok()?;
        let run =
            |program: &str, args: &[&str]| Command::new(program).args(args).current_dir(folder).status();
        run("gcc", &["-shared", "-nostdlib", "-o", "t.so", "t.s"]).ok()?.success().then_some(())?;
        run("strip", &["-s", "t.so"]).ok()?.success().then_some(())
    }

    #[test]
    fn code_after_an_exported_function_without_size_has_another_name() {
        let folder = std::env::temp_dir().join(format!("tally-unsized-{}", std::process::id()));
        let built = build(&folder).and_then(|()| ObjectFile::open(&folder.join("t.so")).ok());
        let _ = std::fs::remove_dir_all(&folder);
        let Some(object) = built.filter(|object| object.machine() == Machine::X86_64) else {
            return println!("skipped: no gcc and strip for x86-64");
        };
        let symbols = SymbolTable::load(&object, None);
        let exported = symbols.by_name("exported").next().expect("strip leaves exported names");
        assert_eq!(exported.end.0 - exported.start.0, 8);
        assert_eq!(symbols.find(exported.end), None, "the code of `hidden`");
        let starts = FunctionStarts::of_object(&object);
        assert_eq!(starts.around(Svma(exported.end.0 + 14)).map(|(start, _)| start), Some(exported.end));
    }

    #[test]
    fn a_function_ends_where_no_jump_leads_further() {
        // test edi, edi; je +1 (over the first ret); ret; xor eax, eax; ret; then another function: nop; ret
        let code = [0x85, 0xff, 0x74, 0x01, 0xc3, 0x31, 0xc0, 0xc3, 0x90, 0xc3];
        assert_eq!(end_of_flow(&code, 0x100), Some(0x108));
    }

    #[test]
    fn a_loop_back_ends_a_function_as_a_return_does() {
        // ja +1 (to the loop); ret; dec eax; jmp -4 (the loop again); then ret of another function
        let code = [0x77, 0x01, 0xc3, 0xff, 0xc8, 0xeb, 0xfc, 0xc3];
        assert_eq!(end_of_flow(&code, 0), Some(7));
    }

    #[test]
    fn the_end_is_unknown_after_a_computed_jump_past_the_code_and_in_data() {
        assert_eq!(end_of_flow(&[0xff, 0xe0, 0xc3], 0), None, "jmp rax");
        assert_eq!(end_of_flow(&[0x90, 0x90], 0), None, "no end in these bytes");
        assert_eq!(end_of_flow(&[0x06, 0xc3], 0), None, "no instruction");
        assert_eq!(end_of_flow(&[0x74, 0x7f, 0xc3], 0), None, "a jump over the return, out of these bytes");
    }
}
