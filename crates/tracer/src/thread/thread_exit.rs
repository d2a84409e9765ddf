//! The end of a thread: its file is closed, its memory given back.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// The key whose destructor the C library calls as a thread ends; the highest number: there is none.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// `pthread_setspecific`.
static SET: AtomicUsize = AtomicUsize::new(0);

/// Once per process, before any thread records: `ending` is called as a thread ends, and passes its argument to
/// [`watch_on`].
pub fn prepare(ending: extern "C" fn(usize)) {
    type Create = extern "C" fn(*mut u32, extern "C" fn(usize)) -> i32;
    // SAFETY: NUL-terminated names; NULL is RTLD_DEFAULT.
    let (create, set) = unsafe {
        let find = |name: &core::ffi::CStr| dlsym(core::ptr::null_mut(), name.as_ptr().cast());
        (find(c"pthread_key_create"), find(c"pthread_setspecific"))
    };
    if create.is_null() || set.is_null() {
        return;
    }
    // SAFETY: POSIX gives the function this signature.
    let create: Create = unsafe { core::mem::transmute(create) };
    let mut key = 0;
    if create(&raw mut key, ending) == 0 {
        SET.store(set as usize, Ordering::Relaxed);
        KEY.store(key, Ordering::Release);
    }
}

/// Has this thread's end recorded after `rounds` rounds of the program's own destructors.
fn watch(rounds: usize) {
    type Set = extern "C" fn(u32, usize) -> i32;
    let key = KEY.load(Ordering::Acquire);
    if key != u32::MAX {
        // SAFETY: POSIX gives the function this signature, and `prepare` found it.
        let set: Set = unsafe { core::mem::transmute(SET.load(Ordering::Relaxed)) };
        set(key, rounds + 1);
    }
}

/// This thread records: its end has to be recorded, too.
pub fn enlist() {
    // The C library makes four rounds; what other destructors call in the first ones is still recorded.
    watch(2);
}

/// Waits for another round of the program's destructors; false if that was the last.
pub fn watch_on(rounds: usize) -> bool {
    let left = rounds.saturating_sub(1);
    if left > 0 {
        watch(left - 1);
    }
    left > 0
}
