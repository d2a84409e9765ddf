//! Functions that walk or leave stacks: before them our return addresses are put back.
//!
//! Each overrides the real one of the same name (this object is preloaded) and calls it.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::entry;
use crate::entry::hook;

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> *mut u8;
}

/// `RTLD_NEXT`.
const NEXT: *mut u8 = -1isize as *mut u8;

/// The next definition of a function, looked up once.
pub struct NextDefinition {
    name: &'static core::ffi::CStr,
    at: AtomicUsize,
}

impl NextDefinition {
    /// The function of this name.
    pub const fn new(name: &'static core::ffi::CStr) -> Self {
        Self { name, at: AtomicUsize::new(0) }
    }

    /// Address; the program can't go on without it.
    pub fn find(&self) -> usize {
        let mut at = self.at.load(Ordering::Relaxed);
        if at == 0 {
            // SAFETY: a NUL-terminated name.
            at = unsafe { dlsym(NEXT, self.name.as_ptr().cast()) } as usize;
            if at == 0 {
                crate::sys::write(
                    2,
                    b"tally: a function that the program calls is in none of its libraries\n",
                );
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
        static $real: NextDefinition = NextDefinition::new(match core::ffi::CStr::from_bytes_with_nul(
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

static FRAME: NextDefinition = NextDefinition::new(c"_Unwind_GetCFA");

/// The unwinder, asked by a language's own rules, is about to continue at a landing pad: the calls below it are
/// left. (C++ also reports that it caught; Rust does not.)
fn landed(context: usize) {
    type OpenCall = extern "C" fn(usize) -> u64;
    // SAFETY: the unwinder's function, with the context that it was itself given.
    let frame: OpenCall = unsafe { core::mem::transmute(FRAME.find()) };
    hook::caught(frame(context));
}

before!(_Unwind_SetIP, SET_IP, (context, address), landed(context), {});
before!(_Unwind_Backtrace, WALK, (each, argument), hook::unhook(entry::frame_record()), hook::rehook());
before!(backtrace, BACKTRACE, (to, count), hook::unhook(entry::frame_record()), hook::rehook());

/// Functions that unwind and do not come back: the assembly goes on to them without a frame of its own.
static UNWINDING: [NextDefinition; 9] = [
    NextDefinition::new(c"_Unwind_RaiseException"),
    NextDefinition::new(c"_Unwind_Resume"),
    NextDefinition::new(c"_Unwind_Resume_or_Rethrow"),
    NextDefinition::new(c"_Unwind_ForcedUnwind"),
    NextDefinition::new(c"pthread_exit"),
    NextDefinition::new(c"longjmp"),
    NextDefinition::new(c"_longjmp"),
    NextDefinition::new(c"siglongjmp"),
    NextDefinition::new(c"__longjmp_chk"),
];
/// From this index on they are forms of longjmp.
const FIRST_JUMP: u32 = 5;

/// Before an unwinder: puts the return addresses back. Before a longjmp: closes the calls it leaves.
/// The answer is the address of the real function to go on to; `first` is its first argument, and on aarch64
/// `record` the frame record made before.
///
/// # Safety
/// Called by the assembly only, with the program's own argument.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_before_unwinding(
    which: u32,
    first: *const u64,
    _second: usize,
    record: u64,
) -> usize {
    if which < FIRST_JUMP {
        hook::unhook(record);
    } else {
        // SAFETY: a jmp_buf that the program filled by setjmp.
        hook::left_below(unsafe { stack_pointer_of(first) });
    }
    UNWINDING.get(which as usize).map_or(0, NextDefinition::find)
}

/// The stack pointer that a jump goes back to.
///
/// # Safety
/// `buffer` is a jmp_buf filled by the C library's setjmp.
unsafe fn stack_pointer_of(buffer: *const u64) -> u64 {
    let guard = entry::jump_guard();
    // SAFETY: within the jmp_buf.
    let mixed = |at: usize| unsafe { *buffer.add(at) };
    if cfg!(target_arch = "aarch64") { mixed(13) ^ guard } else { mixed(6).rotate_right(17) ^ guard }
}

static CATCH: NextDefinition = NextDefinition::new(c"__cxa_begin_catch");

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
