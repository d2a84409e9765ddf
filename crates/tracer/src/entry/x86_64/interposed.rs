//! Functions of other libraries that the tracer stands in for on x86-64: what unwinds, jumps, loads objects or restricts
//! system calls is inspected, then goes on as the real function.

use core::arch::naked_asm;

/// Goes on with the catching function's stack pointer as second argument.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cxa_begin_catch() {
    naked_asm!("lea rsi, [rsp + 8]", "jmp tally_begin_catch")
}

/// A function that unwinds or jumps: the stack is made ready for it, then it goes on without a frame of ours.
macro_rules! before_unwinding {
    ($name:ident, $number:literal) => {
        #[doc = "Makes the stack ready, then goes on to the real function of this name."]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "mov rsi, rdi",
                concat!("mov edi, ", $number),
                "call tally_before_unwinding",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax"
            )
        }
    };
}

before_unwinding!(_Unwind_RaiseException, "0");
before_unwinding!(_Unwind_Resume, "1");
before_unwinding!(_Unwind_Resume_or_Rethrow, "2");
before_unwinding!(_Unwind_ForcedUnwind, "3");
before_unwinding!(pthread_exit, "4");
before_unwinding!(longjmp, "5");
before_unwinding!(_longjmp, "6");
before_unwinding!(siglongjmp, "7");
before_unwinding!(__longjmp_chk, "8");

/// Goes on to the real one from a place in the caller's object (see `tally_before_dlopen`), then looks what was loaded.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdi, [rsp + 24]",
        "call tally_before_dlopen",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "xor ecx, ecx",
        "rdsspq rcx",
        "test rcx, rcx",
        "jnz 2f",
        "test rax, rax",
        "jz 2f",
        "lea rcx, [rip + 3f]",
        "push rcx",
        "push rax",
        "jmp rdx",
        "2:",
        "sub rsp, 8",
        "call rdx",
        "add rsp, 8",
        "3:",
        "push rax",
        "call tally_after_dlopen",
        "pop rax",
        "ret",
    )
}

/// A function of up to seven arguments that may restrict system calls: looked at, then gone on to.
macro_rules! before_system_call {
    ($name:ident, $number:literal) => {
        #[doc = "Looks whether system calls are to be restricted, then goes on to the real function of this name."]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "mov rdx, rsi",
                "mov rsi, rdi",
                concat!("mov edi, ", $number),
                "call tally_before_system_call",
                "mov r11, rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "pop rax",
                "jmp r11"
            )
        }
    };
}

before_system_call!(prctl, "0");
before_system_call!(syscall, "1");
