//! Objects while they are loaded: patched before their constructors run.
//!
//! The loader calls an empty function when the list of objects changes, for debuggers to stop there: last when the new
//! ones are mapped, before it relocates them and runs their constructors. That function is made to lead here. Slots of
//! tables are looked at after the load, when they are filled.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::patch::code;
use crate::process::init;
use crate::{layout, sys};

// Layout: struct r_debug { int r_version; struct link_map *r_map; Addr r_brk; enum { RT_CONSISTENT, RT_ADD, RT_DELETE }
// r_state; … }. Source: glibc elf/link.h.
#[repr(C)]
struct Debug {
    version: i32,
    map: usize,
    function: u64,
    state: i32,
}

const CONSISTENT: i32 = 0;
const ADDING: i32 = 1;

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// The loader's [`Debug`].
static DEBUG: AtomicUsize = AtomicUsize::new(0);
/// Objects are being added; guarded by the loader's own lock.
static IS_ADDING: AtomicBool = AtomicBool::new(false);
/// Maps whose objects are not all done: their number and one, below the number of the thread that loads them; 0: none.
static PENDING: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Leads the loader's function here, if it is the empty one that is known.
pub fn prepare() {
    const NEAR_BYTES: u64 = code::REACH_BYTES;
    // SAFETY: a NUL-terminated name; NULL is RTLD_DEFAULT.
    let debug = unsafe { dlsym(core::ptr::null_mut(), c"_r_debug".as_ptr().cast()) };
    if debug.is_null() {
        return;
    }
    // SAFETY: the loader's structure of that name.
    let at = unsafe { (*debug.cast::<Debug>()).function };
    let mut code = [0; 8];
    if at % 8 != 0 || sys::read_memory(at, &mut code) != code.len() || !code::is_empty_function(&code) {
        return;
    }
    let near = (at + NEAR_BYTES / 2) as usize & !4095;
    let Some(stub) = sys::map_memory(near, 4096) else { return };
    let way = code::far_jump(told as *const () as u64);
    // SAFETY: fresh memory of ours, a page.
    unsafe { core::ptr::copy_nonoverlapping(way.as_ptr(), stub, way.len()) };
    code::written(stub as usize, stub as usize + way.len());
    let word = layout::words(&code).next();
    let Some(jump) = word.and_then(|old| code::with_jump(old, at, stub as u64)) else {
        return sys::unmap(stub, 4096);
    };
    sys::protect(stub as usize, 4096, sys::PROT.0 | sys::PROT.2);
    DEBUG.store(debug as usize, Ordering::Release);
    put(at, jump);
}

fn put(at: u64, word: u64) {
    let (read, write, execute) = sys::PROT;
    let page = at as usize & !4095;
    if sys::protect(page, 4096, read | write | execute) {
        // SAFETY: aligned code of the loader's, writable now; a word is written at once, so that another thread finds the old
        // or the new.
        unsafe { (at as *mut u64).write_volatile(word) };
        code::written(at as usize, at as usize + 8);
        sys::protect(page, 4096, read | execute);
    }
}

/// Current action of the loader's function.
extern "C" fn told() {
    let debug = DEBUG.load(Ordering::Acquire) as *const Debug;
    // SAFETY: the loader's structure, which stays.
    match unsafe { (&raw const (*debug).state).read_volatile() } {
        ADDING => IS_ADDING.store(true, Ordering::Relaxed),
        CONSISTENT if IS_ADDING.swap(false, Ordering::Relaxed) => mapped(),
        _ => {}
    }
}

fn mapped() {
    let Some(free) = PENDING.iter().find(|place| place.load(Ordering::Relaxed) == 0) else { return };
    if let Some(number) = init::mapped() {
        free.store(u64::from(sys::tid()) << 32 | (number + 1), Ordering::Relaxed);
    }
}

/// Numbers of maps whose objects this thread has loaded, and that are not all done.
pub fn take_pending() -> impl Iterator<Item = u64> {
    let tid = u64::from(sys::tid());
    let own = move |place: &&AtomicU64| place.load(Ordering::Relaxed) >> 32 == tid;
    PENDING.iter().filter(own).map(|place| (place.swap(0, Ordering::Relaxed) & 0xffff_ffff) - 1)
}
