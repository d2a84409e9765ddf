//! The most an input may ask for: constants that nothing in a file can raise.
//!
//! Records are walked in place, so that only compressed ones cost memory beyond the file's own size. zstd makes up to
//! 32,768 bytes of one. Honest recordings are bounded by what differs from record to record:
//!
//! | measured with perf 6.1 and tally | bytes a compressed byte becomes | compressed bytes a record |
//! |---|---|---|
//! | a program that spins over 64 KiB of zeros, `-z --call-graph dwarf,65528`, 5,000 a second | 2,907 | 26 |
//! | the same unwound while recording, `tally record -z` | 608 | 14 |
//! | a whole system, `perf record -a -z --switch-events` | 6 | 13 |

use crate::abi::PERF_RECORD_SAMPLE;
use crate::record::Header;

/// Events of a file. Views keep a number for each of them in every row; `-e` with a few wildcards on a server with a
/// hundred uncore units makes some thousands.
pub(crate) const MOST_EVENTS: usize = 8192;

/// Bytes decompressed at once: what one record costs however far it expands.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Decompressed bytes, beyond the size of the file, that wait for their turn in the order of time. Past it the oldest
/// go out early. 128 CPUs fill rings of 512 KiB to 64 MiB in a round, and two rounds wait.
pub(crate) const HELD_BYTES: usize = 192 << 20;

/// Decompressed bytes that need no justification.
const FREE_BYTES: u64 = 16 << 20;
/// Bytes of samples that a compressed byte may become. Copied stacks are nearly equal from sample to sample.
const SAMPLE_FOLD: u64 = 4096;
/// Bytes of other records. They hold names, and what is kept of them is several times their size.
const OTHER_FOLD: u64 = 64;
/// Records that need no justification; every further one takes a compressed byte at least, for its time alone.
const FREE_RECORDS: u64 = 1 << 16;

/// Bytes decompressed from the file's records so far.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    compressed: u64,
    bytes: u64,
    other_bytes: u64,
    records: u64,
}

impl Expansion {
    /// Counts compressed bytes read.
    pub(crate) fn feed(&mut self, bytes: usize) {
        self.compressed = self.compressed.saturating_add(bytes as u64);
    }

    /// Counts bytes that came out; false if there are more than the compressed ones justify.
    pub(crate) fn expand(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.bytes <= self.justified(SAMPLE_FOLD)
    }

    /// Counts a record that came out; false if there are more than the compressed bytes justify.
    pub(crate) fn admit(&mut self, header: Header) -> bool {
        self.records += 1;
        if header.type_ != PERF_RECORD_SAMPLE {
            self.other_bytes += u64::from(header.size);
        }
        self.records <= FREE_RECORDS.saturating_add(self.compressed)
            && self.other_bytes <= self.justified(OTHER_FOLD)
    }

    /// Counts bytes that came out and form no record; false if there are more than the compressed bytes justify.
    pub(crate) fn skip(&mut self, bytes: usize) -> bool {
        self.other_bytes = self.other_bytes.saturating_add(bytes as u64);
        self.other_bytes <= self.justified(OTHER_FOLD)
    }

    fn justified(&self, fold: u64) -> u64 {
        FREE_BYTES.saturating_add(self.compressed.saturating_mul(fold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(type_: u32, size: u16) -> Header {
        Header { type_, misc: 0, size }
    }

    #[test]
    fn what_honest_recordings_become_is_admitted() {
        let mut expansion = Expansion::default();
        for _ in 0..4000 {
            expansion.feed(26);
            assert!(expansion.expand(65_528) && expansion.admit(header(PERF_RECORD_SAMPLE, 65_528)));
        }
    }

    #[test]
    fn more_than_the_compressed_bytes_justify_is_not() {
        let mut expansion = Expansion::default();
        expansion.feed(10_000);
        let fits = (0..).take_while(|_| expansion.expand(PIECE_BYTES)).count();
        assert_eq!(fits, 16 + 39);
        let mut expansion = Expansion::default();
        expansion.feed(10_000);
        let fits = (0..).take_while(|_| expansion.admit(header(3, 40))).count();
        assert_eq!(fits as u64, FREE_RECORDS + 10_000);
        let mut expansion = Expansion::default();
        let fits = (0..).take_while(|_| expansion.admit(header(10, 4096))).count();
        assert_eq!(fits, 16 << 20 >> 12);
    }
}
