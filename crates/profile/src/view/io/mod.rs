//! Block I/O: how long requests wait in the queue and in the device, when, and who causes them.
//!
//! ```text
//!   requests ─ filter (device, processes) ─┬─ latencies   by operation and size
//!                                          ├─ slices      heat map, in flight, bytes over time
//!                                          ├─ submitters  by process and path
//!                                          └─ files       by file and operation
//! ```
//! Requests that were seen only in part count where they can, and in [`Io`]'s counters.

mod cause;
mod files;
mod latency;
mod live_files;
mod submitters;
mod time;

pub use cause::cause;
pub use files::{FileRow, FileRows, FileTarget, files_of};
pub use latency::{Latencies, LatencyRow, size_class};
pub use live_files::LiveFiles;
pub use submitters::Submitter;
pub use time::{HeatRow, OverTime, Slice};

use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::tracepoints::block_io::{BlockTracepoint, Op, OtherEvents, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Which requests, and how finely.
#[derive(Clone, Debug, Default)]
pub struct IoOpts {
    /// Only of this device (major × 2^20 + minor).
    pub dev: Option<u32>,
    /// Only of these processes.
    pub pids: Option<BTreeSet<i32>>,
    /// Slices of time.
    pub slices: usize,
}

/// Sums of one device or one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Requests.
    pub requests: u64,
    /// Bytes moved ([`Request::moved_bytes`]).
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, request: &Request) {
        self.requests += 1;
        self.bytes.grow(request.moved_bytes());
    }
}

/// The whole view.
#[derive(Clone, Debug, Default)]
pub struct Io {
    /// Kinds of events the recording holds.
    pub recorded: BTreeSet<BlockTracepoint>,
    /// Sums of the requests shown; those merged into others are in the others.
    pub whole: Amount,
    /// By device.
    pub devices: BTreeMap<u32, Amount>,
    /// By operation.
    pub ops: BTreeMap<Op, Amount>,
    /// Events that aren't requests of their own, from all devices and processes.
    pub counts: OtherEvents,
    /// Requests of other processes or devices.
    pub left_out: Amount,
    /// Flushes among them: kernel threads issue them for everybody.
    pub left_out_flushes: u64,
    /// Requests not done at the end of the recording.
    pub unfinished: u64,
    /// Given to the driver without having been in the queue.
    pub direct: u64,
    /// Requests that failed.
    pub failed: u64,
    /// By operation and size, most time in the device first.
    pub rows: Vec<LatencyRow>,
    /// Latencies of all requests by operation.
    pub by_op: BTreeMap<Op, Latencies>,
    /// Over time.
    pub time: OverTime,
    /// Submitters, most time in the device first.
    pub submitters: Vec<Submitter>,
    /// Files.
    pub files: FileRows,
    /// First moment of the recording, ns of its clock.
    pub begin_ns: u64,
    /// Length.
    pub wall_ns: u64,
}

/// Computes the view.
#[must_use]
pub fn io(profile: &Profile, opts: &IoOpts) -> Io {
    let all = &profile.block_io;
    let shown = |request: &&Request| {
        opts.dev.is_none_or(|dev| request.dev == dev)
            && opts.pids.as_ref().is_none_or(|pids| pids.contains(&profile.task(request.task).pid))
    };
    let (begin_ns, end_ns) = profile.time_span_ns.unwrap_or_default();
    let mut io = Io { recorded: all.recorded.clone(), counts: all.counts, begin_ns, ..Io::default() };
    io.wall_ns = end_ns.saturating_sub(begin_ns);
    let requests: Vec<&Request> = all.requests.iter().filter(|r| !r.merged).filter(shown).collect();
    for request in all.requests.iter().filter(|r| !r.merged && !shown(r)) {
        io.left_out.add(request);
        io.left_out_flushes += u64::from(request.rwbs.op == Op::Flush);
    }
    for request in &requests {
        io.count(request);
    }
    io.rows = latency::rows(&requests);
    for request in &requests {
        io.by_op.entry(request.rwbs.op).or_default().add(request);
    }
    io.time = time::over_time(&requests, begin_ns..end_ns, opts.slices);
    io.submitters = submitters::submitters(profile, &requests);
    io.files = files::files(profile, &requests);
    io
}

impl Io {
    fn count(&mut self, request: &Request) {
        self.whole.add(request);
        self.devices.entry(request.dev).or_default().add(request);
        self.ops.entry(request.rwbs.op).or_default().add(request);
        self.unfinished += u64::from(request.complete_ns.is_none());
        self.direct += u64::from(request.insert_ns.is_none() && request.issue_ns.is_some());
        self.failed += u64::from(request.error != 0);
    }

    /// Whether the time in the queue can be known at all.
    #[must_use]
    pub fn knows_queue(&self) -> bool {
        self.recorded.contains(&BlockTracepoint::Insert)
    }
}

#[cfg(test)]
mod tests;
