//! Rules met before, by file and stated address: shared by all processes that map the file.
//!
//! A direct-mapped table for the common rules: one probe, no chains, a newer rule takes an older one's place. It begins
//! small, and grows once for programs with many call sites: a compiler's stacks have some 50,000.
//! The rare steps (general rows, roots, gaps) are in a separate map.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::rule::{Rule, Step};

/// Slots at first; 8,192 × 48 bytes stay in a core's L2.
const SLOTS: usize = 1 << 13;
/// Slots after as many rules as there are slots had to be worked out twice over.
const MOST_SLOTS: usize = 1 << 15;
/// Rare steps kept, an operation of their expressions (24 bytes) counted as another; beyond it the map is
/// cleared.
const RARE_LIMIT: usize = 1 << 17;
/// Addresses of code without tables that are read. Each takes up to a quarter of a millisecond, and programs have some
/// hundred; a file made to have more gets frame pointers for the rest.
const CODE_LIMIT: usize = 1 << 16;

#[derive(Clone, Copy)]
struct Slot {
    svma: u64,
    /// Id of the file; 0 is none.
    info: u32,
    rule: Rule,
}

pub(super) struct RuleCache {
    slots: Box<[Slot]>,
    /// Rules inserted.
    inserted: usize,
    rare: FxHashMap<(u32, u64), Step>,
    rare_weight: usize,
    /// Rules read from code without tables, by its own address.
    code: FxHashMap<(u32, u64), Arc<[Rule]>>,
}

impl RuleCache {
    pub(super) fn new() -> Self {
        Self {
            slots: empty_slots(SLOTS),
            inserted: 0,
            rare: FxHashMap::default(),
            rare_weight: 0,
            code: FxHashMap::default(),
        }
    }

    #[inline]
    fn slot(&self, info: u32, svma: u64) -> usize {
        let mixed = (svma ^ u64::from(info) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - MOST_SLOTS.trailing_zeros())) as usize & (self.slots.len() - 1)
    }

    #[inline]
    pub(super) fn find(&self, info: u32, svma: u64) -> Option<&Rule> {
        let slot = &self.slots[self.slot(info, svma)];
        (slot.svma == svma && slot.info == info).then_some(&slot.rule)
    }

    pub(super) fn insert(&mut self, info: u32, svma: u64, rule: &Rule) {
        self.inserted += 1;
        if self.inserted == 2 * SLOTS {
            self.grow();
        }
        self.slots[self.slot(info, svma)] = Slot { svma, info, rule: *rule };
    }

    fn grow(&mut self) {
        let old = std::mem::replace(&mut self.slots, empty_slots(MOST_SLOTS));
        for slot in old.iter().filter(|slot| slot.info != 0) {
            self.slots[self.slot(slot.info, slot.svma)] = *slot;
        }
    }

    /// The step at this address, worked out by `make` unless it is a rare one met before.
    pub(super) fn find_rare(&mut self, info: u32, svma: u64, make: impl FnOnce() -> Step) -> Step {
        if let Some(known) = self.rare.get(&(info, svma)) {
            return known.clone();
        }
        let step = make();
        if !matches!(step, Step::Simple(_)) {
            if self.rare_weight >= RARE_LIMIT {
                self.rare.clear();
                self.rare_weight = 0;
            }
            self.rare_weight += weight(&step);
            self.rare.insert((info, svma), step.clone());
        }
        step
    }

    /// The rules that the code at this address gives, worked out by `make` unless met before.
    pub(super) fn find_code(
        &mut self,
        info: u32,
        svma: u64,
        make: impl FnOnce() -> Vec<Rule>,
    ) -> Arc<[Rule]> {
        if let Some(known) = self.code.get(&(info, svma)) {
            return Arc::clone(known);
        }
        if self.code.len() >= CODE_LIMIT {
            return Arc::default();
        }
        let rules: Arc<[Rule]> = make().into();
        self.code.insert((info, svma), Arc::clone(&rules));
        rules
    }
}

fn empty_slots(count: usize) -> Box<[Slot]> {
    vec![Slot { svma: 0, info: 0, rule: Rule::new(0, 0) }; count].into()
}

fn weight(step: &Step) -> usize {
    match step {
        Step::General(row) => 1 + row.registers.len() + row.operations(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_grew_still_has_its_rules() {
        let mut cache = RuleCache::new();
        for svma in 0..2 * SLOTS as u64 {
            cache.insert(1, svma, &Rule::new(7, svma as i32));
        }
        assert_eq!(cache.slots.len(), MOST_SLOTS);
        let kept = (0..2 * SLOTS as u64)
            .filter(|&svma| cache.find(1, svma).is_some_and(|rule| *rule == Rule::new(7, svma as i32)));
        assert!(kept.count() > SLOTS / 2);
        let last = 2 * SLOTS as u64 - 1;
        assert_eq!(cache.find(1, last), Some(&Rule::new(7, last as i32)));
        assert_eq!(cache.find(2, last), None);
    }

    #[test]
    fn a_slot_is_44_bytes_of_content_at_most() {
        assert!(size_of::<Slot>() <= 48, "{}", size_of::<Slot>());
    }
}
