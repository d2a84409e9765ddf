//! speedscope's own JSON: one profile for each thread and kind of value.
//
// Source: speedscope src/lib/file-format-spec.ts.

use super::samples::{SampleSet, ValueUnit, ValuedStack};
use profile::profile::TaskId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes all of `samples`; `command` is what was recorded. SampleSet with times are in their order, those of the wall
/// clock in the order of their paths: the views Left Heavy and Sandwich are for them.
///
/// # Errors
/// If writing fails.
pub fn write(mut out: impl Write, samples: &SampleSet<'_>, command: &str) -> io::Result<()> {
    let frames = Frames::of(samples);
    let mut groups: BTreeMap<(usize, TaskId), Vec<&ValuedStack>> = BTreeMap::new();
    for stack in &samples.stacks {
        groups.entry((stack.kind, stack.task)).or_default().push(stack);
    }
    let mut profiles: Vec<(usize, u64, Value)> = Vec::new();
    for ((kind, task), mut stacks) in groups {
        stacks.sort_by_key(|stack| stack.time_ns);
        let (total, profile) = profile_of(samples, &frames, task, &stacks);
        profiles.push((kind, total, profile));
    }
    profiles.sort_by_key(|(kind, total, _)| (*kind, std::cmp::Reverse(*total)));
    let profiles: Vec<Value> = profiles.into_iter().map(|(.., profile)| profile).collect();
    let file = json!({
        "$schema": SCHEMA,
        "exporter": concat!("tally ", env!("CARGO_PKG_VERSION")),
        "name": command,
        "activeProfileIndex": 0,
        "shared": { "frames": frames.list },
        "profiles": profiles,
    });
    serde_json::to_writer(&mut out, &file)?;
    out.flush()
}

/// The sum of the stacks, and the profile.
fn profile_of(
    samples: &SampleSet<'_>,
    frames: &Frames,
    task: TaskId,
    stacks: &[&ValuedStack],
) -> (u64, Value) {
    let kind = &samples.kinds[stacks[0].kind];
    let unit = if kind.unit == ValueUnit::Nanoseconds { "nanoseconds" } else { "none" };
    let weights: Vec<u64> = stacks.iter().map(|stack| stack.value).collect();
    let total = weights.iter().fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let rows: Vec<Vec<usize>> = stacks.iter().map(|stack| frames.root_first(samples, stack)).collect();
    let name = format!("{} {} ({})", samples.comm(task), samples.profile.task(task).tid, kind.name);
    let profile = json!({
        "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": total,
        "samples": rows, "weights": weights,
    });
    (total, profile)
}

/// The frames of all profiles.
struct Frames {
    list: Vec<Value>,
    /// By location: its frames, innermost first.
    of_location: Vec<Vec<usize>>,
}

impl Frames {
    fn of(samples: &SampleSet<'_>) -> Self {
        let mut ids: BTreeMap<usize, usize> = BTreeMap::new();
        let mut list = Vec::new();
        let mut of_location = Vec::new();
        for location in &samples.locations {
            let frames = location.lines.iter().map(|line| {
                *ids.entry(line.function).or_insert_with(|| {
                    let function = &samples.functions[line.function];
                    let mut frame = json!({ "name": function.name });
                    if !function.file.is_empty() {
                        frame["file"] = json!(function.file);
                    }
                    list.push(frame);
                    list.len() - 1
                })
            });
            of_location.push(frames.collect());
        }
        Self { list, of_location }
    }

    fn root_first(&self, samples: &SampleSet<'_>, stack: &ValuedStack) -> Vec<usize> {
        let mut row: Vec<usize> =
            samples.path(stack).flat_map(|location| self.of_location[location].iter().copied()).collect();
        row.reverse();
        row
    }
}
