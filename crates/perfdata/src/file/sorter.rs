//! Brings records into time order with bounded memory, by rounds.
//!
//! A recorder drains all rings, one after the other, and then writes `FINISHED_ROUND`. A ring is in time order by
//! itself, so after a whole round no record can come any more that is older than the newest record of the
//! round *before*:
//!
//! ```text
//!   round 1          round 2           round 3
//!   1 4 7 | 2 3 9    8 11 | 10 12 13   …
//!            max 9 ┘        at this end: everything up to 9 goes out, 10…13 stay
//! ```
//!
//! Records without a time (0) go out first at the next flush, which is perf's order, too. A file without rounds is
//! sorted as a whole, by keys of 24 bytes.

/// A record's key: its time and position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) time_ns: u64,
    /// Offset in the segment's bytes.
    pub(crate) offset: usize,
    /// 0 = the file, else a decompressed block.
    pub(crate) segment: u32,
}

/// Keys waiting for their turn.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    /// In order of arrival, after the sorted rest of earlier rounds: a stable sort keeps equal times as they
    /// came.
    pending: Vec<Key>,
    /// Newest time seen.
    max_ns: u64,
    /// Newest time seen when the round before ended.
    limit_ns: u64,
    /// Newest time handed out.
    delivered_ns: u64,
    /// Keys older than what was already handed out when they came.
    pub(crate) out_of_order: u64,
}

impl Sorter {
    pub(crate) fn push(&mut self, key: Key) {
        self.max_ns = self.max_ns.max(key.time_ns);
        if key.time_ns != 0 && key.time_ns < self.delivered_ns {
            self.out_of_order += 1;
        }
        self.pending.push(key);
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// A round ended: the keys that may go out now, in order.
    pub(crate) fn finish_round(&mut self) -> Vec<Key> {
        let limit = self.limit_ns;
        self.limit_ns = self.max_ns;
        self.flush(limit)
    }

    /// The file ended: all the rest.
    pub(crate) fn finish(&mut self) -> Vec<Key> {
        self.flush(u64::MAX)
    }

    /// Too much is waiting: hands out the older half of the keys, regardless of rounds.
    pub(crate) fn finish_half(&mut self) -> Vec<Key> {
        self.pending.sort_by_key(|k| k.time_ns);
        let middle = self.pending.get(self.pending.len() / 2).map_or(0, |k| k.time_ns);
        self.flush(middle)
    }

    fn flush(&mut self, limit_ns: u64) -> Vec<Key> {
        self.pending.sort_by_key(|k| k.time_ns);
        let count = self.pending.partition_point(|k| k.time_ns <= limit_ns);
        let rest = self.pending.split_off(count);
        let out = std::mem::replace(&mut self.pending, rest);
        self.delivered_ns = out.last().map_or(self.delivered_ns, |k| k.time_ns.max(self.delivered_ns));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(time_ns: u64) -> Key {
        Key { time_ns, offset: 0, segment: 0 }
    }

    fn times(keys: &[Key]) -> Vec<u64> {
        keys.iter().map(|k| k.time_ns).collect()
    }

    #[test]
    fn a_round_lets_out_what_the_round_before_made_safe() {
        let mut s = Sorter::default();
        [1, 4, 7, 2, 3, 9].map(key).into_iter().for_each(|k| s.push(k));
        assert_eq!(times(&s.finish_round()), [0u64; 0]);
        [8, 11, 10, 12, 13].map(key).into_iter().for_each(|k| s.push(k));
        assert_eq!(times(&s.finish_round()), [1, 2, 3, 4, 7, 8, 9]);
        assert_eq!(times(&s.finish()), [10, 11, 12, 13]);
        assert!(s.is_empty());
        assert_eq!(s.out_of_order, 0);
    }

    #[test]
    fn the_older_half_goes_out_early() {
        let mut s = Sorter::default();
        [7, 1, 9, 3].map(key).into_iter().for_each(|k| s.push(k));
        assert_eq!(times(&s.finish_half()), [1, 3, 7]);
        assert_eq!(times(&s.finish_half()), [9]);
        assert!(s.is_empty());
    }

    #[test]
    fn a_record_older_than_what_went_out_is_counted() {
        let mut s = Sorter::default();
        s.push(key(5));
        s.finish_round();
        s.push(key(6));
        s.finish_round();
        s.push(key(3));
        assert_eq!(s.out_of_order, 1);
    }
}
