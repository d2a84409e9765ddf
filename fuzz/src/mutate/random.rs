//! Numbers that look random and are the same for the same seed.

/// xorshift64*.
pub struct Random(u64);

impl Random {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to `bound`, exclusive; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 8) % bound.max(1) as u64) as usize
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}
