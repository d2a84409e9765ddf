//! Labels of goroutines (`runtime/pprof`), as the BPF program of samples copies them (`bpf/python/labels.h`).

use perfdata::PidTid;
use perfdata::appendix::goroutine_labels::{GoroutineLabels, LabelSet, address_of};
use rustc_hash::{FxHashMap, FxHashSet};

use super::python::{CopiedAt, StackMoment, StackStore, TimedCopy};
use tracer::layout::interpreter::{BROKEN, CUT};

/// A goroutine's labels at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedLabels {
    /// Keys and values.
    pub labels: LabelSet,
    /// There are more, or longer ones.
    pub is_cut: bool,
    /// Some couldn't be read.
    pub is_broken: bool,
}

impl CopiedLabels {
    /// From the words of a record: for each label the lengths of key and value in one, then both texts.
    #[must_use]
    pub fn of_words(header: u64, mut words: &[u64]) -> Self {
        let mut labels = LabelSet::new();
        while let Some((&lengths, rest)) = words.split_first() {
            let (key, rest) = text(rest, lengths & 0xffff_ffff);
            let (value, rest) = text(rest, lengths >> 32);
            labels.push((key, value));
            words = rest;
        }
        labels.sort();
        Self { labels, is_cut: header & CUT != 0, is_broken: header & BROKEN != 0 }
    }
}

/// A text of this many bytes, and the words after it.
fn text(words: &[u64], bytes: u64) -> (String, &[u64]) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let (own, rest) = words.split_at(bytes.div_ceil(8).min(words.len()));
    let all: Vec<u8> = own.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect();
    (String::from_utf8_lossy(&all).into_owned(), rest)
}

/// The set of a thread's goroutine at one moment; `None` if it could not be read.
#[derive(Clone, Copy, Debug)]
struct TimedSet {
    time_ns: u64,
    address: Option<u64>,
}

impl TimedCopy for TimedSet {
    const MOST: usize = 2048;

    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

/// The labels of all goroutines met.
#[derive(Debug, Default)]
pub struct LabelStore {
    numbers: FxHashMap<LabelSet, usize>,
    all: GoroutineLabels,
    copies: StackStore<TimedSet>,
    mapped: FxHashSet<u32>,
}

impl LabelStore {
    /// Keeps the labels of a thread's goroutine.
    pub fn keep(&mut self, tid: u32, copied: (CopiedAt, u64), of: CopiedLabels) {
        let (when, time_ns) = copied;
        let all = &mut self.all;
        all.copies += 1;
        all.cut += u64::from(of.is_cut);
        let number = match self.numbers.get(&of.labels) {
            _ if of.is_broken || of.labels.is_empty() => None,
            Some(number) => Some(*number),
            None => address_of(all.sets.len()).map(|_| {
                all.sets.push(of.labels.clone());
                self.numbers.insert(of.labels, all.sets.len() - 1);
                all.sets.len() - 1
            }),
        };
        // Also those without a number: more different ones than there are addresses.
        all.unreadable += u64::from(number.is_none());
        self.copies.keep(tid, when, TimedSet { time_ns, address: number.and_then(address_of) });
    }

    /// The address for a callchain of this moment, and whether it is the first one of its process.
    pub fn address_of(&mut self, task: PidTid, moment: StackMoment) -> Option<(u64, IsFirst)> {
        let address = self.copies.of_moment(task.tid, moment)?.address?;
        let is_first = if self.mapped.insert(task.pid) { IsFirst::Yes } else { IsFirst::No };
        Some((address, is_first))
    }

    /// A thread has ended.
    pub fn forget_thread(&mut self, tid: u32) {
        self.copies.forget(tid);
    }

    /// A process has ended, or runs something else.
    pub fn forget_process(&mut self, pid: u32) {
        self.mapped.remove(&pid);
    }

    /// For the recording.
    #[must_use]
    pub fn to_recording(&self) -> GoroutineLabels {
        self.all.clone()
    }
}

/// Whether a process had no such address before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsFirst {
    /// It had none.
    Yes,
    /// It had.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::appendix::goroutine_labels::set_at;

    fn words(text: &str) -> Vec<u64> {
        let word = |bytes: &[u8]| {
            let mut word = [0xff; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        };
        text.as_bytes().chunks(8).map(word).collect()
    }

    #[test]
    fn labels_are_in_the_order_of_their_keys_and_damage_is_no_panic() {
        let record = [
            vec![4 << 32 | 5],
            words("route"),
            words("/pay"),
            vec![9 << 32 | 4],
            words("auth"),
            words("123456789"),
        ];
        let record = record.concat();
        let read = CopiedLabels::of_words(CUT, &record);
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read.labels, [label("auth", "123456789"), label("route", "/pay")]);
        assert!(read.is_cut && !read.is_broken);
        for end in 0..record.len() {
            let _ = CopiedLabels::of_words(0, &record[..end]);
        }
        assert_eq!(CopiedLabels::of_words(0, &[u64::MAX]).labels, [label("", "")]);
    }

    #[test]
    fn a_moment_gets_its_own_labels_and_equal_ones_have_one_address() {
        let mut store = LabelStore::default();
        let of = |value: &str| CopiedLabels {
            labels: vec![("route".to_owned(), value.to_owned())],
            ..CopiedLabels::default()
        };
        let task = PidTid { pid: 7, tid: 8 };
        for (time_ns, value) in [(1_000_000, "/a"), (3_000_000, "/b"), (5_000_000, "/a")] {
            store.keep(8, (CopiedAt::Sample, time_ns), of(value));
        }
        store.keep(8, (CopiedAt::Sample, 7_000_000), CopiedLabels { is_broken: true, ..of("/c") });
        let mut at = |time_ns| store.address_of(task, StackMoment::Sample(time_ns));
        let found = [1_000_000, 3_000_000, 4_000_000, 5_000_000, 7_000_000].map(&mut at);
        let sets = found.map(|found| found.and_then(|(address, _)| set_at(address)));
        assert_eq!(sets, [Some(0), Some(1), None, Some(0), None]);
        assert_eq!(found[0].map(|(_, first)| first), Some(IsFirst::Yes));
        assert_eq!(found[1].map(|(_, first)| first), Some(IsFirst::No));
        let all = store.to_recording();
        assert_eq!((all.sets.len(), all.copies, all.unreadable, all.cut), (2, 4, 1, 0));
    }
}
