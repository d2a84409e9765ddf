//! Findings while reading a file: counts, losses, damage.

use std::collections::BTreeMap;

use crate::Error;

/// How many [`Error`]s are kept in full; further ones are only counted.
const KEPT_PROBLEMS: usize = 100;

/// To whom a loss is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LostKey {
    /// Index into the file's events; `None` if the record names none.
    pub event: Option<usize>,
    /// Thread in whose context the loss was noticed; `None` without `sample_id_all`.
    pub pid_tid: Option<(u32, u32)>,
}

/// Kind of loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostCount {
    /// Records of any kind, from `PERF_RECORD_LOST` (the ring was full).
    pub records: u64,
    /// Samples, from `PERF_RECORD_LOST_SAMPLES` (the hardware or BPF dropped them).
    pub samples: u64,
}

/// Counts of one pass over a file. Nothing is dropped without a number here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileDiagnostics {
    /// Records by `PERF_RECORD_*` type, all that were framed, decompressed ones included.
    pub records: BTreeMap<u32, u64>,
    /// Losses by event and thread.
    pub lost: BTreeMap<LostKey, LostCount>,
    /// The first problems, in file order.
    pub problems: Vec<Error>,
    /// All problems, the kept ones included.
    pub problem_count: u64,
    /// Samples that were there but could not be read or attributed to an event.
    pub unreadable_samples: u64,
    /// Records of a type unknown here, skipped by their size.
    pub unknown_records: u64,
    /// Records that came after a later one of an already delivered round (time order only).
    pub out_of_order: u64,
    /// Samples with counter values none of which had advanced: not delivered (time order only).
    pub idle_reads: u64,
    /// Bytes at the end that form no whole record (a killed recorder).
    pub trailing_bytes: u64,
    /// Bytes of zstd data read, and bytes they became.
    pub compressed_bytes: (u64, u64),
}

impl FileDiagnostics {
    /// All records.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.records.values().sum()
    }

    /// All losses together.
    #[must_use]
    pub fn lost_total(&self) -> LostCount {
        self.lost.values().fold(LostCount::default(), |a, b| LostCount {
            records: a.records.saturating_add(b.records),
            samples: a.samples.saturating_add(b.samples),
        })
    }

    pub(crate) fn problem(&mut self, error: Error) {
        self.problem_count += 1;
        if self.problems.len() < KEPT_PROBLEMS {
            self.problems.push(error);
        }
    }
}
