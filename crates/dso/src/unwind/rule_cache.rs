//! Rules met before, by file and stated address: shared by all processes that map the file.
//!
//! A direct-mapped table for the common rules: one probe, no chains, a newer rule takes an older one's place.
//! The rare steps (general rows, roots, gaps) are in a separate map.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::rule::{Rule, Step};

/// Slots; 8,192 × 48 bytes stay in a core's L2.
const SLOTS: usize = 8192;
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
    rare: FxHashMap<(u32, u64), Step>,
    rare_weight: usize,
    /// Rules read from code without tables, by its own address.
    code: FxHashMap<(u32, u64), Arc<[Rule]>>,
}

impl RuleCache {
    pub(super) fn new() -> Self {
        let empty = Slot { svma: 0, info: 0, rule: Rule::new(0, 0) };
        Self {
            slots: vec![empty; SLOTS].into(),
            rare: FxHashMap::default(),
            rare_weight: 0,
            code: FxHashMap::default(),
        }
    }

    #[inline]
    fn slot(info: u32, svma: u64) -> usize {
        let mixed = (svma ^ u64::from(info) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - SLOTS.trailing_zeros())) as usize
    }

    #[inline]
    pub(super) fn find(&self, info: u32, svma: u64) -> Option<&Rule> {
        let slot = &self.slots[Self::slot(info, svma)];
        (slot.svma == svma && slot.info == info).then_some(&slot.rule)
    }

    pub(super) fn insert(&mut self, info: u32, svma: u64, rule: &Rule) {
        self.slots[Self::slot(info, svma)] = Slot { svma, info, rule: *rule };
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
    fn a_slot_is_44_bytes_of_content_at_most() {
        assert!(size_of::<Slot>() <= 48, "{}", size_of::<Slot>());
    }
}
