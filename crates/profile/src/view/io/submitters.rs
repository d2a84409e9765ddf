//! Submitters of requests: by process name and path.

use super::Latencies;
use super::cause::cause;
use crate::profile::Profile;
use crate::table::{CallsiteId, FrameId};
use crate::tracepoints::block_io::{Op, Request};
use crate::view::ranking::RankRows as _;
use crate::view::wall::{is_kernel, name_of};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// One place that causes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// Name of its thread.
    pub comm: String,
    /// Process.
    pub pid: i32,
    /// Operation of the requests.
    pub op: Op,
    /// Cause of the requests in the kernel, as `page fault → readahead`; empty if its functions don't show one.
    pub cause: String,
    /// User functions, innermost first; empty without (kernel threads, no stack).
    pub functions: Vec<String>,
    /// How many requests.
    pub requests: u64,
    /// Bytes they moved ([`Request::moved_bytes`]).
    pub bytes: u64,
    /// How long they took.
    pub latencies: Latencies,
    /// A path to it: the first one found.
    pub callsite: Option<CallsiteId>,
}

/// Cause and user functions of a path. Other kernel functions don't separate submitters.
type SubmitterPath = (String, Vec<String>);

/// Most time in the device first.
pub(super) fn submitters(profile: &Profile, requests: &[&Request]) -> Vec<Submitter> {
    let mut places: FxHashMap<Option<CallsiteId>, SubmitterPath> = FxHashMap::default();
    let mut index: FxHashMap<(String, i32, Op, SubmitterPath), usize> = FxHashMap::default();
    let mut rows: Vec<Submitter> = Vec::new();
    for request in requests {
        let place =
            places.entry(request.callsite).or_insert_with(|| place(profile, request.callsite)).clone();
        let pid = profile.task(request.task).pid;
        let comm = profile.strings.of(profile.last_comm(request.task)).to_owned();
        let key = (comm.clone(), pid, request.rwbs.op, place.clone());
        let at = *index.entry(key).or_insert_with(|| {
            rows.push(Submitter {
                comm,
                pid,
                op: request.rwbs.op,
                cause: place.0,
                functions: place.1,
                requests: 0,
                bytes: 0,
                latencies: Latencies::default(),
                callsite: request.callsite,
            });
            rows.len() - 1
        });
        let row = &mut rows[at];
        row.requests += 1;
        row.bytes = row.bytes.saturating_add(request.moved_bytes());
        row.latencies.add(request);
    }
    rows.rank_by_key(|row| (Reverse(row.latencies.device_total_ns), Reverse(row.requests), row.pid));
    rows
}

fn place(profile: &Profile, callsite: Option<CallsiteId>) -> SubmitterPath {
    let Some(callsite) = callsite else { return SubmitterPath::default() };
    let frames: Vec<FrameId> = profile.callsites.leaf_first(callsite).collect();
    let names = |kernel: bool| {
        let wanted = frames.iter().filter(move |&&frame| is_kernel(profile, frame) == kernel);
        wanted.filter_map(|&frame| name_of(profile, frame))
    };
    (cause(names(true)), names(false).map(str::to_owned).collect())
}
