//! Stacks seen at each place where a thread waits: what is known only as a sum of a place gets them.

use perfdata::abi::PERF_CONTEXT_USER;
use perfdata::off_cpu::WaitSums;
use rustc_hash::FxHashMap;

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
struct SeenChains(Vec<SeenChain>);

#[derive(Debug)]
struct SeenChain {
    chain: Box<[u64]>,
    /// Time that its samples represent.
    ns: u64,
}

impl SeenChains {
    /// Most different chains kept for a place: nearly always there is one.
    const MOST: usize = 4;

    /// True if a chain took time: parts of a stack take none.
    fn has_whole(&self) -> bool {
        self.0.iter().any(|seen| seen.ns > 0)
    }

    /// True if a chain more is kept.
    fn saw(&mut self, chain: &[u64], ns: u64) -> bool {
        if let Some(known) = self.0.iter_mut().find(|known| *known.chain == *chain) {
            known.ns = known.ns.saturating_add(ns);
            return false;
        }
        let keeps = self.0.len() < Self::MOST;
        if keeps {
            self.0.push(SeenChain { chain: chain.into(), ns });
        } else if ns > 0
            && let Some(part) = self.0.iter_mut().find(|seen| seen.ns == 0)
        {
            *part = SeenChain { chain: chain.into(), ns };
        }
        keeps
    }
}

impl SiteChains {
    /// Chains kept of living threads, and places kept of all.
    const MOST: usize = 65_536;

    /// A sample that represents `ns` showed this chain at a place.
    pub fn saw(&mut self, site: SiteId, chain: &[u64], ns: u64) {
        if self.kept < Self::MOST {
            let seen = self.threads.entry(site.tid).or_default().entry(site.print).or_default();
            self.kept += usize::from(seen.saw(chain, ns));
        }
        if site.stack_print != 0 {
            // Old ones are of programs that have ended, most likely.
            if self.similar.len() >= Self::MOST {
                self.similar.clear();
            }
            self.similar.entry(site.stack_print).or_default().saw(chain, ns);
        }
    }

    fn seen(&self, site: SiteId) -> &[SeenChain] {
        let own = self.threads.get(&site.tid).and_then(|places| places.get(&site.print));
        let similar = self.similar.get(&site.stack_print);
        // A complete stack of a similar place is more useful than a truncated one of this place.
        let whole = [own, similar].into_iter().flatten().find(|seen| seen.has_whole());
        whole.or(own).or(similar).map_or(&[], |seen| &seen.0)
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

    /// `ns` of a place, shared among its chains by the time each took; the first has most. Adds up to `ns`; one part
    /// without chain if none is known.
    #[must_use]
    pub fn share(&self, site: SiteId, ns: u64) -> Vec<(&[u64], u64)> {
        let seen = self.seen(site);
        if seen.is_empty() {
            return vec![(&[], ns)];
        }
        let all: u128 = seen.iter().map(|seen| u128::from(seen.ns)).sum();
        let part = |of: &SeenChain| u64::try_from(u128::from(ns) * u128::from(of.ns) / all.max(1));
        let mut parts: Vec<(&[u64], u64)> =
            seen.iter().map(|of| (&*of.chain, part(of).unwrap_or(0).min(ns))).collect();
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let given: u64 = parts.iter().map(|(_, ns)| ns).sum();
        parts[0].1 += ns.saturating_sub(given);
        parts.retain(|(_, ns)| *ns > 0);
        parts
    }

    /// The thread has ended.
    pub fn forget(&mut self, tid: u32) {
        let places = self.threads.remove(&tid).unwrap_or_default();
        self.kept -= places.values().map(|seen| seen.0.len()).sum::<usize>();
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
