//! Calls of recorded spans as rows.
//
// Layout: docs/formats/json.md.

use super::blame::with_chain;
use super::{SCHEMA_VERSION, split};
use crate::text::routes::hex;
use profile::Profile;
use profile::grow::GrownSum as _;
use profile::view::blame::{BlameCause, causes, thread_name};
use profile::view::spans::{SlowCall, SpanFunctionRow, SpanState, SpanStateRow};
use profile::view::wall::part_name;
use serde_json::{Value, json};

/// All functions, with at most `most` states each (0: all).
#[must_use]
pub fn spans(profile: &Profile, rows: &[SpanFunctionRow], most: usize) -> Value {
    let functions: Vec<Value> = rows.iter().map(|row| function(profile, row, most)).collect();
    let mut value = json!({ "schema_version": SCHEMA_VERSION, "view": "spans", "functions": functions });
    let of = &profile.spans.contexts;
    if of.processes > 0 {
        value["contexts"] = json!({
            "processes": of.processes, "lost": of.lost, "unreadable": of.unreadable, "invalid": of.invalid,
            "cut": of.cut, "damaged": of.damaged,
        });
    }
    value
}

fn function(profile: &Profile, row: &SpanFunctionRow, most: usize) -> Value {
    let (latency, others) = (row.latency, row.not_counted);
    json!({
        "function": row.name, "calls": row.calls, "threads": row.threads,
        "unsure_ns": row.unsure_ns,
        "not_counted": {
            "without_begin": others.without_begin, "before_window": others.before_window, "open": others.open, "left": others.left,
            "nested": others.nested,
        },
        "total_ns": latency.total_ns, "p50_ns": latency.p50_ns, "p90_ns": latency.p90_ns,
        "p99_ns": latency.p99_ns, "longest_ns": latency.max_ns,
        "states": row.states.as_ref().map(|states| states_value(states, most)),
        "slowest": row.slowest.iter().map(|call| slow_call(profile, call)).collect::<Vec<_>>(),
    })
}

fn states_value(states: &[SpanStateRow], most: usize) -> Value {
    let (shown, others) = split(states, most);
    let row = |row: &SpanStateRow| {
        let mut value = state_value(&row.state, row.ns);
        value["slowest_ns"] = row.slowest_ns.into();
        value
    };
    json!({
        "rows": shown.iter().map(row).collect::<Vec<_>>(),
        "rows_left_out": others.len(),
        "left_out_ns": others.iter().map(|row| row.ns).grown_sum(),
    })
}

fn state_value(state: &SpanState, ns: u64) -> Value {
    json!({ "state": part_name(state.part), "target": state.target, "ns": ns })
}

fn slow_call(profile: &Profile, call: &SlowCall) -> Value {
    let task = profile.task(call.task);
    let states: Vec<Value> = call.states.iter().map(|(state, ns)| state_value(state, *ns)).collect();
    let cause = |row: &BlameCause| with_chain(profile, row);
    json!({
        "seen": call.seen.map(|seen| json!({
            "from_ns": seen.from_ns - (call.begin_ns - call.at_ns), "to_ns": seen.to_ns - (call.begin_ns - call.at_ns),
            "trace": hex(&seen.trace), "span": hex(&seen.span),
        })),
        "at_ns": call.at_ns, "length_ns": call.length_ns, "is_open": call.is_open,
        "pid": task.pid, "tid": task.tid, "comm": thread_name(profile, call.task),
        "states": states,
        "causes": causes(profile, &call.causes).iter().map(cause).collect::<Vec<_>>(),
    })
}
