//! aarch64 by disarm64.

use super::{BranchTarget, Instruction, Namer};
use crate::Svma;

pub(super) fn disassemble(code: &[u8], start: Svma, name: Namer<'_>) -> Vec<Instruction> {
    let mut out = Vec::with_capacity(code.len() / 4);
    for (index, chunk) in code.chunks(4).enumerate() {
        let address = Svma(start.0.wrapping_add(4 * index as u64));
        let Ok(bytes) = <[u8; 4]>::try_from(chunk) else {
            out.push(Instruction {
                start: address,
                len: chunk.len(),
                text: "(bad)".to_owned(),
                branch: None,
            });
            break;
        };
        let word = u32::from_le_bytes(bytes);
        let branch = branch(word, address);
        out.push(Instruction { start: address, len: 4, text: text(word, address, branch, name), branch });
    }
    out
}

fn text(word: u32, address: Svma, branch: Option<BranchTarget>, name: Namer<'_>) -> String {
    let Some(opcode) = disarm64::decoder_full::decode(word) else {
        return format!(".inst\t{word:#010x} ; undefined");
    };
    let mut plain = String::new();
    if disarm64::format_insn::format_insn_pc(address.0, &mut plain, &opcode).is_err() {
        return format!(".inst\t{word:#010x}");
    }
    let target = branch.and_then(|b| name(b.target));
    let (mnemonic, operands) = plain.split_once(char::is_whitespace).unwrap_or((&plain, ""));
    let mut text = format!("{mnemonic}\t{}", operands.trim_start());
    if let Some(target) = target {
        text.push_str(&format!(" <{target}>"));
    }
    text.trim_end().to_owned()
}

/// b, bl, b.cond, cbz, cbnz, tbz, tbnz.
// Source: Arm ARM C4.1.66 "Branches, Exception Generating and System instructions".
pub fn branch(word: u32, address: Svma) -> Option<BranchTarget> {
    let signed = |value: u32, bits: u32| i64::from((value << (32 - bits)) as i32 >> (32 - bits)) * 4;
    let offset = match word {
        w if w & 0x7c00_0000 == 0x1400_0000 => signed(w & 0x03ff_ffff, 26),
        w if w & 0xff00_0000 == 0x5400_0000 => signed(w >> 5 & 0x7_ffff, 19),
        w if w & 0x7e00_0000 == 0x3400_0000 => signed(w >> 5 & 0x7_ffff, 19),
        w if w & 0x7e00_0000 == 0x3600_0000 => signed(w >> 5 & 0x3fff, 14),
        _ => return None,
    };
    Some(BranchTarget {
        target: Svma(address.0.wrapping_add_signed(offset)),
        is_call: word & 0xfc00_0000 == 0x9400_0000,
    })
}
