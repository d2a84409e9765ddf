//! The fast half of the hooks on x86-64: what runs at every call and return.
//!
//! It keeps all registers but r11 (free at a function's start), touches no vector register, and writes an
//! event by first taking its place (`xadd`), so that a signal handler in between writes behind it. A frame
//! is written, taken, and written again for the same reason.
//
// Layout of `Thread`: pos 0, end 8, top 16, limit 24, tsc_high 32, addr_high 36. Of `Frame`: back 0, slot 8.

use core::arch::{asm, global_asm, naked_asm};

use crate::buffer::Thread;

const _: () = assert!(core::mem::offset_of!(Thread, pos) == 0);
const _: () = assert!(core::mem::offset_of!(Thread, end) == 8);
const _: () = assert!(core::mem::offset_of!(Thread, top) == 16);
const _: () = assert!(core::mem::offset_of!(Thread, limit) == 24);
const _: () = assert!(core::mem::offset_of!(Thread, tsc_high) == 32);
const _: () = assert!(core::mem::offset_of!(Thread, addr_high) == 36);
const _: () = assert!(size_of::<Thread>() <= 192);

global_asm!(
    r#"
    .section .tbss.tally_thread,"awT",@nobits
    .p2align 6
    .globl tally_thread
    .hidden tally_thread
    .type tally_thread, @object
    .size tally_thread, 192
tally_thread:
    .zero 192

    .text
    .p2align 4
    .globl tally_enter
    .hidden tally_enter
    .type tally_enter, @function
tally_enter:
    mov rcx, [rsp + 32]
    mov r11, [rip + tally_thread@GOTTPOFF]
    add r11, fs:[0]
    mov rax, [r11 + 16]
    cmp rax, [r11 + 24]
    jae 9f
    cmp [rax - 8], r10
    jbe 9f
    rdtsc
    cmp edx, [r11 + 32]
    jne 9f
    mov rdx, rcx
    shr rdx, 30
    cmp edx, [r11 + 36]
    jne 9f
    shl rcx, 34
    shr rcx, 2
    or rcx, rax
    bts rcx, 62
    bts rcx, 63
    mov rdx, [r11]
    cmp rdx, [r11 + 8]
    jae 9f
    mov eax, 8
    xadd [r11], rax
    mov [rax], rcx
    mov rax, [r11 + 16]
    mov rdx, [r10]
    mov [rax], rdx
    mov [rax + 8], r10
    add qword ptr [r11 + 16], 16
    mov [rax], rdx
    mov [rax + 8], r10
    lea rdx, [rip + tally_return]
    mov [r10], rdx
8:
    pop r10
    pop rdx
    pop rcx
    pop rax
    ret
9:
    push rdi
    push rsi
    push r8
    push r9
    push rbx
    mov rbx, rsp
    mov rdi, r11
    mov rsi, [rsp + 72]
    mov rdx, r10
    sub rsp, 144
    and rsp, -16
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    movups [rsp + 32], xmm2
    movups [rsp + 48], xmm3
    movups [rsp + 64], xmm4
    movups [rsp + 80], xmm5
    movups [rsp + 96], xmm6
    movups [rsp + 112], xmm7
    call tally_slow_enter
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    movups xmm2, [rsp + 32]
    movups xmm3, [rsp + 48]
    movups xmm4, [rsp + 64]
    movups xmm5, [rsp + 80]
    movups xmm6, [rsp + 96]
    movups xmm7, [rsp + 112]
    mov rsp, rbx
    pop rbx
    pop r9
    pop r8
    pop rsi
    pop rdi
    jmp 8b

    .p2align 4
    .globl tally_return
    .hidden tally_return
    .type tally_return, @function
    nop
tally_return:
    sub rsp, 8
    push rax
    push rdx
    mov r11, [rip + tally_thread@GOTTPOFF]
    add r11, fs:[0]
    lea rcx, [rsp + 16]
    mov r10, [r11 + 16]
    cmp [r10 - 8], rcx
    jne 9f
    rdtsc
    cmp edx, [r11 + 32]
    jne 9f
    mov rdx, [r11]
    cmp rdx, [r11 + 8]
    jae 9f
    bts rax, 62
    mov edx, 8
    xadd [r11], rdx
    mov [rdx], rax
    mov rax, [r10 - 16]
    sub qword ptr [r11 + 16], 16
    mov [rsp + 16], rax
    pop rdx
    pop rax
    ret
9:
    push rbx
    mov rbx, rsp
    mov rdi, r11
    mov rsi, rcx
    sub rsp, 64
    and rsp, -16
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    call tally_slow_exit
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    mov rsp, rbx
    pop rbx
    mov [rsp + 16], rax
    pop rdx
    pop rax
    ret

    .hidden rust_eh_personality
    .globl rust_eh_personality
rust_eh_personality:
    ud2
"#
);

unsafe extern "C" {
    fn tally_return();
}

/// What `-mfentry` and patched sleds call first of all: the return address stands above ours.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __fentry__() {
    naked_asm!("push rax", "push rcx", "push rdx", "push r10", "lea r10, [rsp + 40]", "jmp tally_enter")
}

/// What `-pg` calls after the prologue: the return address stands above the saved rbp.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn mcount() {
    naked_asm!("push rax", "push rcx", "push rdx", "push r10", "lea r10, [rbp + 8]", "jmp tally_enter")
}

/// The same under its other name.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn _mcount() {
    naked_asm!("push rax", "push rcx", "push rdx", "push r10", "lea r10, [rbp + 8]", "jmp tally_enter")
}

/// `-finstrument-functions`: goes on with the stack pointer as second argument.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_enter() {
    naked_asm!("lea rsi, [rsp + 8]", "jmp tally_cyg_enter")
}

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
before_unwinding!(_Unwind_Resume_or_Rethrow, "1");
before_unwinding!(_Unwind_ForcedUnwind, "2");
before_unwinding!(pthread_exit, "3");
before_unwinding!(longjmp, "4");
before_unwinding!(_longjmp, "5");
before_unwinding!(siglongjmp, "6");
before_unwinding!(__longjmp_chk, "7");

/// Where a patched sled goes: the same as a compiled-in `__fentry__` call.
pub fn entry_address() -> u64 {
    __fentry__ as *const () as u64
}

/// Where hooked functions return to.
pub fn return_address() -> u64 {
    tally_return as *const () as u64
}

/// This thread's state; all zero before its first call.
pub fn thread() -> *mut Thread {
    let at: *mut Thread;
    // SAFETY: reads the thread pointer and a constant of the loader's.
    unsafe {
        asm!("mov {0}, [rip + tally_thread@GOTTPOFF]", "add {0}, fs:[0]", out(reg) at,
             options(nostack, readonly));
    }
    at
}
