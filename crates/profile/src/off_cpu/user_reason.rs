//! Why a thread waits by the C library's functions alone: for recordings without kernel frames and system calls.

use super::Reason;

/// Names without the prefixes `__`, `GI_`, `libc_` and the suffixes `@VERSION`, `_time64`, `_nocancel`.
const FUNCTIONS: &[(Reason, &[&str])] = &[
    (Reason::Timer, &["clock_nanosleep", "nanosleep", "usleep", "sleep"]),
    (
        Reason::Futex,
        &[
            "lll_lock_wait",
            "lll_lock_wait_private",
            "futex_wait",
            "futex_wait_simple",
            "futex_abstimed_wait_common",
            "futex_abstimed_wait_common64",
            "futex_abstimed_wait_cancelable64",
            "futex_lock_pi64",
            "pthread_mutex_lock",
            "pthread_mutex_timedlock",
            "pthread_cond_wait",
            "pthread_cond_timedwait",
            "pthread_barrier_wait",
            "pthread_rwlock_rdlock",
            "pthread_rwlock_wrlock",
            "pthread_join",
            "pthread_clockjoin_ex",
            "sem_wait",
        ],
    ),
    (Reason::Poll, &["poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    (Reason::Child, &["wait", "wait3", "wait4", "waitpid", "waitid"]),
    (
        Reason::Socket,
        &[
            "recv", "recvfrom", "recvmsg", "recvmmsg", "send", "sendto", "sendmsg", "accept", "accept4",
            "connect",
        ],
    ),
    (Reason::Fsync, &["fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"]),
    // Only for a lock does fcntl wait.
    (Reason::FileLock, &["flock", "lockf", "lockf64", "fcntl", "fcntl64"]),
    (Reason::Signal, &["pause", "sigsuspend", "sigwait", "sigwaitinfo", "sigtimedwait"]),
];

/// Reason from a stack's user functions, **leaf first**. Only the innermost few count, not their callers. `None` for
/// `read`, `write` and all that may wait for anything.
pub(crate) fn of_user_frames<'n>(names: impl Iterator<Item = &'n str>) -> Option<Reason> {
    const INNERMOST: usize = 3;
    names.take(INNERMOST).find_map(|name| {
        let name = name.split('@').next().unwrap_or(name).trim_start_matches('_');
        let name = ["GI_", "libc_"].iter().fold(name, |name, prefix| name.trim_start_matches(prefix));
        let name = ["_time64", "_nocancel"].iter().fold(name, |name, end| name.trim_end_matches(end));
        let name = name.trim_start_matches('_');
        FUNCTIONS.iter().find(|(_, names)| names.contains(&name)).map(|(reason, _)| *reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_librarys_names_tell_why_a_thread_waits() {
        let of = |names: &str| of_user_frames(names.split(' '));
        assert_eq!(of("clock_nanosleep@GLIBC_2.2.5 nap main"), Some(Reason::Timer));
        assert_eq!(of("__GI___lll_lock_wait pthread_mutex_lock"), Some(Reason::Futex));
        assert_eq!(of("__GI___clock_nanosleep_time64 nap"), Some(Reason::Timer));
        assert_eq!(of("__libc_recv read_all"), Some(Reason::Socket));
        assert_eq!(of("__libc_fcntl64 take_lock"), Some(Reason::FileLock));
        assert_eq!(
            of("read fill_buffer main poll"),
            None,
            "read may wait for anything, and poll is not what waits"
        );
    }
}
