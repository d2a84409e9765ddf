//! Positions in a ring of a power-of-two size: arithmetic only, no memory.
//!
//! The kernel's `data_head` and our `data_tail` only grow (modulo 2^64); `position & (size − 1)` is the place.

/// A ring's size and the reading position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingIndex {
    size_bytes: u64,
    tail: u64,
}

/// Bytes of the buffer that are next to each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingRange {
    /// Bytes from the buffer's start.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

/// One or two pieces of the buffer, in reading order; the second is empty unless the bytes wrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingPieces {
    /// From the reading position up to at most the buffer's end.
    pub first: RingRange,
    /// From the buffer's start.
    pub second: RingRange,
}

impl RingIndex {
    /// A ring of `size_bytes` (a power of two), read up to `tail`. `None` if the size isn't a power of two.
    #[must_use]
    pub fn new(size_bytes: u64, tail: u64) -> Option<Self> {
        (size_bytes.is_power_of_two() && usize::try_from(size_bytes).is_ok())
            .then_some(Self { size_bytes, tail })
    }

    /// Where reading goes on.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// The range between the tail and `head`. It is empty if the head claims more than the buffer holds, which a
    /// sound kernel never does.
    #[must_use]
    pub fn pieces(&self, head: u64) -> RingPieces {
        let available = head.wrapping_sub(self.tail);
        if available > self.size_bytes {
            return RingPieces::default();
        }
        let start = self.tail & (self.size_bytes - 1);
        let first = available.min(self.size_bytes - start);
        RingPieces {
            first: RingRange { offset: start as usize, len: first as usize },
            second: RingRange { offset: 0, len: (available - first) as usize },
        }
    }

    /// Marks everything before `head` as read.
    pub fn advance_to(&mut self, head: u64) {
        self.tail = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_the_bytes_from_tail_to_head_in_order(shift in 3u32..20, tail: u64, used in 0u64..(1 << 20)) {
            let size = 1u64 << shift;
            let used = used.min(size);
            let index = RingIndex::new(size, tail).expect("a power of two");
            let head = tail.wrapping_add(used);
            let RingPieces { first, second } = index.pieces(head);
            prop_assert_eq!((first.len + second.len) as u64, used);
            prop_assert!((first.offset + first.len) as u64 <= size);
            prop_assert!(second.len == 0 || (first.offset + first.len) as u64 == size);
            for i in 0..used.min(64) {
                let place = if (i as usize) < first.len { first.offset + i as usize } else { second.offset + i as usize - first.len };
                prop_assert_eq!(place as u64, tail.wrapping_add(i) & (size - 1));
            }
        }

        #[test]
        fn an_impossible_head_reads_nothing(tail: u64, beyond in 1u64..u64::MAX / 2) {
            let index = RingIndex::new(4096, tail).expect("a power of two");
            let RingPieces { first, second } = index.pieces(tail.wrapping_add(4096).wrapping_add(beyond));
            prop_assert_eq!((first.len, second.len), (0, 0));
        }
    }

    #[test]
    fn a_size_that_is_no_power_of_two_is_refused() {
        assert_eq!(RingIndex::new(12288, 0), None);
        assert_eq!(RingIndex::new(0, 0), None);
    }
}
