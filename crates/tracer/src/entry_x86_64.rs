//! The fast half of the hooks on x86-64: what runs at every call and return.
//!
//! It touches no vector register and writes an event by first taking its place (`xadd`), so that a signal
//! handler in between writes behind it. A frame's slot is written first and looked at again when the frame is
//! taken: a handler in between has used the same place.
//!
//! A call that makes no other needs one event: its exit turns the entry into a *leaf*. That is done only while
//! nothing stands behind the entry, and taken back when a handler wrote there meanwhile; `last_pos` says whose
//! time `last` is, and is 0 while the two do not agree.
//!
//! Two ways back to the recorder. *Sleds* jump to a stub that calls the function's body: its return lands here
//! and ours goes to the caller, as the processor predicts (and as a shadow stack wants it). Where the function
//! has its frame already (`mcount`), its return address is replaced, and the way on is a jump.
//
// Layout of `Thread`: pos 0, end 8, top 16, limit 24, tsc_high 32, addr_high 36, last 40, last_pos 48.
// Of `Frame`, below top: back -32, slot -24, at -16, before -8.

use core::arch::{asm, global_asm, naked_asm};

use crate::buffer::{Frame, Thread};

const _: () = assert!(core::mem::offset_of!(Thread, pos) == 0);
const _: () = assert!(core::mem::offset_of!(Thread, end) == 8);
const _: () = assert!(core::mem::offset_of!(Thread, top) == 16);
const _: () = assert!(core::mem::offset_of!(Thread, limit) == 24);
const _: () = assert!(core::mem::offset_of!(Thread, tsc_high) == 32);
const _: () = assert!(core::mem::offset_of!(Thread, addr_high) == 36);
const _: () = assert!(core::mem::offset_of!(Thread, last) == 40);
const _: () = assert!(core::mem::offset_of!(Thread, last_pos) == 48);
const _: () = assert!(size_of::<Thread>() <= 192);
const _: () = assert!(core::mem::offset_of!(Frame, back) == 0 && core::mem::offset_of!(Frame, slot) == 8);
const _: () = assert!(core::mem::offset_of!(Frame, at) == 16 && core::mem::offset_of!(Frame, before) == 24);
const _: () = assert!(size_of::<Frame>() == 32);

/// The time in rdx of an event at rax becomes the last one. If that of the event before is known, it is put into
/// r9, else 0; a handler's event, written since the time was read, moves ours on to its own.
macro_rules! latest {
    () => {
        concat!(
            "xor r9d, r9d\n",
            "cmp rax, fs:[r11 + 48]\n",
            "cmove r9, fs:[r11 + 40]\n",
            "cmp r9, rdx\n",
            "cmova rdx, r9\n",
            "mov fs:[r11 + 40], rdx\n",
        )
    };
}

/// A tail call: the innermost call ends and another begins in its place, at r10. In: rcx an address in the
/// function. Jumps to `$slow` with all but rax, rdx and r11 unchanged. Changes rax, rcx, rdx, r9, r11.
macro_rules! tail_call {
    ($slow:literal) => {
        concat!(
            "lea rdx, [rip + tally_return]\n",
            "cmp [r10], rdx\n",
            "je 7f\n",
            "lea rdx, [rip + tally_sled_return]\n",
            "cmp [r10], rdx\n",
            "jne ",
            $slow,
            "\n",
            "7:\n",
            read_time!($slow),
            "mov eax, 16\n",
            "xadd fs:[r11], rax\n",
            latest!(),
            "shl rcx, 32\n",
            "mov r9d, edx\n",
            "or rcx, r9\n",
            "bts rcx, 62\n",
            "bts rcx, 63\n",
            "mov [rax + 8], rcx\n",
            "bts r9, 62\n",
            "mov [rax], r9\n",
            "mov r9, fs:[r11 + 16]\n",
            "add rax, 8\n",
            "mov [r9 - 16], rax\n",
            "mov [r9 - 8], rdx\n",
            "add rax, 8\n",
            "mov fs:[r11 + 48], rax\n",
        )
    };
}

/// For an entry of the address in rcx: jumps to `$slow` when there is no room or a high part changed, else reads
/// the time into rdx. Changes rax.
macro_rules! read_time {
    ($slow:literal) => {
        concat!(
            "mov rax, fs:[r11]\n",
            "cmp rax, fs:[r11 + 8]\n",
            "jae ",
            $slow,
            "\n",
            "mov rax, rcx\n",
            "shr rax, 30\n",
            "cmp eax, fs:[r11 + 36]\n",
            "jne ",
            $slow,
            "\n",
            "rdtsc\n",
            "cmp edx, fs:[r11 + 32]\n",
            "jne ",
            $slow,
            "\n",
            "shl rdx, 32\n",
            "or rdx, rax\n",
        )
    };
}

/// Writes an entry and opens its call, or jumps to `$slow` (or to `$tail`, if r10 is the innermost call's slot) with
/// all but rax, rdx and r11 unchanged. In: rcx an address in the function, r10 the stack position. `$slot` may
/// mark it; `$back` puts the frame's `back` into rax. Changes rax, rcx, rdx, r9, r11.
macro_rules! open_call {
    ($slow:literal, $tail:literal, $slot:literal, $back:literal) => {
        concat!(
            "mov r11, [rip + tally_thread@GOTTPOFF]\n",
            "mov rax, fs:[r11 + 16]\n",
            "cmp rax, fs:[r11 + 24]\n",
            "jae ",
            $slow,
            "\n",
            "cmp [rax - 24], r10\n",
            "jb ",
            $slow,
            "\n",
            "je ",
            $tail,
            "\n",
            read_time!($slow),
            "mov eax, 8\n",
            "xadd fs:[r11], rax\n",
            latest!(),
            "shl rcx, 32\n",
            "mov edx, edx\n",
            "or rcx, rdx\n",
            "bts rcx, 62\n",
            "bts rcx, 63\n",
            "mov [rax], rcx\n",
            "lea rdx, [rax + 8]\n",
            "mov fs:[r11 + 48], rdx\n",
            $slot,
            "mov rdx, fs:[r11 + 16]\n",
            "mov [rdx + 8], r10\n",
            "mov [rdx + 16], rax\n",
            "mov [rdx + 24], r9\n",
            $back,
            "mov [rdx], rax\n",
            "add qword ptr fs:[r11 + 16], 32\n",
            "cmp [rdx + 8], r10\n",
            "je 8f\n",
            // A handler used the place before it was taken; it also wrote behind the entry.
            "mov [rdx + 8], r10\n",
            "mov qword ptr [rdx + 16], 0\n",
            "mov [rdx], rax\n",
            "8:\n",
        )
    };
}

/// Closes the innermost call, whose frame ends at r10, and puts its `back` into rcx; r11 is the thread's offset. Jumps to `$slow` with all but
/// rax, rcx, rdx, rsi, rdi unchanged.
macro_rules! close_call {
    ($($slow:literal),+) => {
        concat!(
            "rdtsc\n",
            "cmp edx, fs:[r11 + 32]\n",
            "jne ", $($slow,)+ "\n",
            "shl rdx, 32\n",
            "or rax, rdx\n",
            // Is its entry the last event, and written with the time before it known?
            "mov rcx, fs:[r11]\n",
            "lea rdi, [rcx - 8]\n",
            "cmp rdi, [r10 - 16]\n",
            "jne 5f\n",
            "cmp rcx, fs:[r11 + 48]\n",
            "jne 5f\n",
            "mov rsi, fs:[r11 + 40]\n",
            "mov rdx, rax\n",
            "sub rdx, rsi\n",
            "sub rsi, [r10 - 8]\n",
            "mov rdi, rdx\n",
            "or rdi, rsi\n",
            "shr rdi, 16\n",
            "jnz 5f\n",
            // Then it becomes a leaf: kind 0, the address, ticks since the event before, ticks it took.
            "shl esi, 16\n",
            "or esi, edx\n",
            "mov rdi, [rcx - 8]\n",
            "mov edx, edi\n",
            "xor rdx, rdi\n",
            "btr rdx, 62\n",
            "btr rdx, 63\n",
            "or rdx, rsi\n",
            "jz 5f\n",
            "mov qword ptr fs:[r11 + 48], 0\n",
            "mov [rcx - 8], rdx\n",
            "mov fs:[r11 + 40], rax\n",
            "cmp fs:[r11], rcx\n",
            "jne 6f\n",
            "mov fs:[r11 + 48], rcx\n",
            "jmp 4f\n",
            "6:\n",
            "mov [rcx - 8], rdi\n",
            "5:\n",
            "mov rcx, fs:[r11]\n",
            "cmp rcx, fs:[r11 + 8]\n",
            "jae ", $($slow,)+ "\n",
            "mov edx, 8\n",
            "xadd fs:[r11], rdx\n",
            "mov rdi, rax\n",
            "cmp rdx, fs:[r11 + 48]\n",
            "cmove rdi, fs:[r11 + 40]\n",
            "cmp rdi, rax\n",
            "cmova rax, rdi\n",
            "mov edi, eax\n",
            "bts rdi, 62\n",
            "mov [rdx], rdi\n",
            "mov fs:[r11 + 40], rax\n",
            "add rdx, 8\n",
            "mov fs:[r11 + 48], rdx\n",
            "4:\n",
            // Read while the frame is still ours: a handler may use its place as soon as it is free.
            "mov rcx, [r10 - 32]\n",
            "sub qword ptr fs:[r11 + 16], 32\n",
        )
    };
}

/// Where a traced function returns to; `$go` goes on to the address in rcx.
macro_rules! return_hook {
    ($name:literal, $go:literal) => {
        concat!(
            ".globl ",
            $name,
            "\n.hidden ",
            $name,
            "\n.type ",
            $name,
            ", @function\n",
            $name,
            ":\n",
            "mov r8, rax\n",
            "mov r9, rdx\n",
            "mov r11, [rip + tally_thread@GOTTPOFF]\n",
            "lea rcx, [rsp - 8]\n",
            "mov r10, fs:[r11 + 16]\n",
            "cmp [r10 - 24], rcx\n",
            "jne ",
            $name,
            "_slow\n",
            close_call!($name, "_slow"),
            "mov rax, r8\n",
            "mov rdx, r9\n",
            $go,
            $name,
            "_slow:\n",
            "sub rsp, 8\n",
            "push r8\n",
            "push r9\n",
            "push rbx\n",
            "mov rbx, rsp\n",
            "lea rsi, [rsp + 24]\n",
            "sub rsp, 64\n",
            "and rsp, -16\n",
            "movups [rsp], xmm0\n",
            "movups [rsp + 16], xmm1\n",
            "mov rdi, [rip + tally_thread@GOTTPOFF]\n",
            "add rdi, fs:[0]\n",
            "call tally_slow_exit\n",
            "movups xmm0, [rsp]\n",
            "movups xmm1, [rsp + 16]\n",
            "mov rsp, rbx\n",
            "mov [rsp + 24], rax\n",
            "pop rbx\n",
            "pop rdx\n",
            "pop rax\n",
            "ret\n",
        )
    };
}

/// The slow half of an entry: rcx the address, r10 the slot, `$sled` whether the function is to be called.
/// Out: ZF clear when it is to be called. Changes rax, rcx, rdx.
macro_rules! slow_entry {
    ($sled:literal) => {
        concat!(
            "push rdi\n",
            "push rsi\n",
            "push r8\n",
            "push r9\n",
            "push r10\n",
            "push r11\n",
            "push rbx\n",
            "mov rbx, rsp\n",
            "mov rsi, rcx\n",
            "mov rdx, r10\n",
            "mov ecx, ",
            $sled,
            "\n",
            "mov rdi, [rip + tally_thread@GOTTPOFF]\n",
            "add rdi, fs:[0]\n",
            "sub rsp, 144\n",
            "and rsp, -16\n",
            "movups [rsp], xmm0\n",
            "movups [rsp + 16], xmm1\n",
            "movups [rsp + 32], xmm2\n",
            "movups [rsp + 48], xmm3\n",
            "movups [rsp + 64], xmm4\n",
            "movups [rsp + 80], xmm5\n",
            "movups [rsp + 96], xmm6\n",
            "movups [rsp + 112], xmm7\n",
            "call tally_slow_enter\n",
            "movups xmm0, [rsp]\n",
            "movups xmm1, [rsp + 16]\n",
            "movups xmm2, [rsp + 32]\n",
            "movups xmm3, [rsp + 48]\n",
            "movups xmm4, [rsp + 64]\n",
            "movups xmm5, [rsp + 80]\n",
            "movups xmm6, [rsp + 96]\n",
            "movups xmm7, [rsp + 112]\n",
            "mov rsp, rbx\n",
            "test eax, eax\n",
            "pop rbx\n",
            "pop r11\n",
            "pop r10\n",
            "pop r9\n",
            "pop r8\n",
            "pop rsi\n",
            "pop rdi\n",
        )
    };
}

// This thread's state, and what mcount and __fentry__ calls go on to.
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
    push rax
    push rcx
    push rdx
    push r10
    push r9
    mov rcx, r11
    push r11
    lea r10, [rsp + 48]
"#,
    open_call!("tally_sled_slow", "tally_sled_tail", "", "mov rax, [r10]\n"),
    r#"
    pop r11
    pop r9
    pop r10
    pop rdx
    pop rcx
    pop rax
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
tally_sled_end:
    pop r11
    pop r9
    pop r10
    pop rdx
    pop rcx
    pop rax
    jnz tally_sled_call
    jmp r11
"#,
);

global_asm!(
    r#"
    .hidden rust_eh_personality
    .globl rust_eh_personality
rust_eh_personality:
    ud2
"#
);

unsafe extern "C" {
    fn tally_return();
    fn tally_sled();
    fn tally_sled_return();
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

/// `-finstrument-functions`, entry: rdi is the function; every register that a call may change is free.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_enter() {
    naked_asm!(
        "lea r10, [rsp + 8]",
        "mov rcx, rdi",
        open_call!("tally_cyg_enter_slow", "tally_cyg_enter_slow", "or r10, 1\n", "mov rax, rdi\n"),
        "ret",
        "tally_cyg_enter_slow:",
        "mov rsi, r10",
        "jmp tally_cyg_enter",
    )
}

/// `-finstrument-functions`, exit: the innermost call's, when that is this function's and recording goes on.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_exit() {
    naked_asm!(
        "mov r9, rdi",
        "mov r11, [rip + tally_thread@GOTTPOFF]",
        "mov r10, fs:[r11 + 16]",
        "cmp r10, fs:[r11 + 24]",
        "jae tally_cyg_exit_slow",
        "cmp [r10 - 32], rdi",
        "jne tally_cyg_exit_slow",
        "test byte ptr [r10 - 24], 1",
        "jz tally_cyg_exit_slow",
        close_call!("tally_cyg_exit_slow"),
        "ret",
        "tally_cyg_exit_slow:",
        "mov rdi, r9",
        "jmp tally_cyg_exit",
    )
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

/// Where a patched sled's stub goes, the function's body in r11.
pub fn sled_address() -> u64 {
    tally_sled as *const () as u64
}

/// What compiled-in calls of `-mfentry` and of plain `-pg` call.
pub fn compiled_in() -> [u64; 3] {
    [__fentry__ as *const () as u64, mcount as *const () as u64, _mcount as *const () as u64]
}

/// What a hooked return address is replaced by.
pub fn return_address() -> u64 {
    tally_return as *const () as u64
}

/// Where functions that a sled's stub called return to.
pub fn sled_return_address() -> u64 {
    tally_sled_return as *const () as u64
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
