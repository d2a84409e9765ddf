//! Stacks seen at each place where a thread waits: what is known only as a sum of a place gets them.

use perfdata::abi::PERF_CONTEXT_USER;
use perfdata::off_cpu::WaitSums;
use rustc_hash::FxHashMap;

use super::return_slots::ReturnSlots;

/// A place of a thread, by the numbers that the payload has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteId {
    /// The thread.
    pub tid: u32,
    /// [`WaitSums::print`].
    pub print: u64,
    /// [`WaitSums::stack_print`].
    pub stack_print: u64,
}

impl SiteId {
    /// The place of a thread's sums.
    #[must_use]
    pub fn of(tid: u32, sums: &WaitSums) -> Self {
        Self { tid, print: sums.print, stack_print: sums.stack_print }
    }
}

/// A place with several stacks, and a word in which these differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteSplit {
    /// The place.
    pub site: SiteId,
    /// Index of the word, from the stack pointer upwards.
    pub word: u16,
}

/// Chains by thread and place. Chains of places that differ only by their argument, or of forked processes, can
/// replace each other.
#[derive(Debug, Default)]
pub struct SiteChains {
    threads: FxHashMap<u32, FxHashMap<u64, SeenChains>>,
    kept: usize,
    /// Chains of all threads, also of ended ones, by [`SiteId::stack_print`].
    similar: FxHashMap<u64, SeenChains>,
}

/// Chains of one place, each leaf first with perf's context markers.
#[derive(Debug, Default)]
struct SeenChains {
    chains: Vec<SeenChain>,
    is_split: bool,
}

#[derive(Debug)]
struct SeenChain {
    chain: Box<[u64]>,
    /// Time that its samples represent.
    ns: u64,
    slots: ReturnSlots,
}

impl SeenChains {
    /// Most different chains kept for a place: nearly always there is one.
    const MOST: usize = 4;

    /// True if a chain took time: parts of a stack take none.
    fn has_whole(&self) -> bool {
        self.chains.iter().any(|seen| seen.ns > 0)
    }

    /// True if a chain more is kept, with its `slots`.
    fn saw(&mut self, chain: &[u64], ns: u64, slots: impl FnOnce() -> ReturnSlots) -> bool {
        if let Some(known) = self.chains.iter_mut().find(|known| *known.chain == *chain) {
            known.ns = known.ns.saturating_add(ns);
            return false;
        }
        let keeps = self.chains.len() < Self::MOST;
        if keeps {
            self.chains.push(SeenChain { chain: chain.into(), ns, slots: slots() });
        } else if ns > 0
            && let Some(part) = self.chains.iter_mut().find(|seen| seen.ns == 0)
        {
            *part = SeenChain { chain: chain.into(), ns, slots: slots() };
        }
        keeps
    }

    /// The slots of a chain that was seen with its stack.
    fn slots_of(&self, chain: &[u64]) -> Option<ReturnSlots> {
        let seen = self.chains.iter().find(|seen| *seen.chain == *chain)?;
        Some(&seen.slots).filter(|slots| !slots.is_empty()).cloned()
    }

    /// The word in which a chain differs from one seen before, the first time that there is such a word.
    fn split(&mut self, chain: &[u64], stack: &[u8]) -> Option<u16> {
        if self.is_split || self.chains.iter().any(|seen| *seen.chain == *chain) {
            return None;
        }
        let word = self.chains.iter().find_map(|seen| seen.slots.differing_word(&seen.chain, chain, stack));
        self.is_split = word.is_some();
        word
    }
}

impl SiteChains {
    /// Chains kept of living threads, and places kept of all.
    const MOST: usize = 65_536;

    /// A sample that represents `ns` showed this chain at a place.
    pub fn saw(&mut self, site: SiteId, chain: &[u64], ns: u64) {
        self.saw_stack(site, chain, ns, &[]);
    }

    /// The same with the copy that the chain was unwound from. Returns the word in which this chain differs from an
    /// earlier one, once for each place.
    pub fn saw_stack(&mut self, site: SiteId, chain: &[u64], ns: u64, stack: &[u8]) -> Option<SiteSplit> {
        let (mut word, mut found) = (None, None);
        if self.kept < Self::MOST {
            let seen = self.threads.entry(site.tid).or_default().entry(site.print).or_default();
            word = seen.split(chain, stack);
            // The same functions have frames of the same size in another thread. Threads that live for a millisecond
            // would have all their stacks searched otherwise.
            let similar = self.similar.get(&site.stack_print);
            let slots = || {
                let known = similar.and_then(|seen| seen.slots_of(chain));
                found.insert(known.unwrap_or_else(|| ReturnSlots::find(chain, stack))).clone()
            };
            self.kept += usize::from(seen.saw(chain, ns, slots));
        }
        if site.stack_print != 0 {
            // Old ones are of programs that have ended, most likely.
            if self.similar.len() >= Self::MOST {
                self.similar.clear();
            }
            self.similar.entry(site.stack_print).or_default().saw(chain, ns, || found.unwrap_or_default());
        }
        word.map(|word| SiteSplit { site, word })
    }

    fn seen(&self, site: SiteId) -> &[SeenChain] {
        let own = self.threads.get(&site.tid).and_then(|places| places.get(&site.print));
        let similar = self.similar.get(&site.stack_print);
        // A complete stack of a similar place is more useful than a truncated one of this place.
        let whole = [own, similar].into_iter().flatten().find(|seen| seen.has_whole());
        whole.or(own).or(similar).map_or(&[], |seen| &seen.chains)
    }

    /// The chain that took most time at a place; of several, the first.
    #[must_use]
    pub fn usual(&self, site: SiteId) -> Option<&[u64]> {
        self.seen(site).iter().rev().max_by_key(|seen| seen.ns).map(|seen| &*seen.chain)
    }

    /// The chain of a place that has but one.
    #[must_use]
    pub fn only(&self, site: SiteId) -> Option<&[u64]> {
        let [seen] = self.seen(site) else { return None };
        Some(&seen.chain)
    }

    /// Time of a chain at all places of its thread: once a place was split, its chains have places of their own.
    fn time_of(&self, tid: u32, chain: &[u64]) -> u64 {
        let places = self.threads.get(&tid).into_iter().flat_map(FxHashMap::values);
        let all = places.flat_map(|seen| &seen.chains).filter(|seen| *seen.chain == *chain);
        all.map(|seen| seen.ns).sum()
    }

    /// `ns` of a place, shared among its chains by the time each took; the first has most. Adds up to `ns`; one part
    /// without chain if none is known.
    #[must_use]
    pub fn share(&self, site: SiteId, ns: u64) -> Vec<(&[u64], u64)> {
        let seen = self.seen(site);
        if seen.is_empty() {
            return vec![(&[], ns)];
        }
        let time_of = |of: &SeenChain| match of.ns {
            0 => 0,
            _ if seen.len() == 1 => of.ns,
            own_ns => own_ns.max(self.time_of(site.tid, &of.chain)),
        };
        let times: Vec<u64> = seen.iter().map(time_of).collect();
        let all: u128 = times.iter().map(|&ns| u128::from(ns)).sum();
        let part = |of_ns: u64| u64::try_from(u128::from(ns) * u128::from(of_ns) / all.max(1));
        let mut parts: Vec<(&[u64], u64)> = seen
            .iter()
            .zip(times)
            .map(|(of, of_ns)| (&*of.chain, part(of_ns).unwrap_or(0).min(ns)))
            .collect();
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let given: u64 = parts.iter().map(|(_, ns)| ns).sum();
        parts[0].1 += ns.saturating_sub(given);
        parts.retain(|(_, ns)| *ns > 0);
        parts
    }

    /// The thread has ended.
    pub fn forget(&mut self, tid: u32) {
        let places = self.threads.remove(&tid).unwrap_or_default();
        self.kept -= places.values().map(|seen| seen.chains.len()).sum::<usize>();
    }
}

/// True if a chain has a user part.
#[must_use]
pub fn has_user_part(chain: &[u64]) -> bool {
    chain.contains(&PERF_CONTEXT_USER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: SiteId = SiteId { tid: 7, print: 99, stack_print: 0 };

    #[test]
    fn a_sum_is_shared_by_the_time_each_chain_took_and_nothing_is_left_over() {
        let mut chains = SiteChains::default();
        assert_eq!(chains.share(SITE, 5), [(&[][..], 5)]);
        chains.saw(SITE, &[1, 2], 10);
        chains.saw(SITE, &[3], 20);
        chains.saw(SITE, &[1, 2], 5);
        assert_eq!(chains.share(SITE, 100), [(&[3][..], 58), (&[1, 2][..], 42)]);
        assert_eq!(chains.usual(SITE), Some(&[3][..]));
        chains.forget(7);
        assert_eq!((chains.usual(SITE), chains.kept), (None, 0));
    }

    #[test]
    fn a_place_of_two_paths_is_split_once_and_its_rest_shared_by_what_its_parts_took() {
        let mut chains = SiteChains::default();
        let (first, second) = ([PERF_CONTEXT_USER, 1, 20], [PERF_CONTEXT_USER, 1, 21]);
        let [one, other, third] = [20u64, 21, 22].map(u64::to_ne_bytes);
        assert_eq!(chains.saw_stack(SITE, &first, 10, &one), None);
        assert_eq!(chains.saw_stack(SITE, &second, 10, &other), Some(SiteSplit { site: SITE, word: 0 }));
        assert_eq!(chains.saw_stack(SITE, &[PERF_CONTEXT_USER, 1, 22], 0, &third), None);
        chains.saw(SiteId { print: 100, ..SITE }, &second, 20);
        assert_eq!(chains.share(SITE, 80), [(&second[..], 60), (&first[..], 20)]);
    }

    #[test]
    fn a_place_is_split_by_what_was_found_in_the_stack_of_an_ended_thread() {
        let mut chains = SiteChains::default();
        let (first, second) = ([PERF_CONTEXT_USER, 1, 20], [PERF_CONTEXT_USER, 1, 21]);
        let of = |tid: u32| SiteId { tid, stack_print: 5, ..SITE };
        let stack = |word: u64| [0, word].map(u64::to_ne_bytes).concat();
        assert_eq!(chains.saw_stack(of(7), &first, 10, &stack(20)), None);
        chains.forget(7);
        // Its own stack isn't searched.
        assert_eq!(chains.saw_stack(of(8), &first, 10, &[]), None);
        assert_eq!(
            chains.saw_stack(of(8), &second, 10, &stack(21)),
            Some(SiteSplit { site: of(8), word: 1 })
        );
    }

    #[test]
    fn a_part_of_a_stack_gets_no_time_where_the_whole_is_known() {
        let mut chains = SiteChains::default();
        chains.saw(SITE, &[1], 0);
        assert_eq!(chains.share(SITE, 9), [(&[1][..], 9)]);
        chains.saw(SITE, &[1, 2], 10);
        assert_eq!((chains.share(SITE, 9), chains.usual(SITE)), (vec![(&[1, 2][..], 9)], Some(&[1, 2][..])));
    }

    #[test]
    fn few_chains_of_a_place_are_told_apart() {
        let mut chains = SiteChains::default();
        (0..100).for_each(|leaf| chains.saw(SITE, &[leaf], 1));
        assert_eq!(chains.share(SITE, 40).len(), SeenChains::MOST);
    }

    #[test]
    fn waits_for_another_child_or_of_a_forked_thread_have_the_stack_of_those_before() {
        let mut chains = SiteChains::default();
        let first = SiteId { stack_print: 5, ..SITE };
        chains.saw(first, &[1, 2], 10);
        assert_eq!(chains.share(SiteId { print: 100, ..first }, 3), [(&[1, 2][..], 3)]);
        chains.forget(7);
        assert_eq!(chains.usual(SiteId { tid: 8, print: 101, ..first }), Some(&[1, 2][..]));
        assert_eq!(chains.usual(SiteId { stack_print: 6, ..first }), None);
        let other = SiteId { print: 102, ..first };
        chains.saw(other, &[1], 0);
        assert_eq!(chains.usual(other), Some(&[1, 2][..]), "a part of its own stack is less");
    }
}
