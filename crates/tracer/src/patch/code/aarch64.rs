//! aarch64 code as the tracer finds and writes it: sleds, stubs, signed return addresses.

use core::arch::asm;

use crate::frame::{SIGNED, SIGNED_B};
use crate::layout::sleds::{self, Sled, arm};
use crate::patch::stubs::{StubTarget, Stubs};

/// Bytes of a stub: `ldr x17, tracer`, `adr x16, data`, `br x17`, `b body`, then data and tracer.
pub const STUB_BYTES: usize = 32;
/// Distance from a stub's branch to the function's body to the stub's data.
pub const STUB_BACK: u64 = 4;
/// Largest distance of stubs from an object's code: a branch reaches 128 MB.
pub const REACH_BYTES: u64 = 96 << 20;
/// Bytes that are looked at where a sled is.
pub const SLED_BYTES_MAX: usize = 4;

/// In a stub's data, whose addresses are multiples of 4: the function signs its return address before it makes a call …
const DATA_SIGNS: u64 = 1;
/// … with the other key.
const DATA_SIGNS_B: u64 = 2;

const LDR_X17_TRACER: u32 = 0x5800_00d1;
const ADR_X16_DATA: u32 = 0x1000_0070;
const BR_X17: u32 = 0xd61f_0220;

/// The stub at `at` that goes this way; `None` where that is too far.
pub fn stub(at: u64, way: &StubTarget) -> Option<[u8; STUB_BYTES]> {
    let mut bytes = [0; STUB_BYTES];
    let go_on = match way.body {
        Some(body) => arm::branch(at + 12, body)?,
        None => arm::NOP,
    };
    for (to, word) in [LDR_X17_TRACER, ADR_X16_DATA, BR_X17, go_on].into_iter().enumerate() {
        bytes[to * 4..to * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    let signs = match way.body.map_or(0, marks) {
        0 => 0,
        SIGNED => DATA_SIGNS,
        _ => DATA_SIGNS_B,
    };
    bytes[16..24].copy_from_slice(&(way.what | signs).to_le_bytes());
    bytes[24..].copy_from_slice(&way.tracer.to_le_bytes());
    Some(bytes)
}

/// Contents of a stub's data: the address of the function's body or of its site, and the marks of its frame.
pub const fn told(data: u64) -> (u64, u64) {
    let marks = match data & 3 {
        0 => 0,
        DATA_SIGNS => SIGNED,
        _ => SIGNED | SIGNED_B,
    };
    (data & !3, marks)
}

/// Whether these bytes are a stub.
pub fn is_stub(code: &[u8; STUB_BYTES]) -> bool {
    arm::words(code).take(3).eq([LDR_X17_TRACER, ADR_X16_DATA, BR_X17])
}

/// Turns the sled at `at` into a branch to a stub, the call of `_mcount` there into one of a stub, or either
/// into a nop; refuses any other code.
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
    let new = if sled.is_nop() {
        is_call.then_some(arm::NOP)
    } else {
        let body = (at + bytes) as u64;
        let function = (at as u64).wrapping_sub(sled.svma).wrapping_add(sled.function);
        let stub = match sled.rules {
            0 => stubs.add(body),
            // A function that reports itself is identified by its own address.
            rules if rules & sleds::REPORTED != 0 => {
                stubs.add_site(body, function, sled).map(|(stub, _)| stub)
            }
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

/// Whether this is a bare `ret`, optionally after `bti c`.
pub fn is_empty_function(code: &[u8; 8]) -> bool {
    let mut words = arm::words(code).skip_while(|word| *word == arm::BTI_C);
    words.next() == Some(arm::RET)
}

/// `ldr x16, .+8`, `br x16`, and the address.
pub fn far_jump(to: u64) -> [u8; 16] {
    let mut jump = [0; 16];
    jump[..4].copy_from_slice(&0x5800_0050u32.to_le_bytes());
    jump[4..8].copy_from_slice(&0xd61f_0200u32.to_le_bytes());
    jump[8..].copy_from_slice(&to.to_le_bytes());
    jump
}

/// The word `old` at `at` with a branch in the place of its `ret`; `None` where that is too far.
pub fn with_jump(old: u64, at: u64, to: u64) -> Option<u64> {
    let (first, second) = (old as u32, old >> 32);
    if first == arm::RET {
        Some(second << 32 | u64::from(arm::branch(at, to)?))
    } else {
        Some(u64::from(arm::branch(at + 4, to)?) << 32 | u64::from(first))
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

/// A return address signed as a function does that was entered with this stack pointer, with the key of these marks.
pub fn signed(address: u64, sp: u64, marks: u64) -> u64 {
    let signed: u64;
    // SAFETY: `pacib1716` or `pacia1716`, which do nothing on processors without signatures.
    unsafe {
        if marks & SIGNED_B != 0 {
            asm!("hint #10", inlateout("x17") address => signed, in("x16") sp, options(nostack, nomem));
        } else {
            asm!("hint #8", inlateout("x17") address => signed, in("x16") sp, options(nostack, nomem));
        }
    }
    signed
}

/// How an instruction signs the return address; `None` if it does not.
const fn signs(word: u32) -> Option<u64> {
    match word {
        arm::PACIASP => Some(SIGNED),
        arm::PACIBSP => Some(SIGNED | SIGNED_B),
        _ => None,
    }
}

/// The stack pointer at the entry of the function whose prologue signs the return address and sets up the frame
/// record at `frame`, and that continues at `address` after its first call, with the marks of how it signs;
/// `None` for any other prologue.
pub fn entry_stack_pointer(address: u64, frame: u64) -> Option<(u64, u64)> {
    const MOST_WORDS: usize = 64;
    // SAFETY: code of the function, or the bytes before it.
    let word = |back: usize| unsafe { *((address - 4 * back as u64) as *const u32) };
    let prologue = (2..MOST_WORDS).take_while(|back| !arm::is_branch(word(*back)));
    let (first, marks) = prologue.filter_map(|back| Some((back, signs(word(back))?))).last()?;
    let mut below = 0;
    for code in (2..first).rev().map(word) {
        if let Some(bytes) = arm::frame_offset(code) {
            return Some(((frame - bytes).wrapping_add(below), marks));
        }
        below += arm::pushed(code);
    }
    None
}

/// Marks of how the function with its body at `body` signs its return address before it makes a call; 0 if it
/// does not.
fn marks(body: u64) -> u64 {
    // SAFETY: code of a loaded object, up to where the function is left.
    let words = (0..).map(|at| unsafe { *(body as *const u32).add(at) });
    let mut before = words.take_while(|word| !arm::is_branch(*word) || arm::is_conditional(*word));
    before.find_map(signs).unwrap_or(0)
}
