//! Objects while they are loaded: patched before their constructors run (x86-64).
//!
//! The loader calls an empty function when the list of objects changes, for debuggers to stop there: last when the new
//! ones are mapped, before it relocates them and runs their constructors. That function is made to lead here. Slots of
//! tables are looked at after the load, when they are filled.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::{layout, start, sys};

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
    const NEAR_BYTES: u64 = 1 << 30;
    // SAFETY: a NUL-terminated name; NULL is RTLD_DEFAULT.
    let debug = unsafe { dlsym(core::ptr::null_mut(), c"_r_debug".as_ptr().cast()) };
    if debug.is_null() {
        return;
    }
    // SAFETY: the loader's structure of that name.
    let at = unsafe { (*debug.cast::<Debug>()).function };
    let mut code = [0; 8];
    if at % 8 != 0 || sys::read_memory(at, &mut code) != code.len() || !is_empty_function(&code) {
        return;
    }
    let near = (at + NEAR_BYTES / 2) as usize & !4095;
    let Some(stub) = sys::map_memory(near, 4096) else { return };
    let distance = i32::try_from(stub as i64 - (at as i64 + 5)).ok();
    let Some(distance) = distance else { return sys::unmap(stub, 4096) };
    // jmp [rip]: the address follows.
    let mut jump = [0; 14];
    jump[..2].copy_from_slice(&[0xff, 0x25]);
    jump[6..].copy_from_slice(&(told as *const () as u64).to_le_bytes());
    // SAFETY: fresh memory of ours, a page.
    unsafe { core::ptr::copy_nonoverlapping(jump.as_ptr(), stub, jump.len()) };
    let Some(old) = layout::words(&code).next() else { return };
    let jump = 0xe9 | u64::from(distance.cast_unsigned()) << 8;
    sys::protect(stub as usize, 4096, sys::PROT.0 | sys::PROT.2);
    DEBUG.store(debug as usize, Ordering::Release);
    put(at, old & !0xff_ffff_ffff | jump);
}

/// A bare `ret`, and so much of the nops that fill the space up to the next function that a jump fits.
fn is_empty_function(code: &[u8; 8]) -> bool {
    const FILL: [&[u8]; 4] = [&[0x66, 0x66, 0x2e, 0x0f], &[0x66, 0x2e, 0x0f, 0x1f], &[0x90; 4], &[0xcc; 4]];
    code[0] == 0xc3 && FILL.iter().any(|fill| code[1..].starts_with(fill))
}

fn put(at: u64, code: u64) {
    let (read, write, execute) = sys::PROT;
    let page = at as usize & !4095;
    if sys::protect(page, 4096, read | write | execute) {
        // SAFETY: aligned code of the loader's, writable now; a word is written at once, so that another thread finds the old
        // or the new.
        unsafe { (at as *mut u64).write_volatile(code) };
        sys::protect(page, 4096, read | execute);
    }
}

/// What the loader's function does now.
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
    if let Some(number) = start::mapped() {
        free.store(u64::from(sys::tid()) << 32 | (number + 1), Ordering::Relaxed);
    }
}

/// Numbers of maps whose objects this thread has loaded, and that are not all done.
pub fn take_pending() -> impl Iterator<Item = u64> {
    let tid = u64::from(sys::tid());
    let own = move |place: &&AtomicU64| place.load(Ordering::Relaxed) >> 32 == tid;
    PENDING.iter().filter(own).map(|place| (place.swap(0, Ordering::Relaxed) & 0xffff_ffff) - 1)
}
