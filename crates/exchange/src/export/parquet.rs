//! Rows for SQL: one for each stack of a thread, with functions and files of code as text.

use super::samples::{SampleSet, ValuedStack};
use crate::parquet::{ColumnKind, ColumnSchema, ColumnValues, ParquetWriter};
use profile::profile::TaskId;
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Columns of the table `samples`. Stacks are texts: one line for each function, the outermost first.
pub const SAMPLE_COLUMNS: &[ColumnSchema] = &[
    ColumnSchema { name: "time", kind: ColumnKind::TimeUs },
    ColumnSchema { name: "host", kind: ColumnKind::Text },
    ColumnSchema { name: "service", kind: ColumnKind::Text },
    ColumnSchema { name: "pid", kind: ColumnKind::Number },
    ColumnSchema { name: "tid", kind: ColumnKind::Number },
    ColumnSchema { name: "comm", kind: ColumnKind::Text },
    ColumnSchema { name: "kind", kind: ColumnKind::Text },
    ColumnSchema { name: "unit", kind: ColumnKind::Text },
    ColumnSchema { name: "state", kind: ColumnKind::Text },
    ColumnSchema { name: "waker", kind: ColumnKind::Text },
    ColumnSchema { name: "value", kind: ColumnKind::Number },
    ColumnSchema { name: "samples", kind: ColumnKind::Number },
    ColumnSchema { name: "function", kind: ColumnKind::Text },
    ColumnSchema { name: "stack", kind: ColumnKind::Text },
    ColumnSchema { name: "modules", kind: ColumnKind::Text },
];

/// Most rows of a group, and most bytes of its texts: engines read a group at once.
const GROUP_ROWS: usize = 1 << 19;
const GROUP_BYTES: usize = 64 << 20;

/// Where and when rows come from.
#[derive(Clone, Debug, Default)]
pub struct RowSource {
    /// The machine; empty if unknown.
    pub host: String,
    /// When recording began, us since 1970.
    pub start_us: i64,
}

/// Writes all of `samples`, in groups of one kind of value each: a reader that wants one kind leaves the others out.
/// `service_of` is asked once for each thread.
///
/// # Errors
/// If writing fails.
pub fn write(
    out: impl Write,
    samples: &SampleSet<'_>,
    source: &RowSource,
    mut service_of: impl FnMut(TaskId) -> String,
) -> io::Result<()> {
    let mut writer = ParquetWriter::new(out, SAMPLE_COLUMNS)?;
    let mut services: FxHashMap<TaskId, String> = FxHashMap::default();
    let mut rows = RowGroup::of(source);
    let mut stacks: Vec<&ValuedStack> = samples.stacks.iter().collect();
    stacks.rank_by_key(|stack| stack.kind);
    let mut before = None;
    for stack in stacks {
        let service = services.entry(stack.task).or_insert_with(|| service_of(stack.task));
        if rows.is_full() || before.replace(stack.kind).is_some_and(|kind| kind != stack.kind) {
            writer.group(&std::mem::replace(&mut rows, RowGroup::of(source)).columns)?;
        }
        rows.add(samples, stack, service);
    }
    writer.group(&rows.columns)?;
    writer.finish()
}

/// Rows that are not written yet.
struct RowGroup<'s> {
    source: &'s RowSource,
    columns: Vec<ColumnValues>,
    /// Function, stack and files of code of known paths.
    paths: FxHashMap<Vec<usize>, [String; 3]>,
}

impl<'s> RowGroup<'s> {
    fn of(source: &'s RowSource) -> Self {
        let columns = SAMPLE_COLUMNS.iter().map(|column| ColumnValues::empty(column.kind)).collect();
        Self { source, columns, paths: FxHashMap::default() }
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.columns.iter().map(text_bytes).sum();
        self.columns[0].len() >= GROUP_ROWS || bytes >= GROUP_BYTES
    }

    fn add(&mut self, samples: &SampleSet<'_>, stack: &ValuedStack, service: &str) {
        let (task, kind) = (samples.profile.task(stack.task), &samples.kinds[stack.kind]);
        let path: Vec<usize> = samples.path(stack).collect();
        let [function, lines, modules] =
            self.paths.entry(path).or_insert_with_key(|path| path_texts(samples, path));
        let numbers = [self.source.start_us, i64::from(task.pid), i64::from(task.tid)];
        let sums = [stack.value, stack.samples].map(|sum| i64::try_from(sum).unwrap_or(i64::MAX));
        let texts: [&str; 10] = [
            &self.source.host,
            service,
            samples.comm(stack.task),
            &kind.name,
            kind.unit.name(),
            samples.state(stack).unwrap_or_default(),
            stack.waker.as_deref().unwrap_or_default(),
            function,
            lines,
            modules,
        ];
        let (mut numbers, mut texts) = (numbers.into_iter().chain(sums), texts.into_iter());
        for column in &mut self.columns {
            match column {
                ColumnValues::Numbers(column) => column.extend(numbers.next()),
                ColumnValues::Texts(column) => texts.by_ref().take(1).for_each(|text| column.push(text)),
            }
        }
    }
}

fn text_bytes(column: &ColumnValues) -> usize {
    match column {
        ColumnValues::Texts(texts) => texts.bytes,
        ColumnValues::Numbers(_) => 0,
    }
}

/// The innermost function, all functions and their files of code, outermost first.
fn path_texts(samples: &SampleSet<'_>, path: &[usize]) -> [String; 3] {
    let lines = path.iter().flat_map(|&at| &samples.locations[at].lines);
    let functions: Vec<_> = lines.map(|line| &samples.functions[line.function]).collect();
    let one_line = |text: &str| text.replace('\n', " ");
    let name = |at: &&crate::export::samples::NamedFunction| one_line(&at.name);
    let module = |at: &&crate::export::samples::NamedFunction| {
        at.dso.map_or_else(String::new, |dso| one_line(&samples.profile.dsos.of(dso).path))
    };
    let joined = |texts: Vec<String>| texts.into_iter().rev().collect::<Vec<_>>().join("\n");
    [
        functions.first().map_or_else(String::new, &name),
        joined(functions.iter().map(name).collect()),
        joined(functions.iter().map(module).collect()),
    ]
}
