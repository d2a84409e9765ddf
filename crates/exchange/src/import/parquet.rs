//! Rows of the table `samples`, from a file or a server, and the sums they add up to.

use super::ImportFormat;
use super::error::ImportError;
use super::gathered::{Gathered, GatheredSums, StackOwner, kind_of_path, named};
use crate::export::samples::ValueUnit;
use crate::parquet::{self, ParquetTable, TextColumn};
use perfdata::appendix::summed_stacks::{CodeFile, CodeKind, StackFrame, StackThread};
use rustc_hash::FxHashMap;

/// A stack of a thread with its value.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackRow<'a> {
    /// The machine.
    pub host: &'a str,
    /// The service: a unit, a container or a program.
    pub service: &'a str,
    /// The process; 0 if unknown.
    pub pid: i32,
    /// The thread; 0 if unknown.
    pub tid: i32,
    /// The thread's name.
    pub comm: &'a str,
    /// The kind of value: `cpu`, `wall` or an event's name.
    pub kind: &'a str,
    /// `nanoseconds` or `count`.
    pub unit: &'a str,
    /// State on the wall clock: `futex`.
    pub state: &'a str,
    /// The value, in the unit.
    pub value: u64,
    /// Number of samples; 0 for the wall clock.
    pub samples: u64,
    /// Functions, the outermost first, one in a line.
    pub stack: &'a str,
    /// Their files of code, likewise; empty lines for states.
    pub modules: &'a str,
}

/// The rows of a file.
pub struct SampleRows {
    table: ParquetTable,
}

impl SampleRows {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is damaged, or no table of samples.
    pub fn read(bytes: &[u8]) -> Result<Self, ImportError> {
        let table = parquet::read(bytes)?;
        let texts = ["host", "service", "comm", "kind", "unit", "state", "stack", "modules"];
        let numbers = ["pid", "tid", "value", "samples"];
        let has_all = texts.iter().all(|name| table.texts(name).is_some())
            && numbers.iter().all(|name| table.numbers(name).is_some());
        match has_all {
            true => Ok(Self { table }),
            false => Err(ImportError::Unsupported("Parquet of another table than tally's samples")),
        }
    }

    /// All rows, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = StackRow<'_>> {
        let texts = |name| self.table.texts(name);
        let [host, service, comm, kind, unit, state, stack, modules] =
            ["host", "service", "comm", "kind", "unit", "state", "stack", "modules"].map(texts);
        let [pid, tid, value, samples] =
            ["pid", "tid", "value", "samples"].map(|name| self.table.numbers(name).unwrap_or_default());
        (0..self.table.rows()).map(move |row| {
            let text = |column| text_of(column, row);
            let id = |column: &[i64]| i32::try_from(column[row]).unwrap_or_default();
            let sum = |column: &[i64]| u64::try_from(column[row]).unwrap_or_default();
            StackRow {
                host: text(host),
                service: text(service),
                pid: id(pid),
                tid: id(tid),
                comm: text(comm),
                kind: text(kind),
                unit: text(unit),
                state: text(state),
                value: sum(value),
                samples: sum(samples),
                stack: text(stack),
                modules: text(modules),
            }
        })
    }
}

fn text_of(column: Option<&TextColumn>, row: usize) -> &str {
    column.map_or("", |column| column.text(row))
}

/// Reads a file as one recording.
pub(super) fn read(bytes: &[u8]) -> Result<Gathered, ImportError> {
    let rows = SampleRows::read(bytes)?;
    let mut sums = RowSums::default();
    for row in rows.iter() {
        row.host.clone_into(&mut sums.gathered.host);
        sums.add(&row)?;
    }
    sums.finish()
}

/// Stacks added up by kind, thread and path.
#[derive(Default)]
pub struct RowSums {
    gathered: Gathered,
    /// By functions and files of code.
    paths: FxHashMap<String, FxHashMap<String, usize>>,
    sums: FxHashMap<(StackOwner, usize), (u64, u64)>,
}

impl RowSums {
    /// Adds a row.
    ///
    /// # Errors
    /// If the distinct stacks have too many frames.
    pub fn add(&mut self, row: &StackRow<'_>) -> Result<(), ImportError> {
        let unit = if row.unit == "nanoseconds" { ValueUnit::Nanoseconds } else { ValueUnit::Count };
        let event = self.gathered.event(row.kind, unit);
        let thread = StackThread { pid: row.pid, tid: row.tid, name: row.comm.to_owned() };
        let thread = self.gathered.thread(thread);
        let known = self.paths.get(row.stack).and_then(|by_modules| by_modules.get(row.modules));
        let path = match known {
            Some(&path) => path,
            None => self.new_path(row)?,
        };
        let sum = self.sums.entry((StackOwner { event, thread }, path)).or_default();
        sum.0 = sum.0.saturating_add(row.value);
        // A value of the wall clock has no number of samples: the stack is one.
        sum.1 = sum.1.saturating_add(row.samples.max(1));
        Ok(())
    }

    fn new_path(&mut self, row: &StackRow<'_>) -> Result<usize, ImportError> {
        let mut modules = row.modules.split('\n');
        let mut frames = Vec::new();
        for function in row.stack.split('\n').filter(|_| !row.stack.is_empty()) {
            let path = modules.next().unwrap_or_default().to_owned();
            let kind = if path.is_empty() { CodeKind::Unknown } else { kind_of_path(&path) };
            let file = self.gathered.file(CodeFile { kind, path, build_id: Vec::new() });
            let lines = vec![named(function)];
            frames.push(self.gathered.frame(StackFrame { file, address: None, lines }));
        }
        frames.reverse();
        let path = self.gathered.path(frames)?;
        let by_modules = self.paths.entry(row.stack.to_owned()).or_default();
        by_modules.insert(row.modules.to_owned(), path);
        Ok(path)
    }

    /// The recording.
    ///
    /// # Errors
    /// If it has a sum above what a file can hold.
    pub fn finish(mut self) -> Result<Gathered, ImportError> {
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_unstable_by_key(|((owner, path), _)| (owner.event, owner.thread, *path));
        for ((owner, path), (value, samples)) in sums {
            if value > i64::MAX.cast_unsigned() {
                return Err(ImportError::at(ImportFormat::Parquet, "a sum beyond 63 bits", 0));
            }
            self.gathered.add_path(owner, path, GatheredSums { samples, value, time_ns: None });
        }
        Ok(self.gathered)
    }
}
