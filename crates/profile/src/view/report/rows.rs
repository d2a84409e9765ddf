//! The rows of one section while they fill: values grouped by keys.

use super::context::Context;
use super::field::SortKey;
use super::row::{ReportRow, SortValue};
use crate::profile::{CellKey, CgroupNames, ExtraDimensions, ExtraId, Sums, TaskId};
use crate::session::SampleWord;
use crate::table::{FrameId, StringId};
use perfdata::DataSource;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

type RowKey = SmallVec<[u32; 4]>;

/// Rows of one section while they fill.
pub(super) struct Rows<'c, 'a> {
    context: &'c Context<'a>,
    pub rows: Vec<ReportRow>,
    /// Events of the section.
    members: usize,
    ids: FxHashMap<RowKey, u32>,
    /// Per key: distinct values.
    values: Vec<ValueTable>,
    /// The values that depend on the sample alone: all distinct combinations.
    parts: Vec<RowKey>,
    part_ids: FxHashMap<RowKey, u32>,
    known: KnownRows,
}

/// Rows by part and place. Most places are of one part.
#[derive(Default)]
struct KnownRows {
    /// By frame, then by entry: the part it was in first, and its row there.
    leaves: Vec<Option<(u32, u32)>>,
    entries: Vec<Option<(u32, u32)>>,
    /// The rows of places in further parts.
    others: FxHashMap<(u32, RowFrame), u32>,
}

impl KnownRows {
    fn first(&self, place: RowFrame) -> Option<(u32, u32)> {
        let (rows, at) = match place {
            RowFrame::Leaf(frame) => (&self.leaves, frame.index()),
            RowFrame::Entry(entry) => (&self.entries, entry as usize),
        };
        rows.get(at).copied().flatten()
    }

    fn get(&self, part: u32, place: RowFrame) -> Option<u32> {
        let (of, row) = self.first(place)?;
        if of == part { Some(row) } else { self.others.get(&(part, place)).copied() }
    }

    fn insert(&mut self, part: u32, place: RowFrame, row: u32) {
        if self.first(place).is_some() {
            self.others.insert((part, place), row);
            return;
        }
        let (rows, at) = match place {
            RowFrame::Leaf(frame) => (&mut self.leaves, frame.index()),
            RowFrame::Entry(entry) => (&mut self.entries, entry as usize),
        };
        rows.resize(rows.len().max(at + 1), None);
        rows[at] = Some((part, row));
    }
}

/// Values of a sample that decide about its part.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PartOf {
    task: TaskId,
    cpu: i32,
    extra: ExtraId,
    /// The entry that `--parent` names.
    parent: Option<u32>,
}

impl PartOf {
    /// The part of a cell whose path has that parent.
    pub fn new(key: &CellKey, parent: Option<u32>) -> Self {
        Self { task: key.task, cpu: key.cpu, extra: key.extra, parent }
    }
}

/// The frame of a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RowFrame {
    /// The frame a sample hit: the function of the symbol table.
    Leaf(FrameId),
    /// An entry of a path.
    Entry(u32),
}

#[derive(Default)]
struct ValueTable {
    ids: FxHashMap<SortValue, u32>,
    values: Vec<SortValue>,
}

impl ValueTable {
    /// The id of `group`; `shown` is what the first of its kind looks like.
    fn intern(&mut self, group: SortValue, shown: SortValue) -> u32 {
        let values = &mut self.values;
        *self.ids.entry(group).or_insert_with(|| {
            values.push(shown);
            (values.len() - 1) as u32
        })
    }
}

impl<'c, 'a> Rows<'c, 'a> {
    /// Rows of a section with `members` events, empty so far.
    pub fn new(context: &'c Context<'a>, members: usize) -> Self {
        Self {
            context,
            rows: Vec::new(),
            members,
            ids: FxHashMap::default(),
            values: context.keys.iter().map(|_| ValueTable::default()).collect(),
            parts: Vec::new(),
            part_ids: FxHashMap::default(),
            known: KnownRows::default(),
        }
    }

    /// Number of distinct entries of paths.
    pub fn entries(&self) -> usize {
        self.context.expanded.entries.len()
    }

    /// The ids of the values that depend on the sample alone, as one number.
    pub fn part_of(&mut self, of: PartOf) -> u32 {
        let context = self.context;
        let values: RowKey = (context.keys.iter().enumerate())
            .map(|(at, sort)| {
                if sort.is_of_frame() {
                    return 0;
                }
                let (group, shown) = self.sample_value(sort, &of);
                self.values[at].intern(group, shown)
            })
            .collect();
        let next = self.parts.len() as u32;
        let parts = &mut self.parts;
        *self.part_ids.entry(values).or_insert_with_key(|values| {
            parts.push(values.clone());
            next
        })
    }

    /// The row of a place under a part, new or known.
    pub fn row_of(&mut self, part: u32, place: RowFrame) -> u32 {
        if let Some(row) = self.known.get(part, place) {
            return row;
        }
        let of_frame = self.frame_values(place);
        let keys = self.context.keys.iter().enumerate();
        let of_sample = &self.parts[part as usize];
        let row_key: RowKey =
            keys.map(|(at, sort)| if sort.is_of_frame() { of_frame[at] } else { of_sample[at] }).collect();
        let row = match self.ids.get(&row_key) {
            Some(&row) => row,
            None => self.push_row(row_key, place),
        };
        self.known.insert(part, place, row);
        row
    }

    /// The row of a place under a part; `None` if [`Self::row_of`] was not asked for it.
    pub fn known_row(&self, part: u32, place: RowFrame) -> Option<u32> {
        self.known.get(part, place)
    }

    fn push_row(&mut self, key: RowKey, place: RowFrame) -> u32 {
        let frame = match place {
            RowFrame::Leaf(frame) => frame,
            RowFrame::Entry(entry) => self.context.expanded.entries[entry as usize].frame,
        };
        let values = key.iter().zip(&self.values).map(|(&id, table)| table.values[id as usize].clone());
        let sums = vec![Sums::default(); self.members];
        self.rows.push(ReportRow {
            values: values.collect(),
            frame: Some(frame),
            own: sums.clone(),
            children: sums,
            ..ReportRow::default()
        });
        let row = (self.rows.len() - 1) as u32;
        self.ids.insert(key, row);
        row
    }

    fn frame_values(&mut self, place: RowFrame) -> RowKey {
        let context = self.context;
        let entry = match place {
            RowFrame::Leaf(frame) => *context.expanded.own(frame),
            RowFrame::Entry(entry) => context.expanded.entries[entry as usize],
        };
        let with_dso = context.keys.contains(&SortKey::Dso);
        context
            .keys
            .iter()
            .enumerate()
            .map(|(at, sort)| {
                if !sort.is_of_frame() {
                    return 0;
                }
                let (group, shown) = context.frame_value(sort, &entry, with_dso);
                self.values[at].intern(group, shown)
            })
            .collect()
    }

    /// The pair (grouped value, shown value) for a key that depends on the sample.
    fn sample_value(&self, sort: &SortKey, key: &PartOf) -> (SortValue, SortValue) {
        let profile = self.context.profile;
        let task = profile.task(key.task);
        let extra = profile.extra(key.extra);
        let same = |value: SortValue| (value.clone(), value);
        match sort {
            SortKey::Comm => same(SortValue::Text(task.comm)),
            SortKey::Pid | SortKey::Tid => {
                let comm = profile.last_comm(key.task);
                (
                    SortValue::Task { id: task.tid, comm: StringId::EMPTY },
                    SortValue::Task { id: task.tid, comm },
                )
            }
            SortKey::Tgid => {
                let comm = profile.last_comm(key.task);
                (
                    SortValue::Task { id: task.pid, comm: StringId::EMPTY },
                    SortValue::Task { id: task.pid, comm },
                )
            }
            SortKey::Cpu => same(SortValue::Number(i64::from(key.cpu))),
            SortKey::Socket => same(SortValue::Number(profile.socket_of(key.cpu).map_or(-1, i64::from))),
            SortKey::Parent => {
                let symbol =
                    key.parent.and_then(|entry| self.context.expanded.entries[entry as usize].symbol);
                same(symbol.map_or(SortValue::None, |id| SortValue::Text(profile.symbols.of(id).name)))
            }
            SortKey::Memory(part) => {
                let word = profile.word(extra, SampleWord::DataSource).unwrap_or(0);
                (
                    SortValue::Number(part.bits(DataSource(word)).cast_signed()),
                    SortValue::Number(word.cast_signed()),
                )
            }
            _ => same(self.extra_value(sort, extra)),
        }
    }

    /// Names of the sample's cgroup, where the recording has them.
    fn cgroup(&self, extra: &ExtraDimensions) -> Option<&CgroupNames> {
        self.context.profile.cgroups.get(&extra.cgroup?)
    }

    fn extra_value(&self, sort: &SortKey, extra: &ExtraDimensions) -> SortValue {
        let branch = extra.branch;
        let number = |value: Option<u64>| value.map_or(SortValue::None, |n| SortValue::Number(n as i64));
        match sort {
            SortKey::Trace => extra.trace.map_or(SortValue::None, SortValue::Text),
            SortKey::TraceField(name) => {
                self.context.profile.trace_field(extra, name).map_or(SortValue::None, SortValue::Text)
            }
            SortKey::Cgroup => {
                self.cgroup(extra).map_or(number(extra.cgroup), |names| SortValue::Text(names.path))
            }
            SortKey::Container => {
                self.cgroup(extra).map_or(SortValue::None, |names| SortValue::Text(names.container))
            }
            SortKey::Label(None) => extra.labels.map_or(SortValue::None, SortValue::Text),
            SortKey::Label(Some(key)) => {
                self.context.profile.label(extra, key).map_or(SortValue::None, SortValue::Text)
            }
            SortKey::Weight | SortKey::LocalWeight => SortValue::Number(extra.weight.unwrap_or(0) as i64),
            SortKey::Time => extra.time_ns.map_or(SortValue::None, SortValue::Time),
            SortKey::Transaction => number(extra.transaction),
            SortKey::DataAddr => extra.data_addr.map_or(SortValue::None, SortValue::Address),
            SortKey::Word(word) | SortKey::WordTotal(word) => {
                SortValue::Number(self.context.profile.word(extra, *word).unwrap_or(0).cast_signed())
            }
            SortKey::SampleNumber => number(extra.sample),
            SortKey::DsoFrom => branch.map_or(SortValue::None, |b| self.context.branch_dso(b.from)),
            SortKey::DsoTo => branch.map_or(SortValue::None, |b| self.context.branch_dso(b.to)),
            SortKey::SymbolFrom => branch.map_or(SortValue::None, |b| self.context.branch_symbol(b.from)),
            SortKey::SymbolTo => branch.map_or(SortValue::None, |b| self.context.branch_symbol(b.to)),
            SortKey::AddrFrom => branch.map_or(SortValue::None, |b| self.context.branch_place(b.from)),
            SortKey::AddrTo => branch.map_or(SortValue::None, |b| self.context.branch_place(b.to)),
            SortKey::SrcLineFrom => branch.map_or(SortValue::None, |b| self.context.branch_line(b.from)),
            SortKey::SrcLineTo => branch.map_or(SortValue::None, |b| self.context.branch_line(b.to)),
            SortKey::Mispredict => {
                branch.and_then(|b| b.mispredicted).map_or(SortValue::None, SortValue::Flag)
            }
            SortKey::InTx => branch.map_or(SortValue::None, |b| SortValue::Flag(b.in_tx)),
            SortKey::Abort => branch.map_or(SortValue::None, |b| SortValue::Flag(b.abort)),
            SortKey::Cycles => branch
                .filter(|b| b.cycles > 0)
                .map_or(SortValue::None, |b| SortValue::Number(i64::from(b.cycles))),
            _ => SortValue::None,
        }
    }

    /// The rows. An unresolved caller that was never hit itself is shown with its address in the process, as in perf:
    /// its position in the file would be less useful for a call.
    pub fn finish(mut self) -> Vec<ReportRow> {
        for row in self.rows.iter_mut().filter(|row| row.own.iter().all(|sums| sums.count == 0)) {
            let Some(frame) = row.frame else { continue };
            for value in &mut row.values {
                if let SortValue::Symbol { symbol: None, addr, .. } = value {
                    *addr = self.context.profile.frames.of(frame).first_avma;
                }
            }
        }
        self.rows
    }
}
