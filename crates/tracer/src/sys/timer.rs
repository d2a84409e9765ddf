//! System calls of the sampling timers: POSIX timers on a thread's CPU time, and their signal.

use super::{call, space};

#[cfg(target_arch = "x86_64")]
mod number {
    pub const RT_SIGACTION: usize = 13;
    pub const TIMER_CREATE: usize = 222;
    pub const TIMER_SETTIME: usize = 223;
    pub const TIMER_DELETE: usize = 226;
    pub const GETPPID: usize = 110;
}

// Source: linux include/uapi/asm-generic/unistd.h.
#[cfg(target_arch = "aarch64")]
mod number {
    pub const RT_SIGACTION: usize = 134;
    pub const TIMER_CREATE: usize = 107;
    pub const TIMER_SETTIME: usize = 110;
    pub const TIMER_DELETE: usize = 111;
    pub const GETPPID: usize = 173;
}

/// `CLOCK_THREAD_CPUTIME_ID`.
const THREAD_CPU: usize = 3;

// Layout: struct sigevent { sigval value; int signo; int notify; int tid; … } of 64 bytes.
// Source: linux include/uapi/asm-generic/siginfo.h.
#[repr(C)]
struct SignalEvent {
    value: u64,
    signal: i32,
    notify: i32,
    tid: i32,
    rest: [u32; 11],
}

/// The kernel's `struct sigaction`.
// Source: linux arch/x86/include/uapi/asm/signal.h; arm64 has the same fields.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    /// Function.
    pub handler: usize,
    /// `SA_*`.
    pub flags: u64,
    /// Returns from the handler.
    pub restorer: usize,
    /// Blocked meanwhile.
    pub mask: u64,
}

/// When a timer fires, in ns of CPU time.
pub struct TimerPace {
    /// For the first time, after now.
    pub first_ns: u64,
    /// Then each.
    pub period_ns: u64,
}

/// A timer on this thread's CPU time that sends it `signal`; its number.
pub fn start(signal: i32, value: u64, pace: &TimerPace) -> Result<u32, i32> {
    const SIGEV_THREAD_ID: i32 = 4;
    let tid = super::tid() as i32;
    let event = SignalEvent { value, signal, notify: SIGEV_THREAD_ID, tid, rest: [0; 11] };
    let mut id = 0i32;
    // SAFETY: the kernel reads one struct and writes one int.
    space::result(unsafe {
        let (event, id) = (&raw const event as usize, &raw mut id as usize);
        call(number::TIMER_CREATE, [THREAD_CPU, event, id, 0, 0, 0])
    })?;
    let split = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000];
    let times = [split(pace.period_ns), split(pace.first_ns)];
    // SAFETY: the kernel reads four words.
    let set = unsafe { call(number::TIMER_SETTIME, [id as usize, 0, &raw const times as usize, 0, 0, 0]) };
    space::result(set).map(|_| id as u32)
}

/// Ends a timer of ours.
pub fn delete(id: u32) {
    // SAFETY: only called with numbers from `start`.
    unsafe { call(number::TIMER_DELETE, [id as usize, 0, 0, 0, 0, 0]) };
}

/// Action of a signal now.
pub fn action_of(signal: i32) -> Option<Action> {
    let mut before = Action::default();
    let at = &raw mut before as usize;
    // SAFETY: the kernel writes one struct.
    let answer = unsafe { call(number::RT_SIGACTION, [signal as usize, 0, at, 8, 0, 0]) };
    (answer == 0).then_some(before)
}

/// Sets what a signal does.
pub fn set_action(signal: i32, action: &Action) -> bool {
    let at = &raw const *action as usize;
    // SAFETY: the kernel reads one struct, whose handler follows the rules of signal handlers.
    let answer = unsafe { call(number::RT_SIGACTION, [signal as usize, at, 0, 8, 0, 0]) };
    answer == 0
}

/// Lets a signal come to this thread.
pub fn unblock(signal: i32) {
    const SIG_UNBLOCK: usize = 1;
    let mask = 1u64 << (signal - 1);
    // SAFETY: the kernel reads one word.
    unsafe { call(super::number::RT_SIGPROCMASK, [SIG_UNBLOCK, &raw const mask as usize, 0, 8, 0, 0]) };
}

/// The parent's process id.
pub fn parent() -> u32 {
    // SAFETY: has no arguments.
    unsafe { call(number::GETPPID, [0; 6]) as u32 }
}
