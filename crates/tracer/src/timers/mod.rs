//! Samples a program from inside it, where the kernel gives no events: a timer on each thread's CPU time, whose
//! handler stores registers and a piece of the stack for the tally outside.
//!
//! The timer fires only while its thread uses the CPU, so no sleeping call is interrupted. The handler allocates, locks
//! and unwinds nothing.

mod alarm;
// A thread of Python is found by its thread pointer, which glibc has as its identity on x86-64 only.
#[cfg(target_arch = "x86_64")]
mod python;
mod sandbox;
mod slots;
mod threads;

use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::slots::{FILE_VARIABLE, kind};
use crate::sys;

pub use slots::Slots;

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// The environment as the program got it: at the top of the main thread's stack.
static TOP: AtomicU64 = AtomicU64::new(0);

/// A function of the C library by its name, from the first object after this one if `next`.
fn find(name: &core::ffi::CStr, next: bool) -> usize {
    let handle = if next { usize::MAX as *mut u8 } else { core::ptr::null_mut() };
    // SAFETY: a NUL-terminated name; the handles are RTLD_NEXT and RTLD_DEFAULT.
    unsafe { dlsym(handle, name.as_ptr().cast()) as usize }
}

/// The entries of the environment.
fn entries() -> impl Iterator<Item = *mut u8> {
    let environ = find(c"environ", false) as *const *const *mut u8;
    // SAFETY: the C library's variable, if there is one.
    let mut at = unsafe { environ.as_ref() }.copied().unwrap_or(core::ptr::null());
    core::iter::from_fn(move || {
        // SAFETY: the list ends with a null pointer, which was not met yet.
        let entry = unsafe { at.as_ref() }.copied().filter(|entry| !entry.is_null())?;
        // SAFETY: the end was not met.
        at = unsafe { at.add(1) };
        Some(entry)
    })
}

/// The value of a variable, in an entry of the environment.
fn value_in<'a>(entry: *mut u8, name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: entries of the environment are NUL-terminated.
    let text = unsafe { core::ffi::CStr::from_ptr(entry.cast()) }.to_bytes_with_nul();
    text.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"="))
}

/// Makes a variable unknown to a program that this one starts.
fn rename_variable(name: &[u8]) {
    for entry in entries().filter(|&entry| value_in(entry, name).is_some()) {
        // SAFETY: the first byte of an entry of the environment, which is writable memory.
        unsafe { entry.write(b'_') };
    }
}

/// The value of the variable that names the shared file, as a NUL-terminated path.
fn file_named() -> Option<sys::Text<512>> {
    let environ = find(c"environ", false) as *const *const *const u8;
    // SAFETY: the C library's variable, if there is one.
    let list = unsafe { environ.as_ref() }.copied().filter(|list| !list.is_null())?;
    TOP.store(list as u64, Ordering::Relaxed);
    let value = entries().find_map(|entry| value_in(entry, FILE_VARIABLE.as_bytes()))?;
    let mut path = sys::Text::new();
    path.push(value);
    Some(path)
}

/// The end of the stack that `sp` is on, as far as that is known without asking anybody: the main thread's ends at the
/// environment, all others below their thread pointer.
fn stack_end(sp: u64) -> u64 {
    let pointer = threads::thread_pointer();
    if sp < pointer { pointer } else { TOP.load(Ordering::Relaxed) }
}

extern "C" fn start() {
    let Some(path) = file_named() else { return };
    if Slots::map(path.bytes()).is_none() || !alarm::install() {
        return;
    }
    threads::prepare();
    slots::record_program(kind::EXEC);
    threads::begin();
}

extern "C" fn end() {
    if Slots::of_process().is_some() && !sandbox::is_off() {
        slots::record_program(kind::LAST);
    }
}

/// Overrides the C library's function of this name, and ends the process as it does.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: i32) -> ! {
    slots::tell(kind::GONE);
    sys::exit_group(status)
}

/// The C standard's name for it.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: i32) -> ! {
    _exit(status)
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

// Named by unwind tables of precompiled code that never unwinds here, because a panic aborts. Hidden: programs written
// in Rust have their own.
core::arch::global_asm!(
    ".pushsection .text",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    ".long 0",
    ".popsection",
);
