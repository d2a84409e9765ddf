//! Stacks of another profiler's file while they are read, and the recording they become.

use perfdata::abi::{
    PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use perfdata::appendix::summed_stacks::{
    CodeFile, CodeKind, StackFrame, StackThread, SummedStack, SummedStacks,
};
use perfdata::{Attr, Endian, Event, Features, Writer, WriterOpts};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::io::{self, Cursor};

use super::error::ImportError;
use crate::export::samples::ValueUnit;

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`: counts ns.
const CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_DUMMY`: counts nothing that views have a unit for.
const DUMMY: u64 = 9;

/// The most frames that all distinct stacks of a file may have: a tree of a few MB can make any number of them.
pub const MOST_PATH_FRAMES: usize = 32 << 20;

/// Sums of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredSums {
    /// Number of samples.
    pub samples: u64,
    /// Sum, in the event's unit.
    pub value: u64,
    /// When, ns; `None` if unknown.
    pub time_ns: Option<u64>,
}

/// A kind of value.
#[derive(Clone, Debug)]
struct GatheredEvent {
    name: String,
    unit: ValueUnit,
}

/// Thread and event of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackOwner {
    /// From [`Gathered::event`].
    pub event: usize,
    /// From [`Gathered::thread`].
    pub thread: usize,
}

/// Numbers by the numbers that they had elsewhere.
pub struct GatheredNumbers {
    /// Numbers from [`Gathered::event`].
    pub events: Vec<usize>,
    /// Numbers from [`Gathered::thread`].
    pub threads: Vec<usize>,
    /// Numbers from [`Gathered::path`].
    pub paths: Vec<usize>,
}

/// All that was read by now.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The program's command line; empty if unknown.
    pub command: String,
    /// The machine's name; empty if unknown.
    pub host: String,
    events: Vec<GatheredEvent>,
    stacks: SummedStacks,
    threads: FxHashMap<StackThread, usize>,
    files: FxHashMap<CodeFile, usize>,
    frames: FxHashMap<StackFrame, usize>,
    paths: FxHashMap<Vec<usize>, usize>,
    /// Sum of the lengths of all distinct paths.
    path_frames: usize,
}

impl Gathered {
    /// Nothing yet, of a program with this command line.
    #[must_use]
    pub fn of_command(command: &str) -> Self {
        Self { command: command.to_owned(), ..Self::default() }
    }

    /// The number of an event, new or known.
    pub fn event(&mut self, name: &str, unit: ValueUnit) -> usize {
        let known = self.events.iter().position(|known| known.name == name && known.unit == unit);
        known.unwrap_or_else(|| {
            self.events.push(GatheredEvent { name: name.to_owned(), unit });
            self.events.len() - 1
        })
    }

    /// The number of a thread, new or known.
    pub fn thread(&mut self, thread: StackThread) -> usize {
        numbered(&mut self.threads, &mut self.stacks.threads, thread)
    }

    /// The number of a file, new or known.
    pub fn file(&mut self, file: CodeFile) -> usize {
        numbered(&mut self.files, &mut self.stacks.files, file)
    }

    /// The number of a place, new or known.
    pub fn frame(&mut self, frame: StackFrame) -> usize {
        numbered(&mut self.frames, &mut self.stacks.frames, frame)
    }

    /// Adds a stack, leaf first. A stack without frames gets one that says so.
    ///
    /// # Errors
    /// If the distinct stacks have more than [`MOST_PATH_FRAMES`].
    pub fn add(&mut self, owner: StackOwner, path: &[usize], sums: GatheredSums) -> Result<(), ImportError> {
        let path = self.path(path.to_vec())?;
        self.add_path(owner, path, sums);
        Ok(())
    }

    /// The number of a path, leaf first, new or known. An empty one gets the frame `[no stack]`.
    ///
    /// # Errors
    /// If the distinct stacks have more than [`MOST_PATH_FRAMES`].
    pub fn path(&mut self, path: Vec<usize>) -> Result<usize, ImportError> {
        let path = if path.is_empty() { vec![self.no_stack()] } else { path };
        if !self.paths.contains_key(&path) {
            self.path_frames += path.len();
        }
        if self.path_frames > MOST_PATH_FRAMES {
            return Err(ImportError::TooManyFrames { most: MOST_PATH_FRAMES });
        }
        Ok(numbered(&mut self.paths, &mut self.stacks.paths, path))
    }

    /// Adds a stack by the number of its path.
    pub fn add_path(&mut self, owner: StackOwner, path: usize, sums: GatheredSums) {
        let StackOwner { event, thread } = owner;
        let GatheredSums { samples, value, time_ns } = sums;
        self.stacks.stacks.push(SummedStack { event, thread, path, samples, value, time_ns });
    }

    /// Adds another's names, without its sums: the new numbers of its old ones.
    ///
    /// # Errors
    /// If the distinct stacks of both have more than [`MOST_PATH_FRAMES`].
    pub fn add_names(&mut self, other: &Self) -> Result<GatheredNumbers, ImportError> {
        let events = other.events.iter().map(|event| self.event(&event.name, event.unit)).collect();
        let threads = other.stacks.threads.iter().map(|thread| self.thread(thread.clone())).collect();
        let files: Vec<usize> = other.stacks.files.iter().map(|file| self.file(file.clone())).collect();
        let placed = |frame: &StackFrame| StackFrame { file: files[frame.file], ..frame.clone() };
        let frames: Vec<usize> = other.stacks.frames.iter().map(|frame| self.frame(placed(frame))).collect();
        let paths = other.stacks.paths.iter();
        let paths: Result<_, _> =
            paths.map(|path| self.path(path.iter().map(|&frame| frames[frame]).collect())).collect();
        Ok(GatheredNumbers { events, threads, paths: paths? })
    }

    fn no_stack(&mut self) -> usize {
        let file = self.file(CodeFile::default());
        self.frame(StackFrame { file, address: None, lines: vec![named("[no stack]")] })
    }

    /// True if nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.stacks.is_empty()
    }

    /// The bytes of a perf.data with these sums in its appendix.
    ///
    /// # Errors
    /// None in practice: it is written to memory.
    pub fn to_perf_data(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let events = self.events.iter().enumerate().map(|(at, event)| event_of(at, event)).collect();
        let mut writer =
            Writer::file(Cursor::new(&mut bytes), WriterOpts { events, ..WriterOpts::default() })?;
        // A file without any record is that of a recorder that was killed.
        writer.finish_round()?;
        let times = || self.stacks.stacks.iter().filter_map(|stack| stack.time_ns);
        let features = Features {
            hostname: (!self.host.is_empty()).then(|| self.host.clone()),
            cmdline: (!self.command.is_empty()).then(|| self.command.split(' ').map(str::to_owned).collect()),
            sample_time_ns: times().min().zip(times().max()),
            ..Features::default()
        };
        writer.finish(&features, &self.stacks.to_bytes(Endian::NATIVE))?;
        Ok(bytes)
    }
}

/// A line with only the function's name.
#[must_use]
pub fn named(function: &str) -> perfdata::appendix::summed_stacks::StackLine {
    let function = function.to_owned();
    perfdata::appendix::summed_stacks::StackLine { function, ..Default::default() }
}

/// Kind of code by the path of its file: names in brackets are no files.
#[must_use]
pub fn kind_of_path(path: &str) -> CodeKind {
    let is_kernel = ["[kernel", "[guest.kernel", "bpf_prog_"].iter().any(|begin| path.starts_with(begin));
    match path {
        "" | "[unknown]" => CodeKind::Unknown,
        _ if is_kernel || path.ends_with(".ko") || path.ends_with("vmlinux") => CodeKind::Kernel,
        _ if path.starts_with("[JIT") || path.ends_with(".map") => CodeKind::Jit,
        _ if path.starts_with('[') => CodeKind::Unknown,
        _ => CodeKind::File,
    }
}

/// A build id from its text in hexadecimal; empty if it is no such text, or longer than 20 bytes.
pub fn build_id_of(text: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0 && digits.len() <= 40).unwrap_or_default();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn event_of(at: usize, event: &GatheredEvent) -> Event {
    let config = if event.unit == ValueUnit::Nanoseconds { CPU_CLOCK } else { DUMMY };
    let sample_type =
        PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN;
    let attr = Attr { type_: SOFTWARE, config, sample_period: 1, sample_type, ..Attr::default() };
    Event { attr, ids: vec![at as u64 + 1], name: event.name.clone() }
}

fn numbered<T: Clone + Eq + Hash>(known: &mut FxHashMap<T, usize>, list: &mut Vec<T>, entry: T) -> usize {
    if let Some(&number) = known.get(&entry) {
        return number;
    }
    list.push(entry.clone());
    known.insert(entry, list.len() - 1);
    list.len() - 1
}
