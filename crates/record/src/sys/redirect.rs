//! Standard output and standard error put elsewhere, for a pager.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// From here on standard output (1) or standard error (2) is `to`.
///
/// # Errors
/// `dup2` failed.
pub fn standard(number: i32, to: BorrowedFd<'_>) -> io::Result<()> {
    if !(1..=2).contains(&number) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: takes numbers only; 1 and 2 belong to the process and no owned descriptor has them.
    if unsafe { libc::dup2(to.as_raw_fd(), number) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Ctrl-C is left to the pager: it ends what the pager reads, and the pager goes on.
pub fn leave_interrupts() {
    // SAFETY: SIG_IGN is a valid disposition; nothing was handled before a command runs.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}
