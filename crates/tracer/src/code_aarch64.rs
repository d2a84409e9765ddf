//! aarch64 code as the recorder finds and writes it: sleds, stubs, signed return addresses.

use core::arch::asm;

use crate::layout::sleds::{self, Sled, arm};
use crate::stubs::{Stubs, Way};

/// Bytes of a stub: `ldr x17, recorder`, `adr x16, data`, `br x17`, `b body`, then data and recorder.
pub const STUB_BYTES: usize = 32;
/// How far before a stub's data its branch to the function's body stands.
pub const STUB_BACK: u64 = 4;
/// How far stubs may lie from an object's code: a branch reaches 128 MB.
pub const REACH_BYTES: u64 = 96 << 20;
/// Bytes that are looked at where a sled is.
pub const SLED_BYTES_MAX: usize = 4;

const LDR_X17_RECORDER: u32 = 0x5800_00d1;
const ADR_X16_DATA: u32 = 0x1000_0070;
const BR_X17: u32 = 0xd61f_0220;

/// The stub at `at` that goes this way; `None` where that is too far.
pub fn stub(at: u64, way: &Way) -> Option<[u8; STUB_BYTES]> {
    let mut bytes = [0; STUB_BYTES];
    let go_on = match way.body {
        Some(body) => arm::branch(at + 12, body)?,
        None => arm::NOP,
    };
    for (to, word) in [LDR_X17_RECORDER, ADR_X16_DATA, BR_X17, go_on].into_iter().enumerate() {
        bytes[to * 4..to * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes[16..24].copy_from_slice(&way.what.to_le_bytes());
    bytes[24..].copy_from_slice(&way.recorder.to_le_bytes());
    Some(bytes)
}

/// Whether these bytes are a stub.
pub fn is_stub(code: &[u8; STUB_BYTES]) -> bool {
    arm::words(code).take(3).eq([LDR_X17_RECORDER, ADR_X16_DATA, BR_X17])
}

/// Turns the sled at `at` into a branch to a stub, the call of `_mcount` there into one of a stub, or either into a
/// nop; refuses anything else that stands there.
pub fn patch(at: usize, sled: &Sled, stubs: &mut Stubs) {
    // SAFETY: within a segment that was just made readable and writable; instructions are aligned words.
    let code = unsafe { &mut *(at as *mut u32) };
    let bytes = match *code {
        arm::NOP => 4,
        arm::XRAY => arm::XRAY_BYTES,
        word if arm::call_target(word, at as u64).is_some() => 4,
        _ => return,
    };
    let is_call = arm::call_target(*code, at as u64).is_some();
    let new = if sled.rules & sleds::OFF != 0 {
        is_call.then_some(arm::NOP)
    } else {
        let body = (at + bytes) as u64;
        let stub = match sled.rules {
            0 => stubs.add(body),
            _ => stubs.add_site(body, body, sled).map(|(stub, _)| stub),
        };
        let encode = if is_call { arm::call } else { arm::branch };
        stub.and_then(|stub| encode(at as u64, stub as u64))
    };
    if let Some(new) = new {
        // SAFETY: as above; a word is written at once, so that another thread finds the old or the new.
        unsafe { core::ptr::from_mut(code).write_volatile(new) };
    }
}

/// Makes code that was written known to the processor.
pub fn written(from: usize, to: usize) {
    let kinds: u64;
    // SAFETY: user space may read this register.
    unsafe { asm!("mrs {0}, ctr_el0", out(reg) kinds, options(nostack, nomem)) };
    // Layout: CTR_EL0: log2 words of the smallest data line in bits 19:16, of the instruction line in 3:0.
    let (data, code) = (4usize << (kinds >> 16 & 15), 4usize << (kinds & 15));
    for at in (from & !(data - 1)..to).step_by(data) {
        // SAFETY: cleans a line of memory that is mapped.
        unsafe { asm!("dc cvau, {0}", in(reg) at, options(nostack)) };
    }
    // SAFETY: orders memory.
    unsafe { asm!("dsb ish", options(nostack)) };
    for at in (from & !(code - 1)..to).step_by(code) {
        // SAFETY: as above.
        unsafe { asm!("ic ivau, {0}", in(reg) at, options(nostack)) };
    }
    // SAFETY: as above.
    unsafe { asm!("dsb ish", "isb", options(nostack)) };
}

/// A return address without a signature.
pub fn stripped(address: u64) -> u64 {
    let plain: u64;
    // SAFETY: `xpaclri`, which does nothing on processors without signatures.
    unsafe {
        asm!("mov x30, {0}", "hint #7", "mov {0}, x30", inlateout(reg) address => plain, out("x30") _,
             options(nostack, nomem));
    }
    plain
}

/// A return address signed as a function does that was entered with this stack pointer.
pub fn signed(address: u64, sp: u64) -> u64 {
    let signed: u64;
    // SAFETY: `pacia1716`, which does nothing on processors without signatures.
    unsafe {
        asm!("hint #8", inlateout("x17") address => signed, in("x16") sp, options(nostack, nomem));
    }
    signed
}

/// The stack pointer at the entry of the function whose prologue signs the return address and sets up the frame record
/// at `frame`, and that goes on at `address` behind its first call; `None` where its prologue is another.
pub fn entry_stack_pointer(address: u64, frame: u64) -> Option<u64> {
    const MOST_WORDS: usize = 64;
    // SAFETY: code of the function, or of what stands before it.
    let word = |back: usize| unsafe { *((address - 4 * back as u64) as *const u32) };
    let prologue = (2..MOST_WORDS).take_while(|back| !arm::is_branch(word(*back)));
    let first = prologue.filter(|back| word(*back) == arm::PACIASP).last()?;
    let mut below = 0;
    for code in (2..first).rev().map(word) {
        if let Some(bytes) = arm::frame_offset(code) {
            return Some((frame - bytes).wrapping_add(below));
        }
        below += arm::pushed(code);
    }
    None
}

/// Whether the function whose body a stub's branch leads to signs its return address before it makes a call.
///
/// # Safety
/// `branch` is the branch in a stub.
pub unsafe fn signs(branch: *const u32) -> bool {
    // SAFETY: as the caller says.
    let Some(body) = arm::branch_target(unsafe { *branch }, branch as u64) else { return false };
    // SAFETY: code of a loaded object, up to where the function is left.
    let words = (0..).map(|at| unsafe { *(body as *const u32).add(at) });
    words
        .take_while(|word| !arm::is_branch(*word) || arm::is_conditional(*word))
        .any(|word| word == arm::PACIASP)
}
