//! Rules of one file that any thread has worked out: working one out takes a microsecond, finding it here a twentieth.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::rule::Rule;

/// Parts with a lock of their own: threads seldom wait for each other.
const PARTS: usize = 16;
/// Rules kept in a part, of some 50 bytes; beyond it the part is cleared.
const MOST_RULES: usize = 1 << 13;

/// By stated address, and whether the thread called something there.
type Part = FxHashMap<(u64, bool), Rule>;

/// Rules by the code that they are for.
#[derive(Debug, Default)]
pub(super) struct SharedRules {
    parts: [Mutex<Part>; PARTS],
}

impl SharedRules {
    /// The rule that was kept of the code at `svma`; `None` if none was, or it was cleared.
    pub(super) fn find(&self, svma: u64, is_call: bool) -> Option<Rule> {
        let part = self.part(svma).lock().unwrap_or_else(PoisonError::into_inner);
        part.get(&(svma, is_call)).copied()
    }

    /// Keeps the rule of the code at `svma`.
    pub(super) fn keep(&self, svma: u64, is_call: bool, rule: &Rule) {
        let mut part = self.part(svma).lock().unwrap_or_else(PoisonError::into_inner);
        if part.len() >= MOST_RULES {
            part.clear();
        }
        part.insert((svma, is_call), *rule);
    }

    fn part(&self, svma: u64) -> &Mutex<Part> {
        let mixed = svma.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.parts[(mixed >> (64 - PARTS.trailing_zeros())) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_interruptions_at_one_address_have_their_own_rules() {
        let rules = SharedRules::default();
        rules.keep(0x1000, true, &Rule::new(7, 16));
        assert_eq!(rules.find(0x1000, true), Some(Rule::new(7, 16)));
        assert_eq!((rules.find(0x1000, false), rules.find(0x1001, true)), (None, None));
    }

    #[test]
    fn no_more_rules_are_kept_than_the_bound() {
        let rules = SharedRules::default();
        (0..300_000).for_each(|svma| rules.keep(svma, true, &Rule::new(7, 16)));
        let kept = (0..300_000).filter(|&svma| rules.find(svma, true).is_some()).count();
        assert!((1..=PARTS * MOST_RULES).contains(&kept), "{kept}");
    }
}
