//! x86-64 code as the tracer finds and writes it: sleds and stubs.

use crate::entry::compiled_in;
use crate::layout::sleds::{self, CallForm, NOPS, Sled, XRAY};
use crate::patch::stubs::{StubTarget, Stubs};

pub use crate::layout::sleds::SLED_BYTES_MAX;

/// Bytes of a stub: `lea r11, [rip + what]`, `jmp [rip + tracer]`.
pub const STUB_BYTES: usize = 16;
/// Largest distance of stubs from an object's code.
pub const REACH_BYTES: u64 = 1 << 30;

/// The stub at `at` that goes this way; `None` where that is too far.
pub fn stub(at: u64, way: &StubTarget) -> Option<[u8; STUB_BYTES]> {
    let to_what = i32::try_from(way.what as i64 - (at as i64 + 7)).ok()?;
    let to_tracer = i32::try_from(way.tracer as i64 - (at as i64 + 13)).ok()?;
    let mut code = [0x90; STUB_BYTES];
    code[..3].copy_from_slice(&[0x4c, 0x8d, 0x1d]);
    code[3..7].copy_from_slice(&to_what.to_le_bytes());
    code[7..9].copy_from_slice(&[0xff, 0x25]);
    code[9..13].copy_from_slice(&to_tracer.to_le_bytes());
    Some(code)
}

/// Whether these bytes are a stub.
pub fn is_stub(code: &[u8; STUB_BYTES]) -> bool {
    code[..3] == [0x4c, 0x8d, 0x1d] && code[7..9] == [0xff, 0x25] && code[13..] == [0x90; 3]
}

/// Code that was written is known to the processor at once.
pub fn written(_from: usize, _to: usize) {}

/// Whether this is a bare `ret`, and so much of the nops that fill the space up to the next function that a jump fits.
pub fn is_empty_function(code: &[u8; 8]) -> bool {
    const FILL: [&[u8]; 4] = [&[0x66, 0x66, 0x2e, 0x0f], &[0x66, 0x2e, 0x0f, 0x1f], &[0x90; 4], &[0xcc; 4]];
    code[0] == 0xc3 && FILL.iter().any(|fill| code[1..].starts_with(fill))
}

/// `jmp [rip]`, and the address.
pub fn far_jump(to: u64) -> [u8; 14] {
    let mut jump = [0; 14];
    jump[..2].copy_from_slice(&[0xff, 0x25]);
    jump[6..].copy_from_slice(&to.to_le_bytes());
    jump
}

/// The word `old` at `at`, beginning with a jump; `None` where that is too far.
pub fn with_jump(old: u64, at: u64, to: u64) -> Option<u64> {
    let distance = i32::try_from(to as i64 - (at as i64 + 5)).ok()?;
    Some(old & !0xff_ffff_ffff | 0xe9 | u64::from(distance.cast_unsigned()) << 8)
}

/// Bytes of the sled in `code`, loaded at `at`; `None` if it isn't a sled.
fn sled_bytes(code: &[u8; SLED_BYTES_MAX], at: usize) -> Option<usize> {
    if NOPS.iter().any(|nop| code.starts_with(nop)) {
        return Some(5);
    }
    if *code == XRAY {
        return Some(XRAY.len());
    }
    match sleds::call_form(code)? {
        // The list's writer looked up that its target is the stub of one of ours.
        CallForm::Near(_) => Some(5),
        CallForm::Table(distance) => {
            let slot = (at + 6).wrapping_add_signed(distance as isize) as *const u64;
            if !slot.is_aligned() {
                return None;
            }
            // SAFETY: an instruction of the object's own reads there: its table, which is loaded.
            let target = unsafe { slot.read_volatile() };
            compiled_in().contains(&target).then_some(6)
        }
    }
}

/// Turns the sled at `at` into a jump to a stub (or a call of it), or into a nop; refuses any other code.
pub fn patch(at: usize, sled: &Sled, stubs: &mut Stubs) {
    const NOP_6: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0, 0];
    const CALL: u8 = 0xe8;
    const JUMP: u8 = 0xe9;
    const NOP: u8 = 0x90;
    // SAFETY: within a segment that was just made readable and writable, SLED_BYTES_MAX before its end.
    let code = unsafe { &mut *(at as *mut [u8; SLED_BYTES_MAX]) };
    let Some(bytes) = sled_bytes(code, at) else { return };
    let is_call = sled.rules & (sleds::CALL | sleds::REPORTED) != 0;
    if sled.is_nop() {
        match bytes {
            5 => code[..5].copy_from_slice(&NOPS[1]),
            6 => code[..6].copy_from_slice(&NOP_6),
            _ => {}
        }
        return;
    }
    let body = at + bytes;
    let function = (at as u64).wrapping_sub(sled.svma).wrapping_add(sled.function);
    let stub = match sled.rules {
        0 => stubs.add(body as u64),
        _ => {
            // A function that reports itself is identified by its own address.
            let addr = if sled.rules & sleds::REPORTED != 0 { function } else { body as u64 };
            stubs.add_site(body as u64, addr, sled).map(|(stub, _)| stub)
        }
    };
    let Some(stub) = stub else { return };
    let Ok(distance) = i32::try_from((stub as i64) - (at as i64 + 5)) else { return };
    code[0] = if is_call { CALL } else { JUMP };
    code[1..5].copy_from_slice(&distance.to_le_bytes());
    if is_call && bytes == 6 {
        code[5] = NOP;
    }
}
