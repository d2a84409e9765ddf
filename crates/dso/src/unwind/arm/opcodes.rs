//! Unwind instructions of the ARM exception tables, as a row of rules.
//!
//! They undo a function's prologue, from the state after it: pop registers, add to the stack pointer, or take it from
//! another register. A row has each register's place relative to the caller's stack pointer.
//
// Source: ARM IHI 0038 "Exception Handling ABI for the Arm Architecture" table 4; libgcc config/arm/pr-support.c and
//         linux v6.12 arch/arm/kernel/unwind.c interpret the same.

use crate::unwind::arch::{Arch, Arm};
use crate::unwind::expression::Op;
use crate::unwind::rule::{Cfa, Restore, Row};

const SP: u8 = Arm::SP as u8;
const LR: u8 = Arm::RA as u8;
const PC: u8 = Arm::PC as u8;
const WORD: i64 = Arm::WORD as i64;

/// Result of a function's instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The rules.
    Unwinds(Row),
    /// The function refuses to be unwound.
    Refuses,
    /// An instruction has no meaning, or is cut off.
    Damaged,
}

/// The stack pointer while it is being unwound: a register of the frame or a saved value, and a distance.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Base {
    Register(u8),
    /// The value at a stack address.
    Loaded(Vec<Op>),
}

/// A virtual machine of one virtual register, the stack pointer.
struct Unwinding {
    base: Base,
    offset: i64,
    /// Registers popped, and from where.
    popped: Vec<(u8, Base, i64)>,
}

/// Interprets `code`, which `finish` or its end ends.
pub(super) fn interpret(code: &[u8]) -> Outcome {
    let mut unwinding = Unwinding { base: Base::Register(SP), offset: 0, popped: Vec::new() };
    let mut rest = code.iter().copied();
    while let Some(opcode) = rest.next() {
        match unwinding.apply(opcode, &mut rest) {
            Some(Next::Instruction) => {}
            Some(Next::Finish) => break,
            Some(Next::Refuse) => return Outcome::Refuses,
            None => return Outcome::Damaged,
        }
    }
    Outcome::Unwinds(unwinding.row())
}

/// Position after an instruction.
enum Next {
    Instruction,
    Finish,
    Refuse,
}

impl Unwinding {
    /// `None` for an instruction without meaning.
    fn apply(&mut self, opcode: u8, rest: &mut impl Iterator<Item = u8>) -> Option<Next> {
        let low = u16::from(opcode & 0x0f);
        match opcode {
            0x00..=0x3f => self.offset += (i64::from(opcode) << 2) + WORD,
            0x40..=0x7f => self.offset -= (i64::from(opcode & 0x3f) << 2) + WORD,
            0x80..=0x8f => match low << 8 | u16::from(rest.next()?) {
                0 => return Some(Next::Refuse),
                mask => self.pop(u32::from(mask) << 4),
            },
            0x9d | 0x9f => return None,
            0x90..=0x9f => self.take_from(opcode & 0x0f),
            0xa0..=0xaf => {
                let saved = ((2u32 << (opcode & 7)) - 1) << 4;
                self.pop(saved | if opcode & 8 == 0 { 0 } else { 1 << LR });
            }
            0xb0 => return Some(Next::Finish),
            0xb1 => match rest.next()? {
                mask @ 1..=0x0f => self.pop(mask.into()),
                _ => return None,
            },
            0xb2 => self.offset = self.offset.checked_add(0x204 + (uleb128(rest)? << 2))?,
            0xb3 => self.skip_doubles(u32::from(rest.next()? & 0x0f) + 1, WORD),
            // The return address's authentication code, and a mark of how it was made.
            0xb4 => self.offset += WORD,
            0xb5 => {}
            0xb8..=0xbf => self.skip_doubles(u32::from(opcode & 7) + 1, WORD),
            0xc6 | 0xc8 | 0xc9 => self.skip_doubles(u32::from(rest.next()? & 0x0f) + 1, 0),
            0xc7 => match rest.next()? {
                mask @ 1..=0x0f => self.offset += WORD * i64::from(mask.count_ones()),
                _ => return None,
            },
            0xc0..=0xc5 | 0xd0..=0xd7 => self.skip_doubles(u32::from(opcode & 7) + 1, 0),
            _ => return None,
        }
        Some(Next::Instruction)
    }

    /// Pops the registers of `mask`, the lowest first. The stack pointer among them is taken at the end.
    fn pop(&mut self, mask: u32) {
        let mut stack_pointer = None;
        for register in (0..16).filter(|register| mask >> register & 1 == 1) {
            if register == SP {
                stack_pointer = Some(self.address());
            } else {
                self.popped.retain(|(known, ..)| *known != register);
                self.popped.push((register, self.base.clone(), self.offset));
            }
            self.offset += WORD;
        }
        if let Some(address) = stack_pointer {
            (self.base, self.offset) = (Base::Loaded(address), 0);
        }
    }

    /// The stack pointer is the value of `register`.
    fn take_from(&mut self, register: u8) {
        let saved = self.popped.iter().find(|(known, ..)| *known == register);
        self.base = match saved {
            Some((_, base, offset)) => Base::Loaded(address(base, *offset)),
            None => Base::Register(register),
        };
        self.offset = 0;
    }

    fn skip_doubles(&mut self, count: u32, extra: i64) {
        self.offset += 8 * i64::from(count) + extra;
    }

    fn address(&self) -> Vec<Op> {
        address(&self.base, self.offset)
    }

    fn row(self) -> Row {
        // Only the kernel saves all registers: the frame is a signal's.
        let is_signal_frame =
            matches!(self.base, Base::Loaded(_)) && self.popped.iter().any(|(register, ..)| *register == PC);
        let cfa = match &self.base {
            Base::Register(register) => Cfa::Register(*register, self.offset),
            Base::Loaded(_) => Cfa::Program(self.address().into()),
        };
        let restore = |base: &Base, offset: i64| {
            if *base == self.base {
                Restore::AtCfa(offset - self.offset)
            } else {
                Restore::WalkState(address(base, offset).into())
            }
        };
        // Scratch registers are popped for the stack's alignment only.
        let is_kept = |register: u8| is_signal_frame || matches!(register, 4..=11 | LR | PC);
        let registers = self
            .popped
            .iter()
            .filter(|(register, ..)| is_kept(*register))
            .map(|(register, base, offset)| (*register, restore(base, *offset)))
            .collect();
        Row { cfa, registers, is_signal_frame }
    }
}

/// Operations that give an address.
fn address(base: &Base, offset: i64) -> Vec<Op> {
    match base {
        Base::Register(register) => vec![Op::Register(*register, offset)],
        Base::Loaded(from) => {
            let mut operations = from.clone();
            operations.push(Op::Deref(Arm::WORD as u8));
            operations.push(Op::PlusConstant(offset.cast_unsigned()));
            operations
        }
    }
}

/// Up to 2³⁰: a stack is smaller.
fn uleb128(rest: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0;
    for shift in (0..28).step_by(7) {
        let byte = rest.next()?;
        value |= i64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(code: &[u8]) -> Row {
        match interpret(code) {
            Outcome::Unwinds(row) => row,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_with_locals_floating_point_and_core_registers_is_undone_in_order() {
        // vsp += 12; pop {d8, d9}; pop {r4, r5, lr}: what gcc writes for `push {r4, r5, lr}; vpush {d8-d9}; sub sp, #12`.
        let row = row(&[0x02, 0xc9, 0x81, 0xa9, 0xb0, 0xb0]);
        assert_eq!(row.cfa, Cfa::Register(13, 12 + 16 + 12));
        let saved = [(4, -12), (5, -8), (14, -4)].map(|(register, at)| (register, Restore::AtCfa(at)));
        assert_eq!(row.registers, saved);
    }

    #[test]
    fn a_frame_pointer_gives_the_stack_pointer() {
        // vsp = r7; vsp += 8; pop {r7, lr} by mask.
        let row = row(&[0x97, 0x01, 0x84, 0x08, 0xb0]);
        assert_eq!(row.cfa, Cfa::Register(7, 16));
        assert_eq!(row.registers, [(7, Restore::AtCfa(-8)), (14, Restore::AtCfa(-4))]);
    }

    #[test]
    fn popped_scratch_registers_only_align_the_stack() {
        // pop {r3}; pop {lr}
        let row = row(&[0xb1, 0x08, 0x84, 0x00, 0xb0]);
        assert_eq!((row.cfa, row.registers), (Cfa::Register(13, 8), vec![(14, Restore::AtCfa(-4))]));
    }

    #[test]
    fn large_frames_and_old_floating_point_saves_have_their_size() {
        assert_eq!(row(&[0xb2, 0x81, 0x01]).cfa, Cfa::Register(13, 0x204 + (129 << 2)));
        assert_eq!(row(&[0xb3, 0x81]).cfa, Cfa::Register(13, 20), "FSTMFDX has a word more");
        assert_eq!(row(&[0xb9]).cfa, Cfa::Register(13, 20));
        assert_eq!(row(&[0xd1]).cfa, Cfa::Register(13, 16));
        assert_eq!(row(&[0x41]).cfa, Cfa::Register(13, -8));
    }

    #[test]
    fn all_registers_popped_are_a_signals_frame() {
        // The C library's return trampoline: vsp += 32; pop {r4-r15}, {r0-r3}
        let row = row(&[0x07, 0xb1, 0x0f, 0x8f, 0xff, 0xb0]);
        assert!(row.is_signal_frame);
        let sp = [Op::Register(13, 32 + 13 * 4), Op::Deref(4), Op::PlusConstant(0)];
        assert_eq!(row.cfa, Cfa::Program(sp.into()));
        assert_eq!(row.registers.len(), 15);
        let pc = [Op::Register(13, 32 + 15 * 4)];
        assert_eq!(row.registers.last(), Some(&(15, Restore::WalkState(pc.into()))));
    }

    #[test]
    fn refusals_and_instructions_without_meaning_are_no_rules() {
        assert_eq!(interpret(&[0x80, 0x00]), Outcome::Refuses);
        for code in
            [&[0x9d_u8][..], &[0x9f], &[0xb1, 0], &[0xb1, 0x10], &[0xb6], &[0xe0], &[0x80], &[0xb2, 0x80]]
        {
            assert_eq!(interpret(code), Outcome::Damaged, "{code:x?}");
        }
    }
}
