//! Signals as data: blocked in all threads, read from a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use libc::{SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

/// Reads blocked signals. Make it before any thread starts (threads inherit the mask); the mask is restored on drop.
#[derive(Debug)]
pub struct SignalReader {
    fd: OwnedFd,
    before: libc::sigset_t,
}

/// One signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Number.
    pub number: i32,
    /// The process that sent it with `kill`; `None` if the kernel did (a key on the terminal, a child's end).
    pub sender: Option<u32>,
}

impl SignalReader {
    /// Blocks `signals` for this thread and all it will start, and opens the descriptor they are read from.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: writes the whole set.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        for &number in signals {
            // SAFETY: the set was initialised above.
            unsafe { libc::sigaddset(set.as_mut_ptr(), number) };
        }
        // SAFETY: initialised by sigemptyset.
        let set = unsafe { set.assume_init() };
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both pointers are to live sets.
        let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr()) };
        if status != 0 {
            return Err(io::Error::from_raw_os_error(status));
        }
        // SAFETY: filled by the call, which succeeded.
        let before = unsafe { before.assume_init() };
        // SAFETY: −1 asks for a new descriptor; the set is live.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, before })
    }

    /// For a thread that starts before a recording does: it leaves the signals that end recordings to those who read
    /// them. Without, such a signal may be delivered to this thread, and that ends the process.
    #[must_use]
    pub fn leave_to_recording() -> Option<Self> {
        Self::new(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD]).ok()
    }

    /// The next waiting signal, if any.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is live and of the size given.
        let n = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        if n as usize != size {
            return Ok(None);
        }
        // SAFETY: the kernel filled the whole structure.
        let info = unsafe { info.assume_init() };
        let by_process = info.ssi_code <= 0;
        Ok(Some(Signal { number: info.ssi_signo as i32, sender: by_process.then_some(info.ssi_pid) }))
    }

    /// Takes pending signals and forgets them, because the command they were sent for has ended. Otherwise they would
    /// end this process when the reader is dropped.
    pub fn forget_waiting(&self) {
        while let Ok(Some(_)) = self.next() {}
    }

    /// The signal mask as it was before, for a child to restore.
    pub(super) fn mask_before(&self) -> &libc::sigset_t {
        &self.before
    }
}

impl AsFd for SignalReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SignalReader {
    fn drop(&mut self) {
        // SAFETY: the set was filled by pthread_sigmask; a null old set is allowed.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Whether the signal is ignored, as `nohup` has it for SIGHUP.
#[must_use]
pub fn is_ignored(number: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live sigaction; nothing is changed.
    let status = unsafe { libc::sigaction(number, std::ptr::null(), &mut action) };
    status == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// From here on a write past `RLIMIT_FSIZE` fails with `EFBIG` instead of ending us by SIGXFSZ. The signal is caught
/// and not ignored, because programs that we start inherit what is ignored.
pub fn survive_file_size_limit() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live sigaction; nothing is changed.
    unsafe { libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action) };
    if action.sa_sigaction == libc::SIG_DFL {
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler does nothing, which is safe whatever it interrupts.
        unsafe { libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut()) };
    }
}

/// Sends a signal to a process. `ESRCH` if it is gone.
pub fn send(pid: u32, number: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers only.
    if unsafe { libc::kill(pid, number) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
