//! Spans of a trace of Chrome, as py-spy writes them: samples joined to calls that begin (`B`) and end (`E`).

use super::error::ImportError;
use super::gathered::{Gathered, GatheredSums, StackOwner};
use super::json::{JsonPart, whole};
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, StackFrame, StackLine, StackThread};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeMap;

const NS_IN_US: f64 = 1e3;

/// Process and thread, as the trace numbers them.
type TraceThread = (i64, i64);

/// The spans of a thread that are open.
#[derive(Default)]
struct OpenSpans {
    /// Places, outermost first.
    path: Vec<usize>,
    /// Time of the last begin or end, us.
    since_us: f64,
}

/// Adds the time between two events of a thread to the stack that is open then. False without any span.
///
/// # Errors
/// The stacks are too many, or an event is none.
pub fn add(
    events: &JsonPart<'_>,
    names: &FxHashMap<TraceThread, &str>,
    gathered: &mut Gathered,
) -> Result<bool, ImportError> {
    let mut threads: BTreeMap<TraceThread, OpenSpans> = BTreeMap::new();
    for event in events.parts()? {
        let phase = event.text("ph");
        if phase != "B" && phase != "E" {
            continue;
        }
        let id = |key: &str| event.value.get(key).and_then(Value::as_i64).unwrap_or(0);
        let key = (id("pid"), id("tid"));
        let at_us = event.value.get("ts").and_then(Value::as_f64).unwrap_or(0.0);
        let spans = threads.entry(key).or_default();
        if !spans.path.is_empty() && at_us > spans.since_us {
            let name = names.get(&key).map_or_else(|| format!("thread {}", key.1), |name| (*name).to_owned());
            let [pid, tid] = [key.0, key.1].map(|id| i32::try_from(id).unwrap_or(0));
            let thread = gathered.thread(StackThread { pid, tid, name });
            let event = gathered.event("time", ValueUnit::Nanoseconds);
            let path: Vec<usize> = spans.path.iter().rev().copied().collect();
            let value = whole((at_us - spans.since_us) * NS_IN_US);
            let time_ns = Some(whole(spans.since_us * NS_IN_US));
            gathered.add(StackOwner { event, thread }, &path, GatheredSums { samples: 1, value, time_ns })?;
        }
        spans.since_us = at_us;
        if phase == "B" {
            spans.path.push(place(&event, gathered));
        } else {
            spans.path.pop();
        }
    }
    Ok(!threads.is_empty())
}

fn place(event: &JsonPart<'_>, gathered: &mut Gathered) -> usize {
    let arguments = event.find("args");
    let source = arguments.as_ref().map_or("", |args| args.text("filename")).to_owned();
    let line = arguments.and_then(|args| args.value.get("line").and_then(Value::as_u64));
    let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    let function = event.text("name").to_owned();
    let lines = vec![StackLine { function, source, line, is_inlined: false }];
    let file = gathered.file(CodeFile::default());
    gathered.frame(StackFrame { file, address: None, lines })
}
