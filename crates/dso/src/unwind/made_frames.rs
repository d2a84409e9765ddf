//! Frames of code that a program made, where its runtime states their size: compiled Java methods keep their stack
//! pointer where it is, from the start of a method to its end.

use std::collections::BTreeMap;
use std::ops::Range;

use super::arch::Arch;
use super::frame_pointer::is_after_call;
use super::frame_step::Walk;
use super::rule::Rule;
use super::stop::Stop;
use crate::Avma;

/// Pieces of code kept for one process.
const MOST_PIECES: usize = 1 << 17;
/// More than a method's variables take.
const MOST_VARIABLES: u64 = 8 << 16;
/// More than a stub of a runtime puts on the stack.
const MOST_STUB_BYTES: u64 = 4096;
/// DWARF number of x86-64's stack pointer.
const STACK_POINTER: u8 = 7;

/// A piece of code, and the size of its frames. x86-64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFrame {
    /// Its addresses.
    pub code: Range<Avma>,
    /// How its frames are left.
    pub size: FrameSize,
}

/// How the frames of a piece of code are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// They have so many bytes from the stack pointer to the end of the return address. The caller's frame pointer is
    /// right below that.
    Bytes(u16),
    /// HotSpot's interpreter's: by the frame pointer, below which the caller's stack pointer is.
    Interpreter,
}

/// The pieces of code of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct MadeFrames {
    /// Disjoint: their ends and frames, by their starts.
    pieces: BTreeMap<u64, (u64, FrameSize)>,
}

impl MadeFrames {
    /// Adds a piece in place of those it overlaps; false if it is known.
    pub(super) fn insert(&mut self, piece: &MadeFrame) -> bool {
        let (start, end) = (piece.code.start.0, piece.code.end.0);
        let new = (end, piece.size);
        // The return address and the frame pointer are part of each.
        let has_both = !matches!(piece.size, FrameSize::Bytes(0..16));
        let is_possible = start < end && has_both && self.pieces.len() < MOST_PIECES;
        if !is_possible || self.pieces.get(&start) == Some(&new) {
            return false;
        }
        self.remove(start, end);
        self.pieces.insert(start, new);
        true
    }

    /// Forgets what overlaps `[start, end)`.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let before = self.pieces.range(..start).next_back().filter(|(_, (end, _))| *end > start);
        let within = self.pieces.range(start..end.max(start));
        let gone: Vec<u64> = before.into_iter().chain(within).map(|(start, _)| *start).collect();
        for start in gone {
            self.pieces.remove(&start);
        }
    }

    /// The frames of the code at `address`.
    pub(super) fn at(&self, address: u64) -> Option<FrameSize> {
        let (_, (end, size)) = self.pieces.range(..=address).next_back()?;
        (address < *end).then_some(*size)
    }
}

/// The rule for frames of so many bytes, past the first instructions and before the last.
pub(super) fn rule_of(bytes: u16) -> Rule {
    let mut rule = Rule::new(STACK_POINTER, i32::from(bytes));
    rule.save(0, -1);
    rule.save(1, -2);
    rule
}

impl Walk<'_> {
    /// To the caller as a runtime stated for the code at `lookup`. `None` if it didn't, or that leads nowhere; then by
    /// rules read from the code.
    pub(super) fn by_made_frame<A: Arch>(
        &mut self,
        lookup: u64,
        by_code: &[Rule],
    ) -> Option<Result<(), Stop>> {
        match self.space.made_frame(lookup)? {
            FrameSize::Bytes(bytes) => {
                let rule = rule_of(bytes);
                self.is_whole_frame::<A>(&rule, by_code).then(|| self.by_rule::<A>(&rule))
            }
            FrameSize::Interpreter => {
                let kept = self.stack.read(self.registers[A::FP].wrapping_sub(8))?;
                let is_caller = kept.wrapping_sub(self.registers[A::FP]) < MOST_VARIABLES;
                self.by_frame_record::<A>(|_| is_caller)?;
                self.registers[A::SP] = self.registers[A::SP].max(kept);
                Some(Ok(()))
            }
        }
    }

    /// A frame has the stated size after a call. Where the code is interrupted, its first and last instructions have
    /// another rule, read from the code.
    fn is_whole_frame<A: Arch>(&self, rule: &Rule, by_code: &[Rule]) -> bool {
        let is_same =
            |other: &Rule| (other.cfa_register, other.cfa_offset) == (rule.cfa_register, rule.cfa_offset);
        let has_none = || !by_code.iter().any(|rule| self.returns_by::<A>(rule) == Some(true));
        match self.returns_by::<A>(rule) {
            Some(returns) => returns && (!self.is_exact || by_code.iter().any(is_same) || has_none()),
            None => {
                let stop = self.return_slot::<A>(rule).map(|slot| self.unreadable::<A>(slot));
                !self.is_exact && matches!(stop, Some(Stop::StackEnd { .. }))
            }
        }
    }

    /// To the compiled method that called a runtime's stub. That has a frame pointer, but the method need not have one.
    pub(super) fn by_stub_frame<A: Arch>(&mut self) -> Option<()> {
        let is_near = self.registers[A::FP].wrapping_sub(self.registers[A::SP]) < MOST_STUB_BYTES;
        let space = self.space;
        self.by_frame_record::<A>(|ra| is_near && space.made_frame(ra.wrapping_sub(1)).is_some())
    }

    /// By the return address above the frame pointer, if it is one.
    fn by_frame_record<A: Arch>(&mut self, is_possible: impl Fn(u64) -> bool) -> Option<()> {
        let (sp, fp) = (self.registers[A::SP], self.registers[A::FP]);
        let (next, ra) = (self.stack.read(fp)?, self.stack.read(fp.wrapping_add(8))?);
        let is_caller = fp >= sp && is_possible(ra) && is_after_call::<A>(self.space, ra);
        is_caller.then_some(())?;
        self.registers[A::PC] = ra;
        self.registers[A::SP] = fp.wrapping_add(16);
        self.registers[A::FP] = next;
        self.is_exact = false;
        Some(())
    }
}
