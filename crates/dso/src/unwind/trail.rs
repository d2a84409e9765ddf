//! The rules that the walk before used: the next stack of the same thread has mostly the same callers.
//!
//! ```text
//!   walk before   leaf c   d  main start        by stack pointer and return address
//!   this walk     leaf e f d  main start        from d on the rules are found one after the other
//! ```
//! Only the lookups are saved. Each step reads the stack as ever, so that a trail never leads elsewhere.

use super::rule::Rule;
use super::stack::Stack;
use crate::Machine;

/// Trails kept, for threads that are sampled by turns.
const TRAILS: usize = 8;
/// Frames of a trail: deeper ones are looked up.
const MOST_STEPS: usize = 512;

/// The rule used at a frame.
#[derive(Clone, Copy)]
struct Step {
    sp: u64,
    /// A return address.
    pc: u64,
    rule: Rule,
}

/// The rules of one walk, leaf first.
#[derive(Default)]
struct Trail {
    /// The mappings it was made in.
    version: u64,
    machine: Option<Machine>,
    steps: Vec<Step>,
}

/// The rules of recent walks, by the part of memory that their stacks are in.
#[derive(Default)]
pub(super) struct Trails {
    kept: [Trail; TRAILS],
    /// That of the walk at hand among `kept`.
    chosen: usize,
    /// Position in it: the steps before are of frames below the one reached.
    at: usize,
    /// The rules of the walk at hand.
    steps: Vec<Step>,
}

impl Trails {
    /// Begins a walk at the stack pointer `sp` in the mappings of `version`.
    pub(super) fn begin(&mut self, version: u64, machine: Machine, sp: u64) {
        let mixed = (sp >> 20 ^ version.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.chosen = (mixed >> (64 - TRAILS.trailing_zeros())) as usize;
        self.at = 0;
        self.steps.clear();
        let kept = &mut self.kept[self.chosen];
        if kept.version != version || kept.machine != Some(machine) {
            (kept.version, kept.machine) = (version, Some(machine));
            kept.steps.clear();
        }
    }

    /// Reads where the walk before found its return addresses: the processor fetches all of them at once, while the walk
    /// knows each place only after it has read the one before.
    pub(super) fn read_ahead(&self, stack: Stack<'_>) {
        let slots = self.kept[self.chosen].steps.iter().map(|step| step.sp.wrapping_sub(8));
        let sum = slots.fold(0u64, |sum, slot| sum.wrapping_add(stack.read(slot).unwrap_or_default()));
        std::hint::black_box(sum);
    }

    /// The rule for the return address `pc` of the frame at `sp`, if the walk before used it there.
    #[inline]
    pub(super) fn rule_at(&mut self, sp: u64, pc: u64) -> Option<&Rule> {
        let kept = &self.kept[self.chosen].steps;
        self.at += kept.get(self.at..)?.iter().take_while(|step| step.sp < sp).count();
        let step = kept.get(self.at).filter(|step| step.sp == sp && step.pc == pc)?;
        self.at += 1;
        if self.steps.len() < MOST_STEPS {
            self.steps.push(*step);
        }
        Some(&step.rule)
    }

    /// Notes the rule used for the return address `pc` of the frame at `sp`.
    #[inline]
    pub(super) fn note(&mut self, sp: u64, pc: u64, rule: &Rule) {
        if self.steps.len() < MOST_STEPS {
            self.steps.push(Step { sp, pc, rule: *rule });
        }
    }

    /// Keeps the walk's rules for the next one.
    pub(super) fn end(&mut self) {
        std::mem::swap(&mut self.kept[self.chosen].steps, &mut self.steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(offset: i32) -> Rule {
        Rule::new(7, offset)
    }

    #[test]
    fn the_rules_of_common_callers_are_found_and_no_others() {
        let mut trails = Trails::default();
        trails.begin(1, Machine::X86_64, 100);
        [(110, 1), (120, 2), (130, 3)].into_iter().for_each(|(sp, pc)| trails.note(sp, pc, &rule(pc as i32)));
        trails.end();
        trails.begin(1, Machine::X86_64, 90);
        assert_eq!(trails.rule_at(115, 1), None);
        trails.note(115, 1, &rule(9));
        assert_eq!(trails.rule_at(120, 2), Some(&rule(2)));
        assert_eq!(trails.rule_at(130, 4), None);
        trails.end();
        trails.begin(1, Machine::X86_64, 90);
        assert_eq!(trails.rule_at(115, 1), Some(&rule(9)));
        assert_eq!(trails.rule_at(130, 3), None);
    }

    #[test]
    fn other_mappings_have_other_rules() {
        let mut trails = Trails::default();
        for version in 1..100 {
            trails.begin(version, Machine::X86_64, 100);
            assert_eq!(trails.rule_at(110, 1), None);
            trails.note(110, 1, &rule(version as i32));
            trails.end();
        }
    }
}
