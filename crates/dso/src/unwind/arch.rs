//! Differences between processors, as constants.

use crate::Machine;

/// Registers by DWARF number. All walks hold [`REGISTERS`] values; x86-64 uses the first 17.
pub(super) const REGISTERS: usize = 33;
/// Most registers a rule can restore.
pub(super) const SAVED: usize = 12;

/// One processor.
pub(super) trait Arch {
    /// Architecture whose object files have rules in its register numbers.
    const MACHINE: Machine;
    /// Stack pointer.
    const SP: usize;
    /// Program counter: the return address lands here.
    const PC: usize;
    /// The column of the return address: the pc itself, or the link register.
    const RA: usize;
    /// Frame pointer.
    const FP: usize;
    /// Registers a callee may save, in the order of a rule's offsets; the return address first.
    const CALLEE_SAVED: [u8; SAVED];
    /// Bytes of an address, and of a saved register.
    const WORD: u64 = 8;
    /// Whether a call leaves the return address in a register, so that a leaf may have no frame at all.
    const HAS_LINK_REGISTER: bool;

    /// A code address without signature bits.
    fn strip(address: u64) -> u64;
}

/// Filler for processors with fewer registers to save.
pub(super) const NO_REGISTER: u8 = u8::MAX;

/// x86-64.
// Source: System V ABI AMD64 figure 3.36: rbx 3, rbp 6, rsp 7, r8…r15, return address 16.
pub(super) struct X86;

impl Arch for X86 {
    const MACHINE: Machine = Machine::X86_64;
    const SP: usize = 7;
    const PC: usize = 16;
    const RA: usize = 16;
    const FP: usize = 6;
    const CALLEE_SAVED: [u8; SAVED] =
        [16, 6, 3, 12, 13, 14, 15, 10, NO_REGISTER, NO_REGISTER, NO_REGISTER, NO_REGISTER];
    const HAS_LINK_REGISTER: bool = false;

    fn strip(address: u64) -> u64 {
        address
    }
}

/// aarch64.
// Source: ARM IHI 0057 "DWARF for the Arm 64-bit Architecture" table 1: x0…x30, sp 31, pc 32.
pub(super) struct Arm64;

impl Arch for Arm64 {
    const MACHINE: Machine = Machine::Aarch64;
    const SP: usize = 31;
    const PC: usize = 32;
    const RA: usize = 30;
    const FP: usize = 29;
    const CALLEE_SAVED: [u8; SAVED] = [30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19];
    const HAS_LINK_REGISTER: bool = true;

    /// Return addresses may be signed (PAC) in the bits above the 48 of a user address;
    /// `DW_CFA_AARCH64_negate_ra_state` marks the signed ones, but cutting these bits off is right in both
    /// cases.
    fn strip(address: u64) -> u64 {
        address & 0x0000_ffff_ffff_ffff
    }
}

/// ARM, 32 bit.
// Source: ARM IHI 0040 "DWARF for the Arm Architecture" table 1: r0…r15, of which sp 13, lr 14, pc 15.
pub(super) struct Arm;

impl Arch for Arm {
    const MACHINE: Machine = Machine::Arm;
    const SP: usize = 13;
    const PC: usize = 15;
    const RA: usize = 14;
    const FP: usize = 11;
    const CALLEE_SAVED: [u8; SAVED] = [14, 11, 10, 9, 8, 7, 6, 5, 4, NO_REGISTER, NO_REGISTER, NO_REGISTER];
    const WORD: u64 = 4;
    const HAS_LINK_REGISTER: bool = true;

    /// The lowest bit of a return address is its instruction set: 1 is Thumb.
    fn strip(address: u64) -> u64 {
        address & 0xffff_fffe
    }
}
