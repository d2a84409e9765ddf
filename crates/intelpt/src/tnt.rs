//! Branch bits waiting for a target, oldest first.

/// Up to 64 bits kept packed; packets beyond that are refused by the flow (it uses bits as they come).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tnt {
    bits: u64,
    count: u32,
}

impl Tnt {
    /// Adds a packet's bits after those waiting; false if they don't fit (the trace is damaged).
    #[inline]
    pub fn push(&mut self, bits: u64, count: u32) -> bool {
        if self.count + count > 63 {
            return false;
        }
        self.bits = self.bits << count | bits;
        self.count += count;
        true
    }

    /// All bits, the oldest highest, and how many; none waits any more.
    #[inline]
    pub fn take(&mut self) -> (u64, u32) {
        let Self { bits, count } = std::mem::take(self);
        (bits, count)
    }

    /// Whether none waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
