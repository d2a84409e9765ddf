//! Unwinding of 32-bit ARM: the exception tables, and the code of functions without one.
//!
//! The tables describe a function between its prologue and its epilogue, which is enough at calls. Where a function was
//! interrupted its code is read first, and the tables are asked if that leads to no call.

pub(crate) mod example_file;
mod exidx;
mod functions;
mod instruction;
mod opcodes;
mod prologue;
pub(super) mod sigreturn;

use exidx::ExceptionIndex;
use functions::{Function, Functions};
pub(super) use instruction::InstructionSet;
use opcodes::Outcome;
use prologue::{CodeBefore, find_prologue};

use super::arch::{Arch, Arm};
use super::rule::{Row, Rule, Step};
use crate::{ObjectFile, Svma};

/// Code read of one function.
const MAX_CODE: u64 = 64 << 10;
/// Code in which the begin of a function without symbol is searched for.
const MAX_SEARCH: u64 = 4096;

/// A code address, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodePosition {
    /// Stated address of the instruction interrupted, or one byte before a return address.
    pub svma: u64,
    /// The frame made a call.
    pub is_call: bool,
    /// `None` where no return address leads to it.
    pub set: Option<InstructionSet>,
}

/// All that one file has for it.
#[derive(Debug)]
pub(super) struct ArmRules {
    index: ExceptionIndex,
    functions: Functions,
    stubs: Vec<(u64, u64)>,
}

impl ArmRules {
    /// Empty for other machines.
    pub fn new(object: &ObjectFile) -> Self {
        let stubs =
            object.sections().iter().filter(|section| matches!(section.name.as_str(), ".plt" | ".iplt"));
        Self {
            index: ExceptionIndex::new(object),
            functions: Functions::new(object),
            stubs: stubs.map(|section| (section.svma.start, section.svma.end)).collect(),
        }
    }

    /// Whether the file has no tables.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether symbols have `svma` in another function than the one at `entry`.
    pub fn is_in_other_function(&self, entry: u64, svma: u64) -> bool {
        self.functions.around(svma).is_some_and(|function| function.start != entry)
    }

    /// From a call at `svma` to the caller, by the tables. A signal's frame is left by them everywhere.
    pub fn step(&self, object: &ObjectFile, position: CodePosition) -> Step {
        let CodePosition { svma, is_call, .. } = position;
        if let Some(step) = sigreturn::step(object, svma) {
            return step;
        }
        match self.row(object, svma) {
            Some(row) if is_call || row.is_signal_frame => match row.simple::<Arm>() {
                Some(rule) => Step::Simple(rule),
                None => Step::General(row.into()),
            },
            _ => Step::Nothing,
        }
    }

    /// The rules for a place without one that is certain, the likeliest first. The walk takes the first that leads to
    /// a call.
    pub fn rules(&self, object: &ObjectFile, position: CodePosition) -> Vec<Rule> {
        let svma = position.svma;
        let mut rules = Vec::new();
        if !self.stubs.iter().any(|&(start, end)| (start..end).contains(&svma)) {
            rules.extend(self.by_code(object, position));
        }
        if !position.is_call {
            rules.extend(self.row(object, svma).and_then(|row| row.simple::<Arm>()));
            // A function without frame, or not yet with one.
            rules.push(Rule::new(Arm::SP as u8, 0));
        }
        rules
    }

    /// The row of the tables. `None` if they have none, or one of an earlier function.
    fn row(&self, object: &ObjectFile, svma: u64) -> Option<Row> {
        let entry = self.index.find(object, svma)?;
        let is_of_other = self.functions.around(svma).is_some_and(|function| entry.start < function.start);
        match entry.outcome {
            Outcome::Unwinds(row) if !is_of_other => Some(row),
            _ => None,
        }
    }

    fn by_code(&self, object: &ObjectFile, position: CodePosition) -> Option<Rule> {
        let CodePosition { svma, is_call, .. } = position;
        let end = svma + u64::from(is_call);
        let function = self.functions.around(svma);
        let set = self.set(object, position);
        let start = function.map_or_else(|| self.find_start(object, end, set), |f| Some(f.start))?;
        let length = end.checked_sub(start).filter(|length| *length <= MAX_CODE)?;
        let bytes = object.bytes_at(Svma(start), length as usize)?;
        let is_one_function = function.is_some();
        (bytes.len() as u64 == length)
            .then(|| CodeBefore { bytes, start, set, is_one_function }.rule())
            .flatten()
    }

    fn set(&self, object: &ObjectFile, position: CodePosition) -> InstructionSet {
        let around: Option<Function> = self.functions.around(position.svma);
        around
            .map(|function| function.set)
            .or(position.set)
            .unwrap_or_else(|| likely_set(object, position.svma))
    }

    /// The begin of the function before `end`, without a symbol.
    fn find_start(&self, object: &ObjectFile, end: u64, set: InstructionSet) -> Option<u64> {
        let entry = self.index.find(object, end - 1);
        let described = entry.filter(|entry| matches!(entry.outcome, Outcome::Unwinds(_)));
        if let Some(entry) = described.filter(|entry| end - entry.start <= MAX_SEARCH) {
            return Some(entry.start);
        }
        let section = object.sections().iter().find(|s| s.executable && s.svma.contains(&(end - 1)));
        let first = section.map_or(0, |section| section.svma.start);
        let from = end.saturating_sub(MAX_SEARCH).max(first) & !3;
        let code = object.bytes_at(Svma(from), end.checked_sub(from)? as usize)?;
        // Assembly that calls nothing keeps its return address in the register. Where a function ends without a way on,
        // the next one begins, so that reading may begin anywhere before.
        Some(find_prologue(code, from, set).unwrap_or(from))
    }
}

/// The code around `svma` is ARM if the highest byte of most of its words is that of an unconditional instruction, or of
/// a vector instruction.
fn likely_set(object: &ObjectFile, svma: u64) -> InstructionSet {
    const BYTES: usize = 64;
    let code = object.bytes_at(Svma((svma & !3).saturating_sub(BYTES as u64 / 2)), BYTES).unwrap_or_default();
    let words = code.chunks_exact(4);
    let count = words.len();
    let is_likely = |word: &&[u8]| matches!(word[3], 0xe0..=0xef | 0xf2..=0xf5);
    if 4 * words.filter(is_likely).count() >= 3 * count { InstructionSet::Arm } else { InstructionSet::Thumb }
}

#[cfg(test)]
mod tests;
