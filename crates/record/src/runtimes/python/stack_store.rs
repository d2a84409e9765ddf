//! Copies of threads' frames until the unwinding thread, which comes later, asks for them by thread and time.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::StackMoment;
use super::layout::CopiedAt;
use super::weave::FramesEnd;
use crate::runtimes::goroutines::Goroutine;

/// A thread's Python functions at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonStack {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Addresses by C frame, innermost first.
    pub groups: Arc<Vec<Vec<u64>>>,
    /// Whether some are missing.
    pub end: FramesEnd,
}

/// A copy of a thread's frames at one moment.
pub trait TimedCopy: Clone {
    /// Copies kept of a thread at samples, and as many at switches; older ones are dropped.
    const MOST: usize;

    /// CLOCK_MONOTONIC, ns.
    fn time_ns(&self) -> u64;
}

impl TimedCopy for PythonStack {
    const MOST: usize = 16_384;

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

impl TimedCopy for Goroutine {
    const MOST: usize = 2048;

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// Largest distance in time between a sample and the frames copied for it, ns.
const NEAR_NS: u64 = 400_000;

#[derive(Debug)]
struct Waiting<T> {
    samples: VecDeque<T>,
    switches: VecDeque<T>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { samples: VecDeque::new(), switches: VecDeque::new() }
    }
}

/// The copies of all threads.
#[derive(Debug)]
pub struct StackStore<T> {
    by_tid: FxHashMap<u32, Waiting<T>>,
}

impl<T> Default for StackStore<T> {
    fn default() -> Self {
        Self { by_tid: FxHashMap::default() }
    }
}

impl<T: TimedCopy> StackStore<T> {
    /// Keeps a copy; those of a thread come in order of time.
    pub fn keep(&mut self, tid: u32, when: CopiedAt, copy: T) {
        let waiting = self.by_tid.entry(tid).or_default();
        let queue = match when {
            CopiedAt::Sample => &mut waiting.samples,
            CopiedAt::Switch => &mut waiting.switches,
        };
        if queue.len() == T::MOST {
            queue.pop_front();
        }
        // A thread that changed CPUs: the rings are read one after another.
        let at = queue.iter().rposition(|other| other.time_ns() <= copy.time_ns()).map_or(0, |at| at + 1);
        queue.insert(at, copy);
    }

    /// The copy of a thread's sample or wait. Both are asked for in order of time.
    pub fn of_moment(&mut self, tid: u32, moment: StackMoment) -> Option<T> {
        let waiting = self.by_tid.get_mut(&tid)?;
        match moment {
            StackMoment::Sample(at) => of_sample(&mut waiting.samples, at),
            StackMoment::Wait { since_ns, time_ns } => of_wait(&mut waiting.switches, since_ns, time_ns),
        }
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }
}

/// The one nearest to this time.
fn of_sample<T: TimedCopy>(queue: &mut VecDeque<T>, time_ns: u64) -> Option<T> {
    let distance = |copy: &T| copy.time_ns().abs_diff(time_ns);
    while queue.get(1).is_some_and(|next| distance(next) <= distance(&queue[0])) {
        queue.pop_front();
    }
    queue.front().filter(|copy| distance(copy) <= NEAR_NS).cloned()
}

/// The last one before this time: with it the thread left its CPU. One from before the wait belongs to an earlier one,
/// and the wait's own is missing.
fn of_wait<T: TimedCopy>(queue: &mut VecDeque<T>, since_ns: u64, time_ns: u64) -> Option<T> {
    while queue.get(1).is_some_and(|next| next.time_ns() <= time_ns) {
        queue.pop_front();
    }
    let is_own = |copy: &&T| copy.time_ns() <= time_ns && copy.time_ns() + NEAR_NS >= since_ns;
    queue.front().filter(is_own).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(time_ns: u64) -> PythonStack {
        PythonStack { time_ns, groups: Arc::new(Vec::new()), end: FramesEnd::Start }
    }

    fn time(stack: Option<PythonStack>) -> Option<u64> {
        stack.map(|stack| stack.time_ns)
    }

    #[test]
    fn a_sample_gets_the_stack_copied_next_to_it() {
        let mut store = StackStore::<PythonStack>::default();
        for at in [1_000_000, 3_000_000, 2_000_000] {
            store.keep(7, CopiedAt::Sample, stack(at));
        }
        assert_eq!(time(store.of_moment(7, StackMoment::Sample(999_000))), Some(1_000_000));
        assert_eq!(time(store.of_moment(7, StackMoment::Sample(2_001_000))), Some(2_000_000));
        assert_eq!(time(store.of_moment(7, StackMoment::Sample(2_500_000))), None);
        assert_eq!(time(store.of_moment(8, StackMoment::Sample(3_000_000))), None);
    }

    #[test]
    fn a_wait_gets_the_stack_of_the_switch_before_it() {
        let mut store = StackStore::<PythonStack>::default();
        for at in [10, 20, 30] {
            store.keep(7, CopiedAt::Switch, stack(at));
        }
        let mut wait = |time_ns| time(store.of_moment(7, StackMoment::Wait { since_ns: 0, time_ns }));
        assert_eq!([9, 25, 29, 90].map(&mut wait), [None, Some(20), Some(20), Some(30)]);
    }

    #[test]
    fn a_wait_whose_copy_is_missing_does_not_get_the_one_of_an_earlier_wait() {
        const MS: u64 = 1_000_000;
        let mut store = StackStore::<PythonStack>::default();
        store.keep(7, CopiedAt::Switch, stack(10 * MS));
        let mut wait = |since_ms, time_ms| {
            let moment = StackMoment::Wait { since_ns: since_ms * MS, time_ns: time_ms * MS };
            time(store.of_moment(7, moment))
        };
        assert_eq!(wait(10, 20), Some(10 * MS));
        assert_eq!(wait(20, 30), None);
    }

    #[test]
    fn a_sample_gets_the_goroutine_copied_next_to_it() {
        let mut store = StackStore::<Goroutine>::default();
        for at in [1_000_000, 3_000_000, 2_000_000] {
            let goroutine = Goroutine { time_ns: at, sp: 0, words: vec![at], is_cut: false };
            store.keep(7, CopiedAt::Sample, goroutine.clone());
            store.keep(7, CopiedAt::Switch, goroutine);
        }
        let mut time = |moment| store.of_moment(7, moment).map(|found| found.time_ns);
        assert_eq!(time(StackMoment::Sample(1_001_000)), Some(1_000_000));
        assert_eq!(time(StackMoment::Sample(1_500_000)), None);
        assert_eq!(time(StackMoment::Sample(1_999_000)), Some(2_000_000));
        assert_eq!(time(StackMoment::Sample(3_200_000)), Some(3_000_000));
        let mut wait = |time_ns| time(StackMoment::Wait { since_ns: 0, time_ns });
        assert_eq!(
            (wait(999_999), wait(2_999_999), wait(9_000_000)),
            (None, Some(2_000_000), Some(3_000_000))
        );
        assert_eq!(store.by_tid[&7].samples.len(), 1);
        assert_eq!(store.of_moment(8, StackMoment::Sample(3_000_000)), None);
    }
}
