//! The end of a process whose memory is limited (`ulimit -v`), when its memory is used up.

use std::sync::atomic::{AtomicI32, Ordering};

use super::ExitKind;

const WORDS: &[u8] =
    b"tally: out of memory: ulimit -v or ulimit -d leaves too little; raise it, or lower it for the command only (sh -c \
      'ulimit -v ...; exec ...')\n";

/// The command that runs; 0 if there is none.
static COMMAND: AtomicI32 = AtomicI32::new(0);
/// The shell code of the command that has ended; 0 before.
static ENDED_WITH: AtomicI32 = AtomicI32::new(0);

/// From here on an allocation that fails ends us with a message that names the limit, not by SIGABRT. A command that
/// runs is waited for; the status is the command's, or 1 if that is 0.
pub fn name_limit_at_abort() {
    // SAFETY: the handler calls nothing but async-signal-safe functions.
    unsafe { libc::signal(libc::SIGABRT, end as extern "C" fn(libc::c_int) as libc::sighandler_t) };
}

/// The command runs: it is not to be left alone.
pub(super) fn command_runs(pid: u32) {
    COMMAND.store(pid as i32, Ordering::Relaxed);
}

/// The command has ended.
pub(super) fn command_ended(kind: ExitKind) {
    ENDED_WITH.store(i32::from(kind.shell_code()), Ordering::Relaxed);
    COMMAND.store(0, Ordering::Relaxed);
}

extern "C" fn end(_: libc::c_int) {
    // SAFETY: a live buffer and its length; async-signal-safe.
    unsafe { libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len()) };
    let command = COMMAND.load(Ordering::Relaxed);
    if command > 0 {
        let mut status = 0;
        // SAFETY: the pointer is to a live int; async-signal-safe. Another thread may have been faster: it has noted the end.
        if unsafe { libc::waitpid(command, &mut status, 0) } == command {
            command_ended(ExitKind::of_wait_status(status));
        }
    }
    // SAFETY: takes a number only, runs nothing of ours; async-signal-safe.
    unsafe { libc::_exit(ENDED_WITH.load(Ordering::Relaxed).max(1)) };
}
