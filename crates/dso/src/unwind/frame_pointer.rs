//! Code without rules (JIT, hand-written assembly, files stripped of .eh_frame): the chain of frame pointers,
//! helped by a look at the code where there is any.

use super::arch::{Arch, REGISTERS};
use super::arm::sigreturn;
use super::space::{AddressSpace, Mapped};
use super::stack::Stack;
use crate::Machine;

/// Result of the look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// The caller: where its return address was found, and the stack and frame pointer after the return.
    Caller { ra: u64, sp: u64, fp: u64 },
    /// The chain ends as it should: frame pointer 0, or a return address of 0.
    Root,
    /// The frame pointer is this many bytes past the end of the copied stack.
    StackEnd(u64),
    /// The register does not hold a frame pointer.
    No,
}

/// The position of a walk.
#[derive(Clone, Copy)]
pub(super) struct WalkState<'a> {
    pub registers: &'a [u64; REGISTERS],
    pub stack: Stack<'a>,
    pub space: &'a AddressSpace,
    /// The pc is where the thread was interrupted: possibly before its frame is set up.
    pub is_exact: bool,
}

/// A frame further above the stack pointer than this is not accepted.
const FRAME_LIMIT: u64 = 64 << 20;

/// The caller of the code at the registers' pc.
pub(super) fn guess<A: Arch>(at: &WalkState<'_>) -> Guess {
    let (pc, sp, fp) = (at.registers[A::PC], at.registers[A::SP], at.registers[A::FP]);
    let by_code =
        || if A::HAS_LINK_REGISTER { by_link_register::<A>(at) } else { by_prologue(at, pc, sp, fp) };
    if let Some(found) = at.is_exact.then(by_code).flatten() {
        return found;
    }
    if fp == 0 {
        return if at.is_exact { Guess::No } else { Guess::Root };
    }
    if fp < sp || !fp.is_multiple_of(A::WORD) || fp - sp > FRAME_LIMIT {
        return Guess::No;
    }
    let read = |address: u64| at.stack.read_sized(address, A::WORD);
    let (Some(next), Some(ra)) = (read(fp), read(fp.wrapping_add(A::WORD))) else {
        return Guess::StackEnd(fp.saturating_add(2 * A::WORD).saturating_sub(at.stack.end(sp)));
    };
    if A::strip(ra) == 0 {
        return Guess::Root;
    }
    // The caller may use the register for other things (crtbegin's __do_global_dtors_aux has a frame pointer and
    // no rules, ld.so which calls it has rules and no frame pointer): then the call before the return address vouches.
    let is_chain = next == 0 || next > fp;
    // In ARM code the register serves other things as well.
    let is_believed = is_chain && A::MACHINE != Machine::Arm;
    if !is_code(at.space, A::strip(ra)) || !is_believed && !follows_call::<A>(at.space, ra) {
        return Guess::No;
    }
    Guess::Caller { ra, sp: fp.wrapping_add(2 * A::WORD), fp: next }
}

/// Where the thread was interrupted at the very start or end of a function, or in one without a frame.
fn by_prologue(at: &WalkState<'_>, pc: u64, sp: u64, fp: u64) -> Option<Guess> {
    let on_top = |offset: u64| at.stack.read(sp.wrapping_add(offset));
    let code = code_at(at.space, pc);
    // The frame pointer pushed but not yet set: [sp] is the caller's, [sp + 8] the return address.
    const MOV_RSP_RBP: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
    if MOV_RSP_RBP.iter().any(|m| code.starts_with(m)) {
        let ra = on_top(8).filter(|ra| is_code(at.space, *ra))?;
        return Some(Guess::Caller { ra, sp: sp.wrapping_add(16), fp: on_top(0)? });
    }
    const PUSH_RBP: &[u8] = &[0x55];
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const RET: &[u8] = &[0xc3];
    let is_edge = [PUSH_RBP, ENDBR64, RET].iter().any(|m| code.starts_with(m)) || code.is_empty();
    let ra = on_top(0)?;
    // Without such a mark only a value that follows a call instruction is believed.
    let believed =
        if is_edge && !code.is_empty() { is_code(at.space, ra) } else { follows_x86_call(at.space, ra) };
    believed.then_some(Guess::Caller { ra, sp: sp.wrapping_add(8), fp })
}

/// A leaf on aarch64 may not have saved its link register yet.
fn by_link_register<A: Arch>(at: &WalkState<'_>) -> Option<Guess> {
    let (lr, sp, fp) = (at.registers[A::RA], at.registers[A::SP], at.registers[A::FP]);
    // If the frame record on the stack holds the same return address, the frame is set up.
    let saved = at.stack.read_sized(fp.wrapping_add(A::WORD), A::WORD);
    let is_set_up = saved.map(A::strip) == Some(A::strip(lr));
    (A::strip(lr) != 0 && !is_set_up && follows_call::<A>(at.space, lr)).then_some(Guess::Caller {
        ra: lr,
        sp,
        fp,
    })
}

fn is_code(space: &AddressSpace, address: u64) -> bool {
    space.find(address.wrapping_sub(1)).is_some()
}

/// Code bytes of the file at `address`; empty for JIT code and outside of all mappings.
fn code_at(space: &AddressSpace, address: u64) -> &[u8] {
    let Some(mapped) = space.find(address) else { return &[] };
    let svma = crate::Svma(address.wrapping_sub(mapped.bias));
    mapped.info.as_ref().and_then(|i| i.object().bytes_at(svma, 16)).unwrap_or(&[])
}

/// Whether a call returns to `address`, as far as can be seen: code without a file can't be read.
pub(super) fn is_after_call<A: Arch>(space: &AddressSpace, address: u64) -> bool {
    let mapped = space.find(A::strip(address).wrapping_sub(1));
    let is_trampoline = |mapped: &Mapped| {
        let svma = A::strip(address).wrapping_sub(mapped.bias);
        A::MACHINE == Machine::Arm
            && mapped.info.as_ref().is_some_and(|info| sigreturn::is_trampoline(info.object(), svma))
    };
    mapped.is_some_and(|mapped| {
        mapped.info.is_none() || follows_call::<A>(space, address) || is_trampoline(mapped)
    })
}

/// Whether the instruction before a return address is a call.
fn follows_call<A: Arch>(space: &AddressSpace, address: u64) -> bool {
    match A::MACHINE {
        Machine::Arm => follows_arm_call(space, address),
        Machine::Aarch64 => follows_bl(space, A::strip(address)),
        _ => follows_x86_call(space, address),
    }
}

/// Whether the instruction before a return address of 32-bit ARM is `bl` or `blx`; the lowest bit is 1 in Thumb code.
fn follows_arm_call(space: &AddressSpace, address: u64) -> bool {
    let half = |back: u64| {
        let code = code_at(space, (address & !1).wrapping_sub(back));
        code.get(..2).map_or(0, |c| u32::from(u16::from_le_bytes([c[0], c[1]])))
    };
    let (first, second) = (half(4), half(2));
    if address & 1 == 1 {
        let is_blx_register = second & 0xff87 == 0x4780;
        return is_blx_register || first & 0xf800 == 0xf000 && second & 0xc000 == 0xc000;
    }
    let word = second << 16 | first;
    word & 0x0f00_0000 == 0x0b00_0000
        || word & 0xfe00_0000 == 0xfa00_0000
        || word & 0x0fff_fff0 == 0x012f_ff30
}

/// Whether the bytes before `address` are a call: `e8 rel32`, or `ff /2` in one of its lengths.
fn follows_x86_call(space: &AddressSpace, address: u64) -> bool {
    let before = |n: u64| code_at(space, address.wrapping_sub(n));
    let indirect = |n: u64| {
        let code = before(n);
        code.first() == Some(&0xff) && code.get(1).is_some_and(|modrm| modrm >> 3 & 7 == 2)
    };
    before(5).first() == Some(&0xe8) || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

/// Whether the instruction before `address` is `bl` or `blr`.
fn follows_bl(space: &AddressSpace, address: u64) -> bool {
    let code = code_at(space, address.wrapping_sub(4));
    let Some(word) = code.get(..4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])) else {
        return false;
    };
    word >> 26 == 0b10_0101 || word & 0xffff_fc1f == 0xd63f_0000
}
