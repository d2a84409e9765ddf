//! Functions that walk or leave stacks: before them our return addresses are put back.
//!
//! Each stands before the real one of the same name (this object is preloaded) and calls it.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{hook, start};

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// `RTLD_NEXT`.
const NEXT: *mut u8 = -1isize as *mut u8;

/// The next definition of a function, looked up once.
struct Real {
    name: &'static core::ffi::CStr,
    at: AtomicUsize,
}

impl Real {
    const fn new(name: &'static core::ffi::CStr) -> Self {
        Self { name, at: AtomicUsize::new(0) }
    }

    /// Its address; the program can't go on without it.
    fn find(&self) -> usize {
        let mut at = self.at.load(Ordering::Relaxed);
        if at == 0 {
            // SAFETY: a NUL-terminated name.
            at = unsafe { dlsym(NEXT, self.name.as_ptr().cast()) } as usize;
            if at == 0 {
                crate::sys::write(2, b"tally: the C++ run-time library is missing a function it needs\n");
                crate::sys::exit_group(121);
            }
            self.at.store(at, Ordering::Relaxed);
        }
        at
    }
}

/// A function of ours before the real one, with what is done before and after.
macro_rules! before {
    ($name:ident, $real:ident, ($($arg:ident),*), $before:expr, $after:expr) => {
        static $real: Real = Real::new(match core::ffi::CStr::from_bytes_with_nul(
            concat!(stringify!($name), "\0").as_bytes(),
        ) {
            Ok(name) => name,
            Err(_) => c"",
        });

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: usize),*) -> usize {
            type Function = unsafe extern "C" fn($($arg: usize),*) -> usize;
            $before;
            // SAFETY: the real function of this name takes these arguments, all of register size.
            let real: Function = unsafe { core::mem::transmute($real.find()) };
            // SAFETY: called as the program called us.
            let answer = unsafe { real($($arg),*) };
            $after;
            answer
        }
    };
}

before!(_Unwind_Backtrace, WALK, (each, argument), hook::unhook(), hook::rehook());
before!(backtrace, BACKTRACE, (to, count), hook::unhook(), hook::rehook());
before!(dlopen, OPEN, (name, flags), (), start::write_maps());

/// Functions that unwind and do not come back: the assembly goes on to them without a frame of its own.
static UNWINDING: [Real; 4] = [
    Real::new(c"_Unwind_RaiseException"),
    Real::new(c"_Unwind_Resume_or_Rethrow"),
    Real::new(c"_Unwind_ForcedUnwind"),
    Real::new(c"pthread_exit"),
];

/// Puts the return addresses back; the address of the real function to go on to.
#[unsafe(no_mangle)]
extern "C" fn tally_before_unwinding(which: u32) -> usize {
    hook::unhook();
    UNWINDING.get(which as usize).map_or(0, Real::find)
}

static CATCH: Real = Real::new(c"__cxa_begin_catch");

/// `__cxa_begin_catch`, reached with the catching function's stack pointer in `sp`.
///
/// # Safety
/// Called by the assembly only, with the exception object that the landing pad was given.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_begin_catch(exception: usize, sp: u64) -> usize {
    hook::caught(sp);
    // SAFETY: the C++ ABI's signature.
    let real: extern "C" fn(usize) -> usize = unsafe { core::mem::transmute(CATCH.find()) };
    real(exception)
}
