//! CPU samples of Chrome and Node: a trace with `ProfileChunk` events, or a `.cpuprofile`. A trace without them may have
//! spans.
//
// Source: chromedevtools.github.io/devtools-protocol/tot/Profiler (type Profile); the Trace Event Format.

use super::chrome_spans;
use super::error::{ImportError, ImportFormat};
use super::gathered::{Gathered, GatheredSums, StackOwner};
use super::json::{JsonPart, whole};
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, StackFrame, StackLine, StackThread};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

const NS_IN_US: f64 = 1e3;

/// Reads a parsed `.cpuprofile`.
///
/// # Errors
/// If a part is missing or refers to nothing.
pub fn read_profile(file: &Value) -> Result<Gathered, ImportError> {
    let top = JsonPart::whole(file, ImportFormat::Chrome);
    let mut gathered = Gathered::default();
    let mut run = Run {
        start_us: number(&top, "startTime"),
        end_us: top.value.get("endTime").and_then(Value::as_f64),
        ..Run::default()
    };
    run.take(&top, &top)?;
    let thread = gathered.thread(StackThread { name: "main".to_owned(), ..StackThread::default() });
    run.add(thread, &mut gathered)?;
    Ok(gathered)
}

/// Reads the events of a trace.
///
/// # Errors
/// If there are no CPU samples, or a part of them is missing or refers to nothing.
pub fn read_trace(file: &Value) -> Result<Gathered, ImportError> {
    let top = JsonPart::whole(file, ImportFormat::Chrome);
    let events = if file.is_array() { top } else { top.part("traceEvents")? };
    let mut gathered = Gathered::default();
    // By process and the profile's own number. The thread is that of the event `Profile`.
    let mut runs: BTreeMap<(i64, String), (i64, Run)> = BTreeMap::new();
    let mut names: FxHashMap<(i64, i64), &str> = FxHashMap::default();
    for event in events.parts()? {
        let id = |key: &str| event.value.get(key).and_then(Value::as_i64).unwrap_or(0);
        let data = || event.part("args")?.part("data");
        let key = || (id("pid"), event.value.get("id").map(ToString::to_string).unwrap_or_default());
        match event.text("name") {
            "thread_name" => {
                let name = event.find("args").map_or("", |args| args.text("name"));
                names.insert((id("pid"), id("tid")), name);
            }
            "Profile" => {
                let run = Run { start_us: number(&data()?, "startTime"), ..Run::default() };
                runs.insert(key(), (id("tid"), run));
            }
            "ProfileChunk" => {
                let (_, run) = runs.entry(key()).or_insert_with(|| (id("tid"), Run::default()));
                let data = data()?;
                let profile = data.find("cpuProfile");
                run.take(profile.as_ref().unwrap_or(&data), &data)?;
            }
            _ => {}
        }
    }
    if runs.is_empty() {
        if chrome_spans::add(&events, &names, &mut gathered)? {
            return Ok(gathered);
        }
        return Err(ImportError::Unsupported(
            "a trace without CPU samples (neither ProfileChunk nor begins of calls in it): record it with the category v8.cpu_profiler",
        ));
    }
    for ((pid, _), (tid, run)) in &runs {
        let name = names.get(&(*pid, *tid)).copied().unwrap_or("main").to_owned();
        let [pid, tid] = [*pid, *tid].map(|id| i32::try_from(id).unwrap_or(0));
        let thread = gathered.thread(StackThread { pid, tid, name });
        run.add(thread, &mut gathered)?;
    }
    Ok(gathered)
}

fn number(part: &JsonPart<'_>, key: &str) -> f64 {
    part.value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

/// One profile: nodes of the call tree, and the node of each sample.
#[derive(Default)]
struct Run {
    start_us: f64,
    end_us: Option<f64>,
    nodes: FxHashMap<u64, Node>,
    samples: Vec<u64>,
    /// µs from the sample before, or from the start.
    deltas: Vec<f64>,
}

struct Node {
    parent: Option<u64>,
    line: StackLine,
}

impl Run {
    /// Takes nodes and samples of `profile`; the times may be one level above.
    fn take(&mut self, profile: &JsonPart<'_>, times: &JsonPart<'_>) -> Result<(), ImportError> {
        if let Some(nodes) = profile.find("nodes") {
            for node in nodes.parts()? {
                self.take_node(&node)?;
            }
        }
        if let Some(samples) = profile.find("samples") {
            for (at, sample) in samples.list()?.iter().enumerate() {
                let id = sample.as_u64().filter(|id| self.nodes.contains_key(id));
                self.samples.push(id.ok_or_else(|| samples.error_at(at, "a node that is not in the tree"))?);
            }
        }
        let holder = if times.find("timeDeltas").is_some() { times } else { profile };
        if holder.find("timeDeltas").is_some() {
            self.deltas.extend(holder.numbers("timeDeltas")?);
        }
        if self.deltas.len() != self.samples.len() {
            return Err(holder.error("not one of timeDeltas for each sample"));
        }
        Ok(())
    }

    fn take_node(&mut self, node: &JsonPart<'_>) -> Result<(), ImportError> {
        let id =
            node.value.get("id").and_then(Value::as_u64).ok_or_else(|| node.error("a node without id"))?;
        let frame = node.part("callFrame")?;
        let name = frame.text("functionName");
        let line = frame.value.get("lineNumber").and_then(Value::as_i64).unwrap_or(-1);
        let line = StackLine {
            function: if name.is_empty() { "(anonymous)" } else { name }.to_owned(),
            source: frame.text("url").to_owned(),
            // Theirs begin at 0.
            line: u32::try_from(line + 1).unwrap_or(0),
            is_inlined: false,
        };
        let known = self.nodes.get(&id).and_then(|node| node.parent);
        let parent = node.value.get("parent").and_then(Value::as_u64).or(known);
        self.nodes.insert(id, Node { parent, line });
        if let Some(children) = node.find("children") {
            for (at, child) in children.list()?.iter().enumerate() {
                let child = child.as_u64().ok_or_else(|| children.error_at(at, "no index"))?;
                let line = StackLine::default();
                self.nodes.entry(child).or_insert(Node { parent: None, line }).parent = Some(id);
            }
        }
        Ok(())
    }

    /// Adds the samples: each lasts until the next one.
    fn add(&self, thread: usize, gathered: &mut Gathered) -> Result<(), ImportError> {
        let file = gathered.file(CodeFile::default());
        let mut paths: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        let mut now_us = self.start_us;
        for (at, &leaf) in self.samples.iter().enumerate() {
            now_us += self.deltas[at];
            let until_end = self.end_us.map_or(0.0, |end| end - now_us);
            let lasts = self.deltas.get(at + 1).copied().unwrap_or(until_end).max(0.0);
            let path = match paths.entry(leaf) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.path(leaf, file, gathered)?),
            };
            // No CPU runs for it: the page waits.
            let is_idle = self.nodes.get(&leaf).is_some_and(|node| node.line.function == "(idle)");
            let event = gathered.event(if is_idle { "idle" } else { "cpu" }, ValueUnit::Nanoseconds);
            let sums = GatheredSums {
                samples: 1,
                value: whole(lasts * NS_IN_US),
                time_ns: Some(whole(now_us * NS_IN_US)),
            };
            gathered.add(StackOwner { event, thread }, path, sums)?;
        }
        Ok(())
    }

    fn path(&self, leaf: u64, file: usize, gathered: &mut Gathered) -> Result<Vec<usize>, ImportError> {
        let mut path = Vec::new();
        let mut at = Some(leaf);
        while let Some(node) = at.and_then(|id| self.nodes.get(&id)) {
            if node.line.function != "(root)" {
                let lines = vec![node.line.clone()];
                path.push(gathered.frame(StackFrame { file, address: None, lines }));
            }
            if path.len() > self.nodes.len() {
                return Err(ImportError::key(ImportFormat::Chrome, "a node that is its own caller", "nodes"));
            }
            at = node.parent;
        }
        Ok(path)
    }
}
