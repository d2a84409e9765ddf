//! The kernel's own locks: waits between `lock:contention_begin` and `lock:contention_end`.

use crate::grow::Grow as _;
use rustc_hash::FxHashMap;

/// Kind of lock a thread waits for, and for which use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKind(&'static str);

// Source: linux v6.18 include/trace/events/lock.h, LCB_F_*
const SPIN: u64 = 1 << 0;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const REAL_TIME: u64 = 1 << 3;
const PER_CPU: u64 = 1 << 4;
const MUTEX: u64 = 1 << 5;

/// Flags of `contention_begin` with perf's names for them.
const KINDS: &[(u64, &str)] = &[
    (0, "semaphore"),
    (SPIN, "spinlock"),
    (SPIN | READ, "rwlock:R"),
    (SPIN | WRITE, "rwlock:W"),
    (READ, "rwsem:R"),
    (WRITE, "rwsem:W"),
    (REAL_TIME, "rt-mutex"),
    (REAL_TIME | READ, "rwlock-rt:R"),
    (REAL_TIME | WRITE, "rwlock-rt:W"),
    (PER_CPU | READ, "pcpu-sem:R"),
    (PER_CPU | WRITE, "pcpu-sem:W"),
    (MUTEX, "mutex"),
    // While it spins in hope that the holder lets go soon.
    (MUTEX | SPIN, "mutex"),
];

impl LockKind {
    /// By the field `flags`.
    #[must_use]
    pub fn of(flags: u64) -> Self {
        Self(KINDS.iter().find(|(known, _)| *known == flags).map_or("unknown", |(_, name)| name))
    }

    /// Name, as in perf.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// Waits added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockWaits {
    /// How many.
    pub count: u64,
    /// All of them, in ns.
    pub total_ns: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
    /// The shortest, in ns.
    pub shortest_ns: u64,
}

impl LockWaits {
    /// Adds one wait.
    pub fn add(&mut self, wait_ns: u64) {
        self.shortest_ns = if self.count == 0 { wait_ns } else { self.shortest_ns.min(wait_ns) };
        self.longest_ns = self.longest_ns.max(wait_ns);
        self.count.grow(1);
        self.total_ns.grow(wait_ns);
    }

    /// The mean, in ns; 0 without waits.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }
}

/// A thread and the address of the lock that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockWaiter {
    /// The kernel's number of the thread.
    pub tid: i32,
    /// Address of the lock in the kernel.
    pub lock: u64,
}

/// Waits that have begun, with what is known from their beginning.
#[derive(Debug)]
pub struct OpenWaits<T> {
    open: FxHashMap<LockWaiter, (u64, T)>,
    /// Ends without a beginning.
    pub unmatched: u64,
}

impl<T> Default for OpenWaits<T> {
    fn default() -> Self {
        Self { open: FxHashMap::default(), unmatched: 0 }
    }
}

impl<T> OpenWaits<T> {
    /// A thread begins to wait for the lock at an address. A mutex may begin twice, spinning first and sleeping then:
    /// that is one wait.
    pub fn begin(&mut self, waiter: LockWaiter, time_ns: u64, about: T) {
        self.open.entry(waiter).or_insert((time_ns, about));
    }

    /// It has the lock: how long it waited, in ns.
    pub fn end(&mut self, waiter: LockWaiter, time_ns: u64) -> Option<(u64, T)> {
        let begun = self.open.remove(&waiter);
        self.unmatched.grow(u64::from(begun.is_none()));
        begun.map(|(begin_ns, about)| (time_ns.saturating_sub(begin_ns), about))
    }

    /// Waits that have not ended.
    #[must_use]
    pub fn still_open(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn waiter(tid: i32, lock: u64) -> LockWaiter {
        LockWaiter { tid, lock }
    }

    #[test]
    fn a_wait_ends_for_the_thread_and_lock_that_began_it() {
        let mut waits = OpenWaits::default();
        waits.begin(waiter(7, 0x10), 100, 'a');
        waits.begin(waiter(7, 0x10), 120, 'b');
        waits.begin(waiter(8, 0x10), 130, 'c');
        assert_eq!(waits.end(waiter(7, 0x20), 140), None);
        assert_eq!(waits.end(waiter(7, 0x10), 150), Some((50, 'a')));
        assert_eq!((waits.unmatched, waits.still_open()), (1, 1));
    }

    #[test]
    fn waits_are_added_up() {
        let mut waits = LockWaits::default();
        [5, 2, 11].into_iter().for_each(|ns| waits.add(ns));
        let sums = LockWaits { count: 3, total_ns: 18, longest_ns: 11, shortest_ns: 2 };
        assert_eq!((waits, waits.mean_ns()), (sums, 6));
    }

    #[test]
    fn kinds_have_perfs_names() {
        assert_eq!(LockKind::of(SPIN | WRITE).name(), "rwlock:W");
        assert_eq!(LockKind::of(MUTEX | SPIN).name(), "mutex");
        assert_eq!(LockKind::of(1 << 20).name(), "unknown");
    }
}
