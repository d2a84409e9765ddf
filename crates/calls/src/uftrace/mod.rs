//! uftrace's own data folders, opened: so that the same run can be looked at with both.

mod specs;

use crate::model::{FunctionId, RawStep, Step, UftraceSteps, UftraceValue, parse_uftrace};
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use crate::recording::folder_file;
use crate::recording::function::Function;
use crate::recording::functions::Functions;
use crate::selection::view_spec::ViewSpec;
use crate::view::View;
use crate::view::thread_track::DecodedThread;
use specs::{DebugSpecs, NamedSymbol, Specs, ValueSpecs};

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
    described: DebugSpecs,
}

/// A function of it.
struct Symbol {
    offset: u64,
    name: String,
    shown: String,
    /// A library's, called through a stub.
    imported: bool,
}

/// Content of a folder besides the calls shown.
#[derive(Debug, Default)]
pub struct UftraceNotes {
    /// The command that was recorded.
    pub command: String,
    /// Records passed over: events, ends of earlier calls.
    pub skipped: u64,
    /// Entries and exits with values of an unknown form.
    pub values_passed_over: u64,
    /// Bytes of uftrace's events (context switches, kernel functions).
    pub events_bytes: u64,
    /// Bytes at the ends of files that are no records.
    pub unread_bytes: u64,
}

/// Opens the folder at `dir`.
///
/// # Errors
/// If a file of it can't be read or holds no thread.
pub fn open<'a>(dir: &Path, spec: &'a ViewSpec) -> crate::Result<(View<'a>, UftraceNotes)> {
    let task = read(&dir.join("task.txt"))?;
    let info = text_of(&dir.join("info"));
    let mut reader = Reader {
        objects: objects(dir, &task)?,
        specs: Specs::parse(&info),
        functions: Functions::new(),
        known: FxHashMap::default(),
    };
    let mut notes =
        UftraceNotes { command: command(&info), events_bytes: events_bytes(dir), ..UftraceNotes::default() };
    let mut tracks = Vec::new();
    for (tid, pid) in threads(&task) {
        let Ok(bytes) = folder_file::map(&dir.join(format!("{tid}.dat"))) else { continue };
        let (parsed, steps) = reader.read(&bytes);
        notes.skipped += parsed.skipped;
        notes.unread_bytes += parsed.unread_bytes as u64;
        notes.values_passed_over += parsed.values_passed_over;
        tracks.push(DecodedThread { tid, pid: Some(pid), name: None, steps, values: parsed.values });
    }
    Ok((View::of_decoded(tracks, reader.functions, spec)?, notes))
}

/// Known facts about a folder's functions.
struct Reader {
    objects: Vec<Object>,
    specs: Specs,
    functions: Functions,
    known: FxHashMap<u64, Known>,
}

/// A function by its address.
#[derive(Clone)]
struct Known {
    number: FunctionId,
    arguments: Rc<[UftraceValue]>,
    result: Rc<[UftraceValue]>,
}

impl Reader {
    /// A thread's file: what was read, and its steps with functions numbered.
    fn read(&mut self, bytes: &[u8]) -> (UftraceSteps, Vec<(u64, Step)>) {
        let mut parsed = parse_uftrace(bytes, &mut |address, is_result| {
            let known = self.known(address);
            if is_result { known.result } else { known.arguments }
        });
        let mut number = |address: u64| self.known(address).number;
        let numbered = |(ns, step): (u64, RawStep)| Some((ns, step.numbered(&mut number)?));
        let steps = std::mem::take(&mut parsed.steps).into_iter().filter_map(numbered).collect();
        (parsed, steps)
    }

    fn known(&mut self, address: u64) -> Known {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let (function, values) = self.find(address);
        let number = self.functions.number(function);
        self.functions.show_values(number, values.formats);
        let known = Known { number, arguments: values.arguments.into(), result: values.result.into() };
        self.known.insert(address, known.clone());
        known
    }

    /// The function at an address, and what was recorded of it besides times.
    fn find(&self, address: u64) -> (Function, ValueSpecs) {
        let is_there = |object: &&Object| object.start <= address && address < object.end;
        let found = self.objects.iter().find(is_there).and_then(|object| {
            let at = object.symbols.partition_point(|symbol| symbol.offset <= address - object.start);
            Some((object, object.symbols.get(at.checked_sub(1)?)?))
        });
        let Some((object, symbol)) = found else {
            return (Function::new(format!("{address:#x}"), String::new()), ValueSpecs::default());
        };
        let named = NamedSymbol { symbol: &symbol.name, shown: &symbol.shown };
        let values = self.specs.of(named, symbol.offset, &object.described);
        let (name, dso) = (symbol.shown.clone(), object.name.clone());
        (Function { name, dso, imported: symbol.imported }, values)
    }
}

/// Bytes of what uftrace recorded besides the calls of threads: of each CPU.
fn events_bytes(dir: &Path) -> u64 {
    let is_event = |name: &str| name.starts_with("perf-cpu") || name.starts_with("kernel-cpu");
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = files.filter(|file| is_event(&file.file_name().to_string_lossy()));
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn read(path: &Path) -> crate::Result<String> {
    Ok(String::from_utf8_lossy(&folder_file::read_named(path)?).into_owned())
}

/// Content of a file that may be missing.
fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&folder_file::read(path).unwrap_or_default()).into_owned()
}

/// The command recorded, as far as the folder shows.
fn command(info: &str) -> String {
    let name = info.lines().find_map(|line| line.split_once("exename:")).map(|(_, name)| name);
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

/// Mappings of all sessions.
fn objects(dir: &Path, task: &str) -> crate::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for sid in task.lines().filter(|line| line.starts_with("SESS ")).filter_map(|line| value(line, "sid")) {
        let text = read(&dir.join(format!("sid-{sid}.map")))?;
        for line in text.lines() {
            let Some(map) = dso::parse_map_line(line.as_bytes()) else { continue };
            let name = String::from_utf8_lossy(&map.name);
            let path = name.split(" build-id:").next().unwrap_or_default();
            let base = path.rsplit('/').next().unwrap_or_default().to_owned();
            let symbols = symbols(&dir.join(format!("{base}.sym")));
            let described = text_of(&dir.join(format!("{base}.dbg")));
            let described = DebugSpecs::parse(&described);
            objects.push(Object { start: map.start, end: map.end, name: base, symbols, described });
        }
    }
    Ok(objects)
}

/// `OFFSET TYPE NAME` lines, sorted by offset.
fn symbols(path: &Path) -> Vec<Symbol> {
    let text = text_of(path);
    let symbol = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let (kind, name) = (words.next()?, words.next()?);
        let shown = dso::demangle(name).into_owned();
        Some(Symbol { offset, name: name.to_owned(), shown, imported: kind == "P" })
    };
    let mut symbols: Vec<Symbol> = text.lines().filter_map(symbol).collect();
    symbols.rank_by(|a, b| (a.offset, &a.name).cmp(&(b.offset, &b.name)));
    symbols
}
