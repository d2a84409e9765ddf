//! The memory a walk reads.

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

    /// Whether a stack pointer of `sp` is in the copy or at its end (nothing of that frame was copied then).
    #[inline]
    pub fn holds(&self, sp: u64) -> bool {
        sp.wrapping_sub(self.start.0) <= self.bytes.len() as u64
    }

    /// More frames than this copy can hold: a call stores at least a return address of 8 bytes, but for the leaf and
    /// the one that a link register holds.
    pub(super) fn most_frames(&self) -> usize {
        self.bytes.len() / 8 + 2
    }

    /// Address past its last byte.
    pub fn end(&self) -> u64 {
        self.start.0.saturating_add(self.bytes.len() as u64)
    }
}
