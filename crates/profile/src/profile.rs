//! The profile: (event, thread span, callsite …) → count and period. Merge is addition.
//!
//! This is the value that views, diff and exports share. It holds no text beyond the string table
//! and no object files; names arrive by [`crate::symbolize`].

use crate::reason::Diagnostics;
use crate::table::{
    CallsiteTable, DsoId, DsoTable, FrameId, FrameTable, HashedIds, InlineFrame, StringId, StringTable,
    SymbolTable,
};
use perfdata::appendix::goroutine_labels::GoroutineLabels;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

mod cell;
mod cgroups;
mod ids;
mod labels;
mod merge;
mod sample_word;
mod spans;

use cell::NO_EXTRA;
pub use cell::{BranchEnds, CellKey, EventInfo, ExtraDimensions, Sums, Task};
pub use cgroups::CgroupNames;
pub use ids::{ExtraId, TaskId};
pub use labels::WITHOUT_LABELS;
pub use sample_word::SampleWord;
pub use spans::{SeenRequest, SpanCall, SpanFunctionInfo, SpanOutcome, Spans};
pub(crate) use spans::{SpanAssembly, SpanHit};

/// The aggregated recording.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// All text.
    pub strings: StringTable,
    /// All files and pseudo-files.
    pub dsos: DsoTable,
    /// All distinct addresses.
    pub frames: FrameTable,
    /// All distinct paths.
    pub callsites: CallsiteTable,
    /// All names, once symbolized.
    pub symbols: SymbolTable,
    /// The events, in the file's order.
    pub events: Vec<EventInfo>,
    /// Counts: samples read, dropped, lost.
    pub diagnostics: Diagnostics,
    /// Time of the first and last sample, ns of the recording's clock.
    pub time_span_ns: Option<(u64, u64)>,
    /// The name each thread had last, by thread id.
    pub last_comms: BTreeMap<i32, StringId>,
    /// The requested tracepoint fields: [`ExtraDimensions::fields`] has their values, in this order.
    pub trace_fields: Vec<String>,
    /// The requested numbers of samples: [`ExtraDimensions::words`] has their values, in this order.
    pub words: Vec<SampleWord>,
    /// Names of cgroups, by id.
    pub cgroups: BTreeMap<u64, CgroupNames>,
    /// Sets of labels that programs gave their goroutines, by their text: keys and values.
    pub label_sets: BTreeMap<StringId, Vec<(StringId, StringId)>>,
    /// How many samples had labels, and which were not read whole; without the sets.
    pub label_counts: GoroutineLabels,
    /// Socket of each CPU, from the recording's header; empty if it has none.
    pub cpu_sockets: Vec<u32>,
    /// Time off the CPU: waits and per-thread totals.
    pub off_cpu: crate::off_cpu::OffCpu,
    /// Requests to disks, if requested by the session's options.
    pub block_io: crate::tracepoints::block_io::BlockIo,
    /// Calls of functions that were recorded as spans.
    pub spans: Spans,
    pub(crate) tasks: Vec<Task>,
    task_ids: FxHashMap<Task, TaskId>,
    cells: Vec<(CellKey, Sums)>,
    /// By callsite: position of its first cell in `cells`, or [`NO_CELL`]. Most callsites have no other.
    first_cells: Vec<u32>,
    /// Positions of all other cells, by key.
    cell_index: HashedIds,
    extras: Vec<ExtraDimensions>,
    extra_ids: FxHashMap<ExtraDimensions, ExtraId>,
    pub(crate) names: FrameNames,
}

/// The source-level frames of each frame, once symbolized.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameNames {
    /// By frame: position of its inline frames in `inlines`, or the reason for their absence.
    pub by_frame: Vec<NameState>,
    /// Innermost first within a frame.
    pub inlines: Vec<InlineFrame>,
    /// Reasons why files gave no names, even if other names replaced the missing ones since.
    pub refused: BTreeSet<(dso::Missing, DsoId)>,
}

/// No position of a cell.
const NO_CELL: u32 = u32::MAX;

/// State of one frame's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NameState {
    /// Not asked yet.
    #[default]
    Unasked,
    /// `inlines[first..first + len]`.
    Named { first: u32, len: u32, with_lines: bool },
    /// No name, and why.
    Missing(dso::Missing),
}

impl Profile {
    /// Adds sums to a cell.
    pub fn add(&mut self, key: CellKey, sums: Sums) {
        let (cells, callsite) = (&mut self.cells, key.callsite.index());
        let new = u32::try_from(cells.len()).expect("invariant: fewer than 2^32 cells");
        if callsite >= self.first_cells.len() {
            self.first_cells.resize(callsite + 1, NO_CELL);
        }
        let first = &mut self.first_cells[callsite];
        match cells.get_mut(*first as usize) {
            None => *first = new,
            Some((of, own)) if *of == key => return own.add(sums),
            Some(_) => {
                let hash = FxBuildHasher.hash_one(key);
                if let Some(at) = self.cell_index.find(hash, |at| cells[at as usize].0 == key) {
                    return cells[at as usize].1.add(sums);
                }
                self.cell_index.insert(hash, new);
            }
        }
        cells.push((key, sums));
    }

    /// Replaces the further dimensions of all cells by those that `change` makes of them; cells that are equal then are
    /// added up.
    fn change_extras(&mut self, change: impl Fn(&Task, &ExtraDimensions) -> ExtraDimensions) {
        self.first_cells.clear();
        self.cell_index = HashedIds::default();
        for (key, sums) in std::mem::take(&mut self.cells) {
            let extra = change(self.task(key.task), self.extra(key.extra));
            let extra = self.intern_extra(extra);
            self.add(CellKey { extra, ..key }, sums);
        }
    }

    /// All cells, in order of first sight.
    #[must_use]
    pub fn cells(&self) -> &[(CellKey, Sums)] {
        &self.cells
    }

    /// The id of a task, new or known.
    pub fn intern_task(&mut self, task: Task) -> TaskId {
        let tasks = &mut self.tasks;
        *self.task_ids.entry(task).or_insert_with(|| {
            tasks.push(task);
            TaskId::from_index(tasks.len() - 1)
        })
    }

    /// The thread.
    #[must_use]
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// All threads under all their names, in order of first sample.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The id of further dimensions, new or known.
    pub fn intern_extra(&mut self, extra: ExtraDimensions) -> ExtraId {
        if extra == NO_EXTRA {
            return ExtraId::NONE;
        }
        if self.extras.is_empty() {
            self.extras.push(ExtraDimensions::default());
        }
        if let Some(&id) = self.extra_ids.get(&extra) {
            return id;
        }
        let id = ExtraId::from_index(self.extras.len());
        self.extras.push(extra.clone());
        self.extra_ids.insert(extra, id);
        id
    }

    /// The further dimensions of a cell.
    #[must_use]
    pub fn extra(&self, id: ExtraId) -> &ExtraDimensions {
        self.extras.get(id.index()).unwrap_or(&NO_EXTRA)
    }

    /// The source-level frames of `frame`, **innermost first**: the last one is the function the
    /// symbol table knows. Empty when it has no name (yet).
    #[must_use]
    pub fn frame_names(&self, frame: FrameId) -> &[InlineFrame] {
        match self.names.by_frame.get(frame.index()) {
            Some(&NameState::Named { first, len, .. }) => {
                &self.names.inlines[first as usize..first as usize + len as usize]
            }
            _ => &[],
        }
    }

    /// Why `frame` has no name; `None` when it has one or was never asked.
    #[must_use]
    pub fn missing_name(&self, frame: FrameId) -> Option<dso::Missing> {
        match self.names.by_frame.get(frame.index()) {
            Some(&NameState::Missing(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Sum of all cells of an event.
    #[must_use]
    pub fn total(&self, event: usize) -> Sums {
        let mut total = Sums::default();
        for (_, sums) in self.cells.iter().filter(|(key, _)| key.event as usize == event) {
            total.add(*sums);
        }
        total
    }

    /// The name a task's thread had last; its own when nothing later is known.
    #[must_use]
    pub fn last_comm(&self, id: TaskId) -> StringId {
        let task = self.task(id);
        self.last_comms.get(&task.tid).copied().unwrap_or(task.comm)
    }

    /// The name of a thread with what its process is for, `git gc`, if it has its process's name.
    #[must_use]
    pub fn with_purpose<'p>(&'p self, pid: i32, name: &'p str) -> &'p str {
        let is_of_it = |title: &&String| title.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
        self.off_cpu.titles.get(&pid).filter(is_of_it).map_or(name, String::as_str)
    }

    /// True if the times of all threads of a machine were recorded: the parent of the kernel's threads is among them.
    #[must_use]
    pub fn has_all_processes(&self) -> bool {
        let mut recorded = self.off_cpu.totals.iter().map(|totals| self.task(totals.task));
        recorded.any(|task| task.pid == 2 && self.strings.of(task.comm) == "kthreadd")
    }

    /// The value of a requested number; `None` if it was not requested, or the sample has none.
    #[must_use]
    pub fn word(&self, extra: &ExtraDimensions, word: SampleWord) -> Option<u64> {
        let at = self.words.iter().position(|&known| known == word)?;
        extra.words.get(at).copied().flatten()
    }

    /// The socket of `cpu`; `None` if the CPU or the machine's layout was not recorded.
    #[must_use]
    pub fn socket_of(&self, cpu: i32) -> Option<u32> {
        self.cpu_sockets.get(usize::try_from(cpu).ok()?).copied()
    }

    /// The value of a tracepoint field requested by name; `None` if the field was not requested.
    #[must_use]
    pub fn trace_field(&self, extra: &ExtraDimensions, name: &str) -> Option<StringId> {
        let at = self.trace_fields.iter().position(|field| field == name)?;
        extra.fields.get(at).copied()
    }

    /// The first event that samples running time: a CPU clock or cycles.
    pub(crate) fn clock_event(&self) -> Option<usize> {
        let is = |name: &str, wanted: &[&str]| {
            wanted.contains(&name.split([':', '/']).find(|p| !p.is_empty()).unwrap_or(""))
        };
        let find = |wanted: &[&str]| self.events.iter().position(|event| is(&event.name, wanted));
        find(&["cpu-clock", "task-clock", "cycles", "cpu-cycles", "cpu"])
    }

    /// Gives every task its final name: a thread's first name is also that of the time before it.
    pub(crate) fn name_tasks(&mut self, names: impl Iterator<Item = (TaskId, StringId)>) {
        for (task, comm) in names {
            self.tasks[task.index()].comm = comm;
        }
        for (index, &task) in self.tasks.iter().enumerate() {
            self.task_ids.entry(task).or_insert(TaskId::from_index(index));
        }
    }

    /// A task of its own, to be named by [`Self::name_tasks`].
    pub fn push_task(&mut self, task: Task) -> TaskId {
        self.tasks.push(task);
        TaskId::from_index(self.tasks.len() - 1)
    }
}
