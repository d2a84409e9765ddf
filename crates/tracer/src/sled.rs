//! Patches the chosen functions' sleds to go to the recorder, and takes out compiled-in calls of others.
//!
//! A sled is a nop at a function's start (gcc's, clang's XRay) or a compiled-in call of `__fentry__`. It becomes a
//! jump to a stub of its own, which knows the function's body. Which, the `tally` that started the program has
//! written into the folder; here they are only found in memory and patched, before the program's own code runs.

use crate::entry_x86_64::compiled_in;
use crate::layout::sleds::{self, CallForm, Listed, NOPS, SLED_BYTES_MAX, Sled, XRAY};
use crate::object::{Object, each_listed};
use crate::stubs::Stubs;
use crate::{import, sys};

/// Patches every sled listed in a file (a NUL-terminated path); false when there is none.
pub fn patch_listed(path: &[u8]) -> bool {
    let Some(list) = read_list(path) else { return false };
    each_listed(list, patch);
    true
}

fn read_list(path: &[u8]) -> Option<&'static [u8]> {
    const STEP_BYTES: usize = 1 << 20;
    const MAX_BYTES: usize = 256 << 20;
    let file = sys::open(path, sys::READ_ONLY)?;
    let memory = sys::map_memory(0, MAX_BYTES)?;
    let mut bytes = 0;
    while bytes + STEP_BYTES <= MAX_BYTES {
        // SAFETY: within the mapping just made, which nobody else knows.
        let to = unsafe { core::slice::from_raw_parts_mut(memory.add(bytes), STEP_BYTES) };
        let n = sys::read(file, to);
        if n == 0 {
            break;
        }
        bytes += n;
    }
    sys::close(file);
    let used = (bytes + 1).next_multiple_of(4096);
    // SAFETY: within the mapping; what lies behind was not written.
    sys::unmap(unsafe { memory.add(used) }, MAX_BYTES - used);
    // SAFETY: initialised up to `bytes` and never unmapped.
    let list = unsafe { core::slice::from_raw_parts(memory, bytes) };
    list.strip_prefix(&sleds::MAGIC)
}

fn patch(object: &Object, listed: Listed<'static>) {
    let sites = listed.sleds().filter(|sled| sled.rules != 0 && sled.rules & sleds::OFF == 0).count();
    let count = listed.sleds().filter(|sled| sled.rules & sleds::OFF == 0).count();
    let Some(mut stubs) = Stubs::new(object.end(), count, sites, listed.specs) else { return };
    for code in object.code() {
        let (from, to) = code.pages(object.bias);
        if !make_writable(from, to - from) {
            continue;
        }
        for sled in listed.sleds().filter(|sled| sled.rules & sleds::IMPORT == 0) {
            let at = object.bias.wrapping_add(sled.svma);
            if at >= code.start(object.bias) && at + SLED_BYTES_MAX as u64 <= code.end(object.bias) {
                patch_one(at as usize, &sled, &mut stubs);
            }
        }
        sys::protect(from, to - from, sys::PROT.0 | sys::PROT.2);
    }
    import::hook(object, listed.sleds().filter(|sled| sled.rules & sleds::IMPORT != 0), &mut stubs);
    stubs.finish();
}

/// Code that may run meanwhile stays executable, where that is allowed.
fn make_writable(from: usize, bytes: usize) -> bool {
    let (read, write, execute) = sys::PROT;
    sys::protect(from, bytes, read | write | execute) || sys::protect(from, bytes, read | write)
}

/// Bytes of the sled that stands in `code`, loaded at `at`; `None` when it is none.
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

/// Turns the sled at `at` into a jump to a stub (or a call of it), or into a nop; refuses anything else that stands
/// there.
fn patch_one(at: usize, sled: &Sled, stubs: &mut Stubs) {
    const NOP_6: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0, 0];
    const CALL: u8 = 0xe8;
    const JUMP: u8 = 0xe9;
    const NOP: u8 = 0x90;
    // SAFETY: within a segment that was just made readable and writable, SLED_BYTES_MAX before its end.
    let code = unsafe { &mut *(at as *mut [u8; SLED_BYTES_MAX]) };
    let Some(bytes) = sled_bytes(code, at) else { return };
    if sled.rules & sleds::OFF != 0 {
        match bytes {
            5 => code[..5].copy_from_slice(&NOPS[1]),
            6 => code[..6].copy_from_slice(&NOP_6),
            _ => {}
        }
        return;
    }
    let body = at + bytes;
    let stub = match sled.rules {
        0 => stubs.add(body),
        _ => stubs.add_site(body as u64, body as u64, sled).map(|(stub, _)| stub),
    };
    let Some(stub) = stub else { return };
    let Ok(distance) = i32::try_from(stub as i64 - (at as i64 + 5)) else { return };
    code[0] = if sled.rules & sleds::CALL != 0 { CALL } else { JUMP };
    code[1..5].copy_from_slice(&distance.to_le_bytes());
    if sled.rules & sleds::CALL != 0 && bytes == 6 {
        code[5] = NOP;
    }
}
