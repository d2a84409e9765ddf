//! Rules for ARM code without tables, and for places in prologues and epilogues that tables do not describe: found by
//! reading the function from its begin to the place.
//!
//! C programs of Debian's armhf have no tables: gcc writes them only where exceptions may pass.

use std::collections::BTreeMap;

use super::instruction::{Effect, InstructionSet, decode};
use crate::unwind::arch::{Arch, Arm};
use crate::unwind::rule::Rule;

/// Registers followed.
const REGISTERS: usize = 16;
const SP: u8 = Arm::SP as u8;
const PC: usize = Arm::PC;
/// Registers that a callee may leave changed; gcc pushes them to align the stack.
const SCRATCH: [usize; 5] = [0, 1, 2, 3, 12];
/// Registers that a function may keep its stack pointer in.
const FRAME_POINTERS: [u8; 3] = [7, 11, 12];
/// Branches remembered that lead forward.
const MAX_TARGETS: usize = 64;
/// A branch further than this leads to another function.
const FARTHEST: u64 = 16 << 10;

/// The stack as a function has changed it up to some place. Distances are in bytes down from the caller's stack pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FrameState {
    /// `None`: the stack pointer moved by an unknown number of bytes.
    depth: Option<i64>,
    /// Where registers are saved.
    saved: [Option<i64>; REGISTERS],
    /// Registers that hold stack addresses.
    bases: [Option<i64>; REGISTERS],
    constants: [Option<u32>; REGISTERS],
}

/// A function's code up to the place asked for.
pub(super) struct CodeBefore<'c> {
    /// Begins at the function's first instruction.
    pub bytes: &'c [u8],
    /// Address of the first byte.
    pub start: u64,
    pub set: InstructionSet,
    /// The code is one function; else another one may begin where nothing leads to.
    pub is_one_function: bool,
}

impl CodeBefore<'_> {
    /// The rule at the end of the code. `None` if the frame's size isn't known there.
    pub fn rule(&self) -> Option<Rule> {
        self.read().rule()
    }

    fn read(&self) -> FrameState {
        let mut state = FrameState::at_entry();
        let mut deepest = state.clone();
        let mut targets: BTreeMap<u64, FrameState> = BTreeMap::new();
        let (mut at, mut is_reached, mut conditional) = (0, true, 0);
        loop {
            let address = self.start.wrapping_add(at);
            if !is_reached {
                state = self.state_after_end(&targets, address, &deepest);
                is_reached = true;
            }
            let rest = self.bytes.get(at as usize..).unwrap_or_default();
            let Some(instruction) = decode(rest, address, self.set) else { return state };
            at += instruction.size;
            let effect = instruction.effect;
            if conditional > 0 {
                // Either it returns, or it has not happened.
                conditional -= 1;
            } else {
                state.apply(effect);
                is_reached = !effect.ends_flow();
            }
            match effect {
                Effect::Conditional(count) => conditional = count,
                Effect::Branch(to) | Effect::Jump(to)
                    if to > address && to - address < FARTHEST && targets.len() < MAX_TARGETS =>
                {
                    targets.entry(to).or_insert_with(|| state.clone());
                }
                _ => {}
            }
            if state.depth.is_none() || state.depth >= deepest.depth {
                deepest = state.clone();
            }
        }
    }

    /// The state at `address`, which the instruction before does not lead to.
    fn state_after_end(
        &self,
        targets: &BTreeMap<u64, FrameState>,
        address: u64,
        deepest: &FrameState,
    ) -> FrameState {
        match targets.get(&address) {
            Some(state) => state.clone(),
            None if self.is_one_function || targets.range(address..).next().is_some() => deepest.clone(),
            None => FrameState::at_entry(),
        }
    }
}

impl FrameState {
    fn at_entry() -> Self {
        let none = [None; REGISTERS];
        Self { depth: Some(0), saved: none, bases: none, constants: [None; REGISTERS] }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Push(mask) => {
                self.move_by(-4 * i64::from(mask.count_ones()));
                let registers = (0..REGISTERS).filter(|register| mask >> register & 1 == 1);
                registers.enumerate().for_each(|(at, register)| self.save(register, 4 * at as i64));
            }
            Effect::Pop(mask) => {
                for register in (0..REGISTERS).filter(|register| mask >> register & 1 == 1) {
                    self.saved[register] = None;
                    self.bases[register] = None;
                }
                self.move_by(4 * i64::from(mask.count_ones()));
            }
            Effect::Move(bytes) => self.move_by(bytes),
            Effect::MoveDownBy(register) => self.move_by_register(register, -1),
            Effect::MoveUpBy(register) => self.move_by_register(register, 1),
            Effect::FromStackPointer(to, bytes) => self.set_base(to, self.depth.map(|depth| depth - bytes)),
            Effect::ToStackPointer(from, bytes) => {
                self.depth = self.bases[usize::from(from)].map(|base| base - bytes);
            }
            Effect::Derive(to, from, bytes) => {
                self.set_base(to, self.bases[usize::from(from)].map(|base| base - bytes));
            }
            Effect::Constant(to, value) => {
                self.set_base(to, None);
                self.constants[usize::from(to)] = Some(value);
            }
            Effect::UpperHalf(to, value) => {
                let constant = &mut self.constants[usize::from(to)];
                *constant = constant.map(|low| low & 0xffff | u32::from(value) << 16);
            }
            Effect::MoveAndStore(registers, bytes) => {
                self.move_by(-bytes);
                self.store(registers, 0);
            }
            Effect::Store(registers, offset) => self.store(registers, offset),
            Effect::Other | Effect::Jump(_) | Effect::Branch(_) | Effect::Leave | Effect::Conditional(_) => {}
        }
    }

    fn move_by(&mut self, bytes: i64) {
        self.depth = self.depth.map(|depth| depth - bytes);
    }

    fn move_by_register(&mut self, register: u8, sign: i64) {
        match self.constants[usize::from(register)] {
            Some(bytes) => self.move_by(sign * i64::from(bytes.cast_signed())),
            None => self.depth = None,
        }
    }

    fn set_base(&mut self, register: u8, base: Option<i64>) {
        self.bases[usize::from(register)] = base;
        self.constants[usize::from(register)] = None;
    }

    fn store(&mut self, registers: [u8; 2], offset: i64) {
        self.save(usize::from(registers[0]), offset);
        if registers[0] != registers[1] {
            self.save(usize::from(registers[1]), offset + 4);
        }
    }

    /// Notes that a register is at a distance above the stack pointer; later stores are of other values.
    fn save(&mut self, register: usize, offset: i64) {
        let Some(saved) = self.saved.get_mut(register) else { return };
        if saved.is_none() {
            *saved = self.depth.map(|depth| depth - offset);
        }
    }

    fn rule(&self) -> Option<Rule> {
        let by_frame_pointer = || {
            let held = |&register: &u8| Some((register, self.bases[usize::from(register)]?));
            FRAME_POINTERS.iter().find_map(held)
        };
        let (register, distance) = self.depth.map(|depth| (SP, depth)).or_else(by_frame_pointer)?;
        let mut rule = Rule::new(register, i32::try_from(distance).ok()?);
        for (slot, &saved) in Arm::CALLEE_SAVED.iter().enumerate() {
            let distance = self.saved.get(usize::from(saved)).copied().flatten();
            let Some(distance) = distance.filter(|distance| distance % 4 == 0) else { continue };
            rule.save(slot, i16::try_from(-distance / 4).ok()?);
        }
        Some(rule)
    }
}

/// First address of the prologue before `address` that saves the link register, for code without symbols: `code` ends
/// at `address`, and begins at `start`.
pub(super) fn find_prologue(code: &[u8], start: u64, set: InstructionSet) -> Option<u64> {
    let step = if set == InstructionSet::Thumb { 2 } else { 4 };
    let mut at = code.len() - code.len() % step;
    let effect = |at: usize| Some(decode(code.get(at..)?, start + at as u64, set)?.effect);
    let saves_link = |effect: Effect| match effect {
        Effect::Push(mask) => mask >> Arm::RA & 1 == 1 && mask >> PC & 1 == 0 && mask >> SP & 1 == 0,
        Effect::MoveAndStore(registers, _) => registers.contains(&(Arm::RA as u8)),
        _ => false,
    };
    while at >= step {
        at -= step;
        if effect(at).is_some_and(saves_link) {
            let is_variadic = |effect: Effect| matches!(effect, Effect::Push(mask) if (0..REGISTERS).all(|register| mask >> register & 1 == 0 || SCRATCH.contains(&register)));
            let before = at.checked_sub(step).filter(|&before| effect(before).is_some_and(is_variadic));
            return Some(start + before.unwrap_or(at) as u64);
        }
    }
    None
}
