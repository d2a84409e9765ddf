//! perf's name of the branch at an address.
//
// Source: linux v6.18 tools/perf/util/event.c sample_flags: the words, by kind of branch.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

/// The word for the branch instruction that begins `code`: call, return, jcc, jmp, int, iret, syscall or
/// sysret; `None` if it isn't a branch, or not an instruction.
#[must_use]
pub fn branch_word(code: &[u8], bits: u32) -> Option<&'static str> {
    let instruction = Decoder::try_new(bits, code, DecoderOptions::NONE).ok()?.decode();
    let word = match (instruction.mnemonic(), instruction.flow_control()) {
        (Mnemonic::Syscall | Mnemonic::Sysenter, _) => "syscall",
        (Mnemonic::Sysret | Mnemonic::Sysretq | Mnemonic::Sysexit | Mnemonic::Sysexitq, _) => "sysret",
        (Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq, _) => "iret",
        (_, FlowControl::Call | FlowControl::IndirectCall) => "call",
        (_, FlowControl::Return) => "return",
        (_, FlowControl::ConditionalBranch) => "jcc",
        (_, FlowControl::UnconditionalBranch | FlowControl::IndirectBranch) => "jmp",
        (_, FlowControl::Interrupt) => "int",
        _ => return None,
    };
    Some(word)
}

/// Bytes of the instruction that begins `code`; `None` if it is none, or not whole.
#[must_use]
pub fn instruction_len(code: &[u8], bits: u32) -> Option<usize> {
    let instruction = Decoder::try_new(bits, code, DecoderOptions::NONE).ok()?.decode();
    (!instruction.is_invalid()).then(|| instruction.len())
}

#[cfg(test)]
mod tests {
    use super::branch_word;

    #[test]
    fn branches_have_perfs_names() {
        let words: [(&[u8], _); 9] = [
            (&[0xe8, 0, 0, 0, 0], Some("call")),
            (&[0xff, 0xe0], Some("jmp")),
            (&[0xeb, 1], Some("jmp")),
            (&[0x74, 1], Some("jcc")),
            (&[0xc3], Some("return")),
            (&[0x0f, 0x05], Some("syscall")),
            (&[0x48, 0xcf], Some("iret")),
            (&[0x90], None),
            (&[], None),
        ];
        words.iter().for_each(|(code, word)| assert_eq!(branch_word(code, 64), *word, "{code:x?}"));
    }
}
