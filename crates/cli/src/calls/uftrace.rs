//! uftrace's own data folders, opened: so that the same run can be looked at with both.

use anyhow::Context;
use profile::calls::{FunctionId, RawStep, parse_uftrace};
use rustc_hash::FxHashMap;
use std::fs;
use std::path::Path;

use super::names::{Function, Functions};
use super::open::Notes;
use super::track::Decoded;
use super::view::View;
use super::view_args::ViewArgs;
use crate::text::number;

/// Whether `path` is such a folder.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    path.join("task.txt").is_file() && path.join("info").is_file()
}

/// A mapped file and its symbols by offset.
struct Object {
    start: u64,
    end: u64,
    name: String,
    symbols: Vec<Symbol>,
}

/// A function of it.
struct Symbol {
    offset: u64,
    name: String,
    /// A library's, called through a stub.
    imported: bool,
}

/// Opens the folder of `args`.
///
/// # Errors
/// If a file of it can't be read or holds no thread.
pub fn open(args: &ViewArgs) -> anyhow::Result<(View<'_>, Notes)> {
    let dir = &args.input;
    let task = read(&dir.join("task.txt"))?;
    let objects = objects(dir, &task)?;
    let mut functions = Functions::new();
    let mut notes = Notes { title: command(dir), lines: Vec::new() };
    let mut tracks = Vec::new();
    let (mut skipped, mut unread, mut with_values) = (0, 0, 0);
    for (tid, pid) in threads(&task) {
        let path = dir.join(format!("{tid}.dat"));
        let Ok(bytes) = fs::read(&path) else { continue };
        let parsed = parse_uftrace(&bytes);
        skipped += parsed.skipped;
        unread += parsed.unread_bytes;
        with_values += parsed.with_values;
        let mut numbers: FxHashMap<u64, FunctionId> = FxHashMap::default();
        let mut number =
            |at: u64| *numbers.entry(at).or_insert_with(|| functions.number(function(&objects, at)));
        let numbered = |(ns, step): (u64, RawStep)| Some((ns, step.numbered(&mut number)?));
        tracks.push(Decoded {
            tid,
            pid: Some(pid),
            name: None,
            steps: parsed.steps.into_iter().filter_map(numbered).collect(),
        });
    }
    for (count, what) in [
        (skipped, "records passed over (events, ends of earlier calls)"),
        (with_values, "entries and exits with arguments or results, which are not shown"),
        (
            events_bytes(dir),
            "bytes of uftrace's events (context switches, kernel functions), which are not shown",
        ),
        (unread as u64, "bytes not read"),
    ] {
        if count > 0 {
            notes.lines.push(format!("{} {what}", number::grouped(count)));
        }
    }
    Ok((View::of_decoded(tracks, functions, args)?, notes))
}

/// Bytes of what uftrace recorded beside the calls of threads: of each CPU.
fn events_bytes(dir: &Path) -> u64 {
    let is_event = |name: &str| name.starts_with("perf-cpu") || name.starts_with("kernel-cpu");
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = files.filter(|file| is_event(&file.file_name().to_string_lossy()));
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The command recorded, as far as the folder tells.
fn command(dir: &Path) -> String {
    let info = fs::read(dir.join("info")).unwrap_or_default();
    let text = String::from_utf8_lossy(&info);
    let name = text.lines().find_map(|line| line.split_once("exename:")).map(|(_, name)| name);
    name.unwrap_or_default().to_owned()
}

/// `key=value` of a line of task.txt.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Thread and process ids, forked processes too.
fn threads(task: &str) -> Vec<(u32, u32)> {
    let of = |line: &str| -> Option<(u32, u32)> {
        let tid = value(line, "tid").or_else(|| value(line, "pid"))?.parse().ok()?;
        let is_thread = line.starts_with("TASK ");
        let pid = if is_thread { value(line, "pid")?.parse().ok()? } else { tid };
        (is_thread || line.starts_with("FORK ")).then_some((tid, pid))
    };
    let mut threads: Vec<(u32, u32)> = task.lines().filter_map(of).collect();
    threads.sort_unstable();
    threads.dedup_by_key(|(tid, _)| *tid);
    threads
}

/// What was mapped, of all sessions.
fn objects(dir: &Path, task: &str) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for sid in task.lines().filter(|line| line.starts_with("SESS ")).filter_map(|line| value(line, "sid")) {
        let text = read(&dir.join(format!("sid-{sid}.map")))?;
        for line in text.lines() {
            let Some(map) = record::proc::parse_map_line(line.as_bytes()) else { continue };
            let name = String::from_utf8_lossy(&map.name);
            let path = name.split(" build-id:").next().unwrap_or_default();
            let base = path.rsplit('/').next().unwrap_or_default().to_owned();
            let symbols = symbols(&dir.join(format!("{base}.sym")));
            objects.push(Object { start: map.start, end: map.end, name: base, symbols });
        }
    }
    Ok(objects)
}

/// `OFFSET TYPE NAME` lines, sorted by offset.
fn symbols(path: &Path) -> Vec<Symbol> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let symbol = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let (kind, name) = (words.next()?, words.next()?);
        Some(Symbol { offset, name: dso::demangle(name).into_owned(), imported: kind == "P" })
    };
    let mut symbols: Vec<Symbol> = text.lines().filter_map(symbol).collect();
    symbols.sort_by(|a, b| (a.offset, &a.name).cmp(&(b.offset, &b.name)));
    symbols
}

fn function(objects: &[Object], address: u64) -> Function {
    let unknown = || Function::new(format!("{address:#x}"), String::new());
    let Some(object) = objects.iter().find(|object| object.start <= address && address < object.end) else {
        return unknown();
    };
    let offset = address - object.start;
    let at = object.symbols.partition_point(|symbol| symbol.offset <= offset);
    let Some(symbol) = at.checked_sub(1).and_then(|at| object.symbols.get(at)) else { return unknown() };
    Function { name: symbol.name.clone(), dso: object.name.clone(), imported: symbol.imported }
}
