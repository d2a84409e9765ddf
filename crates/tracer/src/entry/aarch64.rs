//! The hooks on aarch64: registers are set aside, the rest is written in Rust: [`fast`], and the slow half where anything is
//! out of the ordinary.
//!
//! A return address is in x30 when a function is entered, so a frame is known by the place where x86-64 would have
//! pushed it: 8 below the stack pointer ([`ThreadState`]'s slots mean the same on both). Two ways back to the tracer.
//! *Sleds* jump to a stub, and the function's body is called from here: it returns here, as the processor predicts.
//! Where the function has its frame already (`_mcount`), the return address in its frame record is replaced.
//!
//! A body is reached by a plain branch in its stub (`STUB_BACK` before what x16 points at): indirect ones must land on
//! a `bti` instruction in programs built so.

mod interposed;

use core::arch::{asm, global_asm, naked_asm};

use crate::entry::addresses;
use crate::entry::fast;
use crate::entry::hook;
use crate::frame::{OpenCall, REPORTED, ReturnAddress};
use crate::instrumented_fn::Site;
use crate::patch::code::{self, STUB_BACK};
use crate::registers::{Registers, Results};
use crate::thread::ThreadState;

const _: () = assert!(core::mem::offset_of!(Entered, x8) == 208);
const _: () = assert!(core::mem::offset_of!(Entered, data) == 216);
const _: () = assert!(core::mem::offset_of!(Entered, x29) == 224);
const _: () = assert!(core::mem::offset_of!(Entered, back) == 232);
const _: () = assert!(core::mem::offset_of!(Entered, more) == 240 && size_of::<Entered>() == 304);

/// A function's registers at its entry, as `tally_sled` puts them on the stack.
#[repr(C)]
struct Entered {
    registers: Registers,
    /// Where a large result goes.
    x8: u64,
    /// The stub's data for the tracer, in x16.
    data: *const u64,
    x29: u64,
    /// Where the function returns to, x30.
    back: u64,
    /// x9 to x15: free by the calling convention, but a compiler that sees both sides may use them.
    more: [u64; 7],
    /// Where to go on, x17.
    target: u64,
}

/// Purpose of a stub, which determines its data.
const PLAIN: u32 = 0;
const IMPORT: u32 = 1;
const RULED: u32 = 2;

global_asm!(
    r#"
    .text
    .p2align 4
    .globl tally_import
    .hidden tally_import
    .type tally_import, @function
tally_import:
    mov w17, #1
    b 1f
    .globl tally_site
    .hidden tally_site
    .type tally_site, @function
tally_site:
    mov w17, #2
    b 1f
    .globl tally_sled
    .hidden tally_sled
    .type tally_sled, @function
tally_sled:
    mov w17, #0
1:
    sub sp, sp, #304
    stp x0, x1, [sp]
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #64]
    stp q0, q1, [sp, #80]
    stp q2, q3, [sp, #112]
    stp q4, q5, [sp, #144]
    stp q6, q7, [sp, #176]
    stp x8, x16, [sp, #208]
    stp x29, x30, [sp, #224]
    stp x9, x10, [sp, #240]
    stp x11, x12, [sp, #256]
    stp x13, x14, [sp, #272]
    str x15, [sp, #288]
    add x29, sp, #224
    mov x0, sp
    mov w1, w17
    bl tally_entered
    cmp w0, #0
    ldp x0, x1, [sp]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #64]
    ldp q0, q1, [sp, #80]
    ldp q2, q3, [sp, #112]
    ldp q4, q5, [sp, #144]
    ldp q6, q7, [sp, #176]
    ldp x8, x16, [sp, #208]
    ldp x29, x30, [sp, #224]
    ldp x9, x10, [sp, #240]
    ldp x11, x12, [sp, #256]
    ldp x13, x14, [sp, #272]
    ldp x15, x17, [sp, #288]
    add sp, sp, #304
    b.ne 2f
    br x17
2:
    blr x17
    .globl tally_sled_return
    .hidden tally_sled_return
    .type tally_sled_return, @function
tally_sled_return:
    adr x17, 3f
    b 4f
3:
    ret
    // After the place of a call instruction: unwinders look a return address up by the instruction before it.
    nop
    .globl tally_return
    .hidden tally_return
    .type tally_return, @function
tally_return:
    adr x17, 5f
    b 4f
5:
    br x30
4:
    sub sp, sp, #160
    stp q0, q1, [sp]
    stp x0, x1, [sp, #32]
    stp q2, q3, [sp, #48]
    stp x2, x3, [sp, #80]
    stp x4, x5, [sp, #96]
    stp x6, x7, [sp, #112]
    stp x8, x17, [sp, #128]
    str x29, [sp, #144]
    mov x1, sp
    add x0, sp, #160
    bl tally_returned
    mov x30, x0
    ldp q0, q1, [sp]
    ldp x0, x1, [sp, #32]
    ldp q2, q3, [sp, #48]
    ldp x2, x3, [sp, #80]
    ldp x4, x5, [sp, #96]
    ldp x6, x7, [sp, #112]
    ldp x8, x17, [sp, #128]
    add sp, sp, #160
    br x17

    // A call of _mcount at whose function something more is done: x16 points at its site's address.
    .globl tally_site_called
    .hidden tally_site_called
    .type tally_site_called, @function
tally_site_called:
    stp x29, x30, [sp, #-16]!
    ldr x0, [x16]
    add x1, x29, #8
    mov x29, sp
    bl tally_called_ruled
    ldp x29, x30, [sp], #16
    ret

    // A call by which a function reports itself, at which something more is done: x0 is the function.
    .globl tally_site_reported
    .hidden tally_site_reported
    .type tally_site_reported, @function
tally_site_reported:
    mov x1, sp
    ldr x2, [x16]
    b tally_reported_ruled

    .hidden rust_eh_personality
    .globl rust_eh_personality
rust_eh_personality:
    brk #1
"#
);

/// Called by `-pg` code after the prologue: the return address is in the function's frame record, at x29. The
/// compiler treats it as an ordinary function, so no register has to be preserved.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn _mcount() {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "add x1, x29, #8",
        "mov x29, sp",
        "mov x0, x30",
        "bl tally_called",
        "ldp x29, x30, [sp], #16",
        "ret"
    )
}

/// `-finstrument-functions`, entry: x0 is the function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_enter() {
    naked_asm!("mov x1, sp", "b tally_reported_enter")
}

/// `-finstrument-functions`, exit. A function may branch here as its last deed: then this returns to the function's caller,
/// whose address is in x1.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __cyg_profile_func_exit() {
    naked_asm!("cmp x1, x30", "cset x2, eq", "mov x1, sp", "b tally_reported_exit")
}

/// The stack pointer as `setjmp` writes it, and as it is.
#[repr(C)]
struct Saved {
    mixed: u64,
    plain: u64,
}

/// Lets `setjmp` write the stack pointer.
#[unsafe(naked)]
unsafe extern "C" fn saved_stack_pointer(buffer: *mut u64) -> Saved {
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "str x0, [sp, #16]",
        "bl _setjmp",
        "ldr x1, [sp, #16]",
        "ldr x0, [x1, #104]",
        "mov x1, sp",
        "ldp x29, x30, [sp], #32",
        "ret"
    )
}

/// The guard that the C library mixes into the stack pointer of a jump's target. Layout: the stack pointer is
/// the u64 number 13 of a jmp_buf, exclusive-or with a guard.
// Source: glibc sysdeps/aarch64/jmpbuf-offsets.h, setjmp.S (PTR_MANGLE); musl has no guard there.
pub fn jump_guard() -> u64 {
    // glibc's is 312 bytes long.
    let mut buffer = [0; 64];
    // SAFETY: the buffer is as long as any, and nothing jumps back to it.
    let saved = unsafe { saved_stack_pointer(buffer.as_mut_ptr()) };
    saved.mixed ^ saved.plain
}

/// A sled's stub, or an imported function's, was reached: whether the function is to be called.
///
/// # Safety
/// Called by the assembly only, with what the stub is for.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_entered(entered: *mut Entered, kind: u32) -> u32 {
    // SAFETY: the assembly put it on the stack.
    let entered = unsafe { &mut *entered };
    let slot = &raw const *entered as u64 + size_of::<Entered>() as u64 - 8;
    entered.registers.slot = slot;
    entered.target = entered.data as u64 - STUB_BACK;
    // SAFETY: a stub's data is an address, or that of its site, which is never unmapped.
    let (word, marks) = code::told(unsafe { *entered.data });
    let (mut addr, mut more) = (word, None);
    if kind != PLAIN {
        // SAFETY: as above.
        let site = unsafe { &*(word as *const Site) };
        addr = site.addr;
        if site.has(crate::layout::sleds::IMPORT) {
            // The loader, which may come first, finds the slot in x16.
            (entered.target, entered.data) = (site.target, site.addr as *const u64);
        }
        if kind == RULED {
            entered.registers.site = word;
            more = Some(&entered.registers);
        }
    }
    debug_assert!(kind <= RULED && IMPORT < RULED);
    let slot = slot | marks;
    if more.is_none()
        && !addresses::is_ours(entered.back)
        && fast::enter(addr, OpenCall::new(entered.back, slot))
    {
        return 1;
    }
    let address = ReturnAddress { place: &raw mut entered.back, slot };
    u32::from(hook::entered(addr, address, true, more))
}

/// A function that called `_mcount` before `addr` returns to the address at `place`.
///
/// # Safety
/// Called by the assembly only.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_called(addr: u64, place: *mut u64) {
    called(addr, place, None);
}

/// The same of one at which something more is done.
///
/// # Safety
/// Called by the assembly only, with the stub's site.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_called_ruled(data: u64, place: *mut u64) {
    let (site_at, _) = code::told(data);
    let site = site_at as *const Site;
    // Its arguments have been moved already: no spec asks for them.
    let registers =
        Registers { general: [0; 6], slot: place as u64, site: site_at, more: [0; 2], vector: [[0; 2]; 8] };
    // SAFETY: sites are never unmapped.
    called(unsafe { (*site).addr }, place, Some(&registers));
}

fn called(addr: u64, place: *mut u64, more: Option<&Registers>) {
    // SAFETY: the function's frame record, which its prologue has written.
    let found = unsafe { *place };
    let Some((sp, marks)) = code::entry_stack_pointer(addr, place as u64 - 8) else {
        let frame = OpenCall::new(found, place as u64);
        if more.is_none() && !addresses::is_ours(found) && fast::enter(addr, frame) {
            // SAFETY: as above.
            unsafe { *place = addresses::trampoline() };
            return;
        }
        let _ = hook::entered(addr, ReturnAddress { place, slot: place as u64 }, false, more);
        return;
    };
    // It was signed with the stack pointer at the entry; what replaces it must be, too.
    let mut plain = code::stripped(found);
    if code::signed(plain, sp, marks) != found {
        return hook::refused();
    }
    let slot = (sp - 8) | marks;
    if more.is_none() && !addresses::is_ours(plain) && fast::enter(addr, OpenCall::new(plain, slot)) {
        plain = addresses::trampoline();
    } else {
        let _ = hook::entered(addr, ReturnAddress { place: &raw mut plain, slot }, false, more);
    }
    // SAFETY: as above.
    unsafe { *place = code::signed(plain, sp, marks) };
}

/// `-finstrument-functions`: a function was entered, with the stack pointer `sp`.
///
/// # Safety
/// Called by the assembly only; takes no pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_reported_enter(addr: u64, sp: u64) {
    if !fast::enter(addr, OpenCall::new(addr, sp | REPORTED)) {
        // SAFETY: the caller guarantees it.
        unsafe { hook::tally_cyg_enter(addr, sp) };
    }
}

/// The same of one at which something more is done.
///
/// # Safety
/// Called by the assembly only, with the stub's data.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_reported_ruled(addr: u64, sp: u64, data: u64) {
    let (site, _) = code::told(data);
    // No spec asks for its arguments: where they have been moved to is not known.
    let registers = Registers { general: [0; 6], slot: sp, site, more: [0; 2], vector: [[0; 2]; 8] };
    // SAFETY: sites are never unmapped.
    let is_its = unsafe { (*(site as *const Site)).addr } == addr;
    hook::reported(addr, sp, is_its.then_some(&registers));
}

/// The same: it is about to return; if it has branched here (`is_last` not 0), `sp` is its caller's.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_reported_exit(addr: u64, sp: u64, is_last: u32) {
    if !fast::reported(addr, sp, is_last != 0) {
        // SAFETY: the caller guarantees it.
        unsafe { hook::tally_cyg_exit(addr, sp, is_last) };
    }
}

/// A hooked call has returned with the stack pointer `sp`: where to go on.
///
/// # Safety
/// Called by the assembly only, with the registers as the function left them.
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_returned(sp: u64, results: *const Results) -> u64 {
    if let Some(back) = fast::returned(sp) {
        return back;
    }
    // SAFETY: the assembly put them on the stack; the thread's state is its own.
    unsafe {
        let slot = (*thread()).returning(sp);
        hook::tally_slow_exit(thread(), slot, results)
    }
}

/// This thread's state; all zero before its first call.
pub fn thread() -> *mut ThreadState {
    let at: *mut ThreadState;
    // SAFETY: reads the thread pointer and a constant of the loader's.
    unsafe {
        asm!("mrs {0}, tpidr_el0", "adrp {1}, :gottprel:tally_thread", "ldr {1}, [{1}, :gottprel_lo12:tally_thread]",
             "add {0}, {0}, {1}", out(reg) at, out(reg) _, options(nostack, readonly));
    }
    at
}

/// The frame record of the function that this is inlined into: its callers' stack arguments are above it.
#[inline(always)]
pub fn frame_record() -> u64 {
    let at: u64;
    // SAFETY: reads a register; the tracer is built with frame pointers.
    unsafe { asm!("mov {0}, x29", out(reg) at, options(nostack, nomem)) };
    at
}
