//! One step of a walk: from a frame to its caller.

use super::arch::{Arch, REGISTERS};
use super::arm::InstructionSet;
use super::expression::evaluate;
use super::frame_pointer::{Guess, WalkState, guess, is_after_call};
use super::rule::{Cfa, Restore, Row, Rule};
use super::space::AddressSpace;
use super::stack::Stack;
use super::stop::Stop;
use crate::Avma;

/// A value further past the end of the copy than this isn't a stack address (threads have 8 MB by default).
const STACK_LIMIT: u64 = 256 << 20;

/// Whether `svma` is in the few instructions at a program's entry (0: it has none).
pub(super) fn is_entry_code(entry: u64, svma: u64) -> bool {
    const ENTRY_BYTES: u64 = 0x40;
    entry != 0 && svma.wrapping_sub(entry) < ENTRY_BYTES
}

/// Position of a walk: the registers of the frame reached, and what it reads.
pub(super) struct Walk<'a> {
    pub registers: [u64; REGISTERS],
    pub space: &'a AddressSpace,
    pub stack: Stack<'a>,
    /// The pc is where the frame was interrupted, not a return address.
    pub is_exact: bool,
    /// The instruction set of ARM code; `None` where no return address leads to it.
    pub set: Option<InstructionSet>,
}

impl Walk<'_> {
    /// To the caller, by a common rule.
    #[inline]
    pub(super) fn by_rule<A: Arch>(&mut self, rule: &Rule) -> Result<(), Stop> {
        let sp = self.registers[A::SP];
        if !self.stack.holds(sp) {
            return Err(self.unreadable::<A>(sp));
        }
        let has_return_address = rule.saves_return_address() || A::HAS_LINK_REGISTER && self.is_exact;
        if !has_return_address {
            return Err(Stop::Loop);
        }
        let cfa = self.registers[usize::from(rule.cfa_register)].wrapping_add_signed(rule.cfa_offset.into());
        let is_frameless = A::HAS_LINK_REGISTER && cfa == sp && self.is_exact;
        if cfa <= sp && !is_frameless && !rule.is_signal_frame {
            return Err(Stop::BadCfa { pc: Avma(self.registers[A::PC]) });
        }
        for (slot, words) in rule.saved() {
            let register = usize::from(A::CALLEE_SAVED[slot]);
            let address = cfa.wrapping_add_signed(i64::from(words) * A::WORD as i64);
            match self.stack.read_sized(address, A::WORD) {
                Some(value) => self.registers[register] = value,
                // Popped already, below the stack pointer: the register has its value again.
                None if register != A::RA => {}
                None => return Err(self.unreadable::<A>(address)),
            }
        }
        self.registers[A::SP] = cfa;
        self.registers[A::PC] = self.registers[A::RA];
        self.is_exact = rule.is_signal_frame;
        Ok(())
    }

    /// To the caller, by whatever DWARF can express.
    pub(super) fn by_row<A: Arch>(&mut self, row: &Row) -> Result<(), Stop> {
        let old = self.registers;
        if !self.stack.holds(old[A::SP]) {
            return Err(self.unreadable::<A>(old[A::SP]));
        }
        let has_return_address = row.restores_any(&[A::RA, A::PC]) || A::HAS_LINK_REGISTER && self.is_exact;
        if !has_return_address {
            return Err(Stop::Loop);
        }
        self.restore::<A>(row, &old)?;
        // aarch64's signal frames restore the pc itself.
        if !row.restores_any(&[A::PC]) {
            self.registers[A::PC] = self.registers[A::RA];
        }
        // vfork keeps its return address in a register, so that its frame has no size while it waits.
        let keeps_ra = row
            .registers
            .iter()
            .any(|(r, restore)| usize::from(*r) == A::RA && matches!(restore, Restore::Register(_)));
        let may_be_empty = self.is_exact && (A::HAS_LINK_REGISTER || keeps_ra);
        let (sp, old_sp) = (self.registers[A::SP], old[A::SP]);
        if (sp < old_sp || (sp == old_sp && !may_be_empty)) && !row.is_signal_frame {
            return Err(Stop::BadCfa { pc: Avma(old[A::PC]) });
        }
        self.is_exact = row.is_signal_frame;
        Ok(())
    }

    /// The caller's stack pointer and registers, made of the `old` ones.
    fn restore<A: Arch>(&mut self, row: &Row, old: &[u64; REGISTERS]) -> Result<(), Stop> {
        let bad = Stop::BadCfa { pc: Avma(old[A::PC]) };
        let cfa = match &row.cfa {
            Cfa::Register(register, offset) => old[usize::from(*register)].wrapping_add_signed(*offset),
            Cfa::Program(program) => evaluate(program, None, old, self.stack)
                .map_err(|at| at.map_or(bad, |address| self.unreadable::<A>(address)))?,
        };
        self.registers[A::SP] = cfa;
        for (register, restore) in &row.registers {
            let register = usize::from(*register);
            let at = |address: u64| self.stack.read_sized(address, A::WORD).ok_or(Some(address));
            let value = match restore {
                Restore::Undefined => Ok(0),
                Restore::AtCfa(offset) => at(cfa.wrapping_add_signed(*offset)),
                Restore::CfaPlus(offset) => Ok(cfa.wrapping_add_signed(*offset)),
                Restore::Register(other) => Ok(old[usize::from(*other)]),
                Restore::WalkState(program) => evaluate(program, Some(cfa), old, self.stack).and_then(at),
                Restore::Is(program) => evaluate(program, Some(cfa), old, self.stack),
            };
            match value {
                Ok(value) => self.registers[register] = value,
                Err(Some(address)) if register == A::RA => return Err(self.unreadable::<A>(address)),
                Err(None) if register == A::RA => return Err(bad),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Where a rule has the return address; `None` if it leaves it in a register.
    pub(super) fn return_slot<A: Arch>(&self, rule: &Rule) -> Option<u64> {
        let base = self.registers[usize::from(rule.cfa_register)];
        let cfa = base.wrapping_add_signed(rule.cfa_offset.into());
        let (_, words) = rule.saved().next().filter(|_| rule.saves_return_address())?;
        Some(cfa.wrapping_add_signed(i64::from(words) * A::WORD as i64))
    }

    /// Whether a call returns to the address that a rule leads to; `None` if that wasn't copied.
    pub(super) fn returns_by<A: Arch>(&self, rule: &Rule) -> Option<bool> {
        let address = match self.return_slot::<A>(rule) {
            Some(slot) => self.stack.read_sized(slot, A::WORD),
            None => (A::HAS_LINK_REGISTER && self.is_exact).then(|| self.registers[A::RA]),
        };
        address.map(|address| is_after_call::<A>(self.space, address))
    }

    /// To the caller by the first of the rules read from code that leads to a call; by the frame pointer if none does.
    pub(super) fn by_code<A: Arch>(&mut self, rules: &[Rule], otherwise: Stop) -> Result<(), Stop> {
        if let Some(rule) = rules.iter().find(|rule| self.returns_by::<A>(rule) == Some(true)) {
            return self.by_rule::<A>(rule);
        }
        let past_copy =
            rules.iter().filter_map(|rule| Some(self.unreadable::<A>(self.return_slot::<A>(rule)?)));
        let past_copy = past_copy.into_iter().find(|stop| matches!(stop, Stop::StackEnd { .. }));
        let by_frame_pointer = self.by_frame_pointer::<A>(past_copy.unwrap_or(otherwise));
        by_frame_pointer.or_else(|stop| self.reach_entry_code::<A>().ok_or(stop))
    }

    /// To a program's entry code, if that called this function. C libraries leave the entry by calls that never
    /// return (`exit` after `main`): reading such code gives no rule.
    fn reach_entry_code<A: Arch>(&mut self) -> Option<()> {
        const ENTRY_WORDS: u64 = 32;
        let sp = self.registers[A::SP];
        let slots = (0..ENTRY_WORDS).map(|word| sp.wrapping_add(A::WORD * word));
        let is_entry = |address: u64| {
            let mapped = self.space.find(address.wrapping_sub(1))?;
            let entry = mapped.info.as_ref()?.object().entry().0;
            is_entry_code(A::strip(entry), address.wrapping_sub(1).wrapping_sub(mapped.bias)).then_some(())
        };
        let mut found = slots.filter_map(|slot| Some((slot, self.stack.read_sized(slot, A::WORD)?)));
        let (slot, address) = found
            .find(|(_, address)| is_entry(*address).is_some() && is_after_call::<A>(self.space, *address))?;
        self.registers[A::SP] = slot.wrapping_add(A::WORD);
        self.registers[A::PC] = address;
        self.is_exact = false;
        Some(())
    }

    /// To the caller by the frame pointer; stops with `otherwise` where that leads nowhere.
    pub(super) fn by_frame_pointer<A: Arch>(&mut self, otherwise: Stop) -> Result<(), Stop> {
        let at = WalkState {
            registers: &self.registers,
            stack: self.stack,
            space: self.space,
            is_exact: self.is_exact,
        };
        match guess::<A>(&at) {
            Guess::Caller { ra, sp, fp } => {
                self.registers[A::PC] = ra;
                self.registers[A::SP] = sp;
                self.registers[A::FP] = fp;
                self.is_exact = false;
                Ok(())
            }
            Guess::Root => Err(Stop::ReachedRoot),
            Guess::StackEnd(bytes) => Err(Stop::StackEnd { bytes }),
            Guess::No => Err(otherwise),
        }
    }

    /// Why nothing can be read at `address`.
    pub(super) fn unreadable<A: Arch>(&self, address: u64) -> Stop {
        match address.saturating_add(A::WORD).saturating_sub(self.stack.end(self.registers[A::SP])) {
            bytes @ 1..=STACK_LIMIT => Stop::StackEnd { bytes },
            _ => Stop::BadCfa { pc: Avma(self.registers[A::PC]) },
        }
    }
}
