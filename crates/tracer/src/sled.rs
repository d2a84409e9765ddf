//! Patches the chosen functions' sleds (5 bytes of nop) to call the recorder.
//!
//! Which, the `tally` that started the program has written into the folder; here they are only found in
//! memory and patched, before the program's own code runs.

use crate::entry_x86_64::entry_address;
use crate::layout;
use crate::sys::{self, Text};

/// What a patched sled calls: `jmp [rip + 0]` and the address. One per object, within reach of its code.
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
    let Some(stub) = make_stub(top) else { return };
    for segment in loads().filter(|segment| segment.flags & 1 != 0) {
        let from = (object.bias + segment.svma) as usize & !(PAGE_BYTES - 1);
        let to = (object.bias + segment.svma + segment.memory_bytes) as usize;
        if !sys::protect(from, to - from, sys::PROT.0 | sys::PROT.1) {
            continue;
        }
        for svma in layout::sled_addresses(sleds) {
            let at = object.bias.wrapping_add(svma) as usize;
            if at >= from && at + 5 <= to {
                patch_one(at, stub);
            }
        }
        sys::protect(from, to - from, sys::PROT.0 | sys::PROT.2);
    }
}

/// Turns the 5-byte nop at `at` into a call of `stub`; refuses anything else that stands there.
fn patch_one(at: usize, stub: usize) {
    const NOPS: [[u8; 5]; 2] = [[0x90; 5], [0x0f, 0x1f, 0x44, 0, 0]];
    let Ok(distance) = i32::try_from(stub as i64 - (at as i64 + 5)) else { return };
    // SAFETY: within a segment that was just made readable and writable.
    let code = unsafe { core::slice::from_raw_parts_mut(at as *mut u8, 5) };
    if !NOPS.iter().any(|nop| code == nop) {
        return;
    }
    code[0] = 0xe8;
    code[1..].copy_from_slice(&distance.to_le_bytes());
}

/// A page within ±2 GB of the object's code that goes on to the recorder.
fn make_stub(near: u64) -> Option<usize> {
    const REACH_BYTES: u64 = 1 << 30;
    const STEP_BYTES: u64 = 1 << 20;
    let first = (near as usize + PAGE_BYTES) & !(PAGE_BYTES - 1);
    for step in 0..REACH_BYTES / STEP_BYTES {
        let hint = first + (step * STEP_BYTES) as usize;
        let Some(page) = sys::map_memory(hint, PAGE_BYTES) else { return None };
        if (page as usize).abs_diff(first) < REACH_BYTES as usize {
            let mut code = [0u8; STUB_BYTES];
            code[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
            code[6..14].copy_from_slice(&entry_address().to_le_bytes());
            // SAFETY: a fresh page of ours.
            unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), page, STUB_BYTES) };
            return sys::protect(page as usize, PAGE_BYTES, sys::PROT.0 | sys::PROT.2)
                .then_some(page as usize);
        }
        sys::unmap(page, PAGE_BYTES);
    }
    None
}
