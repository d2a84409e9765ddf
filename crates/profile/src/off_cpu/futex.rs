//! Reason of a futex wait from its arguments: a lock, or another thread's work.

/// The value that a wait expects in its futex, by the first arguments of its system call: address, operation, value.
/// The kernel compares 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is not looked at by the kernel either")]
pub(crate) fn expected(args: &[u64; 3]) -> u32 {
    args[2] as u32
}

/// True for what locks expect: taken (1), or taken with others waiting (2), as libc's and Rust's have it. Conditions wait
/// upon counters, joins upon thread ids, parked threads upon −1, semaphores upon 0.
// Source: glibc 2.36 nptl/lowlevellock.c __lll_lock_wait(); rust 1.80 library/std/src/sys/sync/mutex/futex.rs CONTENDED
pub(crate) fn is_lock_value(value: u32) -> bool {
    matches!(value, 1 | 2)
}
