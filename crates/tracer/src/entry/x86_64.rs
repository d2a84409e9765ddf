//! The fast half of the hooks on x86-64, which runs at every call and return.
//!
//! It touches no vector register and writes an event by first taking its place (`xadd`), so that a signal
//! handler in between writes after it. A frame's slot is written first and looked at again when the frame is
//! taken: a handler in between has used the same place.
//!
//! A call that makes no other needs one event: its exit turns the entry into a *leaf*. That is done only while
//! the entry is the last event, and undone if a handler wrote there meanwhile. `last_pos` identifies the event
//! whose time `last` is, and is 0 while the two do not agree.
//!
//! Two ways back to the tracer. *Sleds* jump to a stub that calls the function's body: its return lands here
//! and ours goes to the caller, as the processor predicts (and as a shadow stack wants it). Where the function
//! has its frame already (`mcount`), its return address is replaced, and the way on is a jump.
//
// Layout of `Thread`: pos 0, end 8, top 16, limit 24, tsc_high 32, addr_high 36, last 40, last_pos 48,
// min_ticks 56. Layout of `OpenCall`, below top: back -32, slot -24, at -16, before -8.

mod interposed;

use core::arch::{asm, global_asm, naked_asm};

use crate::entry::cyg_profile::ReportedRegisters;
use crate::frame::OpenCall;
use crate::instrumented_fn::Site;
use crate::registers::Registers;
use crate::thread::ThreadState;

const _: () = assert!(core::mem::offset_of!(ThreadState, pos) == 0);
const _: () = assert!(core::mem::offset_of!(ThreadState, end) == 8);
const _: () = assert!(core::mem::offset_of!(ThreadState, top) == 16);
const _: () = assert!(core::mem::offset_of!(ThreadState, limit) == 24);
const _: () = assert!(core::mem::offset_of!(ThreadState, tsc_high) == 32);
const _: () = assert!(core::mem::offset_of!(ThreadState, addr_high) == 36);
const _: () = assert!(core::mem::offset_of!(ThreadState, last) == 40);
const _: () = assert!(core::mem::offset_of!(ThreadState, last_pos) == 48);
const _: () = assert!(core::mem::offset_of!(ThreadState, min_ticks) == 56);
const _: () =
    assert!(core::mem::offset_of!(OpenCall, back) == 0 && core::mem::offset_of!(OpenCall, slot) == 8);
const _: () =
    assert!(core::mem::offset_of!(OpenCall, at) == 16 && core::mem::offset_of!(OpenCall, before) == 24);
const _: () = assert!(size_of::<OpenCall>() == 32);
const _: () = assert!(core::mem::offset_of!(Site, target) == 0 && core::mem::offset_of!(Site, addr) == 8);
const _: () =
    assert!(core::mem::offset_of!(ReportedRegisters, site) == 384 && size_of::<ReportedRegisters>() == 392);
const _: () =
    assert!(core::mem::offset_of!(Registers, slot) == 48 && core::mem::offset_of!(Registers, site) == 56);

// Code that mcount and __fentry__ calls go on to.
global_asm!(
    r#"
    .text
    .p2align 5
    .globl tally_enter
    .hidden tally_enter
    .type tally_enter, @function
tally_enter:
    push r9
    mov rcx, [rsp + 40]
"#,
    open_call!("tally_enter_slow", "tally_enter_tail", "", "mov rax, [r10]\n"),
    r#"
    lea rdx, [rip + tally_return]
    mov [r10], rdx
tally_enter_end:
    pop r9
    pop r10
    pop rdx
    pop rcx
    pop rax
    ret
tally_enter_slow:
"#,
    slow_entry!("0"),
    "jmp tally_enter_end\n",
    "tally_enter_tail:\n",
    tail_call!("tally_enter_slow"),
    "jmp tally_enter_end\n.p2align 5\nnop\n",
    return_hook!("tally_return", "jmp rcx\n"),
);

// Where the stub of a patched sled goes: r11 is the function's body.
global_asm!(
    r#"
    .text
    .p2align 5
    .globl tally_sled
    .hidden tally_sled
    .type tally_sled, @function
tally_sled:
"#,
    save_used!(),
    r#"
    mov rcx, r11
    push r11
    lea r10, [rsp + 48]
"#,
    open_call!("tally_sled_slow", "tally_sled_tail", "", "mov rax, [r10]\n"),
    restore_used!(),
    r#"
    .hidden tally_sled_call
    .globl tally_sled_call
tally_sled_call:
    add rsp, 8
    call r11
"#,
    return_hook!("tally_sled_return", "push rcx\nret\n"),
    "tally_sled_slow:\n",
    slow_entry!("1"),
    r#"
    jmp tally_sled_end
tally_sled_tail:
"#,
    tail_call!("tally_sled_slow"),
    r#"
    cmp eax, eax
    .hidden tally_sled_end
    .globl tally_sled_end
tally_sled_end:
"#,
    restore_used!(),
    r#"
    jnz tally_sled_call
    jmp r11
"#,
);

// Where the stub of an imported function goes: r11 is its site, which holds the function (at first perhaps the
// loader's code that finds it) and the address that represents it.
global_asm!(
    r#"
    .text
    .p2align 5
    .globl tally_import
    .hidden tally_import
    .type tally_import, @function
tally_import:
"#,
    save_used!(),
    r#"
    mov rcx, [r11 + 8]
    push r11
    lea r10, [rsp + 48]
"#,
    open_call!("tally_import_slow", "tally_import_tail", "", "mov rax, [r10]\n"),
    restore_used!(),
    r#"
    mov r11, [r11]
    jmp tally_sled_call
tally_import_slow:
"#,
    slow_entry!("1"),
    r#"
    jmp tally_import_end
tally_import_tail:
"#,
    tail_call!("tally_import_slow"),
    r#"
    cmp eax, eax
tally_import_end:
"#,
    restore_used!(),
    r#"
    mov r11, [r11]
    jnz tally_sled_call
    jmp r11
"#,
);

// Where the stub of a function with a rule goes, r11 being its site: always to the slow half, with all registers.
global_asm!(
    ".text\n.globl tally_site\n.hidden tally_site\ntally_site:\n",
    save_registers!("lea rax, [rbx + 8]\n"),
    "mov esi, 1\n",
    "call tally_slow_site\n",
    "test eax, eax\n",
    restore_registers!(),
    "jnz tally_sled_call\n",
    "jmp r11\n",
    // The same for a call of mcount: the return address is above the saved rbp, and the stub returns to the
    // caller.
    ".globl tally_site_called\n.hidden tally_site_called\ntally_site_called:\n",
    save_registers!("lea rax, [rbp + 8]\n"),
    "xor esi, esi\n",
    "call tally_slow_site\n",
    restore_registers!(),
    "ret\n",
);

// The same for a call of `__cyg_profile_func_enter`: all registers are shown, and those that a call may change are free.
global_asm!(
    r#"
    .text
    .globl tally_site_reported
    .hidden tally_site_reported
tally_site_reported:
    sub rsp, 392
    mov [rsp], rax
    lea rax, [rsp + 400]
    mov [rsp + 8], rcx
    mov [rsp + 16], rdx
    mov [rsp + 24], rbx
    mov [rsp + 32], rax
    mov [rsp + 40], rbp
    mov [rsp + 48], rsi
    mov [rsp + 56], rdi
    mov [rsp + 64], r8
    mov [rsp + 72], r9
    mov [rsp + 80], r10
    mov [rsp + 96], r12
    mov [rsp + 104], r13
    mov [rsp + 112], r14
    mov [rsp + 120], r15
    movups [rsp + 128], xmm0
    movups [rsp + 144], xmm1
    movups [rsp + 160], xmm2
    movups [rsp + 176], xmm3
    movups [rsp + 192], xmm4
    movups [rsp + 208], xmm5
    movups [rsp + 224], xmm6
    movups [rsp + 240], xmm7
    movups [rsp + 256], xmm8
    movups [rsp + 272], xmm9
    movups [rsp + 288], xmm10
    movups [rsp + 304], xmm11
    movups [rsp + 320], xmm12
    movups [rsp + 336], xmm13
    movups [rsp + 352], xmm14
    movups [rsp + 368], xmm15
    mov [rsp + 384], r11
    mov rdi, rsp
    call tally_slow_reported
    add rsp, 392
    ret
"#
);

global_asm!(
    r#"
    .hidden rust_eh_personality
    .globl rust_eh_personality
rust_eh_personality:
    ud2
"#
);

/// Called first of all by `-mfentry` code and patched sleds: the return address is above ours.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __fentry__() {
    naked_asm!("push rax", "push rcx", "push rdx", "push r10", "lea r10, [rsp + 40]", "jmp tally_enter")
}

/// Called by `-pg` code after the prologue: the return address is above the saved rbp.
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

/// `-finstrument-functions`, entry: rdi is the function; every register that a call may change is free.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_enter() {
    naked_asm!(
        "lea r10, [rsp + 8]",
        "mov rcx, rdi",
        open_call!("90f", "90f", "or r10, 1\n", "mov rax, rdi\n"),
        "ret",
        "90:",
        "mov rsi, r10",
        "jmp tally_cyg_enter",
    )
}

/// `-finstrument-functions`, exit: the innermost call's, when that is this function's and recording goes on. A function
/// may jump here as its last deed: then this returns to the function's caller, whose address is in rsi.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_exit() {
    naked_asm!(
        "mov r9, rdi",
        "mov r8, rsi",
        "mov r11, [rip + tally_thread@GOTTPOFF]",
        "mov r10, fs:[r11 + 16]",
        "cmp r10, fs:[r11 + 24]",
        "jae 90f",
        "cmp [r10 - 32], rdi",
        "jne 90f",
        "mov al, [r10 - 24]",
        "and al, 7",
        "cmp al, 1",
        "jne 90f",
        close_call!("90f"),
        "ret",
        "90:",
        "mov rdi, r9",
        "lea rsi, [rsp + 8]",
        "xor edx, edx",
        "cmp r8, [rsp]",
        "sete dl",
        "jmp tally_cyg_exit",
    )
}

/// Entry points for compiled-in calls of `-mfentry`, of plain `-pg` and of `-finstrument-functions`.
pub fn compiled_in() -> [u64; 4] {
    [
        __fentry__ as *const () as u64,
        mcount as *const () as u64,
        _mcount as *const () as u64,
        __cyg_profile_func_enter as *const () as u64,
    ]
}

/// This thread's state; all zero before its first call.
pub fn thread() -> *mut ThreadState {
    let at: *mut ThreadState;
    // SAFETY: reads the thread pointer and a constant of the loader's.
    unsafe {
        asm!("mov {0}, [rip + tally_thread@GOTTPOFF]", "add {0}, fs:[0]", out(reg) at,
             options(nostack, readonly));
    }
    at
}

/// The frame record of the function that this is inlined into: not needed here, a frame's slot is the address
/// of its return address.
pub fn frame_record() -> u64 {
    0
}

/// The guard that the C library mixes into the stack pointer of a jump's target. Layout: __jmp_buf is u64[8]
/// with rsp at 6, mangled: rol(rsp ^ guard, 17); the guard is at fs:0x30.
// Source: glibc sysdeps/x86_64/jmpbuf-offsets.h, setjmp.S (PTR_MANGLE).
pub fn jump_guard() -> u64 {
    let guard: u64;
    // SAFETY: glibc keeps its pointer guard there in every thread.
    unsafe { asm!("mov {0}, fs:[0x30]", out(reg) guard, options(nostack, readonly)) };
    guard
}
