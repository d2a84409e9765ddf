//! System calls for which a seccomp filter kills: systemd's `SystemCallFilter=` does, unless it names an errno.
//!
//! Such a filter can only be found out by dying of it, so a child tries the call. The answer holds for our whole life: a
//! filter is never taken away, and tally installs none.

use std::sync::OnceLock;

/// A call that services are often forbidden, and that a recording can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedCall {
    /// `perf_event_open`.
    PerfEvents,
    /// `bpf`.
    Bpf,
    /// `ptrace`.
    Trace,
    /// `timer_create`, which the preloaded library makes in the program.
    Timers,
}

impl GuardedCall {
    const COUNT: usize = 4;

    fn number(self) -> libc::c_long {
        match self {
            Self::PerfEvents => libc::SYS_perf_event_open,
            Self::Bpf => libc::SYS_bpf,
            Self::Trace => libc::SYS_ptrace,
            Self::Timers => libc::SYS_timer_create,
        }
    }

    /// True if the call would end this process. It is tried once, and only below a filter.
    #[must_use]
    pub fn is_deadly(self) -> bool {
        static DEADLY: [OnceLock<bool>; GuardedCall::COUNT] = [const { OnceLock::new() }; GuardedCall::COUNT];
        *DEADLY[self as usize].get_or_init(|| has_filter() && kills(self.number()))
    }

    /// The error of a call that was left out because it would end this process.
    ///
    /// # Errors
    /// `EPERM`, as other filters answer.
    pub fn check(self) -> std::io::Result<()> {
        if self.is_deadly() { Err(std::io::Error::from_raw_os_error(libc::EPERM)) } else { Ok(()) }
    }
}

/// True if a seccomp filter looks at the calls of this thread. Asked without /proc, which may not be there.
#[must_use]
pub fn has_filter() -> bool {
    const FILTER: libc::c_int = 2;
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) == FILTER }
}

/// Whether a child dies of the call, whose arguments make no sense to the kernel.
fn kills(number: libc::c_long) -> bool {
    // A fork without a signal at its end, which readers of SIGCHLD would see.
    // SAFETY: without flags and with its own copy of the stack, the child is as after fork(). It calls only what is
    // async-signal-safe, and exits.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if pid == 0 {
        die_of(number);
    }
    let mut status = 0;
    let is_child = |pid: libc::c_long| libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0);
    let Some(pid) = is_child(pid) else { return false };
    loop {
        // SAFETY: the pointer is to a live int. `__WALL` is for children without a signal.
        let found = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
        if found == pid {
            return libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS;
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return false;
        }
    }
}

/// Makes the call in the child, and ends it.
fn die_of(number: libc::c_long) -> ! {
    const NONE: usize = usize::MAX;
    // SAFETY: takes no pointers. Nobody wants this process's memory in a file.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    // A handler of ours for SIGSYS would hide a filter that sends it.
    // SAFETY: SIG_DFL is a valid handler.
    unsafe { libc::signal(libc::SIGSYS, libc::SIG_DFL) };
    // SAFETY: no request, command, clock or address is -1: the kernel refuses each before it writes anywhere.
    unsafe { libc::syscall(number, NONE, NONE, NONE, NONE, NONE, NONE) };
    // SAFETY: ends the process without running anything of its parent's.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_the_kernel_only_refuses_is_not_deadly() {
        for call in [GuardedCall::PerfEvents, GuardedCall::Bpf, GuardedCall::Trace, GuardedCall::Timers] {
            assert!(!kills(call.number()), "{call:?}");
            assert!(call.is_deadly() || call.check().is_ok());
        }
    }
}
