//! Functions of other libraries that the tracer stands in for on aarch64: what unwinds, jumps, loads objects or restricts
//! system calls is inspected, then goes on as the real function.

use core::arch::naked_asm;

/// Goes on with the catching function's stack pointer as second argument.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cxa_begin_catch() {
    naked_asm!("mov x1, sp", "b tally_begin_catch")
}

/// A function that is inspected before it runs. Its first eight argument registers are preserved. `$before`
/// gets `$number`, the first two arguments and the address of a frame record, below which only the preserved
/// registers are stored. It returns the address of the real function.
macro_rules! before {
    ($before:literal: $($name:ident = $number:literal),*) => {$(
        #[doc = "Looked at first; then the real function of this name goes on, without a frame of ours."]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "mov x2, x1",
                "mov x1, x0",
                concat!("mov w0, #", $number),
                "mov x3, x29",
                concat!("bl ", $before),
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16"
            )
        }
    )*};
}

before!("tally_before_unwinding": _Unwind_RaiseException = "0", _Unwind_Resume = "1", _Unwind_Resume_or_Rethrow = "2",
    _Unwind_ForcedUnwind = "3", pthread_exit = "4", longjmp = "5", _longjmp = "6", siglongjmp = "7",
    __longjmp_chk = "8");
before!("tally_before_system_call": prctl = "0", syscall = "1");

/// Goes on to the real one from a place in the caller's object (see `tally_before_dlopen`), then looks what was loaded.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "mov x0, x30",
        "bl tally_before_dlopen",
        "mov x16, x1",
        "mov x17, x0",
        "ldp x0, x1, [sp, #16]",
        "cbz x17, 2f",
        // That place has `ldp x29, x30, [sp], #16` and `ret`.
        "adr x9, 3f",
        "stp x29, x9, [sp, #-16]!",
        "mov x30, x17",
        "br x16",
        "2:",
        "blr x16",
        "3:",
        "str x0, [sp, #16]",
        "bl tally_after_dlopen",
        "ldr x0, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
    )
}
