//! The text `perf script` prints for call-chain samples, folded.
//!
//! A sample is a header line (`comm pid/tid [cpu] time: period event:`), one line per frame, leaf first
//! (`address symbol+offset (dso)`), and an empty line.
//
// Source: what perf 3.x to 6.x print, and shared samples with their folded results (tests below).

use super::{ImportNotes, Stacks};
use profile::view::flame::{FrameKind, NameId, NodeId, Tree, Unit};
use rustc_hash::FxHashMap;

/// How stacks are named.
#[derive(Clone, Debug, Default)]
pub struct CollapseOpts {
    /// Add the process id to the process name.
    pub pid: bool,
    /// Add process and thread id to the process name.
    pub tid: bool,
    /// Mark kernel frames with `_[k]`.
    pub kernel: bool,
    /// Mark frames of run-time code with `_[j]`.
    pub jit: bool,
    /// Show addresses where symbols are unknown.
    pub addrs: bool,
    /// The event to read; `None` takes that of the first sample.
    pub event: Option<String>,
}

/// The parts of a header line that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header<'a> {
    comm: &'a str,
    /// The first number: the process if a thread follows, else the thread.
    id: &'a str,
    thread: Option<&'a str>,
    period: Option<u64>,
    event: Option<&'a str>,
    /// Text after the event: the frame of a sample without call chain, or a tracepoint's fields.
    rest: &'a str,
}

/// Reads `perf script` text.
pub fn read(text: &[u8], opts: &CollapseOpts) -> Stacks {
    let mut reader = Reader::new(opts);
    // Text after the last line end is not a line; a text cut off within a stack does not close it.
    let whole_lines = text.strip_suffix(b"\n").unwrap_or(text);
    for line in whole_lines.split(|&b| b == b'\n') {
        reader.line(&String::from_utf8_lossy(line));
    }
    reader.notes.cut_off = !reader.frames.is_empty();
    reader.notes.event = reader.event.unwrap_or_default();
    Stacks { tree: reader.tree, notes: reader.notes }
}

/// True if `line` begins a sample.
pub fn is_header(line: &str) -> bool {
    parse_header(line).is_some_and(|header| header.event.is_some())
}

struct Reader<'o> {
    opts: &'o CollapseOpts,
    tree: Tree,
    notes: ImportNotes,
    /// The event being read, once known.
    event: Option<String>,
    /// The open sample: its process at the root, and its period; `None` outside or if it is left out.
    sample: Option<(NameId, u64)>,
    java: bool,
    /// Frames of the open sample, leaf first.
    frames: Vec<NameId>,
    /// Frames a `symbol (dso)` text represents, leaf first. Cleared when `java` changes.
    known: FxHashMap<String, Vec<NameId>>,
}

impl<'o> Reader<'o> {
    fn new(opts: &'o CollapseOpts) -> Self {
        Self {
            opts,
            tree: Tree::new(Unit::Samples),
            notes: ImportNotes::default(),
            event: opts.event.clone(),
            sample: None,
            java: false,
            frames: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            self.end_sample();
        } else if line.starts_with('#') {
        } else if let Some((address, text)) = parse_frame(line) {
            self.frame(address, text);
        } else if let Some(header) = parse_header(line) {
            self.begin_sample(&header);
        } else if !line.starts_with([' ', '\t']) {
            // An indented line that is no frame is a source line: expected, and not shown.
            self.notes.odd_lines += 1;
        }
    }

    fn begin_sample(&mut self, header: &Header<'_>) {
        self.end_sample();
        if let Some(event) = header.event
            && !self.takes(event)
        {
            return;
        }
        let comm = header.comm.replace(' ', "_");
        let java = comm.starts_with("java");
        if java != self.java {
            self.java = java;
            self.known.clear();
        }
        let task = self.task_name(&comm, header);
        let task = self.tree.intern(&task, FrameKind::Task);
        self.sample = Some((task, header.period.unwrap_or(1)));
        if let Some((address, text)) = parse_frame(header.rest) {
            self.frame(address, text);
            self.end_sample();
        }
    }

    /// True if samples of `event` are read; others are counted.
    fn takes(&mut self, event: &str) -> bool {
        if self.event.get_or_insert_with(|| event.to_owned()) == event {
            return true;
        }
        match self.notes.other_events.iter_mut().find(|(name, _)| name == event) {
            Some((_, count)) => *count += 1,
            None => self.notes.other_events.push((event.to_owned(), 1)),
        }
        false
    }

    fn task_name(&self, comm: &str, header: &Header<'_>) -> String {
        let (process, thread) = match header.thread {
            Some(thread) => (header.id, thread),
            None => ("?", header.id),
        };
        if self.opts.tid {
            format!("{comm}-{process}/{thread}")
        } else if self.opts.pid {
            format!("{comm}-{process}")
        } else {
            comm.to_owned()
        }
    }

    fn end_sample(&mut self) {
        if let Some((task, period)) = self.sample.take()
            && !self.frames.is_empty()
        {
            let root: NodeId = self.tree.child(Tree::ROOT, task);
            let leaf = self.frames.iter().rev().fold(root, |parent, &name| self.tree.child(parent, name));
            self.tree.add(leaf, period, 1);
        }
        self.frames.clear();
    }

    fn frame(&mut self, address: &str, text: &str) {
        if self.sample.is_none() {
            return;
        }
        if let Some(frames) = self.known.get(text) {
            self.frames.extend_from_slice(frames);
            return;
        }
        let (symbol, dso) = split_dso(text);
        let first = self.frames.len();
        // Inlined functions are joined to their caller with `->`, caller first.
        for function in without_offset(symbol).split("->").collect::<Vec<_>>().into_iter().rev() {
            if function.starts_with('(') {
                continue;
            }
            let (name, kind) = self.name(function, dso, address);
            let id = self.tree.intern(&name, kind);
            self.frames.push(id);
        }
        if !(self.opts.addrs && symbol.contains("[unknown]")) {
            self.known.insert(text.to_owned(), self.frames[first..].to_vec());
        }
    }

    /// The name a function gets in the folded text, and its kind.
    fn name(&self, function: &str, dso: &str, address: &str) -> (String, FrameKind) {
        let kind = kind_of(function, dso);
        let mut name =
            if function == "[unknown]" { self.unknown_name(dso, address) } else { self.tidy(function) };
        match kind {
            _ if dso.contains("unknown") => {}
            FrameKind::Kernel if self.opts.kernel => name.push_str("_[k]"),
            FrameKind::Jit if self.opts.jit => name.push_str("_[j]"),
            _ => {}
        }
        (name, kind)
    }

    /// `[dso]`, or `[dso <address>]`; `[unknown]` if the dso has no name either.
    fn unknown_name(&self, dso: &str, address: &str) -> String {
        let file = if dso == "[unknown]" || dso.is_empty() { "unknown" } else { file_name(dso) };
        if self.opts.addrs { format!("[{file} <{address}>]") } else { format!("[{file}]") }
    }

    /// The function without parameters, quotes and the separator `;`; Java classes without their `L`.
    fn tidy(&self, function: &str) -> String {
        let mut name = function.replace(';', ":");
        // Go methods have their receiver in parentheses: `net/http.(*Client).Do`.
        let go_method = name.find(".(").is_some_and(|at| name[at + 2..].contains(")."));
        if !go_method && let Some(at) = parameters_at(&name) {
            name.truncate(at);
        }
        name.retain(|c| c != '"' && c != '\'');
        if self.java && name.contains('/') && name.starts_with('L') {
            name.remove(0);
        }
        name
    }
}

/// Where the parameter list begins: the first `(` that is not that of `(anonymous namespace)`.
fn parameters_at(name: &str) -> Option<usize> {
    name.match_indices('(').map(|(at, _)| at).find(|&at| !name[at..].starts_with("(anonymous namespace)"))
}

fn kind_of(function: &str, dso: &str) -> FrameKind {
    let jit = dso.rsplit_once("/perf-").is_some_and(|(_, file)| {
        file.strip_suffix(".map")
            .is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
    });
    match dso {
        _ if jit && function != "[unknown]" => FrameKind::Jit,
        _ if jit => FrameKind::Jit,
        "[unknown]" | "" => FrameKind::Unknown,
        "inlined" => FrameKind::Inlined,
        _ if dso.starts_with('[') || dso.ends_with("vmlinux") || dso.ends_with(".ko") => FrameKind::Kernel,
        _ if file_name(dso).contains(".so") => FrameKind::Library,
        _ => FrameKind::Program,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}

/// `symbol (dso)` in its parts; the dso is the last parenthesis, ` (deleted)` belongs to it.
fn split_dso(text: &str) -> (&str, &str) {
    let inner = text.strip_suffix(')').unwrap_or(text);
    let inner = inner.strip_suffix(" (deleted)").unwrap_or(inner);
    inner.rsplit_once(" (").unwrap_or((inner, ""))
}

/// `symbol` without `+0x1f`.
fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, hex)) if !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}

/// A frame line in (address, `symbol (dso)`).
fn parse_frame(line: &str) -> Option<(&str, &str)> {
    let (address, text) = line.trim_start().split_once([' ', '\t'])?;
    let hex = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit());
    let text = text.trim();
    (hex && text.ends_with(')') && text.contains('(')).then_some((address, text))
}

/// A header line in its parts; `None` if no number follows a name.
fn parse_header(line: &str) -> Option<Header<'_>> {
    let mut words = Words { line, at: 0 };
    let comm_start = line.len() - line.trim_start().len();
    words.next()?;
    let (comm, (id, thread)) = loop {
        let before = words.at;
        if let Some(ids) = parse_ids(words.next()?) {
            break (line[comm_start..before].trim(), ids);
        }
    };
    let mut header = Header { comm, id, thread, period: None, event: None, rest: "" };
    while let Some(word) = words.next() {
        if let Some(name) = word.strip_suffix(':') {
            if !is_time(name) {
                header.event = Some(name);
                break;
            }
        } else if let Ok(period) = word.parse() {
            header.period = Some(period);
        }
    }
    header.rest = &line[words.at..];
    // Without a time and without an event, any text with a number in it would do.
    (header.event.is_some() || line.contains('[')).then_some(header)
}

/// `123` or `123/124`.
fn parse_ids(word: &str) -> Option<(&str, Option<&str>)> {
    let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match word.split_once('/') {
        Some((process, thread)) => (number(process) && number(thread)).then_some((process, Some(thread))),
        None => number(word).then_some((word, None)),
    }
}

fn is_time(word: &str) -> bool {
    word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Words of a line; `at` is where the last one ended.
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let length = self.line[start..].find(char::is_whitespace).unwrap_or(self.line.len() - start);
        self.at = start + length;
        (length > 0).then(|| &self.line[start..self.at])
    }
}

#[cfg(test)]
mod tests;
