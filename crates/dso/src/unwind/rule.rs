//! What to do at one code address to get to the caller.

use std::sync::Arc;

use super::arch::{NO_REGISTER, SAVED};
use super::expression::Program;

/// In [`Rule::saved`]: the register keeps its value.
pub(super) const SAME: i16 = i16::MIN;

/// The common case, small enough to be cached by the thousand:
/// `cfa = register + offset; each saved register = [cfa + 8 * saved]; sp = cfa`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// DWARF number of the CFA's base.
    pub cfa_register: u8,
    /// The frame was interrupted: its caller's pc is exact, not a return address.
    pub is_signal_frame: bool,
    /// Added to the base.
    pub cfa_offset: i32,
    /// Per register of `Arch::CALLEE_SAVED`: where it lies, in words from the CFA, or [`SAME`].
    pub saved: [i16; SAVED],
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
    At(Program),
    /// What the program gives.
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

/// Anything DWARF can say: what does not fit a [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub cfa: Cfa,
    /// Registers not listed keep their value.
    pub registers: Vec<(u8, Restore)>,
    pub is_signal_frame: bool,
}

/// What unwind information says of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Common.
    Simple(Rule),
    /// Rare.
    General(Arc<Row>),
    /// The return address is undefined: the outermost frame.
    Root,
    /// The file says nothing of this address.
    Nothing,
}

impl Row {
    /// The same as a [`Rule`], if it fits one.
    pub(super) fn simple(&self, callee_saved: &[u8; SAVED]) -> Option<Rule> {
        let Cfa::Register(cfa_register, offset) = self.cfa else { return None };
        let mut rule = Rule {
            cfa_register,
            is_signal_frame: self.is_signal_frame,
            cfa_offset: i32::try_from(offset).ok()?,
            saved: [SAME; SAVED],
        };
        for (register, restore) in &self.registers {
            let Restore::AtCfa(offset) = restore else { return None };
            let slot = callee_saved.iter().position(|r| r == register && *r != NO_REGISTER)?;
            let words =
                i16::try_from(offset / 8).ok().filter(|w| i64::from(*w) * 8 == *offset && *w != SAME)?;
            rule.saved[slot] = words;
        }
        Some(rule)
    }
}
