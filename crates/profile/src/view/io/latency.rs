//! How long requests took, by operation and size.

use crate::grow::Grow as _;
use crate::tracepoints::block_io::{Op, Request};
use crate::view::ranking::RankRows as _;
use crate::view::wall::Histogram;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Lengths of the two parts of a request's life, and of both together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// In the queue: inserted to issued.
    pub queue: Histogram,
    /// In the device: issued to done.
    pub device: Histogram,
    /// ns in the device, summed.
    pub device_total_ns: u64,
    /// ns in the queue, summed.
    pub queue_total_ns: u64,
}

impl Latencies {
    /// Adds the known times of a request.
    pub fn add(&mut self, request: &Request) {
        if let Some(ns) = request.queue_ns() {
            self.queue.add(ns, 1);
            self.queue_total_ns.grow(ns);
        }
        if let Some(ns) = request.device_ns() {
            self.device.add(ns, 1);
            self.device_total_ns.grow(ns);
        }
    }
}

/// Requests of one operation and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyRow {
    /// Operation of the requests.
    pub op: Op,
    /// More bytes than half of this, at most this; 0 for requests without data.
    pub size: u64,
    /// Number of requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Latencies.
    pub latencies: Latencies,
}

/// The power of two that holds `bytes`; 0 for none.
#[must_use]
pub fn size_class(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes.checked_next_power_of_two().unwrap_or(u64::MAX) }
}

/// A row for each operation and size, most time in the device first.
pub(super) fn rows(requests: &[&Request]) -> Vec<LatencyRow> {
    let mut rows: BTreeMap<(Op, u64), LatencyRow> = BTreeMap::new();
    for request in requests {
        let (op, size) = (request.rwbs.op, size_class(request.bytes));
        let row = rows.entry((op, size)).or_insert_with(|| LatencyRow {
            op,
            size,
            requests: 0,
            bytes: 0,
            latencies: Latencies::default(),
        });
        row.requests += 1;
        row.bytes.grow(request.bytes);
        row.latencies.add(request);
    }
    let mut rows: Vec<LatencyRow> = rows.into_values().collect();
    rows.rank_by_key(|row| (Reverse(row.latencies.device_total_ns), row.op, row.size));
    rows
}
