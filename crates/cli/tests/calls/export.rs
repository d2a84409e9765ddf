//! `tally export --chrome` by the rules of the trace event format: what viewers refuse or draw wrongly.

use super::{build, tally};
use serde_json::Value;
use std::collections::BTreeMap;

/// Times are told in µs with three digits.
const ROUNDED_US: f64 = 0.0015;

#[cfg(target_arch = "x86_64")]
#[test]
fn events_of_a_timeline_are_in_order_nested_and_belong_to_threads_that_are_named() {
    let Some(program) = build("calls.c", "export-pg", "gcc", &["-O1", "-pg", "-pthread"]) else { return };
    let folder = program.with_extension("calls");
    let recorded =
        tally().args(["calls", "record", "-q", "-o"]).arg(&folder).arg("--").arg(&program).output();
    assert!(recorded.expect("tally starts").status.success());
    let exported = tally().args(["export", "--chrome", "-i"]).arg(&folder).output().expect("tally starts");
    let trace: Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let (mut open, mut last, mut named) = (BTreeMap::<u64, Vec<f64>>::new(), BTreeMap::new(), Vec::new());
    let mut first_us = f64::INFINITY;
    for event in events {
        let tid = event["tid"].as_u64().expect("a thread");
        assert!(event["pid"].is_u64() && event["name"].is_string(), "{event}");
        if event["ph"] == "M" {
            assert!(event["args"]["name"].is_string(), "{event}");
            named.push(tid);
            continue;
        }
        assert!(event["ph"] == "X" && named.contains(&tid), "{event}");
        let (start, took) = (event["ts"].as_f64().expect("µs"), event["dur"].as_f64().expect("µs"));
        assert!(took >= 0.0 && start >= last.insert(tid, start).unwrap_or(0.0), "{event}");
        let around = open.entry(tid).or_default();
        while around.pop_if(|end| *end <= start + ROUNDED_US).is_some() {}
        let inside = around.last().is_none_or(|end| start + took <= end + ROUNDED_US);
        assert!(inside, "{event} reaches beyond what is around it: {around:?}");
        around.push(start + took);
        first_us = first_us.min(start);
    }
    assert!(open.len() >= 5 && events.len() > 10_000 && first_us == 0.0, "{} {first_us}", events.len());
}
