//! Rules for x86-64 code without tables (musl, hand-written assembly), found by reading the code from an address on.
//!
//! On each way to the end of the function the code itself takes back all that was put on the stack. Following it
//! gives the return address's place and those of the saved registers, without knowing where the function begins.
//! A way that leads past a call that never returns ends in another function. So there may be several rules, and the
//! walk takes the first whose return address follows a call.

use std::collections::VecDeque;

use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use iced_x86::{Mnemonic, OpAccess, OpKind, Register};

use super::rule::Rule;
use super::space::MadeCode;
use crate::{Machine, ObjectFile, Svma};

/// Callee-saved registers in the order of `X86::CALLEE_SAVED`, after the return address.
const SAVED: [Register; SAVED_COUNT] =
    [Register::RBP, Register::RBX, Register::R12, Register::R13, Register::R14, Register::R15];

const SAVED_COUNT: usize = 6;

/// Numbers in DWARF.
const NUMBERS: [u8; SAVED_COUNT] = [6, 3, 12, 13, 14, 15];

const RBP: usize = 0;

/// Instructions read for one address.
const MAX_INSTRUCTIONS: usize = 6000;

/// Ends of the function looked at.
const MAX_ENDS: usize = 8;

/// Rules kept for one address.
const MAX_RULES: usize = 3;

/// Bytes read in a row, without a jump.
const MAX_RUN: usize = 8192;

/// A register at the address asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Sp,
    /// One of `SAVED`, by its place there: rbp, or another one that keeps the stack pointer while that is aligned.
    Saved(usize),
}

/// An address on the stack: the value of a register at the address asked for, and a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Location(Base, i64);

/// A register's content on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// As at the address asked for.
    Kept,
    /// Read from the stack.
    Loaded(Location),
    /// A stack address.
    Address(Location),
    Unknown,
}

/// State on one way through the code.
#[derive(Clone, Debug)]
struct CodePath {
    svma: u64,
    sp: Option<Location>,
    saved: [Value; SAVED_COUNT],
}

/// The registers that a function gives back as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    /// C's: all of `SAVED`.
    C,
    /// HotSpot's, and at least so for all code of JIT compilers: the frame pointer. The others may have any value.
    FramePointer,
}

/// The rules for the instruction at `svma`, the likeliest first.
pub(super) fn rules(object: &ObjectFile, svma: u64) -> Vec<Rule> {
    if object.machine() != Machine::X86_64 {
        return Vec::new();
    }
    rules_of(|svma| object.bytes_at(Svma(svma), MAX_RUN).unwrap_or_default(), svma, Convention::C)
}

/// The same in code that a program made, of the instruction at this address.
pub(super) fn rules_of_made(code: &MadeCode, address: u64) -> Vec<Rule> {
    rules_of(|address| code.from(address), address, Convention::FramePointer)
}

fn rules_of<'c>(code: impl Fn(u64) -> &'c [u8], svma: u64, convention: Convention) -> Vec<Rule> {
    let start = CodePath { svma, sp: Some(Location(Base::Sp, 0)), saved: [Value::Kept; SAVED_COUNT] };
    let mut search = Search {
        ways: VecDeque::from([start]),
        visited: rustc_hash::FxHashSet::default(),
        info: InstructionInfoFactory::new(),
        ends: 0,
        convention,
        rules: Vec::new(),
    };
    while let Some(way) = search.ways.pop_front() {
        search.follow(way, &code);
        if search.ends >= MAX_ENDS || search.visited.len() >= MAX_INSTRUCTIONS {
            break;
        }
    }
    search.rules.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    search.rules.into_iter().map(|(rule, _)| rule).take(MAX_RULES).collect()
}

struct Search {
    ways: VecDeque<CodePath>,
    visited: rustc_hash::FxHashSet<u64>,
    info: InstructionInfoFactory,
    ends: usize,
    convention: Convention,
    /// With the number of ends that agree, in the order found.
    rules: Vec<(Rule, usize)>,
}

impl Search {
    /// Until the function ends or the way has been taken before.
    fn follow<'c>(&mut self, mut way: CodePath, code: &impl Fn(u64) -> &'c [u8]) {
        let mut decoder = Decoder::with_ip(64, code(way.svma), way.svma, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() && self.visited.len() < MAX_INSTRUCTIONS {
            decoder.decode_out(&mut instruction);
            if decoder.last_error() == DecoderError::NoMoreBytes && instruction.ip() != way.svma {
                self.ways.push_back(way.at(instruction.ip()));
                return;
            }
            if instruction.is_invalid() || !self.visited.insert(instruction.ip()) {
                return;
            }
            let target =
                || (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch64());
            match instruction.flow_control() {
                FlowControl::Return => return self.end(&way),
                // A call to another file in place of a return.
                FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                    return self.end(&way);
                }
                FlowControl::IndirectBranch | FlowControl::Exception | FlowControl::Interrupt => return,
                FlowControl::UnconditionalBranch => {
                    self.ways.extend(target().map(|svma| way.at(svma)));
                    return;
                }
                FlowControl::ConditionalBranch => {
                    self.ways.extend(target().map(|svma| way.at(svma)));
                }
                // Callees leave the stack and these registers as they were.
                FlowControl::Call | FlowControl::IndirectCall => {}
                FlowControl::Next | FlowControl::XbeginXabortXend
                    if instruction.mnemonic() == Mnemonic::Hlt =>
                {
                    return;
                }
                FlowControl::Next | FlowControl::XbeginXabortXend => way.pass(&instruction, &mut self.info),
            }
        }
    }

    /// The function returns here.
    fn end(&mut self, way: &CodePath) {
        self.ends += 1;
        let Some(rule) = way.rule(self.convention) else { return };
        match self.rules.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, count)) => *count += 1,
            None => self.rules.push((rule, 1)),
        }
    }
}

impl CodePath {
    /// The same state elsewhere.
    fn at(&self, svma: u64) -> Self {
        Self { svma, ..self.clone() }
    }

    /// Past an instruction that neither jumps nor calls.
    fn pass(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let to = instruction.op0_register();
        let from = instruction.op1_register();
        let (saved_to, saved_from) = (place(to), place(from));
        match instruction.mnemonic() {
            Mnemonic::Push => self.grow(instruction),
            Mnemonic::Pop => {
                // Nothing but a register that is saved changes by it.
                self.load(to, self.sp);
                self.grow(instruction);
            }
            Mnemonic::Leave => {
                self.sp = self.address_in(RBP);
                self.load(Register::RBP, self.sp);
                self.sp = self.sp.map(|sp| sp.plus(8));
            }
            Mnemonic::Mov if to == Register::RSP && saved_from.is_some() => {
                self.sp = saved_from.and_then(|place| self.address_in(place));
            }
            Mnemonic::Mov if saved_to.is_some() && from == Register::RSP => {
                self.set_address(saved_to, self.sp)
            }
            Mnemonic::Mov if saved_to.is_some() && instruction.op1_kind() == OpKind::Memory => {
                self.load(to, self.memory(instruction));
            }
            Mnemonic::Lea if to == Register::RSP => self.sp = self.memory(instruction),
            Mnemonic::Lea if saved_to.is_some() => self.set_address(saved_to, self.memory(instruction)),
            Mnemonic::Add | Mnemonic::Sub if to == Register::RSP && from == Register::None => {
                let bytes = instruction.immediate(1).cast_signed();
                let bytes =
                    if instruction.mnemonic() == Mnemonic::Add { bytes } else { bytes.wrapping_neg() };
                self.sp = self.sp.map(|sp| sp.plus(bytes));
            }
            _ => self.forget_written(instruction, info),
        }
    }

    fn grow(&mut self, instruction: &Instruction) {
        self.sp = self.sp.map(|sp| sp.plus(instruction.stack_pointer_increment().into()));
    }

    /// The register at this place gets a stack address.
    fn set_address(&mut self, place: Option<usize>, address: Option<Location>) {
        let Some(place) = place else { return };
        self.saved[place] = match address {
            // A register plus 0: how Mono fills gaps.
            Some(Location(Base::Saved(same), 0)) if same == place => Value::Kept,
            Some(address) => Value::Address(address),
            None => Value::Unknown,
        };
    }

    fn load(&mut self, register: Register, from: Option<Location>) {
        let Some(place) = place(register) else { return };
        self.saved[place] = match from {
            // Put there on this way, so it is the register's own value.
            Some(Location(Base::Sp, ..0)) => Value::Kept,
            Some(location) => Value::Loaded(location),
            None => Value::Unknown,
        };
    }

    /// The stack address that the register at this place holds.
    fn address_in(&self, place: usize) -> Option<Location> {
        match self.saved[place] {
            Value::Kept => Some(Location(Base::Saved(place), 0)),
            Value::Address(location) => Some(location),
            _ => None,
        }
    }

    /// The stack address of a memory operand.
    fn memory(&self, instruction: &Instruction) -> Option<Location> {
        let base = match instruction.memory_base() {
            Register::RSP => self.sp,
            base => place(base).and_then(|place| self.address_in(place)),
        };
        let distance = instruction.memory_displacement64().cast_signed();
        base.filter(|_| instruction.memory_index() == Register::None).map(|base| base.plus(distance))
    }

    fn forget_written(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        for used in info.info(instruction).used_registers() {
            if matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None) {
                continue;
            }
            let register = used.register().full_register();
            if register == Register::RSP {
                self.sp = None;
            } else if let Some(place) = place(register) {
                self.saved[place] = Value::Unknown;
            }
        }
    }

    /// The rule, if the function returns in this state; `None` if a register has not got its value back.
    fn rule(&self, convention: Convention) -> Option<Rule> {
        let Location(base, ra) = self.sp.filter(|sp| sp.1 >= 0)?;
        let cfa = ra.checked_add(8)?;
        let register = match base {
            Base::Sp => 7,
            Base::Saved(place) => NUMBERS[place],
        };
        let mut rule = Rule::new(register, i32::try_from(cfa).ok()?);
        rule.save(0, -1);
        for (place, value) in self.saved.iter().enumerate() {
            match *value {
                Value::Kept => {}
                Value::Loaded(Location(of, offset)) if of == base => {
                    let words = (offset - cfa) / 8;
                    rule.save(place + 1, i16::try_from(words).ok().filter(|_| offset % 8 == 0)?);
                }
                _ if place != RBP && convention == Convention::FramePointer => {}
                _ => return None,
            }
        }
        Some(rule)
    }
}

impl Location {
    fn plus(self, bytes: i64) -> Self {
        Self(self.0, self.1.wrapping_add(bytes))
    }
}

fn place(register: Register) -> Option<usize> {
    SAVED.iter().position(|saved| *saved == register)
}

#[cfg(test)]
mod tests;
