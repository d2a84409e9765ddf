//! Threads that have ended: the busiest one by one, the others as sums, so that a machine that starts programs for
//! weeks can be recorded for weeks.

use crate::accounting::summary::{MoreThreads, ThreadUse};

/// Minimum number of ended threads that are listed one by one.
const LISTED: usize = 4096;

/// Uses of threads that have ended.
#[derive(Debug, Default)]
pub struct EndedThreads {
    listed: Vec<ThreadUse>,
    more: MoreThreads,
}

impl EndedThreads {
    /// A thread ended. When the list is twice as long as needed, the less busy half becomes part of the sums.
    pub fn push(&mut self, thread: ThreadUse) {
        self.listed.push(thread);
        if self.listed.len() < 2 * LISTED {
            return;
        }
        self.listed.sort_by(|a, b| b.on_ns.cmp(&a.on_ns).then(b.samples.cmp(&a.samples)));
        self.listed.drain(LISTED..).for_each(|thread| self.more.add(&thread));
    }

    /// Those listed, in no order.
    pub fn listed(&self) -> &[ThreadUse] {
        &self.listed
    }

    /// Takes the threads with this number out of the list. Returns their samples.
    pub fn take_samples(&mut self, tid: u32) -> u64 {
        let of_tid = self.listed.extract_if(.., |thread| thread.tid == tid);
        of_tid.map(|thread| thread.samples).sum()
    }

    /// Drops what had no time yet.
    pub fn drop_empty(&mut self) {
        self.listed.retain(|thread| thread.life_ns > 0);
    }

    /// True if no thread has ended.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The list and the sums.
    pub fn into_parts(self) -> (Vec<ThreadUse>, MoreThreads) {
        (self.listed, self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ended_threads_are_sums_and_the_busiest_stay() {
        let mut ended = EndedThreads::default();
        let threads = 100_000_u64;
        for tid in 0..threads {
            let on_ns = if tid % 50_000 == 7 { 1_000_000 } else { tid % 9 };
            let thread = ThreadUse { tid: tid as u32, on_ns, voluntary_switches: 2, ..ThreadUse::default() };
            ended.push(thread);
            assert!(ended.listed().len() < 2 * LISTED);
        }
        let (listed, more) = ended.into_parts();
        assert_eq!(listed.len() as u64 + more.threads, threads);
        assert_eq!(listed.iter().filter(|thread| thread.on_ns == 1_000_000).count(), 2);
        let listed_switches: u64 = listed.iter().map(|thread| thread.voluntary_switches).sum();
        assert_eq!(listed_switches + more.voluntary_switches, 2 * threads);
    }
}
