//! Why a thread waits by the C library's functions alone: for recordings without kernel frames and system calls.

use super::WaitReason;

/// Names without the prefixes `__`, `GI_`, `libc_` and the suffixes `@VERSION`, `_time64`, `_nocancel`.
const FUNCTIONS: &[(WaitReason, &[&str])] = &[
    (WaitReason::Timer, &["clock_nanosleep", "nanosleep", "usleep", "sleep"]),
    (
        WaitReason::Futex,
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
    (WaitReason::Poll, &["poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    (WaitReason::Child, &["wait", "wait3", "wait4", "waitpid", "waitid"]),
    (
        WaitReason::Socket,
        &[
            "recv", "recvfrom", "recvmsg", "recvmmsg", "send", "sendto", "sendmsg", "accept", "accept4",
            "connect",
        ],
    ),
    (WaitReason::Fsync, &["fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"]),
    // Only for a lock does fcntl wait.
    (WaitReason::FileLock, &["flock", "lockf", "lockf64", "fcntl", "fcntl64"]),
    (WaitReason::Signal, &["pause", "sigsuspend", "sigwait", "sigwaitinfo", "sigtimedwait"]),
];

/// Reason from a stack's user functions, **leaf first**. Only the innermost few count, not their callers. `None` for
/// `read`, `write` and all that may wait for anything.
pub(crate) fn of_user_frames<'n>(names: impl Iterator<Item = &'n str>) -> Option<WaitReason> {
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
        assert_eq!(of("clock_nanosleep@GLIBC_2.2.5 nap main"), Some(WaitReason::Timer));
        assert_eq!(of("__GI___lll_lock_wait pthread_mutex_lock"), Some(WaitReason::Futex));
        assert_eq!(of("__GI___clock_nanosleep_time64 nap"), Some(WaitReason::Timer));
        assert_eq!(of("__libc_recv read_all"), Some(WaitReason::Socket));
        assert_eq!(of("__libc_fcntl64 take_lock"), Some(WaitReason::FileLock));
        assert_eq!(
            of("read fill_buffer main poll"),
            None,
            "read may wait for anything, and poll is not what waits"
        );
    }
}
