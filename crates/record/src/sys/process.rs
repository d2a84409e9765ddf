//! Starting the measured program: forked early, exec'ed when the events are open.
//!
//! The child waits on a pipe, so that its pid is known and events with `enable_on_exec` can be opened first; the
//! failure of its exec comes back through a close-on-exec pipe, as an errno.

mod child_program;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use super::seccomp::GuardedCall;
use super::{SignalReader, TraceRequest, mem, out_of_memory, signal};
use child_program::{Before, ChildProgram, c_strings, child_main, environment, null_terminated};

/// How long a program that nobody records any more has to end after TERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// Settings of a program that differ from its parent's.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Its standard output goes to standard error, because standard output carries our own data.
    pub stdout_to_stderr: bool,
    /// Variables added to its environment.
    pub variables: Vec<(&'static str, OsString)>,
}

/// A forked process, waiting to exec or running. A program that still runs when this is dropped (its recording failed)
/// is ended by TERM, and after two seconds by KILL.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    gate: Option<io::PipeWriter>,
    exec_error: Option<io::PipeReader>,
    reaped: Option<ExitKind>,
    /// It is stopped, traced by us, since an exec.
    stopped: bool,
    used: CpuUse,
}

/// CPU time of a process and of its children that it waited for, as the kernel accounts it (`wait4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuUse {
    /// In user mode, in ns (the kernel reports whole µs).
    pub user_ns: u64,
    /// In the kernel, in ns.
    pub system_ns: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// `exit(code)`.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// Gives the calling thread, and those it starts from here on, the real-time priority `priority` (`SCHED_FIFO`).
///
/// # Errors
/// `EPERM` without the right, `EINVAL` outside of 1 to 99.
pub fn become_realtime(priority: i32) -> io::Result<()> {
    // The kernel's `sched_param` is this one number. musl's function of this name refuses everything: its standard
    // wants it for processes, the kernel has it for threads.
    let how: libc::c_int = priority;
    // SAFETY: 0 is the calling thread; the pointer is to a live int.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl ExitKind {
    /// From the `wait4` status of a process that has ended.
    pub(super) fn of_wait_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }

    /// The status a shell would show: the code, or 128 + the signal.
    #[must_use]
    pub fn shell_code(self) -> u8 {
        match self {
            Self::Code(code) => (code & 0xff) as u8,
            Self::Signal(number) => (128 + (number & 0x7f)) as u8,
        }
    }
}

impl Child {
    /// Forks. The child waits until [`Child::exec`]; it dies if we go away before.
    ///
    /// The program is searched in `PATH` at exec. The signal mask of `signals` is undone in the child.
    pub fn fork<S: AsRef<OsStr>>(argv: &[S], signals: Option<&SignalReader>) -> io::Result<Self> {
        Self::fork_with(argv, signals, &Surroundings::default())
    }

    /// As [`Child::fork`], in other surroundings.
    pub fn fork_with<S: AsRef<OsStr>>(
        argv: &[S],
        signals: Option<&SignalReader>,
        surroundings: &Surroundings,
    ) -> io::Result<Self> {
        let argv = c_strings(argv.iter().map(|word| word.as_ref().as_bytes().to_vec()))?;
        let environment = c_strings(environment(&surroundings.variables))?;
        if argv.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command given"));
        }
        let (argv, environment) = (null_terminated(&argv), null_terminated(&environment));
        let (gate_read, gate_write) = io::pipe()?;
        let (error_read, error_write) = io::pipe()?;
        let before = Before { mask: signals.map(SignalReader::mask_before), files: mem::open_files_before() };
        // SAFETY: the child calls only async-signal-safe functions (see `child_main`) until it execs or exits.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            let fds = (gate_read.as_raw_fd(), gate_write.as_raw_fd(), error_write.as_raw_fd());
            let program = ChildProgram { argv: &argv, environment: &environment };
            child_main(&program, fds, &before, surroundings.stdout_to_stderr);
        }
        Ok(Self {
            pid: pid as u32,
            gate: Some(gate_write),
            exec_error: Some(error_read),
            reaped: None,
            stopped: false,
            used: CpuUse::default(),
        })
    }

    /// Lets the child exec, again and again, until `is_it` accepts its present program. Then it is stopped before its
    /// first instruction until [`Child::exec`]. Returns `None` if it is stopped, else how it ended. `meanwhile` is
    /// called while there is nothing to do, and waits a moment.
    ///
    /// # Errors
    /// That of `execvp` or ptrace (`EPERM` where tracing is forbidden), or of `meanwhile`.
    pub fn exec_until(
        &mut self,
        is_it: &mut dyn FnMut(u32) -> bool,
        meanwhile: &mut dyn FnMut(u32) -> io::Result<()>,
    ) -> io::Result<Option<ExitKind>> {
        GuardedCall::Trace.check()?;
        self.trace(libc::PTRACE_SEIZE, libc::PTRACE_O_TRACEEXEC as usize)?;
        let Some(mut gate) = self.gate.take() else { return Ok(None) };
        gate.write_all(b"g")?;
        drop(gate);
        loop {
            let mut status = 0;
            // SAFETY: the pointer is to a live int.
            match unsafe { libc::waitpid(self.pid as libc::pid_t, &mut status, libc::WNOHANG) } {
                ..0 => return Err(io::Error::last_os_error()),
                0 => {
                    meanwhile(self.pid)?;
                    continue;
                }
                _ => {}
            }
            if !libc::WIFSTOPPED(status) {
                return self.ended_before(status).map(Some);
            }
            let by_exec = status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
            if by_exec && is_it(self.pid) {
                self.stopped = true;
                self.exec_error = None;
                return Ok(None);
            }
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            self.trace(libc::PTRACE_CONT, signal as usize)?;
        }
    }

    /// It ended without becoming the awaited program; a failed `execvp` is reported as an error.
    fn ended_before(&mut self, status: i32) -> io::Result<ExitKind> {
        let end = ExitKind::of_wait_status(status);
        self.reaped = Some(end);
        let mut errno = [0u8; 4];
        match self.exec_error.take().map(|mut pipe| pipe.read_exact(&mut errno)) {
            Some(Ok(())) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            _ => Ok(end),
        }
    }

    fn trace(&self, request: TraceRequest, data: usize) -> io::Result<()> {
        // SAFETY: none of the requests we make has the kernel touch memory of ours: address 0, data a number.
        let done = unsafe { libc::ptrace(request, self.pid as libc::pid_t, 0usize, data) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The child's process id (also after its end).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child exec; returns once the new program runs. The error is that of `execvp` (`ENOENT`, `EACCES` …).
    pub fn exec(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.stopped) {
            out_of_memory::command_runs(self.pid);
            return self.trace(libc::PTRACE_DETACH, 0);
        }
        let Some(mut gate) = self.gate.take() else { return Ok(()) };
        gate.write_all(b"g")?;
        drop(gate);
        let mut errno = [0u8; 4];
        let Some(mut pipe) = self.exec_error.take() else { return Ok(()) };
        match pipe.read_exact(&mut errno) {
            Ok(()) => {
                let _ = self.wait();
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
            }
            // The pipe closed without a word: exec happened.
            Err(_) => {
                out_of_memory::command_runs(self.pid);
                Ok(())
            }
        }
    }

    /// The end of the child, if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitKind>> {
        self.wait_with(libc::WNOHANG)
    }

    /// Waits for the end of the child.
    pub fn wait(&mut self) -> io::Result<ExitKind> {
        loop {
            match self.wait_with(0) {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Resources that the ended child used; zero before its end was waited for.
    #[must_use]
    pub fn used(&self) -> CpuUse {
        self.used
    }

    fn wait_with(&mut self, flags: i32) -> io::Result<Option<ExitKind>> {
        if let Some(end) = self.reaped {
            return Ok(Some(end));
        }
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to live memory of the right size.
        let pid = unsafe { libc::wait4(self.pid as i32, &mut status, flags, usage.as_mut_ptr()) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            return Ok(None);
        }
        // SAFETY: all bytes were zero, which is a valid value, and the kernel may have filled them.
        let usage = unsafe { usage.assume_init() };
        let nanos = |t: libc::timeval| (t.tv_sec as u64) * 1_000_000_000 + (t.tv_usec as u64) * 1000;
        self.used = CpuUse { user_ns: nanos(usage.ru_utime), system_ns: nanos(usage.ru_stime) };
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            let kind = ExitKind::of_wait_status(status);
            out_of_memory::command_ended(kind);
            self.reaped = Some(kind);
        }
        Ok(self.reaped)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has not exec'ed ends by that.
        self.gate = None;
        let mut number = signal::SIGTERM;
        let begin = Instant::now();
        while matches!(self.try_wait(), Ok(None)) {
            if number != 0 {
                let _ = signal::send(self.pid, number);
            }
            number = if begin.elapsed() < PATIENCE { 0 } else { signal::SIGKILL };
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_by_its_errno() {
        let mut child = Child::fork(&["/no/such/program"], None).expect("fork");
        assert_eq!(child.exec().expect_err("cannot run").raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn exit_code_and_signal_come_through() {
        let end = |script: &str| {
            let mut child = Child::fork(&["sh", "-c", script], None).expect("fork");
            child.exec().expect("sh runs");
            child.wait().expect("wait")
        };
        assert_eq!(end("exit 7"), ExitKind::Code(7));
        assert_eq!(end("kill -9 $$").shell_code(), 137);
    }

    #[test]
    fn a_program_that_is_dropped_is_ended_even_if_it_ignores_term() {
        for script in ["exec sleep 1000", "trap '' TERM; while :; do sleep 0.1; done"] {
            let mut child = Child::fork(&["sh", "-c", script], None).expect("fork");
            child.exec().expect("sh runs");
            let pid = child.pid();
            drop(child);
            assert_eq!(signal::send(pid, 0).expect_err("gone").raw_os_error(), Some(libc::ESRCH));
        }
    }

    #[test]
    fn variables_are_added_to_the_environment() {
        let surroundings = Surroundings {
            variables: vec![("TALLY_ADDED", "7".into()), ("HOME", "x".into())],
            ..Default::default()
        };
        let argv = ["sh", "-c", "test -n \"$PATH\" && test $HOME = x && exit $TALLY_ADDED"];
        let mut child = Child::fork_with(&argv, None, &surroundings).expect("fork");
        child.exec().expect("sh runs");
        assert_eq!(child.wait().expect("wait"), ExitKind::Code(7));
    }

    #[test]
    fn a_child_never_let_go_does_not_linger() {
        let mut child = Child::fork(&["true"], None).expect("fork");
        child.gate = None;
        assert_eq!(child.wait().expect("wait"), ExitKind::Code(127));
    }
}
