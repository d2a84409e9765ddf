//! Requests over time: latency as a heat map, requests in flight, bytes.

use crate::grow::Grow as _;
use crate::tracepoints::block_io::Request;
use std::collections::BTreeMap;
use std::ops::Range;

/// A slice of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// Requests done in it.
    pub done: u64,
    /// Bytes they moved ([`Request::moved_bytes`]).
    pub bytes: u64,
    /// ns in which at least one request was in the device.
    pub busy_ns: u64,
    /// Requests in the device on average.
    pub in_flight: f64,
    /// Requests in the device at most.
    pub most_in_flight: u64,
}

/// Requests that took from `from_ns` up to twice that in the device, by slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatRow {
    /// A power of two.
    pub from_ns: u64,
    /// Requests by the slice in which they were done.
    pub counts: Vec<u64>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverTime {
    /// Length of a slice.
    pub slice_ns: u64,
    /// The slices.
    pub slices: Vec<Slice>,
    /// Rows from the shortest to the longest latency, none left out.
    pub heat: Vec<HeatRow>,
    /// ns in which at least one request was in the device.
    pub busy_ns: u64,
    /// Requests in the device on average, and at most.
    pub in_flight: (f64, u64),
}

/// Cuts a time, in ns, into `slices`.
pub(super) fn over_time(requests: &[&Request], span: Range<u64>, slices: usize) -> OverTime {
    let Range { start: begin, end } = span;
    let count = slices.max(1);
    let slice_ns = end.saturating_sub(begin).div_ceil(count as u64).max(1);
    let mut time = OverTime { slice_ns, slices: vec![Slice::default(); count], ..OverTime::default() };
    let at = |ns: u64| usize::try_from(ns.saturating_sub(begin) / slice_ns).unwrap_or(0).min(count - 1);
    let mut heat: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for request in requests {
        let (Some(done), Some(ns)) = (request.complete_ns, request.device_ns()) else { continue };
        let slice = &mut time.slices[at(done)];
        slice.done += 1;
        slice.bytes.grow(request.moved_bytes());
        heat.entry(ns.max(1).ilog2()).or_insert_with(|| vec![0; count])[at(done)] += 1;
    }
    let (low, high) = (heat.keys().next().copied(), heat.keys().last().copied());
    if let (Some(low), Some(high)) = (low, high) {
        let row = |power: u32| {
            let counts = heat.get(&power).cloned().unwrap_or_else(|| vec![0; count]);
            HeatRow { from_ns: 1 << power, counts }
        };
        time.heat = (low..=high).map(row).collect();
    }
    fly(&mut time, requests, span);
    time
}

/// Goes through begins and ends in the device in their order.
fn fly(time: &mut OverTime, requests: &[&Request], span: Range<u64>) {
    let Range { start: begin, end } = span;
    // A request open for longer than any finished one: its end was not recorded, it isn't still in the device.
    let longest = requests.iter().filter_map(|request| request.device_ns()).max().unwrap_or(u64::MAX);
    let mut turns: Vec<(u64, bool)> = Vec::with_capacity(requests.len() * 2);
    for request in requests {
        let Some(issued) = request.issue_ns else { continue };
        if request.complete_ns.is_none() && end.saturating_sub(issued) > longest {
            continue;
        }
        turns.push((issued.max(begin).min(end.max(begin)), true));
        turns.push((request.complete_ns.unwrap_or(end).max(begin).min(end.max(begin)), false));
    }
    // At one moment, ends come before begins.
    turns.sort_unstable();
    let (mut flying, mut since, mut whole) = (0u64, begin, 0u128);
    for (ns, begins) in turns {
        time.spread(begin, since..ns, flying);
        whole += u128::from(ns - since) * u128::from(flying);
        if flying > 0 {
            time.busy_ns.grow(ns - since);
        }
        flying = if begins { flying + 1 } else { flying.saturating_sub(1) };
        time.in_flight.1 = time.in_flight.1.max(flying);
        since = ns;
    }
    time.in_flight.0 = whole as f64 / end.saturating_sub(begin).max(1) as f64;
}

impl OverTime {
    /// Adds that `flying` requests were in the device for a time.
    fn spread(&mut self, begin: u64, time: Range<u64>, flying: u64) {
        let Range { start: mut from, end: to } = time;
        while from < to && flying > 0 {
            let index = ((from - begin) / self.slice_ns) as usize;
            let slice_end = begin.saturating_add((index as u64 + 1).saturating_mul(self.slice_ns));
            let until = to.min(slice_end);
            let Some(slice) = self.slices.get_mut(index) else { return };
            slice.busy_ns.grow(until - from);
            slice.in_flight += (until - from) as f64 * flying as f64 / self.slice_ns as f64;
            slice.most_in_flight = slice.most_in_flight.max(flying);
            from = until;
        }
    }
}
