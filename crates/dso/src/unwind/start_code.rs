//! `_init` and `_fini`: the one code in every linked file that has no entry in .eh_frame, as the C library puts it
//! together of assembler pieces. It only moves the stack pointer, so reading it up to the place gives the rule.
//!
//! Source: `sysdeps/x86_64/crti.S` and `crtn.S` of glibc (`sub $8, %rsp` … `add $8, %rsp`), `crt/x86_64/crti.s` of
//! musl (`push %rax` … `pop %rax`).

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

use super::rule::{Rule, Step};
use crate::{Bytes, Machine, ObjectFile};

/// DWARF's number of the stack pointer.
const RSP: u8 = 7;
/// Place in `X86::CALLEE_SAVED`.
const RETURN_ADDRESS: usize = 0;

/// Start code of one file: first stated address and bytes of each section.
#[derive(Debug, Default)]
pub(super) struct StartCode(Vec<(u64, Bytes)>);

impl StartCode {
    /// Empty for machines other than x86-64.
    pub(super) fn new(object: &ObjectFile) -> Self {
        if object.machine() != Machine::X86_64 {
            return Self::default();
        }
        let section = |name: &&str| {
            let bytes = object.section_bytes(name).ok().flatten()?;
            Some((object.section(name)?.svma.start, bytes))
        };
        Self([".init", ".fini"].iter().filter_map(section).collect())
    }

    /// The rule at `svma`; `None` outside.
    pub(super) fn step(&self, svma: u64) -> Option<Step> {
        let holds = |(start, code): &&(u64, Bytes)| svma.wrapping_sub(*start) < code.len() as u64;
        let (start, code) = self.0.iter().find(holds)?;
        let cfa_offset = i32::try_from(8 + pushed(code, svma.wrapping_sub(*start) as usize)?).ok()?;
        let mut rule = Rule::new(RSP, cfa_offset);
        rule.save(RETURN_ADDRESS, -1);
        Some(Step::Simple(rule))
    }
}

/// Bytes on the stack below the return address before the instruction that holds the byte at `offset`.
fn pushed(code: &[u8], offset: usize) -> Option<i64> {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut pushed = 0;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() || decoder.position() > offset {
            break;
        }
        pushed = match instruction.flow_control() {
            FlowControl::Return => 0, // what follows is another function
            FlowControl::Next => pushed + growth(&instruction),
            _ => pushed,
        };
    }
    (pushed >= 0).then_some(pushed)
}

/// Bytes by which it moves the stack pointer down.
fn growth(instruction: &Instruction) -> i64 {
    let is_of_rsp = instruction.op0_register() == Register::RSP && instruction.op_count() == 2;
    match instruction.mnemonic() {
        Mnemonic::Sub if is_of_rsp => instruction.immediate(1) as i64,
        Mnemonic::Add if is_of_rsp => -(instruction.immediate(1) as i64),
        _ => -i64::from(instruction.stack_pointer_increment()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_init` of a glibc program as it is linked.
    const INIT: [u8; 27] = [
        0xf3, 0x0f, 0x1e, 0xfa, // 00: endbr64
        0x48, 0x83, 0xec, 0x08, // 04: sub $8,%rsp
        0x48, 0x8b, 0x05, 0xa5, 0xef, 0x0c, 0x00, // 08: mov …(%rip),%rax
        0x48, 0x85, 0xc0, // 0f: test %rax,%rax
        0x74, 0x02, // 12: je 16
        0xff, 0xd0, // 14: call *%rax
        0x48, 0x83, 0xc4, 0x08, // 16: add $8,%rsp
        0xc3, // 1a: ret
    ];

    #[test]
    fn the_caller_of_start_code_is_below_its_frame() {
        let code = StartCode(vec![(0x1000, Bytes::from_vec(INIT.to_vec()))]);
        let Some(Step::Simple(rule)) = code.step(0x1014) else { panic!("no rule") };
        let saved: Vec<_> = rule.saved().collect();
        assert_eq!((rule.cfa_register, rule.cfa_offset, saved), (RSP, 16, vec![(RETURN_ADDRESS, -1)]));
    }

    #[test]
    fn start_code_is_left_from_wherever_it_was_interrupted() {
        let expected = [(0, 0), (4, 0), (5, 0), (8, 8), (0x14, 8), (0x15, 8), (0x16, 8), (0x1a, 0)];
        for (offset, bytes) in expected {
            assert_eq!(pushed(&INIT, offset), Some(bytes), "at {offset:#x}");
        }
        // push %rax; pop %rax; ret; push %rax
        let musl = [0x50, 0x58, 0xc3, 0x50];
        assert_eq!([0, 1, 2, 3].map(|offset| pushed(&musl, offset)), [Some(0), Some(8), Some(0), Some(0)]);
    }
}
