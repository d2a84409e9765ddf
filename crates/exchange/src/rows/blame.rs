//! Blame as rows: what a thread's wall-clock time went to, in other threads too.
//
// Layout: docs/formats/page.md and `tally report --blame --json`.

use profile::Profile;
use profile::view::blame::{Blame, BlameCause, WaitEdge, causes, state_words, thread_name, wait_edges};
use serde_json::{Value, json};

/// All causes of a thread's wall-clock time, and who waited for whom.
#[must_use]
pub fn blame(profile: &Profile, found: &Blame) -> Value {
    let thread = |&task: &_| {
        let of = profile.task(task);
        json!({"comm": thread_name(profile, task), "pid": of.pid, "tid": of.tid})
    };
    let cause = |row: &BlameCause| {
        json!({
            "ns": row.ns, "thread": row.thread, "function": row.function, "line": row.line,
            "state": state_words(profile, &row.end.without_name()), "target": row.end.name(), "chain": row.chain,
            "lacks_evidence": row.end.lacks_evidence(),
        })
    };
    let edges = wait_edges(profile, found);
    let edge =
        |edge: &WaitEdge| json!({"thread": edge.sleeper, "waited_for": edge.waited_for, "ns": edge.ns});
    json!({
        "threads": found.roots.iter().map(thread).collect::<Vec<_>>(),
        "total_ns": found.total_ns,
        "without_evidence_ns": found.unknown_ns(),
        "causes": causes(profile, found).iter().map(cause).collect::<Vec<_>>(),
        "waits": edges.iter().map(edge).collect::<Vec<_>>(),
    })
}
