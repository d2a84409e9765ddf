//! Branch bits waiting to be used, oldest first.

/// Up to 64 bits kept packed; packets beyond that are refused by the flow (it uses bits as they come).
#[derive(Clone, Copy, Debug, Default)]
pub struct Tnt {
    bits: u128,
    count: u32,
}

impl Tnt {
    /// Adds a packet's bits behind those waiting; false when there is no room (the trace is damaged).
    #[inline]
    pub fn push(&mut self, bits: u64, count: u8) -> bool {
        let count = u32::from(count);
        if self.count + count > 128 {
            return false;
        }
        self.bits = self.bits << count | u128::from(bits);
        self.count += count;
        true
    }

    /// The oldest bit.
    #[inline]
    pub fn pop(&mut self) -> Option<bool> {
        self.count = self.count.checked_sub(1)?;
        Some(self.bits >> self.count & 1 == 1)
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
