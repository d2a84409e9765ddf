//! The side of the forked child: it waits for its turn, then becomes the command.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

/// Our environment with `added` in it, as `NAME=VALUE`.
pub(super) fn environment(added: &[(&'static str, OsString)]) -> impl Iterator<Item = Vec<u8>> {
    let ours = std::env::vars_os().filter(|(name, _)| !added.iter().any(|(other, _)| name == other));
    let added = added.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    ours.chain(added).map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
}

pub(super) fn c_strings(words: impl Iterator<Item = Vec<u8>>) -> io::Result<Vec<CString>> {
    let words: Result<Vec<_>, _> = words.map(CString::new).collect();
    words.map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an argument contains a NUL byte"))
}

pub(super) fn null_terminated(words: &[CString]) -> Vec<*const libc::c_char> {
    words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The original state of settings that we changed for ourselves.
pub(super) struct Before<'a> {
    pub(super) mask: Option<&'a libc::sigset_t>,
    pub(super) files: Option<libc::rlimit>,
}

/// The program that the child becomes: null-terminated arrays of C strings.
pub(super) struct ChildProgram<'a> {
    pub(super) argv: &'a [*const libc::c_char],
    pub(super) environment: &'a [*const libc::c_char],
}

/// The child between fork and exec. Never returns.
pub(super) fn child_main(
    program: &ChildProgram<'_>,
    fds: (RawFd, RawFd, RawFd),
    before: &Before<'_>,
    stdout_to_stderr: bool,
) -> ! {
    let (gate, our_gate_end, error_pipe) = fds;
    // SAFETY: a descriptor number of this process; without closing it, the gate would never report our parent's end.
    unsafe { libc::close(our_gate_end) };
    let mut go = [0u8; 1];
    // SAFETY: the buffer is live; read is async-signal-safe.
    let n = unsafe { libc::read(gate, go.as_mut_ptr().cast(), 1) };
    if n != 1 {
        // SAFETY: ends the process without running destructors of the parent's state.
        unsafe { libc::_exit(127) };
    }
    if stdout_to_stderr {
        // SAFETY: the standard descriptors; async-signal-safe.
        unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    }
    // Rust's runtime ignores SIGPIPE, which an exec'ed program would inherit.
    // SAFETY: restores a default disposition; async-signal-safe.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    if let Some(files) = before.files {
        // SAFETY: the pointer is to a live rlimit; async-signal-safe.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &files) };
    }
    if let Some(mask) = before.mask {
        // SAFETY: the set was filled by the kernel.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
    }
    // SAFETY: both are null-terminated arrays of C strings made before the fork.
    unsafe { libc::execvpe(program.argv[0], program.argv.as_ptr(), program.environment.as_ptr()) };
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
    // SAFETY: the buffer is live; write is async-signal-safe.
    unsafe { libc::write(error_pipe, errno.as_ptr().cast(), errno.len()) };
    // SAFETY: as above.
    unsafe { libc::_exit(127) }
}
