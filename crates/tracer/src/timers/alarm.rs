//! The signal of the timers, and what its handler does.
//!
//! The signal is one of those that C libraries keep to themselves: no program can block, catch or wait for it through
//! them, and `sigfillset` leaves it out. glibc changes users with it (`setuid` in programs with threads); what isn't
//! sent by a timer is handed on to its handler.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Slots, sandbox};
use crate::layout::slots::{REGISTERS, STACK_BYTES, kind, word};
use crate::sys;
use crate::sys::timer::{self, Action};

/// `SIGSETXID` of glibc.
// Source: glibc sysdeps/unix/sysv/linux/internal-signals.h.
pub const SIGNAL: i32 = 33;

const SA_SIGINFO: u64 = 4;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
#[cfg(target_arch = "x86_64")]
const SA_RESTORER: u64 = 0x0400_0000;

/// The C library's own handler; 0: none.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Sets the handler where it isn't set; what was there is called for signals that no timer sent.
pub fn install() -> bool {
    let ours = handle as *const () as usize;
    let Some(before) = timer::action_of(SIGNAL) else { return false };
    if before.handler == ours {
        return true;
    }
    // 0 and 1 are the default and to ignore.
    if before.handler > 1 {
        NEXT.store(before.handler, Ordering::Release);
    }
    // All other signals wait for the end of the handler: a call that is started again sees them as if it had not been
    // interrupted.
    let action = Action { handler: ours, mask: u64::MAX, ..returning() };
    timer::set_action(SIGNAL, &action)
}

#[cfg(target_arch = "x86_64")]
fn returning() -> Action {
    let flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_RESTORER;
    Action { flags, restorer: back as *const () as usize, ..Action::default() }
}

#[cfg(target_arch = "aarch64")]
fn returning() -> Action {
    Action { flags: SA_SIGINFO | SA_RESTART | SA_ONSTACK, ..Action::default() }
}

/// `rt_sigreturn`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn back() {
    core::arch::naked_asm!("mov eax, 15", "syscall")
}

// Layout: siginfo of a timer { int signo, errno, code; int pad; int tid, overrun; sigval value; … }.
// Source: linux include/uapi/asm-generic/siginfo.h.
#[repr(C)]
struct Info {
    signal: i32,
    errno: i32,
    code: i32,
    _pad: i32,
    _timer: [i32; 2],
    value: u64,
}

extern "C" fn handle(signal: i32, info: *const Info, context: *mut u64) {
    const SI_TIMER: i32 = -2;
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO.
    let (info_of, context_of) = unsafe { (&*info, &mut *registers(context)) };
    if info_of.code != SI_TIMER {
        let next = NEXT.load(Ordering::Acquire);
        if next != 0 {
            // SAFETY: the handler that was set for this signal, with what it would have been passed.
            let next: extern "C" fn(i32, *const Info, *mut u64) = unsafe { core::mem::transmute(next) };
            next(signal, info, context);
        }
        return;
    }
    let Some(slots) = Slots::of_process() else { return };
    sandbox::in_handler(|| {
        sample(slots, &numbered(context_of), info_of.value);
        start_again(slots, context_of);
    });
}

/// Hands out registers and stack; the stack ends at `end`, where that is known.
fn sample(slots: Slots, regs: &[u64; REGISTERS], end: u64) {
    let Some(mut slot) = slots.claim() else { return };
    slot.stamp(kind::SAMPLE);
    regs.iter().enumerate().for_each(|(at, value)| slot.set(word::REGS + at, *value));
    let sp = regs[STACK_POINTER];
    // Not past the stack's end, where it is known: what is there is not the thread's.
    let left = end.wrapping_sub(sp);
    let want = if left > 0 && left < STACK_BYTES as u64 { left as usize } else { STACK_BYTES };
    let bytes = sys::read_memory(sp, &mut slot.room()[..want]);
    slot.set(word::BYTES, bytes as u64);
    #[cfg(target_arch = "x86_64")]
    super::python::copy_frames(slots, &mut slot);
    slot.hand_over();
}

/// The general registers in the kernel's order.
#[cfg(target_arch = "x86_64")]
type Registers = [u64; 23];

// Layout: ucontext { u64 flags; u64 link; stack_t (24 bytes); sigcontext { r8 … r15 di si bp bx dx ax cx sp ip flags
// u16 cs gs fs ss … } }. Source: linux arch/x86/include/uapi/asm/{ucontext,sigcontext}.h.
#[cfg(target_arch = "x86_64")]
fn registers(context: *mut u64) -> *mut Registers {
    context.wrapping_add(5).cast()
}

/// Number of the stack pointer in perf's order.
#[cfg(target_arch = "x86_64")]
const STACK_POINTER: usize = 7;

/// In perf's order: AX BX CX DX SI DI BP SP IP FLAGS, six segments, R8 … R15.
// Source: linux arch/x86/include/uapi/asm/perf_regs.h.
#[cfg(target_arch = "x86_64")]
fn numbered(of: &Registers) -> [u64; REGISTERS] {
    const PLACES: [usize; 10] = [13, 11, 14, 12, 9, 8, 10, 15, 16, 17];
    let mut regs = [0; REGISTERS];
    PLACES.iter().enumerate().for_each(|(to, from)| regs[to] = of[*from]);
    regs[10] = of[18] & 0xffff;
    regs[16..24].copy_from_slice(&of[..8]);
    regs
}

/// Calls that end with EINTR whatever the handler's flags: the timer may fire on their way to sleep. They are started
/// again, as if nothing had come. Others go on by SA_RESTART.
// Source: signal(7), "Interruption of system calls … by signal handlers".
#[cfg(target_arch = "x86_64")]
fn start_again(slots: Slots, regs: &mut Registers) {
    use crate::layout::slots::{RESTARTED_WORD, call_number};

    const EINTR: u64 = (-4i64).cast_unsigned();
    /// poll select nanosleep semop semtimedop rt_sigtimedwait epoll_wait clock_nanosleep futex pselect6 ppoll
    /// epoll_pwait epoll_pwait2 io_getevents io_pgetevents msgrcv msgsnd connect accept recvfrom recvmsg sendto sendmsg
    /// recvmmsg accept4 rt_sigsuspend is left out: it is to end.
    const CALLS: [u32; 25] = [
        7, 23, 35, 65, 220, 128, 232, 230, 202, 270, 271, 281, 441, 208, 333, 70, 69, 42, 43, 45, 47, 44, 46,
        299, 288,
    ];
    const AX: usize = 13;
    const IP: usize = 16;
    if regs[AX] != EINTR {
        return;
    }
    // The number itself is overwritten by now.
    let mut code = [0u8; 7];
    if sys::read_memory(regs[IP].wrapping_sub(7), &mut code) != code.len() {
        return;
    }
    let Some(number) = call_number(&code).filter(|number| CALLS.contains(number)) else { return };
    slots.header(RESTARTED_WORD).fetch_add(1, Ordering::Relaxed);
    regs[AX] = u64::from(number);
    regs[IP] -= 2;
}

#[cfg(target_arch = "aarch64")]
type Registers = [u64; REGISTERS];

// Layout: ucontext { u64 flags; u64 link; stack_t (24 bytes); sigset (8) and room for 1024 bits in all; sigcontext,
// aligned to 16 { u64 fault_address; x0 … x30 sp pc … } }. Source: linux arch/arm64/include/uapi/asm/{ucontext,sigcontext}.h.
#[cfg(target_arch = "aarch64")]
fn registers(context: *mut u64) -> *mut Registers {
    context.wrapping_add(176 / 8 + 1).cast()
}

/// Number of the stack pointer in perf's order.
#[cfg(target_arch = "aarch64")]
const STACK_POINTER: usize = 31;

/// Perf's order is the kernel's: x0 … x30 sp pc.
#[cfg(target_arch = "aarch64")]
fn numbered(of: &Registers) -> [u64; REGISTERS] {
    *of
}

/// The first argument of an interrupted call is overwritten here, so none is started again.
#[cfg(target_arch = "aarch64")]
fn start_again(_: Slots, _: &mut Registers) {}
