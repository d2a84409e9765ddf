//! Stopping a thread for some microseconds to read its registers: `PTRACE_SEIZE` and `PTRACE_INTERRUPT`, then detach.
//!
//! A thread is traced only while it is stopped, so a debugger can attach between two stops. A tracer that is killed
//! leaves nothing: the kernel detaches and lets the threads run, because `PTRACE_O_EXITKILL` is not set. A signal that
//! reaches the thread during the stop is delivered when it is let go. A thread in a group stop (`SIGSTOP`) stays in it.
//!
//! The stop is found by asking for it (`PTRACE_GETSIGINFO` fails until then), not by waiting: the ends of our own
//! children are waited for elsewhere.
//
// Source: linux v6.18 kernel/ptrace.c (ptrace_attach, ptrace_detach, ptrace_request), kernel/signal.c (do_jobctl_trap)

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::TraceRequest;
use super::seccomp::GuardedCall;

/// Registers in perf's numbering, as [`tracer::layout::slots::word::REGS`] has them.
pub type PerfRegisters = [u64; tracer::layout::slots::REGISTERS];

/// `NT_PRSTATUS` of elf.h: the general registers.
const GENERAL: usize = 1;

/// Index of r0 at the begin of a call in [`UserRegisters`].
#[cfg(target_arch = "arm")]
const ORIG_R0: usize = 17;

/// `si_code >> 8` of a stop that no signal caused.
const EVENT_STOP: i32 = 128;

/// The general registers as the kernel gives them.
#[cfg(not(target_arch = "arm"))]
type UserRegisters = libc::user_regs_struct;
/// r0 to r15, the flags, and r0 at the begin of a system call (-1 outside of calls).
//
// Layout: struct pt_regs. Source: linux v6.18 arch/arm/include/uapi/asm/ptrace.h, kernel/entry-armv.S (usr_entry)
#[cfg(target_arch = "arm")]
type UserRegisters = [u32; 18];

/// Outcome of an attempt to stop a thread.
#[derive(Debug)]
pub enum StopAttempt {
    /// It is stopped until this is dropped.
    Stopped(StoppedThread),
    /// It will stop when it leaves the kernel: see [`StoppingThread::stopped`].
    Stopping(StoppingThread),
    /// The system's error: `ESRCH` when it is gone, `EPERM` when a debugger has it or tracing is forbidden.
    Refused(io::Error),
}

/// A traced thread that has not stopped yet.
#[derive(Debug)]
pub struct StoppingThread {
    tid: u32,
}

/// A stopped thread, which runs on when this is dropped.
#[derive(Debug)]
pub struct StoppedThread {
    tid: u32,
    /// Delivered when the thread is let go; 0 for none.
    signal: i32,
}

/// Stops a thread, and waits at most for the time that `is_patient` grants.
pub fn stop(tid: u32, mut is_patient: impl FnMut() -> bool) -> StopAttempt {
    let seized = GuardedCall::Trace.check().and_then(|()| request(libc::PTRACE_SEIZE, tid, 0));
    if let Err(error) = seized {
        return StopAttempt::Refused(error);
    }
    let stopping = StoppingThread { tid };
    // Should it be gone: found out below.
    let _ = request(libc::PTRACE_INTERRUPT, tid, 0);
    loop {
        match stopping.stopped() {
            Some(stopped) => return StopAttempt::Stopped(stopped),
            None if !is_patient() => return StopAttempt::Stopping(stopping),
            None => std::hint::spin_loop(),
        }
    }
}

impl StoppingThread {
    /// The thread.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The thread, once it is stopped.
    #[must_use]
    pub fn stopped(&self) -> Option<StoppedThread> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let to = info.as_mut_ptr();
        // SAFETY: the kernel fills the live siginfo_t, or fails.
        let done = unsafe {
            libc::ptrace(libc::PTRACE_GETSIGINFO, self.tid.cast_signed(), ptr::null_mut::<u8>(), to)
        };
        if done < 0 {
            return None;
        }
        // SAFETY: all bytes were zero, which is a valid value, and the kernel has filled them.
        let info = unsafe { info.assume_init() };
        let is_event = info.si_code >> 8 == EVENT_STOP;
        Some(StoppedThread { tid: self.tid, signal: if is_event { 0 } else { info.si_signo } })
    }

    /// True if the thread has ended, and reaps it. The end of `our_child` is left to its parent.
    #[must_use]
    pub fn is_gone(&self, our_child: Option<u32>) -> bool {
        if our_child == Some(self.tid) {
            return !crate::machine::proc::is_alive(self.tid);
        }
        let mut status = 0;
        let flags = libc::__WALL | libc::WNOHANG;
        // SAFETY: the pointer is to a live int. A thread that is traced by us, and no child of ours, can be waited for by
        // us only.
        let found = unsafe { libc::waitpid(self.tid.cast_signed(), &mut status, flags) };
        found < 0 || (found > 0 && !libc::WIFSTOPPED(status))
    }
}

impl StoppedThread {
    /// The registers in user space.
    ///
    /// # Errors
    /// If the thread was killed meanwhile, or is a 32-bit one.
    pub fn registers(&self) -> io::Result<PerfRegisters> {
        self.read().map(|registers| in_perfs_order(&registers))
    }

    /// True if the thread is in a system call, false if it was in user code.
    #[must_use]
    pub fn is_in_call(&self) -> bool {
        self.call_number().is_some_and(|number| number >= 0)
    }

    #[cfg(target_arch = "x86_64")]
    fn call_number(&self) -> Option<i64> {
        self.read().ok().map(|registers| registers.orig_rax.cast_signed())
    }

    #[cfg(target_arch = "aarch64")]
    fn call_number(&self) -> Option<i64> {
        /// `NT_ARM_SYSTEM_CALL` of elf.h: one int, -1 outside of calls.
        const SYSTEM_CALL: usize = 0x404;
        let mut number = -1i32;
        let mut buffer =
            libc::iovec { iov_base: ptr::from_mut(&mut number).cast(), iov_len: size_of::<i32>() };
        self.register_set(libc::PTRACE_GETREGSET, SYSTEM_CALL, &mut buffer).ok()?;
        Some(i64::from(number))
    }

    #[cfg(target_arch = "arm")]
    fn call_number(&self) -> Option<i64> {
        self.read()
            .ok()
            .map(|registers| if registers[ORIG_R0] == u32::MAX { -1 } else { i64::from(registers[7]) })
    }

    /// Has a system call made again that our stop ended with `EINTR`, although no signal came: some calls (`epoll_wait`,
    /// `semop`) end so at any stop. Returns whether it had to be.
    pub fn restart_interrupted_call(&self) -> bool {
        let Ok(registers) = self.read() else { return false };
        if self.signal != 0 || has_pending_signal(self.tid) {
            return false;
        }
        again(registers).is_some_and(|registers| self.write(&registers).is_ok())
    }

    fn read(&self) -> io::Result<UserRegisters> {
        let mut registers = MaybeUninit::<UserRegisters>::zeroed();
        let size = size_of::<UserRegisters>();
        let mut buffer = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size };
        self.register_set(libc::PTRACE_GETREGSET, GENERAL, &mut buffer)?;
        if buffer.iov_len != size {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: the kernel has filled all of it.
        Ok(unsafe { registers.assume_init() })
    }

    fn write(&self, registers: &UserRegisters) -> io::Result<()> {
        let mut copy = *registers;
        let size = size_of::<UserRegisters>();
        let mut buffer = libc::iovec { iov_base: ptr::from_mut(&mut copy).cast(), iov_len: size };
        self.register_set(libc::PTRACE_SETREGSET, GENERAL, &mut buffer)
    }

    fn register_set(&self, how: TraceRequest, set: usize, buffer: &mut libc::iovec) -> io::Result<()> {
        // SAFETY: the kernel reads or fills the buffer of that length, which lives in the caller.
        let done = unsafe { libc::ptrace(how, self.tid.cast_signed(), set, ptr::from_mut(buffer)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // Fails only for a thread that was killed.
        let _ = request(libc::PTRACE_DETACH, self.tid, self.signal as usize);
    }
}

fn request(what: TraceRequest, tid: u32, data: usize) -> io::Result<()> {
    // SAFETY: with these requests the kernel touches no memory of ours: address 0, data a number.
    let done = unsafe { libc::ptrace(what, tid.cast_signed(), 0usize, data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if calls of `ptrace` get to the kernel, which knows no process of this number.
#[must_use]
pub fn reaches_kernel() -> bool {
    let nobody = libc::pid_t::MAX.cast_unsigned();
    let asked = GuardedCall::Trace.check().and_then(|()| request(libc::PTRACE_DETACH, nobody, 0));
    asked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

/// True if a signal waits that the thread does not block.
fn has_pending_signal(tid: u32) -> bool {
    let status = dso::system_file::read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    has_unblocked_signal(&status)
}

fn has_unblocked_signal(status: &str) -> bool {
    let mask = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
}

/// The registers with which the interrupted call is made once more; `None` if none was ended by `EINTR`.
// Source: Intel SDM volume 2, "SYSCALL" (0F 05: two bytes)
#[cfg(target_arch = "x86_64")]
fn again(mut registers: UserRegisters) -> Option<UserRegisters> {
    let is_call = registers.orig_rax.cast_signed() >= 0;
    if !is_call || registers.rax.cast_signed() != -i64::from(libc::EINTR) {
        return None;
    }
    registers.rax = registers.orig_rax;
    registers.rip -= 2;
    Some(registers)
}

/// The instruction of the call has two bytes in Thumb code, four otherwise.
#[cfg(target_arch = "arm")]
fn again(mut registers: UserRegisters) -> Option<UserRegisters> {
    const FLAGS: usize = 16;
    const THUMB: u32 = 1 << 5;
    if registers[ORIG_R0] == u32::MAX || registers[0].cast_signed() != -libc::EINTR {
        return None;
    }
    registers[0] = registers[ORIG_R0];
    registers[15] -= if registers[FLAGS] & THUMB != 0 { 2 } else { 4 };
    Some(registers)
}

/// On aarch64 the first argument is overwritten by the result, and the kernel alone knows it.
#[cfg(target_arch = "aarch64")]
fn again(_registers: UserRegisters) -> Option<UserRegisters> {
    None
}

// Layout: arch/x86/include/uapi/asm/perf_regs.h. Source: arch/x86/kernel/perf_regs.c, pt_regs_offset
#[cfg(target_arch = "x86_64")]
fn in_perfs_order(of: &UserRegisters) -> PerfRegisters {
    let known = [
        of.rax, of.rbx, of.rcx, of.rdx, of.rsi, of.rdi, of.rbp, of.rsp, of.rip, of.eflags, of.cs, of.ss,
        of.ds, of.es, of.fs, of.gs, of.r8, of.r9, of.r10, of.r11, of.r12, of.r13, of.r14, of.r15,
    ];
    std::array::from_fn(|at| known.get(at).copied().unwrap_or(0))
}

// Layout: arch/arm64/include/uapi/asm/perf_regs.h. Source: arch/arm64/kernel/perf_regs.c, perf_reg_value
#[cfg(target_arch = "aarch64")]
fn in_perfs_order(of: &UserRegisters) -> PerfRegisters {
    std::array::from_fn(|at| match at {
        0..=30 => of.regs[at],
        31 => of.sp,
        _ => of.pc,
    })
}

// Layout: arch/arm/include/uapi/asm/perf_regs.h. Source: arch/arm/kernel/perf_regs.c, perf_reg_value
#[cfg(target_arch = "arm")]
fn in_perfs_order(of: &UserRegisters) -> PerfRegisters {
    std::array::from_fn(|at| if at < 16 { u64::from(of[at]) } else { 0 })
}

#[cfg(test)]
mod tests;
