//! Each thread's timer, from its start to its end.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::{Slots, alarm, find, sandbox, slots, stack_end};
use crate::layout::slots::{ERRNO_WORD, PERIOD_WORD, UNTIMED_WORD, kind};
use crate::sys;
use crate::sys::timer;

static CREATE: AtomicUsize = AtomicUsize::new(0);
static SET: AtomicUsize = AtomicUsize::new(0);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Start functions of threads that have not begun yet.
const WAITING: usize = 4096;
static STARTS: [[AtomicUsize; 2]; WAITING] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; WAITING];
/// A start whose function is being written or read.
const TAKEN: usize = 1;

/// Once per program, before the first timer.
pub fn prepare() {
    type Create = extern "C" fn(*mut u32, extern "C" fn(usize)) -> i32;
    type AtFork = extern "C" fn(usize, usize, extern "C" fn(), usize) -> i32;
    CREATE.store(find(c"pthread_create", true), Ordering::Relaxed);
    let (create, set) = (find(c"pthread_key_create", false), find(c"pthread_setspecific", false));
    if create != 0 && set != 0 {
        // SAFETY: POSIX gives the function this signature.
        let create: Create = unsafe { core::mem::transmute(create) };
        let mut key = 0;
        if create(&raw mut key, ending) == 0 {
            SET.store(set, Ordering::Relaxed);
            KEY.store(key, Ordering::Release);
        }
    }
    let at_fork = match find(c"__register_atfork", false) {
        0 => find(c"pthread_atfork", false),
        found => found,
    };
    if at_fork != 0 {
        // SAFETY: both take the three functions first; the fourth is the object, which is never unloaded.
        let at_fork: AtFork = unsafe { core::mem::transmute(at_fork) };
        at_fork(0, 0, forked, 0);
    }
}

/// Where this thread's own data is: above its stack, except in the main thread.
#[cfg(target_arch = "x86_64")]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word there is its own address (System V ABI, thread-local storage).
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    pointer
}

/// Where this thread's own data is: above its stack, except in the main thread.
#[cfg(target_arch = "aarch64")]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: readable everywhere.
    unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem)) };
    pointer
}

/// This thread gets its timer.
pub fn begin() {
    let Some(slots) = Slots::of_process().filter(|_| !sandbox::is_off()) else { return };
    slots::tell(kind::THREAD);
    let period_ns = slots.header(PERIOD_WORD).load(Ordering::Relaxed).max(1);
    // The first one falls anywhere in the period: short threads are sampled as often as they deserve.
    let first_ns = sys::ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15) % period_ns + 1;
    timer::unblock(alarm::SIGNAL);
    let here = 0u8;
    let end = stack_end(&raw const here as u64);
    match timer::start(alarm::SIGNAL, end, &timer::TimerPace { first_ns, period_ns }) {
        Ok(id) => {
            sandbox::started(id);
            watch(id, 3);
        }
        Err(errno) => {
            slots.header(UNTIMED_WORD).fetch_add(1, Ordering::Relaxed);
            slots.header(ERRNO_WORD).store(errno as u64, Ordering::Relaxed);
        }
    }
}

/// Has `ending` called after `rounds` rounds of the program's own destructors (the C library makes four).
fn watch(id: u32, rounds: usize) {
    type Set = extern "C" fn(u32, usize) -> i32;
    let key = KEY.load(Ordering::Acquire);
    if key != u32::MAX {
        // SAFETY: POSIX gives the function this signature, and `prepare` found it.
        let set: Set = unsafe { core::mem::transmute(SET.load(Ordering::Relaxed)) };
        set(key, (id as usize) << 2 | rounds);
    }
}

extern "C" fn ending(value: usize) {
    let (id, rounds) = ((value >> 2) as u32, value & 3);
    if rounds > 1 {
        return watch(id, rounds - 1);
    }
    if !sandbox::is_off() {
        sandbox::delete(id);
    }
    slots::tell(kind::END);
}

/// In the child of a fork, which has no timers.
extern "C" fn forked() {
    if Slots::of_process().is_some() {
        sandbox::forked();
        slots::tell(kind::FORK);
        begin();
    }
}

/// Keeps a start function until its thread begins; `None` while too many wait.
fn keep(start: usize, argument: usize) -> Option<&'static [AtomicUsize; 2]> {
    let free = STARTS.iter().find(|of| {
        of[0].load(Ordering::Relaxed) == 0
            && of[0].compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    })?;
    free[1].store(argument, Ordering::Relaxed);
    free[0].store(start, Ordering::Release);
    Some(free)
}

/// Two words, as the calling convention returns them in two registers.
#[repr(C)]
struct Start(usize, usize);

/// On a new thread: its timer; its start function and argument.
extern "C" fn begun(of: &'static [AtomicUsize; 2]) -> Start {
    let start = Start(of[0].load(Ordering::Acquire), of[1].load(Ordering::Relaxed));
    of[0].store(0, Ordering::Release);
    begin();
    start
}

/// Goes on with the start function in place of itself, so that no frame of ours is in the thread's stacks.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn trampoline(_of: usize) -> usize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {begun}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "mov rdi, rdx",
        "jmp rax",
        ".cfi_endproc",
        begun = sym begun,
    )
}

/// Goes on with the start function in place of itself, so that no frame of ours is in the thread's stacks.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn trampoline(_of: usize) -> usize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "bl {begun}",
        "ldp x29, x30, [sp], #16",
        ".cfi_adjust_cfa_offset -16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "mov x16, x0",
        "mov x0, x1",
        "br x16",
        ".cfi_endproc",
        begun = sym begun,
    )
}

/// Overrides the C library's function of this name, and calls it.
#[unsafe(no_mangle)]
extern "C" fn pthread_create(thread: usize, attributes: usize, start: usize, argument: usize) -> i32 {
    type Create = extern "C" fn(usize, usize, usize, usize) -> i32;
    let mut real = CREATE.load(Ordering::Relaxed);
    if real == 0 {
        real = find(c"pthread_create", true);
        CREATE.store(real, Ordering::Relaxed);
    }
    // SAFETY: POSIX gives the function this signature; whoever calls it has it in a library.
    let real: Create = unsafe { core::mem::transmute(real) };
    let Some(slots) = Slots::of_process() else { return real(thread, attributes, start, argument) };
    let Some(kept) = keep(start, argument) else {
        slots.header(UNTIMED_WORD).fetch_add(1, Ordering::Relaxed);
        return real(thread, attributes, start, argument);
    };
    let answer = real(thread, attributes, trampoline as *const () as usize, kept.as_ptr() as usize);
    if answer != 0 {
        kept[0].store(0, Ordering::Release);
    }
    // The C library has set its own handler with the first thread.
    if !sandbox::is_off() {
        alarm::install();
    }
    answer
}
