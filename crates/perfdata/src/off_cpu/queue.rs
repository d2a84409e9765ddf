//! How long a thread waited for a CPU each time, counted in powers of two.

use super::payload::Bytes;

/// Counts of waits by length, as the BPF programs keep them for each thread: exact, however short the waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// `counts[i]`: waits of 2^(10+i) up to 2^(11+i) ns; the first bucket has all shorter ones too, the last all longer
    /// ones.
    pub counts: [u32; Self::BUCKETS],
    /// The longest of them, in µs, rounded up.
    pub longest_us: u32,
}

impl QueueLengths {
    /// Number of power-of-two classes: up to half a second.
    pub const BUCKETS: usize = 20;
    /// log2 of the ns at which the first bucket begins.
    pub const FIRST_LOG2: u32 = 10;

    /// One more wait.
    pub fn add(&mut self, length_ns: u64) {
        if let Some(count) = self.counts.get_mut(Self::bucket(length_ns)) {
            *count = count.saturating_add(1);
        }
        self.longest_us = self.longest_us.max(u32::try_from(length_ns.div_ceil(1000)).unwrap_or(u32::MAX));
    }

    /// The bucket of a wait of this length.
    pub(super) fn bucket(length_ns: u64) -> usize {
        let bucket = (length_ns >> Self::FIRST_LOG2).checked_ilog2().unwrap_or(0) as usize;
        bucket.min(Self::BUCKETS - 1)
    }

    // Layout: u32 longest_us; u32 counts[20]
    pub(super) fn parse(read: &mut Bytes<'_>) -> Option<Self> {
        let mut lengths = Self { longest_us: read.u32()?, ..Self::default() };
        for count in &mut lengths.counts {
            *count = read.u32()?;
        }
        Some(lengths)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.longest_us.to_le_bytes());
        self.counts.iter().for_each(|n| out.extend(n.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_by_power_of_two_and_come_back_as_they_were_written() {
        let mut lengths = QueueLengths::default();
        for ns in [0, 2047, 2048, 1_000_000, 5_000_000_000] {
            lengths.add(ns);
        }
        let mut used = [0; QueueLengths::BUCKETS];
        (used[0], used[1], used[9], used[19]) = (2, 1, 1, 1);
        assert_eq!((lengths.counts, lengths.longest_us), (used, 5_000_000));
        for lengths in [lengths, QueueLengths::default()] {
            let mut bytes = Vec::new();
            lengths.write(&mut bytes);
            assert_eq!(QueueLengths::parse(&mut Bytes(&bytes)), Some(lengths));
        }
        assert_eq!(QueueLengths::parse(&mut Bytes(&[0; 83])), None);
    }
}
