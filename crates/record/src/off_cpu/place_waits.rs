//! Tier B: waits of one thread summed up by place, for those that come without a stack. At the end each place's sum is
//! shared among the stacks that were seen there.

use perfdata::off_cpu::{OffCpuInterval, State, WaitSums, flag};
use rustc_hash::FxHashMap;

use super::site_chains::{SiteChains, SiteId};
use super::thread_clock::EndedInterval;

/// A place where a thread waits, known by its user registers. It costs a few words of a switch record, where
/// a stack costs thousands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlacePrint {
    /// Fingerprint of instruction pointer, stack pointer and first argument: [`WaitSums::print`].
    pub print: u64,
    /// The same without the argument: [`WaitSums::stack_print`].
    pub stack_print: u64,
}

impl PlacePrint {
    /// The place among those of a thread.
    #[must_use]
    pub fn site(self, tid: u32) -> SiteId {
        SiteId { tid, print: self.print, stack_print: self.stack_print }
    }
}

/// The sums of one thread.
#[derive(Debug, Default)]
pub struct PlaceWaits(FxHashMap<(u64, u8), PlaceSum>);

#[derive(Debug)]
struct PlaceSum {
    /// The last of these waits.
    last: OffCpuInterval,
    place: PlacePrint,
    ns: u64,
    sums: WaitSums,
}

impl PlaceWaits {
    /// Most places of a thread; arguments that are never the same twice would make one of each wait.
    const MOST: usize = 256;

    /// Adds a wait to its place's sum. Gives it back where there is no room for another place.
    pub fn add(&mut self, ended: EndedInterval, place: PlacePrint) -> Option<EndedInterval> {
        let key = (place.print, ended.interval.state.code());
        if self.0.len() >= Self::MOST && !self.0.contains_key(&key) {
            return Some(ended);
        }
        let EndedInterval { weight_ns, interval, .. } = ended;
        let (since_ns, length_ns) = (interval.since_ns, interval.length_ns);
        let PlacePrint { print, stack_print } = place;
        let sum = self.0.entry(key).or_insert_with(|| {
            let sums = WaitSums { print, stack_print, since_ns, ..WaitSums::default() };
            PlaceSum { last: interval.clone(), place, ns: 0, sums }
        });
        sum.ns += weight_ns;
        sum.sums.add(length_ns);
        sum.last = interval;
        None
    }

    /// All sums, each shared among the stacks of its place, in the order in which they began.
    #[must_use]
    pub fn shared(self, tid: u32, chains: &SiteChains) -> Vec<EndedInterval> {
        let mut sums: Vec<PlaceSum> = self.0.into_values().collect();
        sums.sort_by_key(|sum| (sum.sums.since_ns, sum.place.print, sum.last.state.code()));
        let parts = |sum: PlaceSum| {
            let parts = chains.share(sum.place.site(tid), sum.ns);
            let part = |(at, (chain, ns)): (usize, (&[u64], u64))| sum.part(chain, ns, at == 0);
            parts.into_iter().enumerate().map(part).collect::<Vec<_>>()
        };
        sums.into_iter().flat_map(parts).collect()
    }
}

impl PlaceSum {
    /// Part of the sum that one stack has; one of them has the counts.
    fn part(&self, chain: &[u64], weight_ns: u64, has_counts: bool) -> EndedInterval {
        let WaitSums { print, stack_print, since_ns, .. } = self.sums;
        let no_counts = WaitSums { print, stack_print, since_ns, ..WaitSums::default() };
        // A wait for a CPU is a part of the wait before, which counts already.
        let counts = has_counts && self.last.state != State::Runnable;
        let sums = Some(Box::new(if counts { self.sums } else { no_counts }));
        let interval =
            OffCpuInterval { flags: flag::REST, since_ns, length_ns: 0, sums, ..self.last.clone() };
        EndedInterval { weight_ns, interval, chain: chain.into(), place: Some(self.place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::off_cpu::OtherThread;

    const HERE: PlacePrint = PlacePrint { print: 1, stack_print: 2 };

    fn wait(state: State, since_ns: u64, length_ns: u64) -> EndedInterval {
        let (args, other) = ([7, 0, 0], OtherThread::default());
        let interval = OffCpuInterval {
            state,
            flags: flag::WOKEN,
            since_ns,
            length_ns,
            syscall: None,
            args,
            sums: None,
            other,
            place: String::new(),
        };
        EndedInterval { weight_ns: length_ns, interval, chain: [].into(), place: Some(HERE) }
    }

    #[test]
    fn a_place_s_waits_are_shared_by_the_time_of_its_stacks_and_counted_once() {
        let (mut waits, mut chains) = (PlaceWaits::default(), SiteChains::default());
        chains.saw(HERE.site(9), &[1], 300);
        chains.saw(HERE.site(9), &[2], 100);
        for since_ns in [10, 3000] {
            assert_eq!(waits.add(wait(State::Sleep, since_ns, 2000), HERE), None);
            assert_eq!(waits.add(wait(State::Runnable, since_ns + 2000, 50), HERE), None);
        }
        let parts = waits.shared(9, &chains);
        let told: Vec<_> = parts.iter().map(|of| (of.interval.state, of.weight_ns, &*of.chain)).collect();
        let expected = [
            (State::Sleep, 3000, &[1][..]),
            (State::Sleep, 1000, &[2]),
            (State::Runnable, 75, &[1]),
            (State::Runnable, 25, &[2]),
        ];
        assert_eq!(told, expected);
        let counts = parts.iter().map(|of| of.interval.sums.as_ref().map_or(9, |sums| sums.count));
        assert_eq!(counts.collect::<Vec<_>>(), [2, 0, 0, 0]);
        let (first, sums) = (&parts[0].interval, parts[0].interval.sums.as_deref());
        assert_eq!((first.since_ns, first.args[0], sums.map(|sums| sums.longest_ns)), (10, 7, Some(2000)));
    }

    #[test]
    fn a_place_without_a_stack_keeps_its_sum_and_places_have_a_bound() {
        let mut waits = PlaceWaits::default();
        for print in 0..PlaceWaits::MOST as u64 {
            assert_eq!(waits.add(wait(State::Sleep, print, 1), PlacePrint { print, stack_print: 2 }), None);
        }
        let other = PlacePrint { print: u64::MAX, stack_print: 2 };
        assert!(waits.add(wait(State::Sleep, 0, 1), other).is_some());
        let parts = waits.shared(9, &SiteChains::default());
        assert_eq!(parts.iter().map(|of| of.weight_ns).sum::<u64>(), PlaceWaits::MOST as u64);
        assert!(parts.iter().all(|of| of.chain.is_empty()));
    }
}
