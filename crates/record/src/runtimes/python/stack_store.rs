//! Python stacks until the unwinding thread, which comes later, asks for them by thread and time.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::layout::CopiedAt;

/// A thread's Python functions at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonStack {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Addresses by C frame, innermost first.
    pub groups: Arc<Vec<Vec<u64>>>,
    /// No function is missing.
    pub is_whole: bool,
}

/// Largest distance in time between a sample and the frames copied for it, ns.
const NEAR_NS: u64 = 400_000;
/// Stacks kept of a thread; older ones are dropped.
const MOST: usize = 16_384;

#[derive(Debug, Default)]
struct Waiting {
    samples: VecDeque<PythonStack>,
    switches: VecDeque<PythonStack>,
}

/// The stacks of all threads.
#[derive(Debug, Default)]
pub struct StackStore {
    by_tid: FxHashMap<u32, Waiting>,
}

impl StackStore {
    /// Keeps a stack; those of a thread come in order of time.
    pub fn keep(&mut self, tid: u32, when: CopiedAt, stack: PythonStack) {
        let waiting = self.by_tid.entry(tid).or_default();
        let queue = match when {
            CopiedAt::Sample => &mut waiting.samples,
            CopiedAt::Switch => &mut waiting.switches,
        };
        if queue.len() == MOST {
            queue.pop_front();
        }
        // A thread that changed CPUs: the rings are read one after another.
        let at = queue.iter().rposition(|other| other.time_ns <= stack.time_ns).map_or(0, |at| at + 1);
        queue.insert(at, stack);
    }

    /// The stack of a thread's sample at this time. Samples are asked for in order of time.
    pub fn of_sample(&mut self, tid: u32, time_ns: u64) -> Option<PythonStack> {
        let queue = &mut self.by_tid.get_mut(&tid)?.samples;
        while queue
            .get(1)
            .is_some_and(|next| next.time_ns.abs_diff(time_ns) <= queue[0].time_ns.abs_diff(time_ns))
        {
            queue.pop_front();
        }
        queue.front().filter(|stack| stack.time_ns.abs_diff(time_ns) <= NEAR_NS).cloned()
    }

    /// The stack with which a thread left its CPU last before this time. Waits are asked for in order of time.
    pub fn of_wait(&mut self, tid: u32, time_ns: u64) -> Option<PythonStack> {
        let queue = &mut self.by_tid.get_mut(&tid)?.switches;
        while queue.get(1).is_some_and(|next| next.time_ns <= time_ns) {
            queue.pop_front();
        }
        queue.front().filter(|stack| stack.time_ns <= time_ns).cloned()
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(time_ns: u64) -> PythonStack {
        PythonStack { time_ns, groups: Arc::new(Vec::new()), is_whole: true }
    }

    fn time(stack: Option<PythonStack>) -> Option<u64> {
        stack.map(|stack| stack.time_ns)
    }

    #[test]
    fn a_sample_gets_the_stack_copied_next_to_it() {
        let mut store = StackStore::default();
        for at in [1_000_000, 3_000_000, 2_000_000] {
            store.keep(7, CopiedAt::Sample, stack(at));
        }
        assert_eq!(time(store.of_sample(7, 999_000)), Some(1_000_000));
        assert_eq!(time(store.of_sample(7, 2_001_000)), Some(2_000_000));
        assert_eq!(time(store.of_sample(7, 2_500_000)), None);
        assert_eq!(time(store.of_sample(8, 3_000_000)), None);
    }

    #[test]
    fn a_wait_gets_the_stack_of_the_switch_before_it() {
        let mut store = StackStore::default();
        for at in [10, 20, 30] {
            store.keep(7, CopiedAt::Switch, stack(at));
        }
        assert_eq!(time(store.of_wait(7, 9)), None);
        assert_eq!(time(store.of_wait(7, 25)), Some(20));
        assert_eq!(time(store.of_wait(7, 29)), Some(20));
        assert_eq!(time(store.of_wait(7, 90)), Some(30));
    }
}
