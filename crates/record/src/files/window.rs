//! `--overwrite`: only the newest records are kept, in memory, until someone asks for them.
//!
//! Samples are held as they would be written, their stacks unwound already, so that a window of the same size
//! reaches back much further than the kernel's rings with their copies of stacks would.

use std::collections::VecDeque;
use std::time::Duration;

use perfdata::Endian;
use perfdata::abi::PERF_RECORD_SAMPLE;
use perfdata::record::Header;

use crate::off_cpu::convert::is_of_off_cpu;

/// The newest records, oldest first; never more bytes than `most_bytes`, but for a single larger record, and none that
/// came longer ago than `oldest`.
#[derive(Debug)]
pub struct PartWindow {
    records: VecDeque<KeptRecord>,
    /// The records' bytes, one after the other: a block of memory for each would cost more than the rest.
    bytes: VecDeque<u8>,
    most_bytes: usize,
    /// Older records give way, too, ns.
    oldest_ns: Option<u64>,
    /// Samples that had to give way since the last call of [`PartWindow::take`]; those of waits don't count as samples.
    overwritten: u64,
}

#[derive(Debug)]
struct KeptRecord {
    /// When it came, by the clock of who pushes.
    came_ns: u64,
    length: usize,
    is_sample: bool,
    is_counted: bool,
}

impl PartWindow {
    /// Empty.
    #[must_use]
    pub fn new(most_bytes: usize, oldest: Option<Duration>) -> Self {
        let oldest_ns = oldest.map(|oldest| u64::try_from(oldest.as_nanos()).unwrap_or(u64::MAX));
        Self { records: VecDeque::new(), bytes: VecDeque::new(), most_bytes, oldest_ns, overwritten: 0 }
    }

    /// Keeps one record, which came at `now_ns`; the oldest are removed for it. Those that aren't samples are passed to
    /// `gone`.
    pub fn push(&mut self, now_ns: u64, record: &[u8], mut gone: impl FnMut(&[u8])) {
        self.bytes.extend(record);
        let is_sample = is_sample(record);
        let is_counted = is_sample && !is_of_off_cpu(record);
        self.records.push_back(KeptRecord { came_ns: now_ns, length: record.len(), is_sample, is_counted });
        while self.records.len() > 1 && self.is_over(now_ns) {
            let Some(oldest) = self.records.pop_front() else { break };
            let removed = self.bytes.drain(..oldest.length);
            self.overwritten += u64::from(oldest.is_counted);
            if !oldest.is_sample {
                gone(&removed.collect::<Vec<u8>>());
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let is_old =
            |oldest| self.records.front().is_some_and(|of| now_ns.saturating_sub(of.came_ns) > oldest);
        self.bytes.len() > self.most_bytes || self.oldest_ns.is_some_and(is_old)
    }

    /// Time at which the oldest record came, by the clock of who pushes; `None` without records.
    #[must_use]
    pub fn oldest_ns(&self) -> Option<u64> {
        self.records.front().map(|record| record.came_ns)
    }

    /// Hands out all records, oldest first, and keeps them.
    pub fn each(&self, mut with: impl FnMut(&[u8])) {
        let (first, second) = self.bytes.as_slices();
        let (mut at, mut across) = (0, Vec::new());
        for record in &self.records {
            let end = at + record.length;
            match (end <= first.len(), at.checked_sub(first.len())) {
                (true, _) => with(&first[at..end]),
                (false, Some(in_second)) => with(&second[in_second..in_second + record.length]),
                (false, None) => {
                    across.clear();
                    across.extend_from_slice(&first[at..]);
                    across.extend_from_slice(&second[..end - first.len()]);
                    with(&across);
                }
            }
            at = end;
        }
    }

    /// Hands out all records, oldest first, and is empty afterwards. How many samples were overwritten before.
    pub fn take(&mut self, mut with: impl FnMut(&[u8])) -> u64 {
        let mut rest: &[u8] = self.bytes.make_contiguous();
        for record in self.records.drain(..) {
            let (bytes, after) = rest.split_at(record.length);
            with(bytes);
            rest = after;
        }
        self.bytes.clear();
        std::mem::take(&mut self.overwritten)
    }
}

/// Whether this record of a ring, or of a file of this machine, is a sample.
#[must_use]
pub fn is_sample(record: &[u8]) -> bool {
    Header::parse(record, Endian::NATIVE).is_some_and(|header| header.type_ == PERF_RECORD_SAMPLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::convert::event_id;

    fn record(kind: u32, mark: u8) -> Vec<u8> {
        let head = u64::from(kind) | 16 << 48;
        [head.to_ne_bytes(), [mark; 8]].concat()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_oldest_give_way_and_samples_among_them_are_counted() {
        let mut window = PartWindow::new(48, None);
        let mut gone = Vec::new();
        for (nth, kind) in
            [3, PERF_RECORD_SAMPLE, PERF_RECORD_SAMPLE, 3, PERF_RECORD_SAMPLE].into_iter().enumerate()
        {
            window.push(0, &record(kind, nth as u8), |old| gone.push(old[8]));
        }
        assert_eq!(gone, [0]);
        let mut kept = Vec::new();
        assert_eq!(window.take(|r| kept.push(r[8])), 1);
        assert_eq!(kept, [2, 3, 4]);
        assert_eq!(window.take(|_| panic!("it is empty")), 0);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn waits_that_give_way_are_no_samples_less() {
        let mut window = PartWindow::new(32, None);
        let of = |id: u64| {
            let head = u64::from(PERF_RECORD_SAMPLE) | 16 << 48;
            [head.to_ne_bytes(), id.to_ne_bytes()].concat()
        };
        for id in [event_id(0), 7, event_id(3), 7, 7] {
            window.push(0, &of(id), |_| panic!("all are samples"));
        }
        assert_eq!(window.take(|_| {}), 1);
    }

    #[test]
    fn records_handed_out_for_a_draft_are_those_of_the_file_and_stay() {
        let mut window = PartWindow::new(112, None);
        // The memory of the queue is a ring: pushed past its end, a record is in two pieces.
        for nth in 0..100u8 {
            let kind = if nth % 3 == 0 { 3 } else { PERF_RECORD_SAMPLE };
            window.push(u64::from(nth), &record(kind, nth), |_| {});
            let mut copied = Vec::new();
            window.each(|record| copied.push(record.to_vec()));
            let newest = copied.last().expect("one is kept");
            assert_eq!((newest[8], newest.len()), (nth, 16));
            assert!(copied.windows(2).all(|pair| pair[0][8] + 1 == pair[1][8]), "{copied:?}");
            assert_eq!(window.oldest_ns(), Some(u64::from(copied[0][8])));
        }
        let mut copied = Vec::new();
        window.each(|record| copied.push(record.to_vec()));
        let mut taken = Vec::new();
        window.take(|record| taken.push(record.to_vec()));
        assert_eq!((copied, window.oldest_ns()), (taken, None));
    }

    #[test]
    fn what_came_too_long_ago_gives_way() {
        let second_ns = 1_000_000_000;
        let mut window = PartWindow::new(1 << 20, Some(Duration::from_secs(3)));
        let mut gone = Vec::new();
        for nth in 0..6 {
            window.push(nth * second_ns, &record(3, nth as u8), |old| gone.push(old[8]));
        }
        assert_eq!(gone, [0, 1]);
    }

    #[test]
    fn one_record_is_kept_however_large() {
        let mut window = PartWindow::new(4, None);
        window.push(0, &record(3, 1), |_| panic!("nothing older"));
        let mut kept = 0;
        window.take(|_| kept += 1);
        assert_eq!(kept, 1);
    }
}
