//! Return addresses in copies of user stacks: the word in which two call paths of one place differ.

use std::sync::Arc;

use perfdata::abi::PERF_CONTEXT_USER;

/// Places of a chain's return addresses in its stack. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct ReturnSlots(Arc<[ReturnSlot]>);

#[derive(Debug, Clone, Copy)]
struct ReturnSlot {
    /// Index in the user part of the chain.
    frame: u16,
    /// Index of the word, from the stack pointer upwards.
    word: u16,
}

impl ReturnSlots {
    /// Finds the return addresses of `chain` (leaf first, with perf's context markers) in a copy of its stack. A word
    /// that is left over from an earlier call counts as well.
    #[must_use]
    pub fn find(chain: &[u64], stack: &[u8]) -> Self {
        let mut frames: Vec<(u64, u16)> = user_part(chain).iter().copied().zip(0u16..).skip(1).collect();
        frames.sort_unstable();
        // Most words are no return address: few are searched for, and by halves.
        let filter =
            frames.iter().fold(AddressFilter::default(), |filter, &(address, _)| filter.with(address));
        let maybe = words(stack).filter(|&(_, value)| filter.may_have(value));
        let slots_of = |(word, value): (u16, u64)| {
            let first = frames.partition_point(|&(address, _)| address < value);
            let same = frames[first..].iter().take_while(move |&&(address, _)| address == value);
            same.map(move |&(_, frame)| ReturnSlot { frame, word })
        };
        Self(maybe.flat_map(slots_of).collect())
    }

    /// True if no word of the stack is a return address of the chain, or there was no stack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The word whose value differs where `other` leaves the path of `chain`; `None` if they differ in their leaf, or no
    /// word of `stack`, the copy that `other` is of, has the other address.
    #[must_use]
    pub fn differing_word(&self, chain: &[u64], other: &[u64], stack: &[u8]) -> Option<u16> {
        let (own, other) = (user_part(chain), user_part(other));
        let frame = own.iter().zip(other).position(|(own, other)| own != other).filter(|frame| *frame > 0)?;
        let has_both = |slot: &&ReturnSlot| {
            usize::from(slot.frame) == frame && word_at(stack, slot.word) == Some(other[frame])
        };
        self.0.iter().find(has_both).map(|slot| slot.word)
    }
}

/// A set of few addresses that answers "no" at once for most others.
#[derive(Clone, Copy, Default)]
struct AddressFilter([u64; 4]);

impl AddressFilter {
    fn with(mut self, address: u64) -> Self {
        let (word, bit) = Self::place(address);
        self.0[word] |= bit;
        self
    }

    fn may_have(self, address: u64) -> bool {
        let (word, bit) = Self::place(address);
        self.0[word] & bit != 0
    }

    /// The upper bits of a product depend on all of the address's.
    fn place(address: u64) -> (usize, u64) {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }
}

fn user_part(chain: &[u64]) -> &[u64] {
    let begin = chain.iter().position(|&address| address == PERF_CONTEXT_USER);
    begin.map_or(&[], |at| &chain[at + 1..])
}

fn words(stack: &[u8]) -> impl Iterator<Item = (u16, u64)> {
    let (words, _) = stack.as_chunks::<8>();
    (0u16..).zip(words.iter().map(|bytes| u64::from_ne_bytes(*bytes)))
}

fn word_at(stack: &[u8], word: u16) -> Option<u64> {
    let (words, _) = stack.as_chunks::<8>();
    words.get(usize::from(word)).map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u64; 3] = [perfdata::abi::PERF_CONTEXT_KERNEL, 0xffff, PERF_CONTEXT_USER];

    fn chain(user: &[u64]) -> Vec<u64> {
        [&HEAD[..], user].concat()
    }

    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_word_at_which_paths_part_is_the_return_address_of_both() {
        let (first, second) = (chain(&[1, 20, 31, 40]), chain(&[1, 20, 32, 40]));
        // Word 1 is left over from an earlier call of the first path.
        let slots = ReturnSlots::find(&first, &stack(&[20, 31, 7, 31, 40]));
        assert_eq!(slots.differing_word(&first, &second, &stack(&[20, 31, 7, 32, 40])), Some(3));
        assert_eq!(slots.differing_word(&first, &second, &stack(&[20, 31, 7, 9, 40])), None);
    }

    #[test]
    fn a_filter_has_all_its_addresses_and_few_others() {
        let filter =
            (0..20).fold(AddressFilter::default(), |filter, n| filter.with(0x7f00_1234_5678 + n * 96));
        assert!((0..20).all(|n| filter.may_have(0x7f00_1234_5678 + n * 96)));
        let others = (0..1000u64).filter(|n| filter.may_have(0x7ffc_0000_0000 + n * 8)).count();
        assert!(others < 200, "{others}");
    }

    #[test]
    fn other_leaves_kernel_functions_and_lengths_have_no_word() {
        let first = chain(&[1, 20, 30]);
        let copy = stack(&[20, 30]);
        let slots = ReturnSlots::find(&first, &copy);
        for other in [chain(&[2, 21, 30]), chain(&[1, 20]), vec![0xffff], first.clone()] {
            assert_eq!(slots.differing_word(&first, &other, &copy), None, "{other:?}");
        }
    }
}
