//! The step from one code address to the caller.

use std::sync::Arc;

use super::arch::{Arch, NO_REGISTER, SAVED};
use super::expression::Program;

/// The common case, small enough to be cached by the thousand:
/// `cfa = register + offset; each saved register = [cfa + word * saved]; sp = cfa`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// DWARF number of the CFA's base.
    pub cfa_register: u8,
    /// The frame was interrupted: its caller's pc is exact, not a return address.
    pub is_signal_frame: bool,
    /// Which places of `words` are used: bit n is the n-th register of `Arch::CALLEE_SAVED`; the others keep
    /// their values.
    mask: u16,
    /// Added to the base.
    pub cfa_offset: i32,
    /// Location of each register of `Arch::CALLEE_SAVED`, in words from the CFA.
    words: [i16; SAVED],
}

impl Rule {
    /// With all registers keeping their values.
    pub(super) fn new(cfa_register: u8, cfa_offset: i32) -> Self {
        Self { cfa_register, is_signal_frame: false, mask: 0, cfa_offset, words: [0; SAVED] }
    }

    /// The register at `slot` of `Arch::CALLEE_SAVED` is `words` above the CFA.
    pub(super) fn save(&mut self, slot: usize, words: i16) {
        self.mask |= 1 << slot;
        self.words[slot] = words;
    }

    /// Whether the return address is on the stack. If not, only a link register can still hold it.
    #[inline]
    pub(super) fn saves_return_address(&self) -> bool {
        self.mask & 1 != 0
    }

    /// The registers that were saved: their places in `Arch::CALLEE_SAVED`, and their locations in words from
    /// the CFA. The return address first.
    #[inline]
    pub(super) fn saved(&self) -> impl Iterator<Item = (usize, i16)> + '_ {
        let mut left = self.mask;
        std::iter::from_fn(move || {
            let slot = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Some((slot, *self.words.get(slot)?))
        })
    }
}

/// How a register gets its value in the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restore {
    /// Not recoverable.
    Undefined,
    /// At `cfa + offset`.
    AtCfa(i64),
    /// Is `cfa + offset`.
    CfaPlus(i64),
    /// Held by another register.
    Register(u8),
    /// At the address the program gives.
    WalkState(Program),
    /// Input from the program.
    Is(Program),
}

/// How the CFA comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// A register and an offset.
    Register(u8, i64),
    /// An expression.
    Program(Program),
}

/// Any DWARF row that does not fit a [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub cfa: Cfa,
    /// Registers not listed keep their value.
    pub registers: Vec<(u8, Restore)>,
    pub is_signal_frame: bool,
}

/// Unwind information for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Common.
    Simple(Rule),
    /// Rare.
    General(Arc<Row>),
    /// The return address is undefined: the outermost frame.
    Root,
    /// The caller is on a stack that no rule leads to.
    OtherStack,
    /// The file has none for this address.
    Nothing,
}

impl Row {
    /// Whether one of these registers gets another value in the caller.
    pub(super) fn restores_any(&self, wanted: &[usize]) -> bool {
        self.registers.iter().any(|(register, _)| wanted.contains(&usize::from(*register)))
    }

    /// Operations of its expressions.
    pub(super) fn operations(&self) -> usize {
        let cfa = if let Cfa::Program(program) = &self.cfa { program.len() } else { 0 };
        let of = |restore: &Restore| match restore {
            Restore::WalkState(program) | Restore::Is(program) => program.len(),
            _ => 0,
        };
        cfa + self.registers.iter().map(|(_, restore)| of(restore)).sum::<usize>()
    }

    /// The same as a [`Rule`], if it fits one.
    pub(super) fn simple<A: Arch>(&self) -> Option<Rule> {
        let Cfa::Register(cfa_register, offset) = self.cfa else { return None };
        let mut rule = Rule::new(cfa_register, i32::try_from(offset).ok()?);
        rule.is_signal_frame = self.is_signal_frame;
        for (register, restore) in &self.registers {
            let Restore::AtCfa(offset) = restore else { return None };
            let slot = A::CALLEE_SAVED.iter().position(|r| r == register && *r != NO_REGISTER)?;
            let word = A::WORD as i64;
            let words = i16::try_from(offset / word).ok().filter(|w| i64::from(*w) * word == *offset)?;
            rule.save(slot, words);
        }
        Some(rule)
    }
}
