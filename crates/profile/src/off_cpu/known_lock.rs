//! Locks of language runtimes and servers, recognized by the function that waits for them.

/// A lock of a language's runtime, recognized by the function that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownLock {
    /// `Python's global interpreter lock (GIL)`.
    pub name: &'static str,
    /// Remedy.
    pub cure: &'static str,
}

/// The interpreter's function that waits for Python's lock; also the stand-in for a stripped interpreter's.
pub(crate) const TAKE_GIL: &str = "take_gil";

/// Functions that wait on a condition of their own for such a lock, by how their names begin.
const BY_CONDITION: &[(&str, KnownLock)] = &[
    (TAKE_GIL, PYTHON),
    ("drop_gil", PYTHON),
    ("RPyGilAcquire", PYTHON),
    ("gvl_acquire", RUBY),
    ("gvl_yield", RUBY),
    ("thread_sched_to_running", RUBY),
    ("thread_sched_yield", RUBY),
    ("st_masterlock_acquire", OCAML),
    ("LWLockAcquire", POSTGRES),
];

/// Functions that the library functions for such a lock are called from.
const BY_CALLER: &[(&str, KnownLock)] = &[
    ("SharedRuntime::monitor_enter", JAVA),
    ("SharedRuntime::complete_monitor_locking", JAVA),
    ("Runtime1::monitorenter", JAVA),
    ("InterpreterRuntime::monitorenter", JAVA),
];

pub(crate) const PYTHON: KnownLock = KnownLock {
    name: "Python's global interpreter lock (GIL)",
    cure: "use processes, or code that releases the GIL while it computes",
};
pub(crate) const RUBY: KnownLock =
    KnownLock { name: "Ruby's global lock (GVL)", cure: "use processes or ractors" };
pub(crate) const POSTGRES: KnownLock =
    KnownLock { name: "PostgreSQL's lightweight locks", cure: "look at pg_stat_activity.wait_event" };
pub(crate) const JAVA: KnownLock = KnownLock {
    name: "Java monitors (synchronized)",
    cure: "hold them for less time, or use several, each for a part of the data",
};
const OCAML: KnownLock = KnownLock { name: "OCaml's master lock", cure: "use processes or domains" };

impl KnownLock {
    /// The lock that `function` waits for: the innermost function outside of locking libraries.
    pub(crate) fn of(function: &str) -> Option<Self> {
        let mut all = BY_CONDITION.iter().chain(BY_CALLER);
        all.find(|(begin, _)| function.starts_with(begin)).map(|(_, known)| *known)
    }

    /// True for a server's lock that its processes share.
    pub(crate) fn is_between_processes(self) -> bool {
        self == POSTGRES || self == POSTGRES_ROWS
    }

    /// True if `function` waits for such a lock on a condition, so that the futex isn't the lock.
    pub(crate) fn is_by_condition(function: &str) -> bool {
        BY_CONDITION.iter().any(|(begin, _)| function.starts_with(begin))
    }
}

/// The function in which a server waits for a lock in its event loop until a latch wakes it.
const SLEEPS_FOR_LOCK: &str = "ProcSleep";
/// Functions between that one and the one that needs the lock, by how their names begin.
const TAKES_LOCK: [&str; 8] = [
    SLEEPS_FOR_LOCK,
    "LockAcquire",
    "WaitOnLock",
    "XactLockTableWait",
    "ConditionalXactLock",
    "LockTuple",
    "heap_acquire_tuplock",
    "function 0x",
];
const POSTGRES_ROWS: KnownLock = KnownLock {
    name: "PostgreSQL's lock of a row or table",
    cure: "shorter transactions, or fewer that change the same rows; pg_locks names them",
};

/// A lock whose waiter sleeps in its event loop until a latch wakes it, by the user functions of the wait.
pub(crate) fn lock_by_latch<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<KnownLock> {
    names.any(|name| name == SLEEPS_FOR_LOCK).then_some(POSTGRES_ROWS)
}

/// The function with a name that needs such a lock, of user functions leaf first.
pub(crate) fn needs_latched_lock<'n>(names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let takes = |name: &&str| TAKES_LOCK.iter().any(|begin| name.starts_with(begin)) || name.starts_with('[');
    names.skip_while(|name| *name != SLEEPS_FOR_LOCK).find(|name| !takes(name))
}

#[cfg(test)]
mod latch_tests {
    use super::{lock_by_latch, needs_latched_lock};

    #[test]
    fn a_latch_is_a_lock_only_below_the_function_that_waits_for_locks() {
        let lock = ["epoll_wait", "WaitEventSetWait", "WaitLatch", "ProcSleep", "LockAcquireExtended"];
        assert!(lock_by_latch(lock.into_iter()).is_some());
        assert_eq!(lock_by_latch(["epoll_wait", "WaitEventSetWait", "secure_read"].into_iter()), None);
        let update =
            lock.into_iter().chain(["function 0x45d8a0", "XactLockTableWait", "heap_update", "main"]);
        assert_eq!(needs_latched_lock(update), Some("heap_update"));
    }
}
