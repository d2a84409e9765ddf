//! Patches the chosen functions' sleds to go to the recorder, and takes out compiled-in calls of others.
//!
//! A sled is a nop at a function's start (gcc's, clang's XRay) or a compiled-in call of `__fentry__`. It becomes a
//! jump to a stub of its own, which knows the function's body. Which, the `tally` that started the program has
//! written into the folder; here they are only found in memory and patched, before the program's own code runs.

use crate::entry_x86_64::{compiled_in, sled_addresses};
use crate::layout::{self, CallForm, NOPS, SLED_BYTES_MAX, XRAY};
use crate::sys::{self, Text};

/// A stub: `lea r11, [rip + body]`, `jmp [rip + recorder]`. Before an object's first, the recorder's addresses.
const STUB_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;

/// One loaded object as the loader tells it.
// Layout: struct dl_phdr_info { Addr dlpi_addr; const char *dlpi_name; const Phdr *dlpi_phdr; Half dlpi_phnum; … }
// Source: glibc elf/link.h.
#[repr(C)]
struct Loaded {
    bias: u64,
    name: *const u8,
    headers: *const Segment,
    count: u16,
}

// Layout: Elf64_Phdr. Source: System V gABI, "Program Header".
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    svma: u64,
    paddr: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

unsafe extern "C" {
    fn dl_iterate_phdr(each: extern "C" fn(*const Loaded, usize, *mut u8) -> i32, data: *mut u8) -> i32;
}

/// The sled list as read.
struct Work {
    list: &'static [u8],
}

/// Patches every sled listed in the folder of `path` (which ends in `/`).
pub fn patch_all<const N: usize>(mut path: Text<N>) {
    path.push(layout::SLEDS_NAME.as_bytes()).push(b"\0");
    let Some(list) = read_list(path.bytes()) else { return };
    let mut work = Work { list };
    // SAFETY: the callback matches the loader's contract and uses `work` only during the call.
    unsafe { dl_iterate_phdr(patch_object, (&raw mut work).cast()) };
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
    // SAFETY: initialised up to `bytes` and never unmapped.
    let list = unsafe { core::slice::from_raw_parts(memory, bytes) };
    list.strip_prefix(&layout::SLEDS_MAGIC)
}

extern "C" fn patch_object(object: *const Loaded, _bytes: usize, data: *mut u8) -> i32 {
    // SAFETY: the loader passes a valid object and our own `Work`.
    let object = unsafe { &*object };
    // SAFETY: as above.
    let work = unsafe { &mut *data.cast::<Work>() };
    let mut name = [0; 4096];
    let bytes = name_of(object, &mut name);
    let mut rest = work.list;
    while let Some((path, sleds, after)) = layout::next_sled_object(rest) {
        if path == &name[..bytes] {
            patch(object, sleds);
        }
        rest = after;
    }
    0
}

/// The object's path; the program itself has no name there and is asked of /proc.
fn name_of(object: &Loaded, to: &mut [u8]) -> usize {
    let mut bytes = 0;
    // SAFETY: a NUL-terminated string of the loader's.
    while !object.name.is_null() && bytes < to.len() && unsafe { *object.name.add(bytes) } != 0 {
        // SAFETY: as above.
        to[bytes] = unsafe { *object.name.add(bytes) };
        bytes += 1;
    }
    if bytes == 0 { sys::read_link(b"/proc/self/exe\0", to) } else { bytes }
}

fn patch(object: &Loaded, sleds: &[u8]) {
    // SAFETY: `count` program headers stand there.
    let segments = unsafe { core::slice::from_raw_parts(object.headers, usize::from(object.count)) };
    let loads = || segments.iter().filter(|segment| segment.kind == 1);
    let top = loads().map(|segment| object.bias + segment.svma + segment.memory_bytes).max().unwrap_or(0);
    let count = layout::sled_addresses(sleds).filter(|svma| svma & layout::SLED_OFF == 0).count();
    let Some(mut stubs) = Stubs::new(top, count) else { return };
    for segment in loads().filter(|segment| segment.flags & 1 != 0) {
        let from = (object.bias + segment.svma) as usize & !(PAGE_BYTES - 1);
        let to = (object.bias + segment.svma + segment.memory_bytes) as usize;
        if !sys::protect(from, to - from, sys::PROT.0 | sys::PROT.1) {
            continue;
        }
        for listed in layout::sled_addresses(sleds) {
            let at = object.bias.wrapping_add(listed & !layout::SLED_RULES) as usize;
            if at >= from && at + SLED_BYTES_MAX <= to {
                patch_one(at, listed & layout::SLED_RULES, &mut stubs);
            }
        }
        sys::protect(from, to - from, sys::PROT.0 | sys::PROT.2);
    }
    stubs.finish();
}

/// Bytes of the sled that stands in `code`, loaded at `at`; `None` when it is none.
fn sled_bytes(code: &[u8; SLED_BYTES_MAX], at: usize) -> Option<usize> {
    if NOPS.iter().any(|nop| code.starts_with(nop)) {
        return Some(5);
    }
    if *code == XRAY {
        return Some(XRAY.len());
    }
    match layout::call_form(code)? {
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

/// Turns the sled at `at` into a jump to a stub, or into a nop, as `rules` say; refuses anything else that stands there.
fn patch_one(at: usize, rules: u64, stubs: &mut Stubs) {
    const NOP_6: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0, 0];
    // SAFETY: within a segment that was just made readable and writable, SLED_BYTES_MAX before its end.
    let code = unsafe { &mut *(at as *mut [u8; SLED_BYTES_MAX]) };
    let Some(bytes) = sled_bytes(code, at) else { return };
    if rules & layout::SLED_OFF != 0 {
        match bytes {
            5 => code[..5].copy_from_slice(&NOPS[1]),
            6 => code[..6].copy_from_slice(&NOP_6),
            _ => {}
        }
        return;
    }
    let Some(stub) = stubs.add(at + bytes, rules) else { return };
    let Ok(distance) = i32::try_from(stub as i64 - (at as i64 + 5)) else { return };
    code[0] = 0xe9;
    code[1..5].copy_from_slice(&distance.to_le_bytes());
}

/// An object's stubs, within ±2 GB of its code.
struct Stubs {
    memory: *mut u8,
    bytes: usize,
    used: usize,
}

impl Stubs {
    /// Room for `count` stubs near `near`.
    fn new(near: u64, count: usize) -> Option<Self> {
        const REACH_BYTES: u64 = 1 << 30;
        const STEP_BYTES: u64 = 1 << 20;
        let recorders = sled_addresses();
        let head = size_of_val(&recorders).next_multiple_of(STUB_BYTES);
        let bytes = (head + STUB_BYTES * count).next_multiple_of(PAGE_BYTES);
        let first = (near as usize + PAGE_BYTES) & !(PAGE_BYTES - 1);
        for step in 0..REACH_BYTES / STEP_BYTES {
            let hint = first + (step * STEP_BYTES) as usize;
            let memory = sys::map_memory(hint, bytes)?;
            if (memory as usize).abs_diff(first) < REACH_BYTES as usize {
                // SAFETY: fresh memory of ours, at least a page.
                unsafe { memory.cast::<[u64; 5]>().write(recorders) };
                return Some(Self { memory, bytes, used: head });
            }
            sys::unmap(memory, bytes);
        }
        None
    }

    /// A stub that hands `body` to the recorder; its address. The first of its rules counts.
    fn add(&mut self, body: usize, rules: u64) -> Option<usize> {
        let known = [layout::SLED_NOT, layout::SLED_ONLY, layout::SLED_START, layout::SLED_STOP];
        let recorder = known.iter().position(|rule| rules & rule != 0).map_or(0, |at| at + 1);
        if self.used + STUB_BYTES > self.bytes {
            return None;
        }
        // SAFETY: within the mapping, as just checked.
        let at = unsafe { self.memory.add(self.used) };
        let stub = at as usize;
        let to_body = i32::try_from(body as i64 - (stub as i64 + 7)).ok()?;
        let pointer = self.memory as i64 + (recorder * size_of::<u64>()) as i64;
        let to_recorder = i32::try_from(pointer - (stub as i64 + 13)).ok()?;
        let mut code = [0x90; STUB_BYTES];
        code[..3].copy_from_slice(&[0x4c, 0x8d, 0x1d]);
        code[3..7].copy_from_slice(&to_body.to_le_bytes());
        code[7..9].copy_from_slice(&[0xff, 0x25]);
        code[9..13].copy_from_slice(&to_recorder.to_le_bytes());
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), at, STUB_BYTES) };
        self.used += STUB_BYTES;
        Some(stub)
    }

    /// All are written: from now on they are code.
    fn finish(self) {
        sys::protect(self.memory as usize, self.bytes, sys::PROT.0 | sys::PROT.2);
    }
}
