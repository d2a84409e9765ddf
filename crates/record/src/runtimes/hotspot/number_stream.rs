//! HotSpot's compressed numbers: of 1 to 5 bytes, the small ones of one.
// Source: HotSpot's compressedStream.hpp, JDK 9 to 19; unsigned5.hpp since JDK 20

/// Bits that a byte adds to those before it.
const BITS: u32 = 6;
const MOST_BYTES: u32 = 5;

/// Numbers in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberStream<'b> {
    bytes: &'b [u8],
    encoding: NumberEncoding,
}

/// How a JVM writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberEncoding {
    /// Until JDK 19.
    AllBytes,
    /// Without bytes of 0, which end a row.
    NoZeros,
}

impl NumberEncoding {
    /// By the number of the JVM's release, such as 17.
    pub(super) fn of_release(number: u32) -> Self {
        if number < 20 { Self::AllBytes } else { Self::NoZeros }
    }
}

impl<'b> NumberStream<'b> {
    pub(super) fn new(bytes: &'b [u8], encoding: NumberEncoding) -> Self {
        Self { bytes, encoding }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// `None` at the end, or if no number can be there.
    pub(super) fn number(&mut self) -> Option<u32> {
        let unused = u32::from(self.encoding == NumberEncoding::NoZeros);
        let first_with_more = (1 << u8::BITS) - (1 << BITS) - unused;
        let mut sum = 0u32;
        for place in 0..MOST_BYTES {
            let digit = u32::from(self.byte()?).checked_sub(unused)?;
            sum = sum.wrapping_add(digit << (place * BITS));
            if digit < first_with_more {
                break;
            }
        }
        Some(sum)
    }

    /// The sign is in the lowest bit.
    pub(super) fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(encoding: NumberEncoding, bytes: &[u8]) -> Vec<u32> {
        let mut stream = NumberStream::new(bytes, encoding);
        std::iter::from_fn(|| stream.number()).collect()
    }

    #[test]
    fn numbers_have_as_many_bytes_as_they_need() {
        // By hand from the rules in HotSpot's comments.
        let old = numbers(NumberEncoding::AllBytes, &[0, 191, 192, 0, 255, 255, 255, 255, 255]);
        assert_eq!(old, [0, 191, 192, 255u32.wrapping_mul(0x0104_1041)]);
        let new = numbers(NumberEncoding::NoZeros, &[1, 191, 192, 1, 193, 1, 192, 2]);
        assert_eq!(new, [0, 190, 191, 192, 191 + 64]);
        assert!(numbers(NumberEncoding::NoZeros, &[0, 1]).is_empty());
        assert!(numbers(NumberEncoding::AllBytes, &[200]).is_empty());
    }

    #[test]
    fn negative_numbers_are_odd() {
        let mut stream = NumberStream::new(&[0, 1, 2, 3, 4], NumberEncoding::AllBytes);
        assert_eq!([(); 5].map(|()| stream.signed()), [0, -1, 1, -2, 2].map(Some));
    }

    #[test]
    fn a_release_has_its_encoding() {
        let of = NumberEncoding::of_release;
        assert_eq!([of(17), of(19)], [NumberEncoding::AllBytes; 2]);
        assert_eq!([of(21), of(25)], [NumberEncoding::NoZeros; 2]);
    }
}
