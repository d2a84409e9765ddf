//! Programs that install a seccomp filter which kills: their timers end first, so that no system call of ours ends the
//! program. From then on they are sampled from outside.
//!
//! A filter that only returns errors changes nothing: calls of ours may fail.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::{Slots, find};
use crate::layout::seccomp_filter::{FilterProgram, STEP_BYTES, is_deadly};
use crate::layout::slots::{FILE_VARIABLE, RESTRICTED_WORD};
use crate::sys;
use crate::sys::timer;

/// Timers by the lowest bits of their number, plus one; 0: none.
const TIMERS: usize = 1 << 14;
static RUNNING: [AtomicU32; TIMERS] = [const { AtomicU32::new(0) }; TIMERS];
/// One past the last place in use: forks clear no more pages than these.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Nothing of ours makes a system call any more.
static OFF: AtomicBool = AtomicBool::new(false);
/// Threads in the handler.
static INSIDE: AtomicU32 = AtomicU32::new(0);
static PRCTL: AtomicUsize = AtomicUsize::new(0);
static SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// True once the program has restricted itself.
pub fn is_off() -> bool {
    OFF.load(Ordering::Acquire)
}

/// A timer has begun.
pub fn started(id: u32) {
    let at = id as usize % TIMERS;
    RUNNING[at].store(id + 1, Ordering::Relaxed);
    USED.fetch_max(at + 1, Ordering::Relaxed);
}

/// Ends a timer of ours.
pub fn delete(id: u32) {
    RUNNING[id as usize % TIMERS].store(0, Ordering::Relaxed);
    timer::delete(id);
}

/// Runs a handler's work, unless the program has restricted itself.
pub fn in_handler(work: impl FnOnce()) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    if !OFF.load(Ordering::SeqCst) {
        work();
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

fn used() -> &'static [AtomicU32] {
    &RUNNING[..USED.load(Ordering::Relaxed).min(TIMERS)]
}

/// In the child of a fork, which has neither timers nor other threads.
pub fn forked() {
    used().iter().for_each(|running| running.store(0, Ordering::Relaxed));
    USED.store(0, Ordering::Relaxed);
    INSIDE.store(0, Ordering::SeqCst);
}

/// All timers end, and a program that this one starts has none.
fn leave() {
    /// Turns to wait for handlers of other threads, which take microseconds.
    const MOST_TURNS: u32 = 10_000_000;
    if OFF.swap(true, Ordering::SeqCst) {
        return;
    }
    for running in used() {
        let id = running.swap(0, Ordering::Relaxed);
        if id != 0 {
            timer::delete(id - 1);
        }
    }
    for _ in 0..MOST_TURNS {
        if INSIDE.load(Ordering::SeqCst) == 0 {
            break;
        }
        core::hint::spin_loop();
    }
    if let Some(slots) = Slots::of_process() {
        slots.header(RESTRICTED_WORD).fetch_add(1, Ordering::Relaxed);
    }
    super::rename_variable(FILE_VARIABLE.as_bytes());
}

/// True if the filter program at this address can end its process, or send it a signal. One that can't be read can't be
/// installed either.
fn can_kill(program: u64) -> bool {
    let mut head = [0u8; 16];
    if sys::read_memory(program, &mut head) != head.len() {
        return false;
    }
    let FilterProgram { count, steps } = FilterProgram::parse(&head);
    (0..count).any(|index| {
        let mut step = [0u8; STEP_BYTES as usize];
        sys::read_memory(steps.wrapping_add(index * STEP_BYTES), &mut step) == step.len() && is_deadly(&step)
    })
}

/// Before a call of `prctl` with these arguments.
fn before_prctl(option: usize, mode: usize, program: usize) {
    const PR_SET_SECCOMP: usize = 22;
    const STRICT: usize = 1;
    if option == PR_SET_SECCOMP && !is_off() && (mode == STRICT || can_kill(program as u64)) {
        leave();
    }
}

/// Before a call of `seccomp` with these arguments.
fn before_seccomp(operation: usize, program: usize) {
    const SET_MODE_STRICT: usize = 0;
    const SET_MODE_FILTER: usize = 1;
    let restricts = operation == SET_MODE_STRICT || operation == SET_MODE_FILTER && can_kill(program as u64);
    if restricts && !is_off() {
        leave();
    }
}

/// The C library's function, found once.
fn real(kept: &AtomicUsize, name: &core::ffi::CStr) -> usize {
    if kept.load(Ordering::Relaxed) == 0 {
        kept.store(find(name, true), Ordering::Relaxed);
    }
    kept.load(Ordering::Relaxed)
}

/// Overrides the C library's function of this name, and calls it.
#[unsafe(no_mangle)]
extern "C" fn prctl(option: usize, a: usize, b: usize, c: usize, d: usize) -> i32 {
    type Prctl = extern "C" fn(usize, usize, usize, usize, usize) -> i32;
    before_prctl(option & 0xffff_ffff, a, b);
    // SAFETY: the C library's function takes these arguments, as many as the option needs.
    let prctl: Prctl = unsafe { core::mem::transmute(real(&PRCTL, c"prctl")) };
    prctl(option, a, b, c, d)
}

/// Overrides the C library's function of this name, and calls it.
#[unsafe(no_mangle)]
extern "C" fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    type Syscall = extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;
    match number {
        sys::SECCOMP => before_seccomp(a, c),
        sys::PRCTL => before_prctl(a, b, c),
        _ => {}
    }
    // SAFETY: the C library's function takes these arguments, as many as the call needs.
    let syscall: Syscall = unsafe { core::mem::transmute(real(&SYSCALL, c"syscall")) };
    syscall(number, a, b, c, d, e, f)
}
