//! The same work for each of many things, on all CPUs.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` for each item, with as many threads as there are CPUs; the results are in the items' order.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_by_worker(items, |_, item| work(item))
}

/// The same; `work` has the number of its thread, too, below the number of CPUs.
pub fn map_by_worker<T: Sync, R: Send>(items: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take_turns = &|worker| {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(worker, item)));
        }
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let workers = 0..cpus().min(items.len());
        let workers: Vec<_> = workers.map(|worker| scope.spawn(move || take_turns(worker))).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|why| resume_unwind(why)))
            .collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The same work once for each CPU, by its number.
pub fn on_each_cpu<R: Send>(work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let numbers: Vec<usize> = (0..cpus()).collect();
    map(&numbers, |number| work(*number))
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let slow_first = |item: &u64| {
            thread::sleep(std::time::Duration::from_micros(100 - item));
            item * 2
        };
        assert_eq!(map(&items, slow_first), (0..200).step_by(2).collect::<Vec<u64>>());
        assert_eq!(map(&[], slow_first), Vec::<u64>::new());
    }
}
