//! Patches the chosen functions' sleds to go to the tracer, and takes out compiled-in calls of others.
//!
//! A sled is a nop at a function's start (gcc's, clang's XRay) or a compiled-in call of `__fentry__`. It becomes a
//! jump to a stub of its own, which knows the function's body. Which, the `tally` that started the program has
//! written into the folder; here they are only found in memory and patched, before the program's own code runs.

use crate::layout::sleds::{self, Listed};
use crate::patch::code;
use crate::patch::import;
use crate::patch::object::{LoadedObject, each_listed};
use crate::patch::stubs::Stubs;
use crate::sys;

/// How far the loader is with an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LoadStage {
    /// It is mapped; tables are not filled.
    Mapped,
    /// All is done.
    Loaded,
}

/// Patches every sled listed in a file (a NUL-terminated path) that can be at this stage; false if the file
/// doesn't exist.
pub fn patch_listed(path: &[u8], stage: LoadStage) -> bool {
    let Some(list) = read_list(path) else { return false };
    each_listed(
        list,
        match stage {
            LoadStage::Mapped => |object, listed| patch(object, listed, LoadStage::Mapped),
            LoadStage::Loaded => |object, listed| patch(object, listed, LoadStage::Loaded),
        },
    );
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
    // SAFETY: within the mapping; the bytes after it were not written.
    sys::unmap(unsafe { memory.add(used) }, MAX_BYTES - used);
    // SAFETY: initialised up to `bytes` and never unmapped.
    let list = unsafe { core::slice::from_raw_parts(memory, bytes) };
    list.strip_prefix(&sleds::MAGIC)
}

fn patch(object: &LoadedObject, listed: Listed<'static>, stage: LoadStage) {
    let sites = listed.sleds().filter(|sled| sled.rules != 0 && !sled.is_nop()).count();
    let count = listed.sleds().filter(|sled| !sled.is_nop()).count();
    let Some(mut stubs) = Stubs::new(object.end(), count, sites, listed.specs) else { return };
    for part in object.code() {
        let (from, to) = part.pages(object.bias);
        if !make_writable(from, to - from) {
            continue;
        }
        for sled in listed.sleds().filter(|sled| sled.rules & sleds::IMPORT == 0) {
            let at = object.bias.wrapping_add(sled.svma);
            if at >= part.start(object.bias) && at + code::SLED_BYTES_MAX as u64 <= part.end(object.bias) {
                code::patch(at as usize, &sled, &mut stubs);
            }
        }
        code::written(from, to);
        sys::protect(from, to - from, sys::PROT.0 | sys::PROT.2);
    }
    if stage == LoadStage::Loaded {
        import::hook(object, listed.sleds().filter(|sled| sled.rules & sleds::IMPORT != 0), &mut stubs);
    }
    stubs.finish();
}

/// Code that may run meanwhile stays executable, where that is allowed.
fn make_writable(from: usize, bytes: usize) -> bool {
    let (read, write, execute) = sys::PROT;
    sys::protect(from, bytes, read | write | execute) || sys::protect(from, bytes, read | write)
}
