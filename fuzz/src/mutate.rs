//! Changes that break parsers: flipped bits, lengths at their limits, cut, doubled and spliced parts.

/// A source of mutated inputs; the same seed gives the same inputs.
pub struct Mutator {
    state: u64,
}

/// Values at which length fields are mishandled.
const LIMITS: [u64; 12] =
    [0, 1, 7, 8, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

impl Mutator {
    /// A source that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed | 1 }
    }

    /// The next input, made from one or two of `seeds` (not empty).
    pub fn next(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        // Most often one change: several break the head, and nothing behind it is read.
        let changes = if self.below(3) > 0 { 1 } else { 1 + self.below(8) };
        for _ in 0..changes {
            self.change(&mut input, seeds);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        if input.is_empty() {
            input.extend(self.random().to_le_bytes());
            return;
        }
        let at = self.position(input.len());
        match self.below(8) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.random() as u8,
            2 | 3 => self.set_limit(input, at),
            4 => input.truncate(at),
            5 => self.double(input, at),
            6 => {
                let end = (at + 1 + self.below(64)).min(input.len());
                input.drain(at..end);
            }
            _ => {
                let other = self.below(seeds.len());
                self.splice(input, at, &seeds[other]);
            }
        }
    }

    /// Heads are hit more often than bodies: a quarter of the positions lie in the first 256 bytes.
    fn position(&mut self, len: usize) -> usize {
        if self.below(4) == 0 { self.below(len.min(256)) } else { self.below(len) }
    }

    /// Writes a limit as 1, 2, 4 or 8 bytes, most often at an aligned place.
    fn set_limit(&mut self, input: &mut [u8], at: usize) {
        let at = if self.below(4) > 0 { at & !7 } else { at };
        let width = (1_usize << self.below(4)).min(input.len() - at);
        let value = LIMITS[self.below(LIMITS.len())].to_le_bytes();
        input[at..at + width].copy_from_slice(&value[..width]);
    }

    fn double(&mut self, input: &mut Vec<u8>, at: usize) {
        let end = (at + 1 + self.below(128)).min(input.len());
        let part = input[at..end].to_vec();
        input.splice(at..at, part);
    }

    fn splice(&mut self, input: &mut Vec<u8>, at: usize, other: &[u8]) {
        let from = self.below(other.len().max(1)).min(other.len());
        let to = (from + self.below(512)).min(other.len());
        let end = (at + (to - from)).min(input.len());
        input.splice(at..end, other[from..to].iter().copied());
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random() % bound.max(1) as u64) as usize
    }

    /// xorshift64*.
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
