//! Ranges of a file that are kept, gathered in any order.

use super::KeptParts;
use std::ops::Range;

/// A gap up to this length is kept as zeros: describing two pieces costs as much.
const SMALLEST_GAP: u64 = 64;

/// Ranges of file offsets.
#[derive(Clone, Debug, Default)]
pub struct KeptRanges(Vec<Range<u64>>);

impl KeptRanges {
    /// Keeps a range; it may overlap others.
    pub fn add(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.0.push(range);
        }
    }

    /// All ranges of both.
    #[must_use]
    pub fn with(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// The pieces of `file`, with zeros in the gaps that they span.
    #[must_use]
    pub fn copied_from(mut self, file: &[u8]) -> KeptParts {
        self.0.sort_unstable_by_key(|range| range.start);
        let mut parts = KeptParts::default();
        for range in self.0 {
            let range = range.start..range.end.min(file.len() as u64);
            let end = parts.pieces.last().map_or(0, |last| last.end);
            let new = range.start.max(end)..range.end;
            if new.is_empty() {
                continue;
            }
            match parts.pieces.last_mut().filter(|last| new.start - last.end <= SMALLEST_GAP) {
                Some(last) => {
                    let gap = (new.start - last.end) as usize;
                    parts.content.extend(std::iter::repeat_n(0, gap));
                    last.end = new.end;
                }
                None => parts.pieces.push(new.clone()),
            }
            parts.content.extend_from_slice(&file[new.start as usize..new.end as usize]);
        }
        parts
    }
}

/// Whether two sorted, not overlapping ranges of `used` and `range` have an address in common.
pub(super) fn overlaps(used: &[Range<u64>], range: &Range<u64>) -> bool {
    let first = used.partition_point(|used| used.end <= range.start);
    used.get(first).is_some_and(|used| used.start < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_are_copied_once_and_small_gaps_filled() {
        let file: Vec<u8> = (1..=255).collect();
        let mut kept = KeptRanges::default();
        [200..300, 0..4, 2..6, 8..10, 3..3].into_iter().for_each(|range| kept.add(range));
        let parts = kept.copied_from(&file);
        assert_eq!(parts.pieces, [0..10, 200..255]);
        assert_eq!(parts.content[..10], [1, 2, 3, 4, 5, 6, 0, 0, 9, 10]);
        assert_eq!(parts.content[10..], file[200..]);
    }

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        let used = [10..20, 30..40];
        let hits = [0..10, 0..11, 20..30, 19..20, 39..50, 40..50].map(|range| overlaps(&used, &range));
        assert_eq!(hits, [false, true, false, true, true, false]);
    }
}
