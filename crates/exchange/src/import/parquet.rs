//! Rows of the table `samples`, from a file or a server.

use super::error::ImportError;
use super::gathered::Gathered;
use super::row_sums::RowSums;
use crate::parquet::{self, ParquetTable, ReadMemory, TextColumn, WantedPart};

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

/// Numbers of a row's texts: those of two rows of one file are equal only if the texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTexts {
    /// The machine.
    pub host: u32,
    /// The service.
    pub service: u32,
    /// Name of the thread, kind of value, unit and state.
    pub owner: [u32; 4],
    /// Functions, and their files of code.
    pub path: [u32; 2],
}

const TEXTS: [&str; 8] = ["host", "service", "comm", "kind", "unit", "state", "stack", "modules"];
const KIND: &str = TEXTS[3];
const IDS: [&str; 2] = ["pid", "tid"];
const SUMS: [&str; 2] = ["value", "samples"];

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
        let rows = Self { table: parquet::read(bytes)? };
        rows.columns().filter(|columns| columns.ids.iter().all(Option::is_some)).ok_or(OTHER_TABLE)?;
        Ok(rows)
    }

    /// Reads the rows of a file that are of wanted kinds, and maybe others; all processes and threads have the number 0.
    ///
    /// # Errors
    /// If it is damaged, or no table of samples.
    pub fn read_kinds(
        bytes: &[u8],
        is_wanted: &dyn Fn(&str) -> bool,
        memory: &mut ReadMemory,
    ) -> Result<Self, ImportError> {
        let columns = |name: &str| TEXTS.contains(&name) || SUMS.contains(&name);
        let part = WantedPart { columns: &columns, groups: Some((KIND, is_wanted)) };
        let rows = Self { table: parquet::read_part(bytes, part, memory)? };
        rows.columns().ok_or(OTHER_TABLE)?;
        Ok(rows)
    }

    /// False if rows of kinds that aren't wanted were not read.
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.table.left_out == 0
    }

    /// Gives its memory to the next file.
    pub fn give_back(self, memory: &mut ReadMemory) {
        memory.take_back(self.table);
    }

    /// The columns; `None` if the table is another one.
    #[must_use]
    pub fn columns(&self) -> Option<SampleColumns<'_>> {
        let table = &self.table;
        let mut texts = [table.texts(TEXTS[0])?; TEXTS.len()];
        for (column, name) in texts.iter_mut().zip(TEXTS) {
            *column = table.texts(name)?;
        }
        let sums = [table.numbers(SUMS[0])?, table.numbers(SUMS[1])?];
        Some(SampleColumns { texts, ids: IDS.map(|name| table.numbers(name)), sums, rows: table.rows() })
    }
}

const OTHER_TABLE: ImportError = ImportError::Unsupported("Parquet of another table than tally's samples");

/// The names of the services in a file of samples.
///
/// # Errors
/// If it is damaged, or no table of samples.
pub fn services(bytes: &[u8]) -> Result<Vec<String>, ImportError> {
    texts_of(bytes, TEXTS[1])
}

/// The names of the machines in a file of samples.
///
/// # Errors
/// If it is damaged, or no table of samples.
pub fn hosts(bytes: &[u8]) -> Result<Vec<String>, ImportError> {
    texts_of(bytes, TEXTS[0])
}

fn texts_of(bytes: &[u8], column: &str) -> Result<Vec<String>, ImportError> {
    let part = WantedPart { columns: &|name| name == column, groups: None };
    let table = parquet::read_part(bytes, part, &mut ReadMemory::default())?;
    Ok(table.texts(column).ok_or(OTHER_TABLE)?.texts.iter().map(str::to_owned).collect())
}

/// The columns of a table of samples.
#[derive(Clone, Copy)]
pub struct SampleColumns<'a> {
    texts: [&'a TextColumn; TEXTS.len()],
    ids: [Option<&'a [i64]>; IDS.len()],
    sums: [&'a [i64]; SUMS.len()],
    /// Number of rows.
    pub rows: usize,
}

impl<'a> SampleColumns<'a> {
    /// A row with its texts.
    #[must_use]
    pub fn row(&self, row: usize) -> StackRow<'a> {
        let [host, service, comm, kind, unit, state, stack, modules] =
            self.texts.map(|column| column.text(row));
        let [pid, tid] = self.ids.map(|column| {
            let id = column.and_then(|column| column.get(row)).copied();
            id.and_then(|id| i32::try_from(id).ok()).unwrap_or_default()
        });
        let [value, samples] = self.sums(row);
        StackRow { host, service, pid, tid, comm, kind, unit, state, value, samples, stack, modules }
    }

    /// Value and number of samples of a row.
    #[must_use]
    pub fn sums(&self, row: usize) -> [u64; 2] {
        self.sums.map(|column| u64::try_from(column[row]).unwrap_or_default())
    }

    /// The numbers of a row's texts.
    #[must_use]
    pub fn numbers(&self, row: usize) -> RowTexts {
        let [host, service, comm, kind, unit, state, stack, modules] =
            self.texts.map(|column| column.rows[row]);
        RowTexts { host, service, owner: [comm, kind, unit, state], path: [stack, modules] }
    }

    /// Which of the file's services, by their numbers, `is_wanted` takes.
    #[must_use]
    pub fn wanted_services(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<bool> {
        self.texts[1].texts.iter().map(is_wanted).collect()
    }
}

/// Reads a file as one recording.
pub(super) fn read(bytes: &[u8]) -> Result<Gathered, ImportError> {
    let rows = SampleRows::read(bytes)?;
    let columns = rows.columns().ok_or(OTHER_TABLE)?;
    let mut sums = RowSums::default();
    for row in (0..columns.rows).map(|row| columns.row(row)) {
        sums.name_host(row.host);
        sums.add(&row)?;
    }
    sums.finish()
}
