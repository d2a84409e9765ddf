//! The doors from the assembly and from compiled-in calls into [`ThreadState`].

use core::sync::atomic::{Ordering, compiler_fence};

use crate::entry;
#[cfg(target_arch = "x86_64")]
use crate::entry::cyg_profile::ReportedRegisters;
use crate::frame::ReturnAddress;
#[cfg(target_arch = "x86_64")]
use crate::instrumented_fn::Site;
use crate::registers::{Registers, Results};
use crate::thread::{ThreadState, thread_exit};

/// Runs the slow half with the fast half locked out, so that a signal handler in between records nothing
/// (and is counted) instead of writing where we write.
fn alone<R>(thread: *mut ThreadState, otherwise: R, work: impl FnOnce(&mut ThreadState) -> R) -> R {
    // SAFETY: the assembly and `entry::thread` pass this thread's own state, alive as long as the thread.
    let thread = unsafe { &mut *thread };
    if !thread.lock() {
        return otherwise;
    }
    compiler_fence(Ordering::SeqCst);
    let answer = work(thread);
    compiler_fence(Ordering::SeqCst);
    thread.unlock();
    answer
}

/// A function was entered, by whichever door; whether a sled's stub is to call it.
pub fn entered(addr: u64, address: ReturnAddress, is_sled: bool, more: Option<&Registers>) -> bool {
    alone(entry::thread(), false, |thread| thread.enter(addr, address, is_sled, more))
}

/// A function was entered that can't be followed to its return.
#[cfg(target_arch = "aarch64")]
pub fn refused() {
    alone(entry::thread(), (), |thread| thread.lose());
}

/// Slow half of a compiled-in call at a function's start, or of a sled's stub. Whether the stub is to call the
/// function's body; if not, it is to jump there.
///
/// # Safety
/// Called by the assembly only: `slot` holds the traced function's return address.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_slow_enter(addr: u64, slot: u64, sled: u32) -> u32 {
    u32::from(entered(addr, ReturnAddress::on_stack(slot), sled != 0, None))
}

/// The same for a function with rules, whose site the stub handed over.
///
/// # Safety
/// Called by the assembly only, with the registers as the function's entry found them.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_slow_site(registers: *const Registers, sled: u32) -> u32 {
    // SAFETY: the assembly put them on the stack, and the site is never unmapped.
    let (registers, site) = unsafe { (&*registers, &*((*registers).site as *const Site)) };
    let address = ReturnAddress::on_stack(registers.slot);
    u32::from(entered(site.addr, address, sled != 0, Some(registers)))
}

/// Slow half of a hooked return; the address to go on at.
///
/// # Safety
/// Called by the assembly only, with the registers as the function left them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tally_slow_exit(
    thread: *mut ThreadState,
    slot: u64,
    results: *const Results,
) -> u64 {
    // SAFETY: as in `alone`; a hooked return must be answered, locked or not.
    let thread = unsafe { &mut *thread };
    let locked = thread.lock();
    // SAFETY: the assembly put them on the stack.
    let back = thread.exit(slot, Some(unsafe { &*results }));
    if locked {
        thread.unlock();
    }
    back
}

/// `-finstrument-functions`: a function was entered. `sp` is put there by the assembly.
///
/// # Safety
/// Called by the assembly only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tally_cyg_enter(addr: u64, sp: u64) {
    alone(entry::thread(), (), |thread| thread.enter_reported(addr, sp, None));
}

/// The same at which something more may be done.
#[cfg(target_arch = "aarch64")]
pub fn reported(addr: u64, sp: u64, more: Option<&Registers>) {
    alone(entry::thread(), (), |thread| thread.enter_reported(addr, sp, more));
}

/// The same for a function at which more is done, whose site the stub handed over.
///
/// # Safety
/// Called by the assembly only, with the registers as they are at the call.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
unsafe extern "C" fn tally_slow_reported(inside: *const ReportedRegisters) {
    // SAFETY: the assembly put them on the stack, and the site is never unmapped.
    let (inside, site) = unsafe { (&*inside, &*((*inside).site as *const Site)) };
    alone(entry::thread(), (), |thread| thread.enter_inside(inside, site));
}

/// `-finstrument-functions`: a function is about to return. `sp` is put there by the assembly; if the function has jumped
/// here (`is_last` not 0), it is what it was in its caller.
///
/// # Safety
/// Called by the assembly only; takes no pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tally_cyg_exit(addr: u64, sp: u64, is_last: u32) {
    let thread = entry::thread();
    // SAFETY: as in `alone`. In a handler that interrupted the slow half the entry was counted as lost: its end
    // does not count as another call.
    if unsafe { !(*thread).is_busy() } {
        alone(thread, (), |thread| thread.exit_reported(addr, sp, is_last != 0));
    }
}

/// An exception was caught by the function whose stack pointer is `sp`.
pub fn caught(sp: u64) {
    jumped(sp);
    alone(entry::thread(), (), |thread| thread.caught(sp));
}

/// A jump is about to leave all frames below `sp`.
pub fn left_below(sp: u64) {
    jumped(sp);
    alone(entry::thread(), (), |thread| thread.left_below(sp));
}

/// Before anything else is done of a jump, perhaps out of a handler that had interrupted the slow half.
fn jumped(sp: u64) {
    // SAFETY: this thread's own state, as in `alone`; who held it does not go on.
    unsafe { (*entry::thread()).left_slow_half(sp) };
}

/// An unwinder is about to walk this thread's stack, from `above` on.
pub fn unhook(above: u64) {
    alone(entry::thread(), (), |thread| thread.unhook(above));
}

/// The walk is over and nothing was left.
pub fn rehook() {
    alone(entry::thread(), (), ThreadState::rehook);
}

/// The program restricts its system calls: from now on none are made here, so room is made for what is to come.
pub fn restrict() {
    alone(entry::thread(), (), ThreadState::reserve);
    crate::sys::restrict();
}

/// The C library is at round `rounds` of a thread's destructors; at the last one the thread ends.
pub extern "C" fn ending(rounds: usize) {
    if !thread_exit::watch_on(rounds) {
        alone(entry::thread(), (), ThreadState::end);
    }
}

/// This thread is the only one of a child just forked.
pub extern "C" fn forked() {
    alone(entry::thread(), (), ThreadState::forked);
}
