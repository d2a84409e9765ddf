//! Blame and the critical path as rows: what a thread's wall-clock time went to, in other threads too.
//
// Layout: docs/formats/page.md and `tally report --blame --json`, `--critical-path --json`.

use super::SCHEMA_VERSION;
use profile::Profile;
use profile::view::blame::{
    Blame, BlameCause, BlameEnd, BlamedFunction, CriticalPath, CriticalPiece, WaitEdge, blamed_functions,
    causes, end_function, state_words, thread_name, wait_edges,
};
use serde_json::{Value, json};

/// All causes of a thread's wall-clock time, and who waited for whom.
#[must_use]
pub fn blame(profile: &Profile, found: &Blame) -> Value {
    let thread = |&task: &_| {
        let of = profile.task(task);
        json!({"comm": thread_name(profile, task), "pid": of.pid, "tid": of.tid})
    };
    let cause = |row: &BlameCause| with_chain(profile, row);
    let edges = wait_edges(profile, found);
    let edge =
        |edge: &WaitEdge| json!({"thread": edge.sleeper, "waited_for": edge.waited_for, "ns": edge.ns});
    json!({
        "schema_version": SCHEMA_VERSION, "view": "blame",
        "threads": found.roots.iter().map(thread).collect::<Vec<_>>(),
        "total_ns": found.total_ns,
        "without_evidence_ns": found.unknown_ns(),
        "causes": causes(profile, found).iter().map(cause).collect::<Vec<_>>(),
        "waits": edges.iter().map(edge).collect::<Vec<_>>(),
    })
}

/// All pieces; times in ns since the path's begin.
#[must_use]
pub fn critical_path(profile: &Profile, path: &CriticalPath) -> Value {
    let begin = path.pieces.first().map_or(0, |piece| piece.from_ns);
    let piece = |piece: &CriticalPiece| {
        let (function, line) = end_function(profile, piece.callsite, &piece.state);
        json!({
            "thread": thread_name(profile, piece.task), "tid": profile.task(piece.task).tid,
            "state": state_words(profile, &piece.state.without_name()), "target": piece.state.name(), "function": function, "line": line,
            "from_ns": piece.from_ns - begin, "to_ns": piece.to_ns - begin,
        })
    };
    let total = path.parts.total_ns.max(1) as f64;
    let function = |row: &BlamedFunction| {
        json!({"thread": row.thread, "function": row.function, "ns": row.ns,
            "bound": row.ns as f64 / total})
    };
    let part = |row: &BlameCause| cause_value(profile, row);
    json!({
        "schema_version": SCHEMA_VERSION, "view": "critical-path",
        "total_ns": path.parts.total_ns, "beside_ns": path.beside_ns,
        "parallelism": path.parallelism,
        "functions": blamed_functions(profile, &path.parts).iter().map(function).collect::<Vec<_>>(),
        "parts": causes(profile, &path.parts).iter().map(part).collect::<Vec<_>>(),
        "pieces": path.pieces.iter().map(piece).collect::<Vec<_>>(),
        "unborn_ns": path.pieces.iter().filter(|piece| piece.state == BlameEnd::Unborn)
            .map(|piece| piece.to_ns - piece.from_ns).sum::<u64>(),
    })
}

/// A cause with the threads through which it was waited for.
pub(super) fn with_chain(profile: &Profile, row: &BlameCause) -> Value {
    let mut value = cause_value(profile, row);
    value["chain"] = json!(row.chain);
    value
}

fn cause_value(profile: &Profile, row: &BlameCause) -> Value {
    json!({
        "ns": row.ns, "thread": row.thread, "function": row.function, "line": row.line,
        "state": state_words(profile, &row.end.without_name()), "target": row.end.name(),
        "lacks_evidence": row.end.lacks_evidence(),
    })
}
