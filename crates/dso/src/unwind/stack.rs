//! The memory a walk reads.

use crate::Avma;

/// A copy of the user stack, and of a second one where a signal's handler has a stack of its own.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    first: Piece<'a>,
    /// The stack that a signal interrupted. Empty where it isn't known, or is the same.
    interrupted: Piece<'a>,
}

#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl<'a> Stack<'a> {
    /// `bytes` upwards from `start`, the stack pointer at the time of the copy.
    pub fn new(start: Avma, bytes: &'a [u8]) -> Self {
        Self { first: Piece { start: start.0, bytes }, interrupted: Piece { start: u64::MAX, bytes: &[] } }
    }

    /// The same with the interrupted stack from its own stack pointer on.
    #[must_use]
    pub fn with_interrupted(self, start: Avma, bytes: &'a [u8]) -> Self {
        Self { interrupted: Piece { start: start.0, bytes }, ..self }
    }

    /// The 8 bytes at `address` as a little-endian number, `None` outside of the copies.
    #[inline]
    pub fn read(&self, address: u64) -> Option<u64> {
        self.first.read(address).or_else(|| self.interrupted.read(address))
    }

    /// A number of `size` bytes (8 at most) at `address`, `None` outside of the copies.
    #[inline]
    pub(super) fn read_sized(&self, address: u64, size: u64) -> Option<u64> {
        if size == 8 {
            return self.read(address);
        }
        self.first.read_short(address, size).or_else(|| self.interrupted.read_short(address, size))
    }

    /// Whether a stack pointer of `sp` is in a copy or at its end (nothing of that frame was copied then).
    #[inline]
    pub fn holds(&self, sp: u64) -> bool {
        self.first.holds(sp) || self.interrupted.holds(sp)
    }

    /// More frames than this copy can hold: a call stores at least a return address of `word` bytes, but for the leaf
    /// and the one that a link register holds.
    pub(super) fn most_frames(&self, word: u64) -> usize {
        (self.first.bytes.len() + self.interrupted.bytes.len()) / word as usize + 2
    }

    /// Address past the last byte of the copy in which the frame at `sp` is.
    pub(super) fn end(&self, sp: u64) -> u64 {
        let piece = if self.interrupted.holds(sp) { &self.interrupted } else { &self.first };
        piece.start.saturating_add(piece.bytes.len() as u64)
    }
}

impl Piece<'_> {
    #[inline]
    fn read(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    #[inline]
    fn read_short(&self, address: u64, size: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(size.min(8) as usize)?)?;
        Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    #[inline]
    fn holds(&self, sp: u64) -> bool {
        sp.wrapping_sub(self.start) <= self.bytes.len() as u64
    }
}
