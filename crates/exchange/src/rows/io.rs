//! Block I/O as JSON: the text's numbers, all of them; times in ns.

use profile::tracepoints::block_io::Op;
use profile::view::io::{Amount, FileRow, HeatRow, Io, Latencies, LatencyRow, Slice, Submitter};
use profile::view::wall::Histogram;
use serde_json::{Value, json};

/// The view, with names of disks by their numbers, and the number of lost records.
#[must_use]
pub fn io(view: &Io, device: &dyn Fn(u32) -> String, lost: u64) -> Value {
    let (mean, most) = view.time.in_flight;
    json!({
        "wall_ns": view.wall_ns,
        "requests": view.whole.requests,
        "bytes": view.whole.bytes,
        "busy_ns": view.time.busy_ns,
        "in_flight": { "mean": mean, "most": most },
        "queue_known": view.knows_queue(),
        "not_queued": view.direct,
        "failed": view.failed,
        "unfinished": view.unfinished,
        "merged": view.counts.merges,
        "requeued": view.counts.requeues,
        "split": view.counts.splits,
        "begin_unknown": view.counts.only_completed,
        "unreadable": view.counts.unreadable,
        "lost": lost,
        "left_out": { "requests": view.left_out.requests, "bytes": view.left_out.bytes,
                      "flushes": view.left_out_flushes },
        "devices": view.devices.iter().map(|(dev, of)| disk(*dev, *of, device)).collect::<Vec<_>>(),
        "operations": view.ops.iter().map(|(op, of)| operation(*op, *of, view.by_op.get(op))).collect::<Vec<_>>(),
        "sizes": view.rows.iter().map(size).collect::<Vec<_>>(),
        "submitters": view.submitters.iter().map(submitter).collect::<Vec<_>>(),
        "files": view.files.rows.iter().map(file).collect::<Vec<_>>(),
        "files_known": view.files.were_wanted && view.files.refused.is_empty(),
        "over_time": {
            "slice_ns": view.time.slice_ns,
            "slices": view.time.slices.iter().map(slice).collect::<Vec<_>>(),
            "heat": view.time.heat.iter().map(heat).collect::<Vec<_>>(),
        },
    })
}

fn disk(dev: u32, of: Amount, device: &dyn Fn(u32) -> String) -> Value {
    json!({ "name": device(dev), "major": dev >> 20, "minor": dev & 0xf_ffff,
            "requests": of.requests, "bytes": of.bytes })
}

fn operation(op: Op, of: Amount, latencies: Option<&Latencies>) -> Value {
    let none = Latencies::default();
    with(json!({ "op": op.name(), "requests": of.requests, "bytes": of.bytes }), latencies.unwrap_or(&none))
}

fn size(row: &LatencyRow) -> Value {
    let value =
        json!({ "op": row.op.name(), "up_to_bytes": row.size, "requests": row.requests, "bytes": row.bytes });
    with(value, &row.latencies)
}

fn submitter(row: &Submitter) -> Value {
    let value = json!({ "comm": row.comm, "pid": row.pid, "op": row.op.name(), "cause": row.cause,
                        "functions": row.functions, "requests": row.requests, "bytes": row.bytes });
    with(value, &row.latencies)
}

fn file(row: &FileRow) -> Value {
    let value = json!({ "file": row.target.words(), "kind": row.target.kind(), "op": row.op.name(),
                        "writeback": row.by_writeback, "requests": row.requests, "bytes": row.bytes });
    with(value, &row.latencies)
}

/// Adds both parts of the requests' lives.
fn with(mut value: Value, latencies: &Latencies) -> Value {
    value["queue"] = part(&latencies.queue, latencies.queue_total_ns);
    value["device"] = part(&latencies.device, latencies.device_total_ns);
    value
}

fn part(of: &Histogram, total_ns: u64) -> Value {
    let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|pct| of.percentile_ns(pct));
    json!({
        "count": of.count(), "total_ns": total_ns, "p50_ns": p50, "p90_ns": p90, "p99_ns": p99, "max_ns": of.max_ns(),
        "histogram": of.rows().map(|(from, n)| json!([from, n])).collect::<Vec<_>>(),
    })
}

fn slice(of: &Slice) -> Value {
    json!({ "done": of.done, "bytes": of.bytes, "busy_ns": of.busy_ns, "in_flight": of.in_flight,
            "most_in_flight": of.most_in_flight })
}

fn heat(row: &HeatRow) -> Value {
    json!({ "from_ns": row.from_ns, "counts": row.counts })
}
