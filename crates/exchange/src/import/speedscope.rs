//! speedscope's own JSON: sampled and evented profiles of several threads.
//
// Source: speedscope src/lib/file-format-spec.ts.

use super::error::{ImportError, ImportFormat};
use super::gathered::{Gathered, GatheredSums, StackOwner};
use super::json::{JsonPart, whole};
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, StackFrame, StackLine, StackThread};
use serde_json::Value;

/// Reads a parsed file.
///
/// # Errors
/// If a part is missing or refers to nothing.
pub fn read(file: &Value) -> Result<Gathered, ImportError> {
    let top = JsonPart::whole(file, ImportFormat::Speedscope);
    let mut gathered = Gathered::of_command(top.text("name"));
    let mut frames = Vec::new();
    for frame in top.part("shared")?.part("frames")?.parts()? {
        let line = frame.value.get("line").and_then(Value::as_u64).unwrap_or(0);
        let line = StackLine {
            function: frame.text("name").to_owned(),
            source: frame.text("file").to_owned(),
            line: u32::try_from(line).unwrap_or(0),
            is_inlined: false,
        };
        let file = gathered.file(CodeFile::default());
        frames.push(gathered.frame(StackFrame { file, address: None, lines: vec![line] }));
    }
    let is_ours = top.text("exporter").starts_with("tally ");
    for profile in top.part("profiles")?.parts()? {
        let unit = Scale::of(profile.text("unit"));
        let (thread, event) = names_of(profile.text("name"), is_ours, &unit);
        let owner = StackOwner { event: gathered.event(event, unit.unit), thread: gathered.thread(thread) };
        match profile.text("type") {
            "sampled" => add_sampled(&profile, &frames, &unit, (&mut gathered, owner))?,
            "evented" => add_evented(&profile, &frames, &unit, (&mut gathered, owner))?,
            _ => return Err(profile.error("a type of profile that is neither sampled nor evented")),
        }
    }
    Ok(gathered)
}

/// A unit of weights.
struct Scale {
    unit: ValueUnit,
    /// How many of ours one is.
    factor: f64,
    name: &'static str,
}

impl Scale {
    fn of(unit: &str) -> Self {
        let (unit, factor, name) = match unit {
            "nanoseconds" => (ValueUnit::Nanoseconds, 1.0, "time"),
            "microseconds" => (ValueUnit::Nanoseconds, 1e3, "time"),
            "milliseconds" => (ValueUnit::Nanoseconds, 1e6, "time"),
            "seconds" => (ValueUnit::Nanoseconds, 1e9, "time"),
            "bytes" => (ValueUnit::Count, 1.0, "bytes"),
            _ => (ValueUnit::Count, 1.0, "samples"),
        };
        Self { unit, factor, name }
    }
}

/// Thread and event of a profile. Our own names are `COMM TID (EVENT)`; others name the thread only.
fn names_of<'n>(name: &'n str, is_ours: bool, scale: &Scale) -> (StackThread, &'n str) {
    let ours = || {
        let (rest, event) = name.strip_suffix(')')?.rsplit_once(" (")?;
        let (comm, tid) = rest.rsplit_once(' ')?;
        Some((StackThread { pid: 0, tid: tid.parse().ok()?, name: comm.to_owned() }, event))
    };
    let found = if is_ours { ours() } else { None };
    found.unwrap_or((StackThread { name: name.to_owned(), ..StackThread::default() }, scale.name))
}

/// Where stacks go: all that was read, and whose they are.
type Target<'g> = (&'g mut Gathered, StackOwner);

const NO_FRAME: &str = "a frame that is not in the table";

/// The frame with this number in the file.
fn listed(frames: &[usize], index: &Value) -> Option<usize> {
    frames.get(usize::try_from(index.as_u64()?).ok()?).copied()
}

fn add_sampled(
    profile: &JsonPart<'_>,
    frames: &[usize],
    scale: &Scale,
    to: Target<'_>,
) -> Result<(), ImportError> {
    let samples = profile.part("samples")?;
    let weights = profile.numbers("weights")?;
    if weights.len() != samples.list()?.len() {
        return Err(profile.error("not one weight for each sample"));
    }
    let is_counted = scale.unit == ValueUnit::Count && scale.name == "samples";
    for (sample, weight) in samples.parts()?.iter().zip(weights) {
        let mut path = Vec::new();
        for (at, frame) in sample.list()?.iter().enumerate() {
            path.push(listed(frames, frame).ok_or_else(|| sample.error_at(at, NO_FRAME))?);
        }
        path.reverse();
        let value = whole(weight * scale.factor);
        let samples = if is_counted { value } else { 1 };
        to.0.add(to.1, &path, GatheredSums { samples, value, time_ns: None })?;
    }
    Ok(())
}

/// Opened and closed frames: the time between two events belongs to the frames open then.
fn add_evented(
    profile: &JsonPart<'_>,
    frames: &[usize],
    scale: &Scale,
    to: Target<'_>,
) -> Result<(), ImportError> {
    let events = profile.part("events")?;
    let mut open: Vec<usize> = Vec::new();
    let mut last = 0;
    for event in events.parts()? {
        let at =
            event.value.get("at").and_then(Value::as_f64).ok_or_else(|| event.error("no number 'at'"))?;
        let at = whole(at * scale.factor);
        let frame = event.value.get("frame").and_then(|frame| listed(frames, frame));
        let frame = frame.ok_or_else(|| event.error(NO_FRAME))?;
        if at < last {
            return Err(event.error("a time before the last one"));
        }
        if !open.is_empty() && at > last {
            let path: Vec<usize> = open.iter().rev().copied().collect();
            to.0.add(to.1, &path, GatheredSums { samples: 1, value: at - last, time_ns: None })?;
        }
        last = at;
        match event.text("type") {
            "O" => open.push(frame),
            "C" if open.pop() == Some(frame) => {}
            _ => return Err(event.error("a frame is closed that was not the last to be opened")),
        }
    }
    Ok(())
}
