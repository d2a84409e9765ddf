//! The Firefox Profiler's processed JSON: what the profiler saves, what samply writes, and our own export.
//
// Source: github.com/firefox-devtools/profiler src/types/profile.ts and docs-developer/CHANGELOG-formats.md. Tables are
// in each thread, or in `shared` (version 56 and later).

use super::error::{ImportError, ImportFormat};
use super::gathered::{Gathered, GatheredSums, StackOwner, build_id_of, kind_of_path};
use super::json::{JsonPart, whole};
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, CodeKind, StackFrame, StackLine, StackThread};
use serde_json::Value;

const NS_IN_MS: f64 = 1e6;

/// Reads a parsed file.
///
/// # Errors
/// If a part is missing or refers to nothing, or it is a raw profile of the Gecko engine.
pub fn read(file: &Value) -> Result<Gathered, ImportError> {
    let top = JsonPart::whole(file, ImportFormat::Firefox);
    let meta = top.part("meta")?;
    if meta.find("preprocessedProfileVersion").is_none() {
        return Err(ImportError::Unsupported(
            "a raw profile of Firefox: open it in profiler.firefox.com and save it there",
        ));
    }
    let mut gathered = Gathered::of_command(meta.text("product"));
    let is_ours = meta.text("importedFrom") == "tally";
    let libs = top.find("libs");
    let shared = top.find("shared");
    for thread in top.part("threads")?.parts()? {
        let tables = Tables { thread: &thread, shared: shared.as_ref(), libs: libs.as_ref() };
        add_thread(&tables, &meta, is_ours, &mut gathered)?;
    }
    Ok(gathered)
}

/// Where a thread's tables are.
struct Tables<'t, 'a> {
    thread: &'t JsonPart<'a>,
    shared: Option<&'t JsonPart<'a>>,
    libs: Option<&'t JsonPart<'a>>,
}

impl<'a> Tables<'_, 'a> {
    fn table(&self, name: &str) -> Result<JsonPart<'a>, ImportError> {
        match (self.thread.find(name), self.shared.and_then(|shared| shared.find(name))) {
            (Some(own), _) => Ok(own),
            (None, Some(shared)) => Ok(shared),
            (None, None) => self.thread.part(name),
        }
    }

    fn texts(&self) -> Result<Vec<&'a str>, ImportError> {
        Ok(self.table("stringArray")?.list()?.iter().map(|text| text.as_str().unwrap_or_default()).collect())
    }

    /// The file of each resource.
    fn resources(&self, texts: &[&str], gathered: &mut Gathered) -> Result<Vec<usize>, ImportError> {
        let Ok(table) = self.table("resourceTable") else { return Ok(Vec::new()) };
        let names = table.indices("name")?;
        let libs = table.indices("lib").unwrap_or_default();
        let files = names.iter().enumerate().map(|(at, name)| {
            let lib = libs.get(at).copied().flatten().and_then(|lib| self.libs?.value.get(lib));
            let path = lib.and_then(|lib| lib.get("path")).and_then(Value::as_str);
            let path = path.or_else(|| texts.get((*name)?).copied()).unwrap_or_default();
            let kind = match kind_of_path(path) {
                CodeKind::File if lib.is_some() => CodeKind::Image,
                kind => kind,
            };
            // The build id, in profiles of ELF files.
            let id = lib.and_then(|lib| lib.get("codeId")).and_then(Value::as_str).unwrap_or_default();
            gathered.file(CodeFile { kind, path: path.to_owned(), build_id: build_id_of(id) })
        });
        Ok(files.collect())
    }

    /// The place of each frame of the table.
    fn frames(&self, gathered: &mut Gathered) -> Result<Vec<usize>, ImportError> {
        let texts = self.texts()?;
        let resources = self.resources(&texts, gathered)?;
        let functions = self.table("funcTable")?;
        let (names, of_resource) =
            (functions.indices("name")?, functions.indices("resource").unwrap_or_default());
        let sources = functions.indices("fileName").unwrap_or_default();
        let table = self.table("frameTable")?;
        let of_function = table.indices("func")?;
        let lines = table.indices("line").unwrap_or_default();
        let depths = table.indices("inlineDepth").unwrap_or_default();
        let addresses = table.indices("address").unwrap_or_default();
        let unknown = gathered.file(CodeFile::default());
        let text =
            |id: Option<usize>| id.and_then(|id| texts.get(id)).copied().unwrap_or_default().to_owned();
        let at = |list: &[Option<usize>], at: usize| list.get(at).copied().flatten();
        let mut frames = Vec::new();
        for (index, function) in of_function.iter().enumerate() {
            let Some(function) = function.filter(|function| *function < names.len()) else {
                return Err(table.part("func")?.error_at(index, "a function that is not in the table"));
            };
            let line = StackLine {
                function: text(names[function]),
                source: text(at(&sources, function)),
                line: at(&lines, index).and_then(|line| u32::try_from(line).ok()).unwrap_or(0),
                is_inlined: at(&depths, index).unwrap_or(0) > 0,
            };
            let file =
                at(&of_resource, function).and_then(|at| resources.get(at).copied()).unwrap_or(unknown);
            // samply leaves names to the viewer: a function is its first address until then.
            let address = at(&addresses, index).filter(|_| is_number(&line.function));
            let frame = match address.and_then(|address| u64::try_from(address).ok()) {
                Some(address) => StackFrame { file, address: Some(address), lines: Vec::new() },
                None => StackFrame { file, address: None, lines: vec![line] },
            };
            frames.push(gathered.frame(frame));
        }
        Ok(frames)
    }

    /// Each stack of the table, leaf first. A caller is always before its callees.
    fn stacks(&self, frames: &[usize]) -> Result<Stacks, ImportError> {
        let table = self.table("stackTable")?;
        let (prefixes, of_frame) = (table.indices("prefix")?, table.indices("frame")?);
        if prefixes.len() != of_frame.len() {
            return Err(table.error("not one prefix for each frame"));
        }
        let mut stacks = Stacks { nodes: Vec::new() };
        for (at, (prefix, frame)) in prefixes.iter().zip(&of_frame).enumerate() {
            let Some(&frame) = frame.and_then(|frame| frames.get(frame)) else {
                return Err(table.part("frame")?.error_at(at, "a frame that is not in the table"));
            };
            if prefix.is_some_and(|prefix| prefix >= at) {
                return Err(table.part("prefix")?.error_at(at, "a caller that is not before its callee"));
            }
            stacks.nodes.push((*prefix, frame));
        }
        Ok(stacks)
    }
}

/// `0x1a2b`.
fn is_number(name: &str) -> bool {
    name.strip_prefix("0x").is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok())
}

/// Stacks as a tree: the caller's stack, and the frame.
struct Stacks {
    nodes: Vec<(Option<usize>, usize)>,
}

impl Stacks {
    fn path(&self, leaf: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = Some(leaf);
        while let Some((prefix, frame)) = at.and_then(|at| self.nodes.get(at)) {
            path.push(*frame);
            at = *prefix;
        }
        path
    }
}

fn add_thread(
    tables: &Tables<'_, '_>,
    meta: &JsonPart<'_>,
    is_ours: bool,
    gathered: &mut Gathered,
) -> Result<(), ImportError> {
    let samples = tables.thread.part("samples")?;
    let of_stack = samples.indices("stack")?;
    if of_stack.is_empty() {
        return Ok(());
    }
    let frames = tables.frames(gathered)?;
    let stacks = tables.stacks(&frames)?;
    let (thread, kind) = names_of(tables.thread, is_ours);
    let is_time = samples.text("weightType") == "tracing-ms";
    let unit = if is_time { ValueUnit::Nanoseconds } else { ValueUnit::Count };
    let event = match (kind, samples.text("weightType")) {
        (Some(kind), _) => kind,
        (None, "tracing-ms") => "time",
        (None, "bytes") => "bytes",
        (None, _) => "samples",
    };
    let owner = StackOwner { event: gathered.event(event, unit), thread: gathered.thread(thread) };
    let weights = samples.find("weight").map(|_| samples.numbers("weight")).transpose()?;
    let times = times_of(&samples)?;
    // In files of ours they are the weights once more.
    let cpu = if is_ours { Vec::new() } else { cpu_deltas(&samples, meta)? };
    for (at, stack) in of_stack.iter().enumerate() {
        let path = match stack {
            None => Vec::new(),
            Some(stack) if *stack < stacks.nodes.len() => stacks.path(*stack),
            Some(_) => return Err(samples.part("stack")?.error_at(at, "a stack that is not in the table")),
        };
        let weight = weights.as_ref().map_or(1.0, |list| list.get(at).copied().unwrap_or(0.0));
        let value = whole(if is_time { weight * NS_IN_MS } else { weight });
        let samples = if is_time || event == "bytes" || is_ours { 1 } else { value };
        let time_ns = times.get(at).map(|ms| whole(ms * NS_IN_MS));
        gathered.add(owner, &path, GatheredSums { samples, value, time_ns })?;
        if let Some(&value) = cpu.get(at).filter(|value| **value > 0) {
            let owner = StackOwner { event: gathered.event("cpu", ValueUnit::Nanoseconds), ..owner };
            gathered.add(owner, &path, GatheredSums { samples: 1, value, time_ns })?;
        }
    }
    Ok(())
}

/// Times in ms: each, or the distance from the one before.
fn times_of(samples: &JsonPart<'_>) -> Result<Vec<f64>, ImportError> {
    if samples.find("time").is_some() {
        return samples.numbers("time");
    }
    if samples.find("timeDeltas").is_none() {
        return Ok(Vec::new());
    }
    let mut now = 0.0;
    let deltas = samples.numbers("timeDeltas")?;
    Ok(deltas
        .iter()
        .map(|delta| {
            now += delta;
            now
        })
        .collect())
}

/// CPU time in ns that the thread used since the sample before; empty if it was not measured.
fn cpu_deltas(samples: &JsonPart<'_>, meta: &JsonPart<'_>) -> Result<Vec<u64>, ImportError> {
    let Some(list) = samples.find("threadCPUDelta") else { return Ok(Vec::new()) };
    let unit = meta.find("sampleUnits").map_or("", |units| units.text("threadCPUDelta"));
    let factor = match unit {
        "ns" => 1.0,
        "µs" | "us" => 1e3,
        _ => return Ok(Vec::new()),
    };
    Ok(list.list()?.iter().map(|delta| whole(delta.as_f64().unwrap_or(0.0) * factor)).collect())
}

/// The thread, and of our own export (`COMM (EVENT)`) the event.
fn names_of<'a>(thread: &JsonPart<'a>, is_ours: bool) -> (StackThread, Option<&'a str>) {
    let id = |key: &str| {
        let value = thread.value.get(key);
        let text = value.and_then(Value::as_str).and_then(|text| text.split('.').next()?.parse().ok());
        text.or_else(|| value.and_then(Value::as_i64)).and_then(|id| i32::try_from(id).ok()).unwrap_or(0)
    };
    let name = thread.text("name");
    let ours = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (")).filter(|_| is_ours);
    let (comm, event) = ours.map_or((name, None), |(comm, event)| (comm, Some(event)));
    (StackThread { pid: id("pid"), tid: id("tid"), name: comm.to_owned() }, event)
}
