//! The Firefox Profiler's processed JSON, compressed with gzip.
//
// Source: github.com/firefox-devtools/profiler src/types/profile.ts and docs-developer/CHANGELOG-formats.md (version 48
// of the processed format; the profiler upgrades older ones when it opens them).

use super::samples::{SampleSet, SampleTrack, ValueKind, ValueUnit, ValuedStack};
use flate2::Compression;
use flate2::write::GzEncoder;
use profile::table::DsoKind;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Version of the processed format that is written.
const PROCESSED_VERSION: u32 = 48;
/// Version of the raw format, which every file names too.
const RAW_VERSION: u32 = 29;

/// Kinds of code, with the viewer's colours.
const CATEGORIES: [(&str, &str); 7] = [
    ("Other", "grey"),
    ("User", "yellow"),
    ("Kernel", "orange"),
    ("JIT", "green"),
    ("Waiting", "blue"),
    ("Idle", "transparent"),
    ("Python", "purple"),
];
const OTHER: usize = 0;
const USER: usize = 1;
const KERNEL: usize = 2;
const JIT: usize = 3;
const WAITING: usize = 4;
const IDLE: usize = 5;
const PYTHON: usize = 6;

/// Writes all of `samples`; `command` is what was recorded. Each thread has a track for each kind of value; times of
/// the wall clock are sums, since it isn't kept as single moments.
///
/// # Errors
/// If writing fails.
pub fn write(out: impl Write, samples: &SampleSet<'_>, command: &str) -> io::Result<()> {
    let start_ns = samples.profile.time_span_ns.map_or(0, |(first, _)| first);
    let tracks = samples.tracks();
    let threads: Vec<Value> = tracks.iter().map(|track| Thread::new(samples).json(track, start_ns)).collect();
    let categories =
        CATEGORIES.map(|(name, color)| json!({ "name": name, "color": color, "subcategories": ["Other"] }));
    let file = json!({
        "meta": {
            "interval": 1, "startTime": 0, "processType": 0, "stackwalk": 1, "debug": false,
            "product": command, "importedFrom": "tally", "abi": std::env::consts::ARCH, "oscpu": "Linux",
            "version": RAW_VERSION, "preprocessedProfileVersion": PROCESSED_VERSION, "symbolicated": true,
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
            "categories": categories, "markerSchema": [], "physicalCPUs": 0, "logicalCPUs": 0,
        },
        "libs": [], "pages": [], "threads": threads,
    });
    let mut out = GzEncoder::new(out, Compression::default());
    serde_json::to_writer(&mut out, &file)?;
    out.finish()?.flush()
}

/// The tables of one track while they grow.
struct Thread<'s, 'p> {
    samples: &'s SampleSet<'p>,
    texts: Vec<String>,
    text_ids: FxHashMap<String, usize>,
    /// Function of `samples` → function of this track.
    function_ids: FxHashMap<usize, usize>,
    functions: Vec<(usize, Option<usize>)>,
    frame_ids: FxHashMap<(usize, u32, usize, u32), usize>,
    frames: Vec<(usize, u32, usize, u32)>,
    stack_ids: FxHashMap<(Option<usize>, usize), usize>,
    stacks: Vec<(Option<usize>, usize)>,
}

impl<'s, 'p> Thread<'s, 'p> {
    fn new(samples: &'s SampleSet<'p>) -> Self {
        Self {
            samples,
            texts: Vec::new(),
            text_ids: FxHashMap::default(),
            function_ids: FxHashMap::default(),
            functions: Vec::new(),
            frame_ids: FxHashMap::default(),
            frames: Vec::new(),
            stack_ids: FxHashMap::default(),
            stacks: Vec::new(),
        }
    }

    fn json(mut self, track: &SampleTrack<'_>, start_ns: u64) -> Value {
        let kind = &self.samples.kinds[track.kind];
        let ids: Vec<Option<usize>> = track.stacks.iter().map(|stack| self.stack(stack)).collect();
        let (times, weights) = times_and_weights(kind, &track.stacks, start_ns);
        let info = self.samples.profile.task(track.task);
        let comm = self.samples.comm(track.task);
        let weight_type = if kind.unit == ValueUnit::Nanoseconds { "tracing-ms" } else { "samples" };
        let is_main = info.pid == info.tid;
        json!({
            "name": format!("{comm} ({})", kind.name), "processName": comm, "processType": "default",
            "isMainThread": is_main, "pid": info.pid.to_string(), "tid": info.tid,
            "registerTime": 0, "unregisterTime": null, "processStartupTime": 0, "processShutdownTime": null,
            "pausedRanges": [],
            "samples": {
                "length": ids.len(), "stack": ids, "time": times, "weight": weights, "weightType": weight_type,
                "threadCPUDelta": cpu_deltas(kind, &track.stacks),
            },
            "markers": { "length": 0, "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [] },
            "stackTable": self.stack_table(), "frameTable": self.frame_table(), "funcTable": self.function_table(),
            "resourceTable": { "length": 0, "lib": [], "name": [], "host": [], "type": [] },
            "nativeSymbols": { "length": 0, "libIndex": [], "address": [], "name": [], "functionSize": [] },
            "stringArray": self.texts,
        })
    }

    /// The stack's number in the table: each entry has its caller's.
    fn stack(&mut self, stack: &ValuedStack) -> Option<usize> {
        let samples = self.samples;
        let path: Vec<usize> = samples.path(stack).collect();
        let mut prefix = None;
        for &at in path.iter().rev() {
            let location = &samples.locations[at];
            let category = self.category(at, stack);
            for (depth, line) in location.lines.iter().rev().enumerate() {
                let function = self.function(line.function);
                let frame = (function, line.line, category, u32::try_from(depth).unwrap_or(u32::MAX));
                let next = self.frames.len();
                let frame = *self.frame_ids.entry(frame).or_insert_with(|| {
                    self.frames.push(frame);
                    next
                });
                let next = self.stacks.len();
                prefix = Some(*self.stack_ids.entry((prefix, frame)).or_insert_with(|| {
                    self.stacks.push((prefix, frame));
                    next
                }));
            }
        }
        prefix
    }

    fn category(&self, location: usize, stack: &ValuedStack) -> usize {
        let Some(frame) = self.samples.locations[location].frame else {
            return if self.samples.state(stack) == Some("idle") { IDLE } else { WAITING };
        };
        let profile = self.samples.profile;
        match profile.dsos.of(profile.frames.of(frame).dso).kind {
            DsoKind::Kernel | DsoKind::KernelModule | DsoKind::Bpf | DsoKind::GuestKernel => KERNEL,
            DsoKind::PerfMap { .. } => JIT,
            DsoKind::Python => PYTHON,
            DsoKind::File | DsoKind::Vdso => USER,
            DsoKind::GuestUser | DsoKind::Unknown => OTHER,
        }
    }

    fn text(&mut self, text: &str) -> usize {
        if let Some(&id) = self.text_ids.get(text) {
            return id;
        }
        self.texts.push(text.to_owned());
        self.text_ids.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }

    fn function(&mut self, id: usize) -> usize {
        if let Some(&known) = self.function_ids.get(&id) {
            return known;
        }
        let function = &self.samples.functions[id];
        let name = self.text(&function.name);
        let file = (!function.file.is_empty()).then(|| self.text(&function.file));
        self.functions.push((name, file));
        self.function_ids.insert(id, self.functions.len() - 1);
        self.functions.len() - 1
    }

    fn stack_table(&self) -> Value {
        let category = |frame: usize| self.frames[frame].2;
        json!({
            "length": self.stacks.len(),
            "prefix": column(&self.stacks, |(prefix, _)| *prefix),
            "frame": column(&self.stacks, |(_, frame)| *frame),
            "category": column(&self.stacks, |(_, frame)| category(*frame)),
            "subcategory": column(&self.stacks, |_| 0),
        })
    }

    fn frame_table(&self) -> Value {
        let line = |line: u32| (line > 0).then_some(line);
        json!({
            "length": self.frames.len(),
            "address": column(&self.frames, |_| -1),
            "inlineDepth": column(&self.frames, |frame| frame.3),
            "category": column(&self.frames, |frame| frame.2),
            "subcategory": column(&self.frames, |_| 0),
            "func": column(&self.frames, |frame| frame.0),
            "nativeSymbol": column(&self.frames, |_| Value::Null),
            "innerWindowID": column(&self.frames, |_| 0),
            "implementation": column(&self.frames, |_| Value::Null),
            "line": column(&self.frames, |frame| line(frame.1)),
            "column": column(&self.frames, |_| Value::Null),
        })
    }

    fn function_table(&self) -> Value {
        json!({
            "length": self.functions.len(),
            "name": column(&self.functions, |(name, _)| *name),
            "fileName": column(&self.functions, |(_, file)| *file),
            "isJS": column(&self.functions, |_| false),
            "relevantForJS": column(&self.functions, |_| false),
            "resource": column(&self.functions, |_| -1),
            "lineNumber": column(&self.functions, |_| Value::Null),
            "columnNumber": column(&self.functions, |_| Value::Null),
        })
    }
}

fn column<R, C>(rows: &[R], cell: impl Fn(&R) -> C) -> Vec<C> {
    rows.iter().map(cell).collect()
}

/// Moments in ms, and weights: ms for times, else the number itself.
fn times_and_weights(kind: &ValueKind, stacks: &[&ValuedStack], start_ns: u64) -> (Vec<f64>, Vec<Value>) {
    const NS_IN_MS: f64 = 1e6;
    let mut sum_ns = 0u64;
    let mut times = Vec::with_capacity(stacks.len());
    for stack in stacks {
        let moment_ns = stack.time_ns.map_or(sum_ns, |time_ns| time_ns.saturating_sub(start_ns));
        times.push(moment_ns as f64 / NS_IN_MS);
        sum_ns = sum_ns.saturating_add(if kind.unit == ValueUnit::Nanoseconds { stack.value } else { 1 });
    }
    let weight = |stack: &&ValuedStack| match kind.unit {
        ValueUnit::Nanoseconds => json!(stack.value as f64 / NS_IN_MS),
        ValueUnit::Count => json!(stack.value),
    };
    (times, stacks.iter().map(weight).collect())
}

/// CPU time of each stack, ns; null where the kind isn't CPU time. The viewer draws how busy a thread was by them.
fn cpu_deltas(kind: &ValueKind, stacks: &[&ValuedStack]) -> Vec<Option<u64>> {
    let is_cpu = kind.unit == ValueUnit::Nanoseconds && !kind.is_wall && kind.name == "cpu";
    stacks.iter().map(|stack| is_cpu.then_some(stack.value)).collect()
}
