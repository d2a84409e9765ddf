//! speedscope's own JSON: one profile for each thread and kind of value.
//
// Source: speedscope src/lib/file-format-spec.ts.

use super::samples::{SampleSet, SampleTrack, ValueUnit, ValuedStack};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes all of `samples`; `command` is what was recorded. Samples with times are in their order, those of the wall
/// clock in the order of their paths: the views Left Heavy and Sandwich are for them.
///
/// # Errors
/// If writing fails.
pub fn write(mut out: impl Write, samples: &SampleSet<'_>, command: &str) -> io::Result<()> {
    let frames = Frames::of(samples);
    let tracks = samples.tracks();
    let profiles: Vec<Value> = tracks.iter().map(|track| profile_of(samples, &frames, track)).collect();
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

fn profile_of(samples: &SampleSet<'_>, frames: &Frames, track: &SampleTrack<'_>) -> Value {
    let kind = &samples.kinds[track.kind];
    let unit = if kind.unit == ValueUnit::Nanoseconds { "nanoseconds" } else { "none" };
    let weights: Vec<u64> = track.stacks.iter().map(|stack| stack.value).collect();
    let rows: Vec<Vec<usize>> = track.stacks.iter().map(|stack| frames.root_first(samples, stack)).collect();
    let tid = samples.profile.task(track.task).tid;
    let name = format!("{} {tid} ({})", samples.comm(track.task), kind.name);
    json!({
        "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": track.total,
        "samples": rows, "weights": weights,
    })
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
