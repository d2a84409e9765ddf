//! Calls by which functions report their own entries (`-finstrument-functions`), and where the arguments are then (x86-64
//! only).
//!
//! Such a call comes after the prologue, which has moved the arguments: the call's own take the first two
//! registers, and values the function needs later are put where calls don't change them. Their places are read
//! from the code, so no debug information is needed, and discarded arguments are known to be gone.

mod aarch64;
mod abstract_state;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind};
use rustc_hash::FxHashMap;

use crate::dwarf::probe::Incoming;
use crate::elf::plt;
use crate::{Machine, ObjectFile, Svma, SymbolTable};
use abstract_state::AbstractState;

/// The function called.
pub const ENTRY_REPORTER: &str = "__cyg_profile_func_enter";

/// One call that reports an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryReport {
    /// The call instruction.
    pub at: Svma,
    /// The function that it reports: that of which it is part, or one inlined there.
    pub function: Svma,
    /// Where that function's arguments are at the call; `None` for an inlined one, and where the code is not understood.
    pub moved: Option<MovedArguments>,
}

/// Where the arguments are that came in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedArguments {
    /// Address of the return address: x86's number of a general register, and the offset to add to it.
    pub return_address: (u8, i32),
    /// Those of rdi, rsi, rdx, rcx, r8, r9; `None`: nowhere any more.
    pub general: [Option<Copy>; 6],
    /// Those of xmm0 to xmm7.
    pub vector: [Option<Copy>; 8],
}

/// The copy of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it is.
    pub place: Held,
    /// How many of its low bytes are there.
    pub bytes: u8,
}

/// A place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// x86's number of a general register.
    General(u8),
    /// A vector register.
    Vector(u8),
    /// Bytes above the return address.
    Stack(i32),
}

impl MovedArguments {
    /// The copy of what came in a register; `None` if there is none, or it came elsewhere.
    #[must_use]
    pub fn of(&self, incoming: Incoming) -> Option<Copy> {
        match incoming {
            Incoming::General(number) => self.general.get(usize::from(number)).copied().flatten(),
            Incoming::Vector(number) => self.vector.get(usize::from(number)).copied().flatten(),
            _ => None,
        }
    }
}

/// Finds the calls of an object.
pub struct Reports<'a> {
    object: &'a ObjectFile,
    symbols: &'a SymbolTable,
    /// Names of what the object's table of addresses holds, by slot.
    slots: FxHashMap<Svma, String>,
}

impl<'a> Reports<'a> {
    /// The calls in this object.
    #[must_use]
    pub fn new(object: &'a ObjectFile, symbols: &'a SymbolTable) -> Self {
        Self { object, symbols, slots: plt::slot_names(object) }
    }

    /// The calls in the code `[start, end)` of a function, ascending; none for a machine other than x86-64 and aarch64.
    #[must_use]
    pub fn of(&self, start: Svma, end: Svma) -> Vec<EntryReport> {
        let bytes = end.0.checked_sub(start.0).and_then(|bytes| usize::try_from(bytes).ok());
        let code = bytes.and_then(|bytes| self.object.bytes_at(start, bytes));
        let Some(code) = code.filter(|_| self.object.is_code(start)) else { return Vec::new() };
        match self.object.machine() {
            Machine::X86_64 => reports_of(code, start.0, &|call| self.is_reporter(call)),
            Machine::Aarch64 => aarch64::reports_of(
                code,
                start.0,
                &aarch64::Names {
                    is_reporter: &|to| self.is_reporter_at(Svma(to)),
                    function_of: &|slot| self.function_of(Svma(slot)),
                },
            ),
            _ => Vec::new(),
        }
    }

    /// Whether a call there is one of the reporter, or a slot there holds its address.
    fn is_reporter_at(&self, at: Svma) -> bool {
        self.slots.get(&at).is_some_and(|name| name == ENTRY_REPORTER) || self.is_stub(at)
    }

    fn is_stub(&self, at: Svma) -> bool {
        let target = self.symbols.find(at);
        target.is_some_and(|stub| stub.name.strip_suffix("@plt") == Some(ENTRY_REPORTER))
    }

    /// Where the function of this object begins whose address a slot holds.
    fn function_of(&self, slot: Svma) -> Option<u64> {
        let name = self.slots.get(&slot)?;
        self.symbols.by_name(name).next().map(|symbol| symbol.start.0)
    }

    fn is_reporter(&self, call: &Instruction) -> bool {
        if call.op0_kind() == OpKind::Memory {
            let slot = Svma(call.memory_displacement64());
            return call.is_ip_rel_memory_operand()
                && self.slots.get(&slot).is_some_and(|name| name == ENTRY_REPORTER);
        }
        self.is_stub(Svma(call.near_branch_target()))
    }
}

/// AbstractState at the targets of jumps that were passed.
type Waiting = Vec<(u64, AbstractState)>;

fn reports_of(code: &[u8], start: u64, is_reporter: &dyn Fn(&Instruction) -> bool) -> Vec<EntryReport> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let (mut facts, mut waiting, mut found) = (AbstractState::at_entry(), Waiting::new(), Vec::new());
    let mut instruction = Instruction::default();
    let mut info = InstructionInfoFactory::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::INVALID {
            break;
        }
        join(&mut facts, &mut waiting, instruction.ip());
        let is_call = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        if is_call && is_reporter(&instruction) {
            found.extend(report(&facts, instruction.ip(), start, found.is_empty()));
        }
        facts.take(&instruction, &mut info);
        branch(&mut facts, &mut waiting, &instruction);
    }
    found
}

fn report(facts: &AbstractState, at: u64, start: u64, is_first: bool) -> Option<EntryReport> {
    // The first one is the function's own, also where its address comes out of a table.
    let function = facts.reported().or(is_first.then_some(start))?;
    let moved = if function == start && is_first { facts.moved() } else { None };
    Some(EntryReport { at: Svma(at), function: Svma(function), moved })
}

/// Only what holds on every way to `at` is known there.
fn join(facts: &mut AbstractState, waiting: &mut Waiting, at: u64) {
    waiting.retain(|(target, other)| {
        if *target == at {
            facts.join(other);
        }
        *target != at
    });
}

fn branch(facts: &mut AbstractState, waiting: &mut Waiting, instruction: &Instruction) {
    let is_jump = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    let target = instruction.near_branch_target();
    if is_jump && target > instruction.ip() {
        waiting.push((target, facts.clone()));
    } else if is_jump {
        // The start of a loop was passed without the facts from its end.
        facts.is_exact = false;
    }
    let goes_on = matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::Call | FlowControl::IndirectCall
    );
    // The next code is reached from elsewhere: the last facts usually hold there, too.
    facts.is_exact &= goes_on;
}

#[cfg(test)]
mod tests;
