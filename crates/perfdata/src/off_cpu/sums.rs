//! Exact sums of a thread's waits at one place.

use super::QueueLengths;
use super::payload::Bytes;

/// Waits of one thread at one place, since the last sample of that place: what the sample's period is made of.
///
/// A place is the user's instruction and stack pointer, the system call and its first argument (futex, descriptor).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitSums {
    /// Identifies the place; differs between threads of one number and between programs of one thread. 0 = not
    /// given.
    pub print: u64,
    /// Identifies the place without the system call's argument: places that share it nearly always have the
    /// same stack, in forked processes too. 0 = not given.
    pub stack_print: u64,
    /// When the first of these waits began, ns of the recording's clock.
    pub since_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
    /// How many.
    pub count: u32,
    /// By length, in the buckets of [`QueueLengths::counts`].
    pub lengths: [u32; QueueLengths::BUCKETS],
}

impl WaitSums {
    /// One more wait.
    pub fn add(&mut self, length_ns: u64) {
        self.longest_ns = self.longest_ns.max(length_ns);
        self.count = self.count.saturating_add(1);
        if let Some(length) = self.lengths.get_mut(QueueLengths::bucket(length_ns)) {
            *length = length.saturating_add(1);
        }
    }

    // Layout: u64 print; u64 stack_print; u64 since_ns; u64 longest_ns; u32 count; u32 bits; for each bit set, lowest first: u32 lengths[bit]
    pub(super) fn parse(read: &mut Bytes<'_>) -> Option<Self> {
        let (print, stack_print) = (read.u64()?, read.u64()?);
        let (since_ns, longest_ns) = (read.u64()?, read.u64()?);
        let (count, bits) = (read.u32()?, read.u32()?);
        let mut sums = Self { print, stack_print, since_ns, longest_ns, count, ..Self::default() };
        for (_, length) in sums.lengths.iter_mut().enumerate().filter(|(i, _)| bits >> i & 1 == 1) {
            *length = read.u32()?;
        }
        Some(sums)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let used = || self.lengths.iter().enumerate().filter(|(_, many)| **many > 0);
        let bits = used().fold(0u32, |bits, (i, _)| bits | 1 << i);
        let words = [self.print, self.stack_print, self.since_ns, self.longest_ns];
        words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        [self.count, bits].iter().for_each(|word| out.extend(word.to_le_bytes()));
        used().for_each(|(_, many)| out.extend(many.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_back_as_they_were_written_and_cut_ones_do_not() {
        let mut sums = WaitSums {
            print: 7,
            stack_print: 6,
            since_ns: 8,
            longest_ns: 9,
            count: 10,
            ..WaitSums::default()
        };
        for lengths in [&[][..], &[0, 19], &[3]] {
            lengths.iter().for_each(|&i: &usize| sums.lengths[i] = 5);
            let mut bytes = Vec::new();
            sums.write(&mut bytes);
            assert_eq!(WaitSums::parse(&mut Bytes(&bytes)), Some(sums));
            assert_eq!(WaitSums::parse(&mut Bytes(&bytes[..bytes.len() - 1])), None);
        }
    }
}
