//! Return trampolines of signals without unwind rules: those of musl and Go, and of glibc without its tables.
//!
//! A handler returns to `mov $15,%rax; syscall` with the stack pointer at the signal's `ucontext`, where the kernel
//! keeps all registers of the interrupted code.
//
// Source: linux arch/x86/include/uapi/asm/{ucontext,sigcontext}.h; musl src/signal/x86_64/restore.s;
//         Go runtime/sys_linux_amd64.s, sigreturn__sigaction.

use std::sync::Arc;

use super::expression::Op;
use super::rule::{Cfa, Restore, Row, Step};
use crate::{Machine, ObjectFile, Svma};

/// `mov $15,%rax; syscall`.
const TRAMPOLINE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Offset of its second instruction.
const SYSCALL: u64 = 7;

/// Bytes from the first to the last that a trampoline looked up anywhere in it may have.
const AROUND: usize = SYSCALL as usize + 1 + TRAMPOLINE.len();

/// Offset of `uc_mcontext`, after flags, link and stack.
const MCONTEXT: i64 = 40;

/// DWARF numbers of the registers in the order of `struct sigcontext_64`: r8…r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
/// rsp, rip.
const SAVED: [u8; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

const RSP: u8 = 7;

/// The rules for the code looked up at `svma`, if that is such a trampoline. A return address is looked up one byte
/// before the trampoline, interrupted code where it is.
pub(super) fn step(object: &ObjectFile, svma: u64) -> Option<Step> {
    if object.machine() != Machine::X86_64 {
        return None;
    }
    // Most code is not one: its bytes around `svma` are looked up once.
    let around = svma.checked_sub(SYSCALL).and_then(|first| object.bytes_at(Svma(first), AROUND));
    let around = around.filter(|around| around.len() == AROUND);
    if around.is_some_and(|around| !around.windows(TRAMPOLINE.len()).any(|code| code == TRAMPOLINE)) {
        return None;
    }
    step_of(|start| object.bytes_at(Svma(start), TRAMPOLINE.len()).unwrap_or_default(), svma)
}

/// The same for the code that `code` gives.
pub(super) fn step_of<'c>(code: impl Fn(u64) -> &'c [u8], svma: u64) -> Option<Step> {
    let starts = [Some(svma.wrapping_add(1)), Some(svma), svma.checked_sub(SYSCALL)];
    let is_trampoline = |start: u64| code(start) == TRAMPOLINE;
    starts.into_iter().flatten().any(is_trampoline).then(|| Step::General(Arc::new(row())))
}

fn row() -> Row {
    let offset = |place: usize| MCONTEXT + 8 * place as i64;
    let at = |place: usize| [Op::Register(RSP, offset(place))];
    let registers = SAVED.iter().enumerate().map(|(place, &register)| (register, at(place)));
    let registers = registers.filter(|(register, _)| *register != RSP);
    let stack_pointer = SAVED.iter().position(|&register| register == RSP).unwrap_or_default();
    Row {
        cfa: Cfa::Program(Box::new([Op::Register(RSP, offset(stack_pointer)), Op::Deref(8)])),
        registers: registers.map(|(register, at)| (register, Restore::WalkState(at.into()))).collect(),
        is_signal_frame: true,
    }
}
