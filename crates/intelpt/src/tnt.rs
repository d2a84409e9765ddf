//! Branch bits waiting for a target, oldest first.

/// Bits of conditional branches and compressed returns, the oldest highest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BranchBits {
    pub bits: u64,
    /// Number of valid bits, from the lowest on.
    pub count: u32,
}

/// Up to 64 bits kept packed; packets beyond that are refused by the flow (it uses bits as they come).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tnt {
    bits: u64,
    count: u32,
}

impl Tnt {
    /// Adds a packet's bits after those waiting; false if they don't fit (the trace is damaged).
    #[inline]
    pub fn push(&mut self, added: BranchBits) -> bool {
        let BranchBits { bits, count } = added;
        if self.count + count > 63 {
            return false;
        }
        self.bits = self.bits << count | bits;
        self.count += count;
        true
    }

    /// All bits; none waits any more.
    #[inline]
    pub fn take(&mut self) -> BranchBits {
        let Self { bits, count } = std::mem::take(self);
        BranchBits { bits, count }
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
