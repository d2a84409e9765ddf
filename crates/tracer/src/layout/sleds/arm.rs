//! aarch64 instructions that sleds, compiled-in calls and what replaces them are made of.
//!
//! Every instruction is a little-endian word. Source: Arm Architecture Reference Manual (DDI 0487), C6.2.

/// `nop`: a sled of `-fpatchable-function-entry`, of which the first is enough.
pub const NOP: u32 = 0xd503_201f;
/// `ret`.
pub const RET: u32 = 0xd65f_03c0;
/// `bti c`, which precedes it with `-mbranch-protection`.
pub const BTI_C: u32 = 0xd503_245f;
/// clang's XRay sled begins with `b .+32`, over seven nops.
// Source: LLVM lib/Target/AArch64/AArch64AsmPrinter.cpp, emitSled.
pub const XRAY: u32 = 0x1400_0008;
/// Bytes of that sled.
pub const XRAY_BYTES: usize = 32;

/// `paciasp`, by which a function signs its return address.
pub const PACIASP: u32 = 0xd503_233f;
/// `pacibsp`, the same with the other key (`-mbranch-protection=pac-ret+b-key`).
pub const PACIBSP: u32 = 0xd503_237f;

const BRANCH: u32 = 0x1400_0000;
const CALL: u32 = 0x9400_0000;
const OPCODE: u32 = 0xfc00_0000;

/// The instructions in code.
pub fn words(code: &[u8]) -> impl Iterator<Item = u32> + '_ {
    code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// `b to` at `from`; `None` beyond 128 MB.
#[must_use]
pub fn branch(from: u64, to: u64) -> Option<u32> {
    // Layout: imm26 in the low bits, words from the instruction's own address.
    let words = (to.wrapping_sub(from) as i64) >> 2;
    (-(1 << 25)..1 << 25).contains(&words).then_some(BRANCH | words as u32 & !OPCODE)
}

/// `bl to` at `from`; `None` beyond 128 MB.
#[must_use]
pub fn call(from: u64, to: u64) -> Option<u32> {
    branch(from, to).map(|word| word | CALL)
}

/// Where the `bl` at `at` leads; `None` if it is another instruction.
#[must_use]
pub fn call_target(word: u32, at: u64) -> Option<u64> {
    (word & OPCODE == CALL).then(|| target(word, at))
}

/// Where the `b` at `at` leads; `None` if it is another instruction.
#[must_use]
pub fn branch_target(word: u32, at: u64) -> Option<u64> {
    (word & OPCODE == BRANCH).then(|| target(word, at))
}

fn target(word: u32, at: u64) -> u64 {
    let words = i64::from((word << 6) as i32 >> 6);
    at.wrapping_add_signed(words * 4)
}

/// Whether a function may have gone elsewhere after this instruction: any branch, call or return.
#[must_use]
pub const fn is_branch(word: u32) -> bool {
    // b, bl; br, blr, ret.
    word & 0x7c00_0000 == BRANCH || word & 0xfe00_0000 == 0xd600_0000 || is_conditional(word)
}

/// Whether it is a branch that may not be taken.
#[must_use]
pub const fn is_conditional(word: u32) -> bool {
    // b.cond; cbz, cbnz, tbz, tbnz.
    word & 0xfe00_0000 == 0x5400_0000 || word & 0x7c00_0000 == 0x3400_0000
}

/// Bytes by which a prologue's instruction lowers the stack pointer; 0 of any other.
#[must_use]
pub const fn pushed(word: u32) -> u64 {
    // Layout: `stp …, [sp, #imm7 * 8]!`; `str …, [sp, #imm9]!`; `sub sp, sp, #imm12 {, lsl #12}`.
    if word & 0xffc0_03e0 == 0xa980_03e0 {
        (((word << 10) as i32 >> 25) as i64 * 8).unsigned_abs()
    } else if word & 0xffe0_0fe0 == 0xf800_0fe0 {
        ((word << 11) as i32 >> 23).unsigned_abs() as u64
    } else if word & 0xff80_03ff == 0xd100_03ff {
        ((word >> 10 & 0xfff) as u64) << if word & 1 << 22 != 0 { 12 } else { 0 }
    } else {
        0
    }
}

/// The number in `add x29, sp, #imm12`, which sets up the frame record; `None` for any other instruction.
/// (`mov` is the same with 0.)
#[must_use]
pub const fn frame_offset(word: u32) -> Option<u64> {
    if word & 0xffc0_03ff == 0x9100_03fd { Some((word >> 10 & 0xfff) as u64) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prologues_are_read_as_the_assembler_wrote_them() {
        // stp x29, x30, [sp, #-48]!; str x30, [sp, #-16]!; sub sp, sp, #32; sub sp, sp, #1, lsl #12; stp x19, x20, [sp, #16].
        let words = [0xa9bd_7bfd, 0xf81f_0ffe, 0xd100_83ff, 0xd140_07ff, 0xa901_53f3];
        assert_eq!(words.map(pushed), [48, 16, 32, 4096, 0]);
        assert_eq!([0x9100_03fd, 0x9100_43fd, 0x9100_83ff].map(frame_offset), [Some(0), Some(16), None]);
    }

    #[test]
    fn branches_are_encoded_as_the_assembler_does_and_read_back() {
        assert_eq!(branch(0x54 - 32, 0x54), Some(XRAY));
        assert_eq!(branch(8, 8), Some(0x1400_0000));
        assert_eq!(branch(8, 4), Some(0x17ff_ffff));
        assert_eq!(call(0x1000, 0x0ff0), Some(0x97ff_fffc));
        assert_eq!((branch(0, 1 << 27), call(1 << 27, 0).is_some()), (None, true));
        for (from, to) in [(0x5000, 0x10), (0x10, 0x5000)] {
            assert_eq!(call_target(call(from, to).unwrap(), from), Some(to));
            assert_eq!(branch_target(branch(from, to).unwrap(), from), Some(to));
        }
        assert_eq!(call_target(NOP, 0), None);
        let (stp, ret, cbz, beq) = (0xa9be_7bfd, 0xd65f_03c0, 0xb400_0040, 0x5400_0040);
        assert!([XRAY, ret, cbz, beq].into_iter().all(is_branch) && !is_branch(stp) && !is_branch(NOP));
        assert_eq!([XRAY, ret, cbz, beq].map(is_conditional), [false, false, true, true]);
    }
}
