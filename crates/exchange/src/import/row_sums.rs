//! Sums of the rows of many files.

use super::ImportFormat;
use super::error::ImportError;
use super::gathered::{Gathered, GatheredSums, StackOwner, kind_of_path, named};
use super::parquet::StackRow;
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, CodeKind, StackFrame, StackThread};
use rustc_hash::FxHashMap;

/// Stacks added up by kind, thread and path.
#[derive(Default)]
pub struct RowSums {
    gathered: Gathered,
    /// Paths by functions and files of code.
    paths: FxHashMap<String, FxHashMap<String, usize>>,
    sums: FxHashMap<SumKey, RowSum>,
}

/// Numbers of 32 bits: the sums are most of the memory. Both are bounded far below, by the frames of all paths.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SumKey {
    event: u32,
    thread: u32,
    path: u32,
}

/// Sum of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSum {
    /// The value, in the unit of the kind.
    pub value: u64,
    /// Number of samples.
    pub samples: u64,
}

impl RowSum {
    /// Sum of one row.
    #[must_use]
    pub fn of_row([value, samples]: [u64; 2]) -> Self {
        // A value of the wall clock has no number of samples: the stack is one.
        Self { value, samples: samples.max(1) }
    }

    fn add(&mut self, other: Self) {
        self.value = self.value.saturating_add(other.value);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

impl RowSums {
    /// The machine is that of this name.
    pub fn name_host(&mut self, host: &str) {
        if self.gathered.host != host {
            host.clone_into(&mut self.gathered.host);
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the distinct stacks have too many frames.
    pub fn add(&mut self, row: &StackRow<'_>) -> Result<(), ImportError> {
        let (owner, path) = (self.owner(row), self.path(row)?);
        self.add_sum(owner, path, RowSum::of_row([row.value, row.samples]));
        Ok(())
    }

    /// The numbers of a row's kind of value and thread, new or known.
    pub fn owner(&mut self, row: &StackRow<'_>) -> StackOwner {
        let unit = if row.unit == "nanoseconds" { ValueUnit::Nanoseconds } else { ValueUnit::Count };
        let event = self.gathered.event(row.kind, unit);
        let thread = StackThread { pid: row.pid, tid: row.tid, name: row.comm.to_owned() };
        StackOwner { event, thread: self.gathered.thread(thread) }
    }

    /// The number of a row's path, new or known.
    ///
    /// # Errors
    /// If the distinct stacks have too many frames.
    pub fn path(&mut self, row: &StackRow<'_>) -> Result<usize, ImportError> {
        let known = self.paths.get(row.stack).and_then(|by_modules| by_modules.get(row.modules));
        match known {
            Some(&path) => Ok(path),
            None => self.new_path(row),
        }
    }

    /// Adds to the sum of a path.
    pub fn add_sum(&mut self, owner: StackOwner, path: usize, sum: RowSum) {
        let [event, thread, path] = [owner.event, owner.thread, path].map(|number| number as u32);
        self.sums.entry(SumKey { event, thread, path }).or_default().add(sum);
    }

    /// Adds another's sums, as if its rows were added after those of this one.
    ///
    /// # Errors
    /// If the distinct stacks of both have too many frames.
    pub fn merge(&mut self, other: Self) -> Result<(), ImportError> {
        let numbers = self.gathered.add_names(&other.gathered)?;
        for (key, sum) in other.sums {
            let [event, thread, path] = [key.event, key.thread, key.path].map(|number| number as usize);
            let owner = StackOwner { event: numbers.events[event], thread: numbers.threads[thread] };
            self.add_sum(owner, numbers.paths[path], sum);
        }
        Ok(())
    }

    /// Gives up what only more rows would need.
    pub fn shrink(&mut self) {
        self.paths = FxHashMap::default();
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
        sums.sort_unstable_by_key(|(key, _)| (key.event, key.thread, key.path));
        for (key, RowSum { value, samples }) in sums {
            if value > i64::MAX.cast_unsigned() {
                return Err(ImportError::at(ImportFormat::Parquet, "a sum beyond 63 bits", 0));
            }
            let owner = StackOwner { event: key.event as usize, thread: key.thread as usize };
            self.gathered.add_path(owner, key.path as usize, GatheredSums { samples, value, time_ns: None });
        }
        Ok(self.gathered)
    }
}
