//! The walk from frame to frame.

use gimli::UnwindContext;

use super::arch::{Arch, Arm64, REGISTERS, X86};
use super::expression::evaluate;
use super::frame_pointer::{At, Guess, guess};
use super::registers::Regs;
use super::rule::{Cfa, Restore, Row, Rule, Step};
use super::rule_cache::RuleCache;
use super::space::{AddressSpace, Mapped, UnwindInfo};
use crate::Avma;

/// A copy of the user stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// Address of its first byte: the stack pointer at the time of the copy.
    pub start: Avma,
    /// The bytes, upwards.
    pub bytes: &'a [u8],
}

impl Stack<'_> {
    /// The 8 bytes at `address` as a little-endian number, `None` outside of the copy.
    #[inline]
    pub fn read(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start.0)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Address past its last byte.
    pub fn end(&self) -> u64 {
        self.start.0.saturating_add(self.bytes.len() as u64)
    }
}

/// Which unwind information is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The file has none at all.
    File,
    /// The file has some, but none for this function, and the frame pointer is no frame pointer.
    Function,
    /// JIT or other anonymous code, and the frame pointer is no frame pointer.
    Anonymous,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The outermost frame was reached: its rules say that there is no caller, or the return address is 0.
    /// Only such a chain is complete.
    ReachedRoot,
    /// The next value lies past the end of the copied stack: a larger snapshot would go on.
    StackEnd {
        /// How many bytes more would have been needed for the next step.
        bytes: u64,
    },
    /// No rules for the code at `pc`.
    NoUnwindInfo {
        /// What is missing.
        which: Which,
        /// Where.
        pc: Avma,
    },
    /// The code address `avma` is in no mapping we know.
    NoModule {
        /// Where.
        avma: Avma,
    },
    /// The rules give no stack address, or one below the stack pointer or far outside of the stack.
    BadCfa {
        /// Of which code.
        pc: Avma,
    },
    /// The stack pointer did not move up: going on would not end.
    Loop,
    /// As many frames as asked for were found.
    TooDeep,
}

impl Stop {
    /// Whether the chain goes to the thread's start.
    pub fn is_complete(self) -> bool {
        self == Self::ReachedRoot
    }
}

/// A value further past the end of the copy than this is no stack address (threads have 8 MB by default).
const STACK_LIMIT: u64 = 256 << 20;

/// Walks stacks and remembers the rules it has met. One per thread; `Send`.
pub struct Unwinder {
    cache: RuleCache,
    context: UnwindContext<usize>,
    stack_pointers: Vec<u64>,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

impl Unwinder {
    /// With an empty cache.
    pub fn new() -> Self {
        Self { cache: RuleCache::new(), context: UnwindContext::new(), stack_pointers: Vec::new() }
    }

    /// Appends the code addresses of the stack to `out`, **leaf first**: the pc itself, then return addresses
    /// (behind a signal frame the interrupted pc itself). At most `max` of them. Memory is read from `stack` only.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        regs: &Regs,
        stack: Stack<'_>,
        max: usize,
        out: &mut Vec<Avma>,
    ) -> Stop {
        let mut registers = [0; REGISTERS];
        self.stack_pointers.clear();
        match regs {
            Regs::X86_64(r) => {
                registers[..17].copy_from_slice(&r.0);
                self.walk::<X86>(&mut Walk { registers, space, stack, is_exact: true }, max, out)
            }
            Regs::Aarch64(r) => {
                registers.copy_from_slice(&r.0);
                registers[Arm64::PC] = Arm64::strip(registers[Arm64::PC]);
                self.walk::<Arm64>(&mut Walk { registers, space, stack, is_exact: true }, max, out)
            }
        }
    }

    /// The stack pointer in each frame of the last walk, leaf first: as many as frames were found.
    pub fn stack_pointers(&self) -> &[u64] {
        &self.stack_pointers
    }

    fn walk<A: Arch>(&mut self, walk: &mut Walk<'_>, max: usize, out: &mut Vec<Avma>) -> Stop {
        let mut near: Option<&Mapped> = None;
        for _ in 0..max {
            let pc = walk.registers[A::PC];
            out.push(Avma(pc));
            self.stack_pointers.push(walk.registers[A::SP]);
            let lookup = if walk.is_exact { pc } else { pc.wrapping_sub(1) };
            near = match near.filter(|m| m.start <= lookup && lookup < m.end) {
                None => walk.space.find(lookup),
                same => same,
            };
            let before = (walk.registers[A::SP], pc);
            let stepped = match near {
                None if walk.is_exact => walk.by_frame_pointer::<A>(Stop::NoModule { avma: Avma(pc) }),
                None => {
                    // An address outside of all code is no frame: the reason holds it.
                    out.pop();
                    Err(Stop::NoModule { avma: Avma(pc) })
                }
                Some(mapped) => self.step::<A>(walk, mapped, lookup),
            };
            if let Err(stop) = stepped {
                return stop;
            }
            let after = (walk.registers[A::SP], A::strip(walk.registers[A::PC]));
            walk.registers[A::PC] = after.1;
            if after.1 == 0 {
                return Stop::ReachedRoot;
            }
            if after == before {
                return Stop::Loop;
            }
        }
        Stop::TooDeep
    }

    /// From the frame at `lookup` to its caller.
    fn step<A: Arch>(&mut self, walk: &mut Walk<'_>, mapped: &Mapped, lookup: u64) -> Result<(), Stop> {
        let pc = Avma(walk.registers[A::PC]);
        let Some(info) = &mapped.info else {
            return walk.by_frame_pointer::<A>(Stop::NoUnwindInfo { which: Which::Anonymous, pc });
        };
        let svma = lookup.wrapping_sub(mapped.bias);
        self.step_at::<A>(walk, info, svma, false)
    }

    fn step_at<A: Arch>(
        &mut self,
        walk: &mut Walk<'_>,
        info: &UnwindInfo,
        svma: u64,
        is_retry: bool,
    ) -> Result<(), Stop> {
        if let Some(rule) = self.cache.find(info.id, svma) {
            return walk.by_rule::<A>(rule);
        }
        match self.cache.find_rare(info.id, svma, || info.cfi().step(&mut self.context, svma)) {
            Step::Simple(rule) => {
                self.cache.insert(info.id, svma, &rule);
                walk.by_rule::<A>(&rule)
            }
            Step::General(row) => walk.by_row::<A>(&row),
            Step::Root => Err(Stop::ReachedRoot),
            // The dynamic linker's _start has no rules; nobody called it.
            Step::Nothing if is_entry_code(info.object().entry().0, svma) => Err(Stop::ReachedRoot),
            // Behind a system call that ends its function (sigreturn), the pc is one past it.
            Step::Nothing if walk.is_exact && !is_retry => {
                self.step_at::<A>(walk, info, svma.wrapping_sub(1), true)
            }
            Step::Nothing => {
                let pc = Avma(walk.registers[A::PC]);
                let which = if info.cfi().is_empty() { Which::File } else { Which::Function };
                walk.by_frame_pointer::<A>(Stop::NoUnwindInfo { which, pc })
            }
        }
    }
}

/// Whether `svma` lies in the few instructions at a program's entry (0: it has none).
fn is_entry_code(entry: u64, svma: u64) -> bool {
    const ENTRY_BYTES: u64 = 0x40;
    entry != 0 && (entry..entry + ENTRY_BYTES).contains(&svma)
}

/// One walk's state.
struct Walk<'a> {
    registers: [u64; REGISTERS],
    space: &'a AddressSpace,
    stack: Stack<'a>,
    /// The pc is no return address.
    is_exact: bool,
}

impl Walk<'_> {
    #[inline]
    fn by_rule<A: Arch>(&mut self, rule: &Rule) -> Result<(), Stop> {
        let cfa = self.registers[usize::from(rule.cfa_register)].wrapping_add_signed(rule.cfa_offset.into());
        let sp = self.registers[A::SP];
        let is_frameless = A::HAS_LINK_REGISTER && cfa == sp && self.is_exact;
        if cfa <= sp && !is_frameless && !rule.is_signal_frame {
            return Err(Stop::BadCfa { pc: Avma(self.registers[A::PC]) });
        }
        for (slot, words) in rule.saved() {
            let register = usize::from(A::CALLEE_SAVED[slot]);
            let address = cfa.wrapping_add_signed(i64::from(words) * 8);
            match self.stack.read(address) {
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

    fn by_row<A: Arch>(&mut self, row: &Row) -> Result<(), Stop> {
        let old = self.registers;
        let bad = Stop::BadCfa { pc: Avma(old[A::PC]) };
        let cfa = match &row.cfa {
            Cfa::Register(register, offset) => old[usize::from(*register)].wrapping_add_signed(*offset),
            Cfa::Program(program) => evaluate(program, None, &old, self.stack)
                .map_err(|at| at.map_or(bad, |address| self.unreadable::<A>(address)))?,
        };
        self.registers[A::SP] = cfa;
        for (register, restore) in &row.registers {
            let register = usize::from(*register);
            let at = |address: u64| self.stack.read(address).ok_or(Some(address));
            let value = match restore {
                Restore::Undefined => Ok(0),
                Restore::AtCfa(offset) => at(cfa.wrapping_add_signed(*offset)),
                Restore::CfaPlus(offset) => Ok(cfa.wrapping_add_signed(*offset)),
                Restore::Register(other) => Ok(old[usize::from(*other)]),
                Restore::At(program) => evaluate(program, Some(cfa), &old, self.stack).and_then(at),
                Restore::Is(program) => evaluate(program, Some(cfa), &old, self.stack),
            };
            match value {
                Ok(value) => self.registers[register] = value,
                Err(Some(address)) if register == A::RA => return Err(self.unreadable::<A>(address)),
                Err(None) if register == A::RA => return Err(bad),
                Err(_) => {}
            }
        }
        // aarch64's signal frames restore the pc itself.
        let names_pc = row.registers.iter().any(|(r, _)| usize::from(*r) == A::PC);
        if !names_pc {
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
            return Err(bad);
        }
        self.is_exact = row.is_signal_frame;
        Ok(())
    }

    fn by_frame_pointer<A: Arch>(&mut self, otherwise: Stop) -> Result<(), Stop> {
        let at =
            At { registers: &self.registers, stack: self.stack, space: self.space, is_exact: self.is_exact };
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
    fn unreadable<A: Arch>(&self, address: u64) -> Stop {
        match address.saturating_add(8).saturating_sub(self.stack.end()) {
            bytes @ 1..=STACK_LIMIT => Stop::StackEnd { bytes },
            _ => Stop::BadCfa { pc: Avma(self.registers[A::PC]) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::{Aarch64, X86_64};

    const CODE: u64 = 0x10_0000;
    const SP: u64 = 0x7000;

    fn space() -> AddressSpace {
        let mut space = AddressSpace::new();
        space.map_anonymous(Avma(CODE), Avma(CODE + 0x1000));
        space
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn walk(regs: Regs, words: &[u64]) -> (Vec<u64>, Stop) {
        let mut out = Vec::new();
        let bytes = bytes(words);
        let stack = Stack { start: Avma(SP), bytes: &bytes };
        let stop = Unwinder::new().unwind(&space(), &regs, stack, 8, &mut out);
        (out.into_iter().map(|a| a.0).collect(), stop)
    }

    fn x86(fp: u64) -> Regs {
        let mut regs = [0; 17];
        (regs[6], regs[7], regs[16]) = (fp, SP, CODE + 1);
        Regs::X86_64(X86_64(regs))
    }

    #[test]
    fn jit_code_is_walked_by_frame_pointers_to_its_root() {
        let words = [0, SP + 32, CODE + 0x10, 0, 0, 0];
        assert_eq!(walk(x86(SP + 8), &words), (vec![CODE + 1, CODE + 0x10], Stop::ReachedRoot));
    }

    #[test]
    fn what_lies_past_the_copy_is_told_in_bytes() {
        let words = [0, SP + 64, CODE + 0x10];
        let (chain, stop) = walk(x86(SP + 8), &words);
        assert_eq!((chain.len(), stop), (2, Stop::StackEnd { bytes: 64 + 16 - 24 }));
    }

    #[test]
    fn a_frame_pointer_that_is_none_ends_the_walk_with_its_reason() {
        let anonymous = Stop::NoUnwindInfo { which: Which::Anonymous, pc: Avma(CODE + 1) };
        assert_eq!(walk(x86(12345), &[0; 4]).1, anonymous);
        // Its return address is in no code.
        assert_eq!(walk(x86(SP), &[SP + 16, 0x42, 0, 0]).1, anonymous);
        // The chain turns back.
        assert_eq!(walk(x86(SP + 16), &[0, 0, SP, CODE + 9]).1, anonymous);
    }

    #[test]
    fn more_frames_than_asked_for_are_too_deep() {
        let words: Vec<u64> = (0..40).flat_map(|i| [SP + 16 * (i + 1), CODE + 8]).collect();
        let (chain, stop) = walk(x86(SP), &words);
        assert_eq!((chain.len(), stop), (8, Stop::TooDeep));
    }

    #[test]
    fn signed_return_addresses_lose_their_signature() {
        let mut regs = [0; 33];
        (regs[29], regs[31], regs[32]) = (SP, SP, CODE + 4);
        let words = [0, (CODE + 0x20) | 0x00ab_0000_0000_0000, 0, 0];
        let (chain, stop) = walk(Regs::Aarch64(Aarch64(regs)), &words);
        assert_eq!((chain, stop), (vec![CODE + 4, CODE + 0x20], Stop::ReachedRoot));
    }

    #[test]
    fn a_pc_outside_of_all_code_is_told() {
        let mut regs = [0; 17];
        (regs[7], regs[16]) = (SP, 0x42);
        assert_eq!(walk(Regs::X86_64(X86_64(regs)), &[0; 4]).1, Stop::NoModule { avma: Avma(0x42) });
    }
}
