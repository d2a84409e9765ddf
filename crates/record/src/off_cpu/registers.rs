//! A thread's registers where it left the CPU: as the kernel keeps them (`struct pt_regs`), as perf numbers them.

use std::hash::BuildHasher as _;

use perfdata::{Avma, Sample};
use rustc_hash::FxBuildHasher;

use super::layout::OffRecord;
use super::place_waits::PlacePrint;
use crate::sys::perf_abi::register;

/// Where the thread goes on in user mode.
pub(super) fn user_pc(record: &OffRecord<'_>) -> Option<Avma> {
    let place = if cfg!(target_arch = "x86_64") { 16 } else { 32 };
    Some(Avma(word(record.regs(), place)))
}

/// The thread's user stack pointer.
pub(super) fn user_sp(record: &OffRecord<'_>) -> u64 {
    word(record.regs(), if cfg!(target_arch = "x86_64") { 19 } else { 31 })
}

/// A word of `struct pt_regs`.
pub(super) fn word(regs: &[u8], index: usize) -> u64 {
    let bytes = regs.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Where perf's register number is in `struct pt_regs`, in words.
// Layout: struct pt_regs { r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss }
//         perf: AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8…R15
// Source: linux v6.18 arch/x86/include/asm/ptrace.h, arch/x86/include/uapi/asm/perf_regs.h
#[cfg(target_arch = "x86_64")]
pub(super) fn pt_regs_index(bit: u32) -> Option<usize> {
    const INDEX: [usize; 12] = [10, 5, 11, 12, 13, 14, 4, 19, 16, 18, 17, 20];
    match bit {
        0..12 => Some(INDEX[bit as usize]),
        16..20 => Some(9 - (bit as usize - 16)),
        20..24 => Some(3 - (bit as usize - 20)),
        _ => None,
    }
}

/// The system call and its first arguments; `orig_ax` is −1 after exceptions and interrupts, and a 32-bit
/// task (cs ≠ 0x33) has another table.
#[cfg(target_arch = "x86_64")]
pub(super) fn syscall_of(regs: &[u8]) -> (Option<u32>, [u64; 3]) {
    const USER_CS: u64 = 0x33;
    let number = word(regs, 15);
    let known = regs.len() >= 168 && number < 1 << 16 && word(regs, 17) == USER_CS;
    if !known {
        return (None, [0; 3]);
    }
    (u32::try_from(number).ok(), [word(regs, 14), word(regs, 13), word(regs, 12)])
}

/// Numbers that perf has for the registers of the first arguments of a system call, for stack and instruction pointer.
// Source: linux v6.18 arch/x86/include/uapi/asm/perf_regs.h, arch/arm64/include/uapi/asm/perf_regs.h
const ARGS: [u32; 3] = if cfg!(target_arch = "x86_64") { [5, 4, 3] } else { [0, 1, 2] };
const SP_IP: [u32; 2] = [register::SP, register::PC];

/// The registers that tell the places of a thread's waits from each other, as a mask of perf's numbers: those of
/// [`call_args`] and of [`place`].
pub(super) const PLACE_REGS: u64 =
    1 | 1 << ARGS[0] | 1 << ARGS[1] | 1 << ARGS[2] | 1 << SP_IP[0] | 1 << SP_IP[1];

/// A user register as perf copies it, by perf's number.
fn value_of(sample: &Sample<'_>, bit: u32) -> Option<u64> {
    let regs = sample.regs_user?;
    let before = (regs.mask & ((1 << bit) - 1)).count_ones() as usize;
    regs.values.iter().nth(before).filter(|_| regs.mask >> bit & 1 == 1)
}

/// The first arguments of the system call that a thread waits in; 0 outside of one. On x86 the entry code has put
/// -ENOSYS where the number was.
#[must_use]
pub fn call_args(sample: &Sample<'_>) -> [u64; 3] {
    const NO_SYSTEM_CALL: u64 = (-38i64).cast_unsigned();
    let is_call = !cfg!(target_arch = "x86_64") || value_of(sample, 0) == Some(NO_SYSTEM_CALL);
    if is_call { ARGS.map(|bit| value_of(sample, bit).unwrap_or(0)) } else { [0; 3] }
}

/// Where a thread waits; `None` for those without user registers.
#[must_use]
pub fn place(sample: &Sample<'_>) -> Option<PlacePrint> {
    let [sp, ip] = SP_IP.map(|bit| value_of(sample, bit));
    let stack_print = print(&[sp?, ip?]);
    Some(PlacePrint { print: print(&[stack_print, call_args(sample)[0]]), stack_print })
}

/// Never 0, which is no place.
fn print(words: &[u64]) -> u64 {
    FxBuildHasher.hash_one(words) | 1
}

// Layout: struct pt_regs { user_pt_regs { regs[31] sp pc pstate } orig_x0 syscallno … }; perf: X0…X29 LR SP PC
// Source: linux v6.18 arch/arm64/include/asm/ptrace.h
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn pt_regs_index(bit: u32) -> Option<usize> {
    (bit < 33).then_some(bit as usize)
}

/// The copied prefix ends before `syscallno`; x8 holds the number while in a system call.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn syscall_of(regs: &[u8]) -> (Option<u32>, [u64; 3]) {
    let number = word(regs, 8);
    if regs.len() < 264 || number >= 1 << 16 {
        return (None, [0; 3]);
    }
    (u32::try_from(number).ok(), [word(regs, 0), word(regs, 1), word(regs, 2)])
}
