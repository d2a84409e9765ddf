//! Waits for locks inside the kernel, spinning ones included, from `lock:contention_begin` and `lock:contention_end`.

use crate::profile::TaskId;
use crate::table::CallsiteId;
use rustc_hash::FxHashMap;

/// One wait for a kernel lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// The waiting thread.
    pub task: TaskId,
    /// Stack of the wait; `None` without stack.
    pub callsite: Option<CallsiteId>,
    /// The lock's address in the kernel.
    pub address: u64,
    /// Kind of lock and wait: bits of [`Contention::KINDS`].
    pub flags: u32,
    /// Begin, ns of the recording's clock.
    pub since_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
}

impl Contention {
    /// Bits of `flags`, in the order in which the first that is set names the lock.
    // Source: linux v6.18 include/trace/events/lock.h, LCB_F_*
    pub const KINDS: [(u32, &'static str); 6] = [
        (1 << 5, "mutex"),
        (1 << 3, "rt lock"),
        (1 << 4, "percpu rwsem"),
        (1 << 0, "spinlock"),
        (1 << 1, "rwsem, to read"),
        (1 << 2, "rwsem, to write"),
    ];

    /// `mutex`, `spinlock`, `rwsem, to write` …
    #[must_use]
    pub fn kind(&self) -> &'static str {
        Self::KINDS.iter().find(|(bit, _)| self.flags & bit != 0).map_or("lock", |(_, kind)| kind)
    }
}

/// Pairs begins and ends.
#[derive(Debug, Default)]
pub(crate) struct Contenders {
    /// By thread id and lock: the wait under way.
    open: FxHashMap<(i32, u64), Contention>,
}

impl Contenders {
    /// A wait begins. A mutex reports two begins for one wait: when it spins, and then when it sleeps.
    pub fn begin(&mut self, tid: i32, wait: Contention) {
        self.open.entry((tid, wait.address)).or_insert(wait);
    }

    /// It ends; `None` if its begin was not seen.
    pub fn end(&mut self, tid: i32, address: u64, time_ns: u64) -> Option<Contention> {
        let wait = self.open.remove(&(tid, address))?;
        Some(Contention { length_ns: time_ns.saturating_sub(wait.since_ns), ..wait })
    }

    /// Waits that did not end in the recording.
    pub fn unfinished(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(address: u64, since_ns: u64, flags: u32) -> Contention {
        Contention { task: TaskId(0), callsite: None, address, flags, since_ns, length_ns: 0 }
    }

    #[test]
    fn a_wait_that_first_spins_and_then_sleeps_is_one() {
        let mut contenders = Contenders::default();
        contenders.begin(7, wait(0x10, 100, 0x21));
        contenders.begin(7, wait(0x20, 110, 1));
        contenders.begin(7, wait(0x10, 120, 0x20));
        assert_eq!(contenders.end(7, 0x20, 115).map(|w| (w.length_ns, w.kind())), Some((5, "spinlock")));
        assert_eq!(contenders.end(7, 0x10, 180).map(|w| (w.length_ns, w.kind())), Some((80, "mutex")));
        assert_eq!((contenders.end(8, 0x10, 200), contenders.unfinished()), (None, 0));
    }
}
