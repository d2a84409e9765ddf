//! Where a function's arguments are when it reports its own entry, after its prologue has moved them (x86-64).
//!
//! ```text
//!  0 register u32   4 bytes to add i32   8 places u32[14]
//! ```
//!
//! The first two lead to the return address. The places are those of rdi, rsi, rdx, rcx, r8, r9 and xmm0 to xmm7: the
//! number of a general register, 16 more than that of a vector register, or [`STACK`] and bytes above the return address.

/// Added to the bytes above the return address.
pub const STACK: u32 = 1 << 30;
/// The value is nowhere any more.
pub const NOWHERE: u32 = u32::MAX;
/// Registers that may hold arguments: general ones, then vector ones.
pub const PLACES: usize = 14;
/// Bytes of a [`Moved`].
pub const MOVED_BYTES: usize = 8 + 4 * PLACES;

/// The table of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// x86's number of the register that leads to the return address.
    pub register: u32,
    /// Bytes to add to it.
    pub add: i32,
    /// Where the values are that came in registers.
    pub places: [u32; PLACES],
}

impl Moved {
    /// Decodes the bytes after a spec's items.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; MOVED_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let places = core::array::from_fn(|number| word(8 + 4 * number));
        Self { register: word(0), add: word(4).cast_signed(), places }
    }

    /// The bytes to put there.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; MOVED_BYTES] {
        let mut bytes = [0; MOVED_BYTES];
        bytes[..4].copy_from_slice(&self.register.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.add.to_le_bytes());
        for (to, place) in bytes[8..].as_chunks_mut::<4>().0.iter_mut().zip(self.places) {
            *to = place.to_le_bytes();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_as_written() {
        let mut places = [NOWHERE; PLACES];
        (places[0], places[6], places[13]) = (15, 31, STACK - 8);
        let moved = Moved { register: 4, add: -24, places };
        assert_eq!(Moved::from_bytes(&moved.to_bytes()), moved);
    }
}
