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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrumented_fn::Site;

    /// Code that stays where it is, of which the first bytes are these.
    fn code(first: &[u8]) -> &'static mut [u8; 64] {
        let code = Box::leak(Box::new([0xcc; 64]));
        code[..first.len()].copy_from_slice(first);
        code
    }

    fn patched(first: &[u8], rules: u32) -> (&'static [u8; 64], u64) {
        let code = code(first);
        let at = &raw mut *code as usize;
        let mut stubs = Stubs::new(at as u64, 1, 1, &[]).expect("memory is free near the code");
        let sled = Sled { svma: 0x1000, rules, spec: 0, depth: 0, min_ns: 0, function: 0x1000 };
        patch(at, &sled, &mut stubs);
        stubs.finish();
        (code, at as u64)
    }

    /// Value in r11 that the stub, jumped to (or called) from the code's start, hands over.
    fn handed_over(code: &[u8; 64], at: u64) -> u64 {
        let signed = |bytes: &[u8]| i64::from(i32::from_le_bytes(bytes.try_into().expect("four bytes")));
        let stub = (at as i64 + 5 + signed(&code[1..5])) as u64;
        // SAFETY: the stub that was just made; such memory is not given back.
        let stub_code = unsafe { *(stub as *const [u8; STUB_BYTES]) };
        assert!(is_stub(&stub_code));
        (stub as i64 + 7 + signed(&stub_code[3..7])) as u64
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory near the code")]
    fn a_sled_becomes_a_jump_to_a_stub_that_knows_the_body() {
        for (sled, bytes) in [(&NOPS[0][..], 5), (&NOPS[1][..], 5), (&XRAY[..], 11)] {
            let (code, at) = patched(sled, 0);
            assert_eq!((code[0], handed_over(code, at)), (0xe9, at + bytes));
            assert_eq!(code[11..], [0xcc; 53], "nothing after the sled is touched");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory near the code")]
    fn a_function_with_rules_hands_over_its_site() {
        let (code, at) = patched(&NOPS[1], sleds::ONLY);
        // SAFETY: sites are never unmapped.
        let site = unsafe { &*(handed_over(code, at) as *const Site) };
        assert_eq!((site.target, site.addr, site.rules), (at + 5, at + 5, sleds::ONLY));
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory near the code")]
    fn a_function_that_is_off_costs_one_nop_and_other_code_stays() {
        assert_eq!(patched(&NOPS[0], sleds::OFF).0[..5], NOPS[1]);
        let push = [0x55, 0x48, 0x89, 0xe5, 0x90];
        assert_eq!(patched(&push, 0).0[..5], push);
    }

    #[test]
    fn a_jump_keeps_the_bytes_after_it_and_does_not_reach_beyond_two_gigabytes() {
        let at = 0x5555_0000_0000;
        let word = with_jump(0x8877_6655_4433_2211, at, at + 0x1005).expect("near");
        assert_eq!(word.to_le_bytes(), [0xe9, 0, 0x10, 0, 0, 0x66, 0x77, 0x88]);
        assert_eq!(with_jump(0, at, at + (1 << 32)), None);
        assert_eq!(far_jump(0x0102)[..8], [0xff, 0x25, 0, 0, 0, 0, 2, 1]);
    }

    #[test]
    fn a_stub_too_far_from_what_it_names_is_refused() {
        let way = |what| StubTarget { what, body: None, tracer: 0x1000 };
        assert!(stub(0x2000, &way(0x1234)).is_some_and(|code| is_stub(&code)));
        assert_eq!(stub(0x2000, &way(1 << 40)), None);
    }
}
