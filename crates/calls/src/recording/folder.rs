//! A recording of calls: its folder, opened.

use crate::error::{Context, bail};
use crate::model::{ExtraKind, RawStep, Step, ThreadFile, TscClock};
use dso::MapLine;
use dso::{MappedFile, Svma};
use profile::view::ranking::RankRows as _;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{folder_file, kernel, switches, totals};
use crate::values::{self, FunctionFormats};

/// The folder used when none is named.
pub const DEFAULT: &str = "tally.calls";

/// One thread's file.
pub struct RecordedThread {
    /// Process id, as the process saw it.
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// The file.
    pub path: PathBuf,
    bytes: MappedFile,
}

impl RecordedThread {
    /// The file's events.
    #[must_use]
    pub fn file(&self) -> Option<ThreadFile<'_>> {
        ThreadFile::parse(&self.bytes).ok()
    }
}

/// Mappings of a process at one moment.
pub struct Maps {
    /// The process.
    pub pid: u32,
    /// When, as counter value and ns of `CLOCK_MONOTONIC`.
    pub moment: (u64, u64),
    /// The mappings.
    pub lines: Vec<MapLine>,
}

/// A recording.
pub struct Folder {
    /// Path.
    pub path: PathBuf,
    /// The lines of its `info`.
    pub info: BTreeMap<String, String>,
    /// Threads, by process, thread and number.
    pub threads: Vec<RecordedThread>,
    /// Maps, by process and time.
    pub maps: Vec<Maps>,
    /// Names of the kernel's parts, by address (recordings by uprobes).
    pub kernel: FxHashMap<u64, String>,
    /// Functions that uprobes were put on, by address.
    pub named: FxHashMap<u64, super::function::Function>,
    /// Sums by function, where no single calls were recorded.
    pub totals: Option<Vec<(u64, crate::model::CallStats)>>,
    /// When its threads were off the CPU, by thread; empty when switches were not recorded.
    pub off: FxHashMap<u32, Vec<switches::Off>>,
    /// How recorded arguments and results are shown, by object and function start.
    pub values: FxHashMap<String, FxHashMap<Svma, FunctionFormats>>,
    /// Calls of threads that could make no file.
    pub unfiled: u64,
    /// The errno with which a thread's file or a process's maps could not be written; `None`: all could.
    pub unfiled_errno: Option<i32>,
    /// Files that could not be read, with the reason.
    pub damaged: Vec<String>,
}

/// Sums over a recording.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Threads with at least one event.
    pub threads: u64,
    /// Entries.
    pub calls: u64,
    /// Calls whose arguments or result were recorded; those with both count twice.
    pub valued: u64,
    /// Calls not recorded.
    pub lost: u64,
    /// Bytes of events.
    pub bytes: u64,
    /// Threads of which nothing could be written from some moment on, by the errno why.
    pub stopped: BTreeMap<u32, u64>,
}

impl Folder {
    /// Whether `path` holds a recording.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        path.join(tracer::layout::sleds::NAME).is_file()
    }

    /// Opens a recording, whole or as far as a killed one got.
    ///
    /// # Errors
    /// If there is no recording, or its folder can't be read.
    pub fn open(path: &Path) -> crate::Result<Self> {
        Self::open_by(path, folder_file::map)
    }

    /// The same for a folder of our own that is being written, where room for what was read is given back: its files
    /// may consist of holes.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_growing(path: &Path) -> crate::Result<Self> {
        Self::open_by(path, folder_file::map_growing)
    }

    fn open_by(path: &Path, map: fn(&Path) -> io::Result<MappedFile>) -> crate::Result<Self> {
        if !Self::is_one(path) {
            if let Err(error) = fs::read_dir(path)
                && error.kind() == io::ErrorKind::PermissionDenied
            {
                bail!(
                    "can't read {}: {error}; a recording is for the user who made it, and root",
                    path.display()
                );
            }
            bail!(
                "{}: no recording of calls there; make one with `tally calls record -- CMD`",
                path.display()
            );
        }
        let (unfiled, unfiled_errno) = read_lost(path);
        let mut damaged = Vec::new();
        let mut text = |name: &str| {
            folder_file::read_if_there(&path.join(name)).unwrap_or_else(|why| {
                damaged.push(format!("{why:#}"));
                String::new()
            })
        };
        let [info, names, named, values] =
            ["info", kernel::NAMES, super::function_list::NAME, values::NAME].map(&mut text);
        let off = switches::read(path, &mut damaged);
        let mut folder = Self {
            path: path.to_owned(),
            info: parse_info(&info),
            threads: Vec::new(),
            maps: Vec::new(),
            kernel: kernel::names_in(&names),
            named: super::function_list::parse(&named),
            totals: totals::read(path)?,
            off,
            values: values::parse(&values),
            unfiled,
            unfiled_errno,
            damaged,
        };
        let mut names: Vec<PathBuf> = fs::read_dir(path)
            .with_context(|| format!("can't read {}", path.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        names.sort_by_cached_key(|name| numbers(name));
        for name in names {
            folder.add(&name, map);
        }
        folder.maps.rank_by_key(|maps| (maps.pid, maps.moment.0));
        Ok(folder)
    }

    fn add(&mut self, name: &Path, map: fn(&Path) -> io::Result<MappedFile>) {
        let ending = name.extension().and_then(|ending| ending.to_str());
        let added = match ending {
            Some("calls") => read_thread(name, map).map(|thread| self.add_thread(thread)),
            Some("maps") => read_maps(name).map(|maps| self.maps.push(maps)),
            _ => Ok(()),
        };
        if let Err(why) = added {
            self.damaged.push(format!("{}: {why:#}", name.display()));
        }
    }

    /// The tracer writes whole events only; a file that was cut later on may end within one.
    fn add_thread(&mut self, thread: RecordedThread) {
        let rest = thread.bytes.len() % tracer::layout::EVENT_BYTES;
        if rest > 0 {
            self.damaged.push(format!("{}: {rest} bytes at its end are not an event", thread.path.display()));
        }
        self.threads.push(thread);
    }

    /// Notes of the tracer besides the numbers.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        (0..).map_while(|at| self.info.get(&format!("note{at}")))
    }

    /// How counter values become times: from the two moments furthest from each other.
    ///
    /// # Errors
    /// If the recording holds no two moments.
    pub fn clock(&self) -> crate::Result<TscClock> {
        let headers = self.threads.iter().filter_map(|thread| thread.file()).map(|file| file.header);
        let moments: Vec<(u64, u64)> = headers
            .map(|header| (header.tsc, header.monotonic_ns))
            .chain(self.maps.iter().map(|maps| maps.moment))
            .chain(self.info.get("end").and_then(|line| parse_moment(line)))
            .collect();
        if !moments.is_empty() && moments.iter().all(|(counter, ns)| counter == ns) {
            // By uprobes the counter is the clock.
            return Ok(TscClock::OF_NS);
        }
        let first = moments.iter().min().copied().unwrap_or_default();
        let last = moments.iter().max().copied().unwrap_or_default();
        TscClock::between(first, last)
            .with_context(|| format!("{}: the speed of its clock is unknown", self.path.display()))
    }

    /// Counts what is there.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let files = self.threads.par_iter().filter_map(RecordedThread::file).map(|file| summary_of(&file));
        let sum = files.reduce(Summary::default, Summary::plus);
        Summary { lost: sum.lost + self.unfiled, ..sum }
    }
}

impl Summary {
    fn plus(mut self, other: Self) -> Self {
        other.stopped.iter().for_each(|(errno, threads)| *self.stopped.entry(*errno).or_default() += threads);
        Self {
            threads: self.threads + other.threads,
            calls: self.calls + other.calls,
            valued: self.valued + other.valued,
            lost: self.lost + other.lost,
            bytes: self.bytes + other.bytes,
            stopped: self.stopped,
        }
    }

    /// Sentences about threads whose recording ended before they did.
    pub fn stops(&self) -> impl Iterator<Item = String> + '_ {
        self.stopped.iter().map(|(errno, threads)| {
            let why = io::Error::from_raw_os_error(errno.cast_signed());
            let whose = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
            format!("recording of {whose} stopped early: {why}")
        })
    }
}

/// The number of calls that are in no thread's file, and why; 0 if unknown.
fn read_lost(folder: &Path) -> (u64, Option<i32>) {
    let bytes = folder_file::read(&folder.join(tracer::layout::LOST_NAME)).unwrap_or_default();
    let mut words = tracer::layout::words(&bytes);
    let calls = words.next().unwrap_or(0);
    (calls, words.next().and_then(|errno| i32::try_from(errno).ok()).filter(|errno| *errno > 0))
}

fn summary_of(file: &ThreadFile<'_>) -> Summary {
    let mut sum = Summary { threads: 1, bytes: file.event_bytes() as u64, ..Summary::default() };
    for (_, step) in file.steps() {
        match step {
            RawStep::Enter(_) => sum.calls += 1,
            RawStep::Other(Step::Lost(calls)) => sum.lost += calls,
            RawStep::Other(Step::Extra(extra)) if extra.kind != ExtraKind::Backtrace => sum.valued += 1,
            RawStep::Stopped(errno) => *sum.stopped.entry(errno).or_default() += 1,
            _ => {}
        }
    }
    sum
}

/// The numbers in a file's name: process, thread, count.
fn numbers(name: &Path) -> Vec<u64> {
    let stem = name.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.split('-').filter_map(|part| part.parse().ok()).collect()
}

fn parse_info(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once(' ')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn read_thread(path: &Path, map: fn(&Path) -> io::Result<MappedFile>) -> crate::Result<RecordedThread> {
    let bytes = map(path)?;
    let header = ThreadFile::parse(&bytes)?.header;
    Ok(RecordedThread { pid: header.pid, tid: header.tid, path: path.to_owned(), bytes })
}

fn read_maps(path: &Path) -> crate::Result<Maps> {
    let text = folder_file::read(path)?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let head = lines.next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let moment = parse_moment(head).context("no moment in its first line")?;
    let pid = numbers(path)
        .first()
        .and_then(|pid| u32::try_from(*pid).ok())
        .context("no process id in its name")?;
    Ok(Maps { pid, moment, lines: lines.filter_map(dso::parse_map_line).collect() })
}

/// `tsc N monotonic_ns N`.
fn parse_moment(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split(' ');
    let mut field =
        |name: &str| words.next().filter(|word| *word == name).and_then(|_| words.next()?.parse().ok());
    Some((field("tsc")?, field("monotonic_ns")?))
}
