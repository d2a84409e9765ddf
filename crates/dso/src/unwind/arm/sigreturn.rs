//! Return trampolines of signals: `mov r7, #119` or `#173`, `svc 0`, where a handler returns to.
//!
//! There the stack pointer is at the signal's frame, in which the kernel keeps all registers of the interrupted code.
//
// Source: linux v6.12 arch/arm/kernel/signal.h, sigframe and rt_sigframe; arch/arm/include/uapi/asm/sigcontext.h;
//         arch/arm/kernel/sigreturn_codes.S; glibc sysdeps/unix/sysv/linux/arm/sigrestorer.S.

use crate::unwind::arch::{Arch, Arm};
use crate::unwind::expression::Op;
use crate::unwind::rule::{Cfa, Restore, Row, Step};
use crate::{ObjectFile, Svma};

/// Offset of r0 in `sigframe`: after flags, link and stack of the `ucontext`, and three words.
const REGISTERS: i64 = 32;
/// Size of the `siginfo` before that in `rt_sigframe`.
const SIGINFO: i64 = 128;

/// Code of the trampolines, and offset of their second instruction: Thumb by an instruction of 4 bytes or 2, and ARM.
/// With `siginfo` the number is another.
const TRAMPOLINES: [(&[u8], u64, i64); 6] = [
    (&[0x4f, 0xf0, 0x77, 0x07, 0x00, 0xdf], 4, 0),
    (&[0x4f, 0xf0, 0xad, 0x07, 0x00, 0xdf], 4, SIGINFO),
    (&[0x77, 0x27, 0x00, 0xdf], 2, 0),
    (&[0xad, 0x27, 0x00, 0xdf], 2, SIGINFO),
    (&[0x77, 0x70, 0xa0, 0xe3, 0x00, 0x00, 0x00, 0xef], 4, 0),
    (&[0xad, 0x70, 0xa0, 0xe3, 0x00, 0x00, 0x00, 0xef], 4, SIGINFO),
];

/// Longest of them, in bytes.
const LONGEST: usize = 8;

/// The rules for the code looked up at `svma`, if that is such a trampoline. A return address is looked up one byte
/// before it, interrupted code where it is.
pub(super) fn step(object: &ObjectFile, svma: u64) -> Option<Step> {
    // Its second instruction is two or four bytes after its begin.
    let starts = [svma.checked_add(1), Some(svma), svma.checked_sub(2), svma.checked_sub(4)];
    let (_, _, extra) = starts.into_iter().flatten().find_map(|start| {
        let found = at(object, start)?;
        (start.wrapping_add(found.1) >= svma).then_some(found)
    })?;
    Some(Step::General(row(REGISTERS + extra).into()))
}

/// Whether a trampoline begins at `svma`.
pub(in crate::unwind) fn is_trampoline(object: &ObjectFile, svma: u64) -> bool {
    at(object, svma).is_some()
}

fn at(object: &ObjectFile, start: u64) -> Option<&'static (&'static [u8], u64, i64)> {
    let code = object.bytes_at(Svma(start), LONGEST)?;
    TRAMPOLINES.iter().find(|(trampoline, ..)| code.starts_with(trampoline))
}

/// All registers from `offset` above the stack pointer on.
fn row(offset: i64) -> Row {
    let slot = |register: u8| Op::Register(Arm::SP as u8, offset + 4 * i64::from(register));
    let registers = (0..=Arm::PC as u8).filter(|&register| usize::from(register) != Arm::SP);
    Row {
        cfa: Cfa::Program([slot(Arm::SP as u8), Op::Deref(Arm::WORD as u8)].into()),
        registers: registers
            .map(|register| (register, Restore::WalkState([slot(register)].into())))
            .collect(),
        is_signal_frame: true,
    }
}
