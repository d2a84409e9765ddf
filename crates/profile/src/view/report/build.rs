//! Grouping: cells to rows, and the call graphs of the rows that are shown.

use super::expand::{Expanded, PathOpts};
use super::field::{Field, SortKey};
use super::graph::{Chain, Chains, share};
use super::order::sort_rows;
use super::row::{ChainEntry, Report, ReportRow, Section, Value};
use super::{GraphMode, GraphOrder, ReportOpts};
use crate::machine::Mode;
use crate::profile::{CellKey, Extra, Profile, Sums, Task};
use crate::table::{DsoId, FrameId, StringId};
use regex_lite::Regex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;

type RowKey = SmallVec<[u32; 4]>;

/// perf's `--parent` when none is given.
const DEFAULT_PARENT: &str = "^sys_|^do_page_fault";

/// Makes all sections.
pub(super) fn build(profile: &Profile, opts: &ReportOpts) -> Report {
    let context = Context::new(profile, opts);
    let sections = event_sets(profile, opts).into_iter().map(|events| context.section(events)).collect();
    Report { sections, chain_entries: context.expanded.entries }
}

/// Which events share a section: one each, or all of a group.
fn event_sets(profile: &Profile, opts: &ReportOpts) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = Vec::new();
    let mut set_of: FxHashMap<usize, usize> = FxHashMap::default();
    for (index, event) in profile.events.iter().enumerate() {
        match set_of.get(&event.leader).filter(|_| opts.group && event.leader != index) {
            Some(&set) => sets[set].push(index),
            None => {
                set_of.insert(index, sets.len());
                sets.push(vec![index]);
            }
        }
    }
    sets
}

/// What stays the same for all sections.
pub(super) struct Context<'a> {
    profile: &'a Profile,
    opts: &'a ReportOpts,
    keys: Vec<SortKey>,
    pub(super) expanded: Expanded,
    /// By entry: is it a parent (`--parent`), does it hide its callees?
    parents: Option<Vec<bool>>,
    cuts: Option<Vec<bool>>,
    /// By DSO: the first with the same short name.
    same_dso: Vec<DsoId>,
    /// By task: does it pass the filters?
    task_passes: Vec<bool>,
}

impl<'a> Context<'a> {
    pub(super) fn new(profile: &'a Profile, opts: &'a ReportOpts) -> Self {
        let expanded = Expanded::new(profile, opts);
        let keys = opts.keys();
        let default_parent;
        let parent = match (&opts.parent, keys.contains(&SortKey::Parent)) {
            (Some(regex), _) => Some(regex),
            (None, true) => {
                default_parent = Regex::new(DEFAULT_PARENT).expect("invariant: the default pattern is valid");
                Some(&default_parent)
            }
            (None, false) => None,
        };
        let matches = |regex: &Regex| -> Vec<bool> {
            expanded.entries.iter().map(|entry| name_matches(profile, entry, regex)).collect()
        };
        let parents = parent.map(matches);
        let cuts = opts.ignore_callees.as_ref().map(matches);
        let task_passes = profile.tasks().iter().map(|task| task_passes(profile, task, opts)).collect();
        Self { profile, opts, keys, parents, cuts, same_dso: same_dsos(profile), task_passes, expanded }
    }

    fn section(&self, events: Vec<usize>) -> Section {
        let mut rows = Rows::new(self, events.len());
        let mut member_of = vec![usize::MAX; self.profile.events.len()];
        events.iter().enumerate().for_each(|(member, &event)| member_of[event] = member);
        for (key, sums) in self.profile.cells() {
            let member = member_of[key.event as usize];
            if member != usize::MAX {
                rows.add(member, key, *sums);
            }
        }
        let mut section = Section {
            columns: self.opts.columns(),
            keys: self.keys.clone(),
            totals: rows.totals.clone(),
            shown: rows.shown.clone(),
            events,
            rows: Vec::new(),
            base_periods: Vec::new(),
        };
        let base = if self.opts.relative { &section.shown } else { &section.totals };
        section.base_periods = base.iter().map(|sums| sums.period).collect();
        self.add_graphs(&mut rows, &section);
        section.rows = rows.finish();
        section.rows.retain(|row| self.is_shown(row, &section.base_periods));
        sort_rows(self.profile, self.opts, &mut section);
        section
    }

    fn is_shown(&self, row: &ReportRow, base: &[u64]) -> bool {
        let percent = |sums: &[Sums]| percent_of(sums.first().map_or(0, |s| s.period), base.first().copied());
        let weight = if self.opts.children { percent(&row.children) } else { percent(&row.own) };
        weight >= self.opts.percent_limit || (row.own.len() > 1 && self.opts.percent_limit == 0.0)
    }

    /// The call graphs of the rows that can have nodes above the minimum.
    fn add_graphs(&self, rows: &mut Rows<'_, 'a>, section: &Section) {
        let Some(graph) = self.opts.graph else { return };
        let base = section.base_periods[0];
        let min = share(base, graph.min_percent) as u64;
        let wanted = |row: &ReportRow| {
            self.is_shown(row, &section.base_periods)
                && (graph.mode == GraphMode::Fractal || row.children[0].period.max(row.own[0].period) >= min)
        };
        let mut chains: Vec<Option<Vec<Chain>>> =
            rows.rows.iter().map(|row| wanted(row).then(Vec::new)).collect();
        let mut paths = Vec::new();
        let cells = self.profile.cells();
        for (cell, (key, _)) in cells.iter().enumerate() {
            if key.event as usize == section.events[0] {
                rows.add_chains(key, cell, graph.order, &mut paths, &mut chains);
            }
        }
        let all = Chains {
            profile: self.profile,
            entries: &self.expanded.entries,
            paths: &paths,
            sums: |cell| cells[cell as usize].1,
            opts: graph,
            min,
            weights: RefCell::default(),
        };
        for (row, chains) in rows.rows.iter_mut().zip(chains) {
            row.graph = chains.map_or_else(Vec::new, |mut chains| all.tree(&mut chains));
        }
    }

    /// By entry: does it stand for all it calls?
    pub(super) fn cuts(&self) -> Option<&[bool]> {
        self.cuts.as_deref()
    }

    /// Do the filters let this cell through?
    pub(super) fn cell_passes(&self, key: &CellKey) -> bool {
        let filter = &self.opts.filter;
        if !self.task_passes[key.task.index()] || !(filter.cpus.is_empty() || filter.cpus.contains(&key.cpu))
        {
            return false;
        }
        let leaf = self.profile.callsites.of(key.callsite).frame;
        let own = self.expanded.own(leaf);
        let dso = self.profile.dsos.of(own.dso);
        let name = own.symbol.map(|id| self.profile.strings.of(self.profile.symbols.of(id).name));
        let dso_passes = filter.dsos.is_empty()
            || filter.dsos.iter().any(|want| *want == dso.short_name || *want == dso.path);
        let symbol_passes = filter.symbols.is_empty()
            || name.is_some_and(|name| filter.symbols.iter().any(|want| want == name));
        let contains = filter
            .symbol_contains
            .as_ref()
            .is_none_or(|part| name.is_some_and(|name| name.contains(part.as_str())));
        dso_passes && symbol_passes && contains && !(self.opts.hide_unresolved && name.is_none())
    }
}

/// The share of `period` in percent; 0 of nothing.
fn percent_of(period: u64, base: Option<u64>) -> f64 {
    match base {
        Some(base) if base > 0 => 100.0 * period as f64 / base as f64,
        _ => 0.0,
    }
}

fn name_matches(profile: &Profile, entry: &ChainEntry, regex: &Regex) -> bool {
    entry.symbol.is_some_and(|id| regex.is_match(profile.strings.of(profile.symbols.of(id).name)))
}

fn task_passes(profile: &Profile, task: &Task, opts: &ReportOpts) -> bool {
    let filter = &opts.filter;
    let comm = profile.strings.of(task.comm);
    (filter.comms.is_empty() || filter.comms.iter().any(|want| want == comm))
        && (filter.pids.is_empty() || filter.pids.contains(&task.pid))
        && (filter.tids.is_empty() || filter.tids.contains(&task.tid))
}

fn same_dsos(profile: &Profile) -> Vec<DsoId> {
    let mut first: FxHashMap<&str, DsoId> = FxHashMap::default();
    profile.dsos.iter().map(|(id, dso)| *first.entry(dso.short_name.as_str()).or_insert(id)).collect()
}

/// Rows of one section while they fill.
struct Rows<'c, 'a> {
    context: &'c Context<'a>,
    rows: Vec<ReportRow>,
    ids: FxHashMap<RowKey, u32>,
    /// Per key: distinct values.
    values: Vec<ValueTable>,
    /// The values that depend on the sample alone: all distinct combinations.
    parts: Vec<RowKey>,
    part_ids: FxHashMap<RowKey, u32>,
    /// By part and place: the row.
    known: FxHashMap<(u32, u32, bool), u32>,
    totals: Vec<Sums>,
    shown: Vec<Sums>,
    path: Vec<u32>,
    /// By row: the last cell that was counted for it.
    seen: Vec<u32>,
    cell_number: u32,
}

#[derive(Default)]
struct ValueTable {
    ids: FxHashMap<Value, u32>,
    values: Vec<Value>,
}

impl ValueTable {
    /// The id of `group`; `shown` is what the first of its kind looks like.
    fn intern(&mut self, group: Value, shown: Value) -> u32 {
        let values = &mut self.values;
        *self.ids.entry(group).or_insert_with(|| {
            values.push(shown);
            (values.len() - 1) as u32
        })
    }
}

impl<'c, 'a> Rows<'c, 'a> {
    fn new(context: &'c Context<'a>, members: usize) -> Self {
        Self {
            context,
            rows: Vec::new(),
            ids: FxHashMap::default(),
            values: context.keys.iter().map(|_| ValueTable::default()).collect(),
            parts: Vec::new(),
            part_ids: FxHashMap::default(),
            known: FxHashMap::default(),
            totals: vec![Sums::default(); members],
            shown: vec![Sums::default(); members],
            path: Vec::new(),
            seen: Vec::new(),
            cell_number: 0,
        }
    }

    /// Counts a cell at its own row and, with children, at the rows of its callers.
    fn add(&mut self, member: usize, key: &CellKey, sums: Sums) {
        self.totals[member].add(sums);
        let mut first = true;
        let mut passed = false;
        let leaf = self.context.profile.callsites.of(key.callsite).frame;
        let mode = mode_index(self.context.profile.mode_of(self.context.profile.frames.of(leaf).dso));
        let members = self.totals.len();
        let children = self.context.opts.children;
        let mut hits: SmallVec<[(usize, u32); 64]> = SmallVec::new();
        self.for_each_row(key, |row, depth, _| hits.push((row, depth)));
        for (row, depth) in hits {
            let row = &mut self.rows[row];
            if row.own.is_empty() {
                row.own = vec![Sums::default(); members];
                row.children = vec![Sums::default(); members];
            }
            row.children[member].add(sums);
            if first {
                row.own[member].add(sums);
                row.by_mode[mode] += sums.period;
                passed = true;
                first = false;
            }
            row.max_depth = row.max_depth.max(depth);
            if !children {
                break;
            }
        }
        if passed {
            self.shown[member].add(sums);
        }
    }

    /// Calls `f` with (row, length of the row's chain, length of the path): the cell's own row
    /// first, then, with children, that of every other entry of the path, each row once.
    fn for_each_row(&mut self, key: &CellKey, mut f: impl FnMut(usize, u32, u32)) {
        let Some(path) = self.path_of(key) else { return };
        let len = path.len();
        let order = self.order();
        let parent = self.parent_of(&path);
        self.cell_number += 1;
        let part = self.part_of(key, parent);
        if let Some(own) = self.own_row(key, part, &path, parent) {
            self.mark(own);
            f(own, len as u32, len as u32);
            if self.context.opts.children {
                for step in 0..len {
                    let at = if order == GraphOrder::Caller { len - 1 - step } else { step };
                    let row = self.row_of(part, path[at], false);
                    if self.mark(row) {
                        let depth = if order == GraphOrder::Caller { at + 1 } else { len - at };
                        f(row, depth as u32, len as u32);
                    }
                }
            }
        }
        self.path = path;
    }

    /// Appends the cell's path to `paths`, in the graph's direction, and its pieces to the rows
    /// that want chains.
    fn add_chains(
        &mut self,
        key: &CellKey,
        cell: usize,
        order: GraphOrder,
        paths: &mut Vec<u32>,
        chains: &mut [Option<Vec<Chain>>],
    ) {
        let start = paths.len();
        let mut used = false;
        self.for_each_row(key, |row, depth, len| {
            if let Some(chains) = &mut chains[row] {
                let skipped = len - depth;
                let chain = Chain { start: start as u32 + skipped, len: depth, cell: cell as u32 };
                chains.push(chain);
                used = true;
            }
        });
        if used {
            match order {
                GraphOrder::Callee => paths.extend(&self.path),
                GraphOrder::Caller => paths.extend(self.path.iter().rev()),
            }
        }
    }

    fn order(&self) -> GraphOrder {
        match self.context.opts.graph {
            Some(graph) => graph.order,
            None if self.context.opts.children => GraphOrder::Caller,
            None => GraphOrder::Callee,
        }
    }

    fn path_of(&mut self, key: &CellKey) -> Option<Vec<u32>> {
        let context = self.context;
        if !context.cell_passes(key) {
            return None;
        }
        let mut path = std::mem::take(&mut self.path);
        let opts = PathOpts {
            max_stack: context.opts.max_stack,
            cuts: context.cuts.as_deref(),
            hide_unresolved: context.opts.hide_unresolved,
        };
        context.expanded.path(context.profile, key.callsite, &opts, &mut path);
        Some(path)
    }

    /// The first entry, from the leaf, that `--parent` names.
    fn parent_of(&self, path: &[u32]) -> Option<u32> {
        let parents = self.context.parents.as_ref()?;
        path.iter().copied().find(|&entry| parents[entry as usize])
    }

    /// The row of the cell itself; `None` when it has no parent and those are left out.
    fn own_row(&mut self, key: &CellKey, part: u32, path: &[u32], parent: Option<u32>) -> Option<usize> {
        let by_parent = self.context.parents.is_some() && self.context.opts.exclude_other;
        if by_parent && parent.is_none() {
            return None;
        }
        if self.context.cuts.is_some()
            && let Some(&entry) = path.first()
            && self.context.cuts.as_ref().is_some_and(|cuts| cuts[entry as usize])
        {
            return Some(self.row_of(part, entry, false));
        }
        let leaf = self.context.profile.callsites.of(key.callsite).frame;
        Some(self.row_of(part, leaf.0, true))
    }

    /// The ids of the values that depend on the sample alone, as one number.
    fn part_of(&mut self, key: &CellKey, parent: Option<u32>) -> u32 {
        let context = self.context;
        let values: RowKey = (context.keys.iter().enumerate())
            .map(|(at, sort)| {
                if sort.is_of_frame() {
                    return 0;
                }
                let (group, shown) = self.sample_value(sort, key, parent);
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

    /// The row of an entry (`own` false) or of a leaf frame (`own` true), new or known.
    fn row_of(&mut self, part: u32, place: u32, own: bool) -> usize {
        if let Some(&row) = self.known.get(&(part, place, own)) {
            return row as usize;
        }
        let of_frame = self.frame_values(place, own);
        let keys = self.context.keys.iter().enumerate();
        let of_sample = &self.parts[part as usize];
        let row_key: RowKey =
            keys.map(|(at, sort)| if sort.is_of_frame() { of_frame[at] } else { of_sample[at] }).collect();
        let row = match self.ids.get(&row_key) {
            Some(&row) => row,
            None => self.push_row(row_key, place, own),
        };
        self.known.insert((part, place, own), row);
        row as usize
    }

    fn push_row(&mut self, key: RowKey, place: u32, own: bool) -> u32 {
        let frame = if own { FrameId(place) } else { self.context.expanded.entries[place as usize].frame };
        let values = key.iter().zip(&self.values).map(|(&id, table)| table.values[id as usize].clone());
        let row = ReportRow { values: values.collect(), frame: Some(frame), ..ReportRow::default() };
        self.rows.push(row);
        self.seen.push(0);
        let row = (self.rows.len() - 1) as u32;
        self.ids.insert(key, row);
        row
    }

    fn frame_values(&mut self, place: u32, own: bool) -> RowKey {
        let context = self.context;
        let entry = if own {
            *context.expanded.own(FrameId(place))
        } else {
            context.expanded.entries[place as usize]
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

    /// (what it is grouped by, what is shown) for a key that depends on the sample.
    fn sample_value(&self, sort: &SortKey, key: &CellKey, parent: Option<u32>) -> (Value, Value) {
        let profile = self.context.profile;
        let task = profile.task(key.task);
        let extra = profile.extra(key.extra);
        let same = |value: Value| (value.clone(), value);
        match sort {
            SortKey::Comm => same(Value::Text(task.comm)),
            SortKey::Pid | SortKey::Tid => {
                let comm = profile.last_comm(key.task);
                (Value::Task { id: task.tid, comm: StringId::EMPTY }, Value::Task { id: task.tid, comm })
            }
            SortKey::Tgid => {
                let comm = profile.last_comm(key.task);
                (Value::Task { id: task.pid, comm: StringId::EMPTY }, Value::Task { id: task.pid, comm })
            }
            SortKey::Cpu => same(Value::Number(i64::from(key.cpu))),
            SortKey::Socket => same(Value::Number(-1)),
            SortKey::Parent => {
                let symbol = parent.and_then(|entry| self.context.expanded.entries[entry as usize].symbol);
                same(symbol.map_or(Value::None, |id| Value::Text(profile.symbols.of(id).name)))
            }
            _ => same(self.extra_value(sort, extra)),
        }
    }

    fn extra_value(&self, sort: &SortKey, extra: &Extra) -> Value {
        let branch = extra.branch;
        let number = |value: Option<u64>| value.map_or(Value::None, |n| Value::Number(n as i64));
        match sort {
            SortKey::Trace => extra.trace.map_or(Value::None, Value::Text),
            SortKey::TraceField(name) => self.context.profile.trace_field(extra, name),
            SortKey::Cgroup => number(extra.cgroup),
            SortKey::Weight | SortKey::LocalWeight => Value::Number(extra.weight.unwrap_or(0) as i64),
            SortKey::Time => extra.time_ns.map_or(Value::None, Value::Time),
            SortKey::Transaction => number(extra.transaction),
            SortKey::DataAddr => extra.data_addr.map_or(Value::None, Value::Address),
            SortKey::SampleNumber => number(extra.sample),
            SortKey::DsoFrom => branch.map_or(Value::None, |b| self.context.branch_dso(b.from)),
            SortKey::DsoTo => branch.map_or(Value::None, |b| self.context.branch_dso(b.to)),
            SortKey::SymbolFrom => branch.map_or(Value::None, |b| self.context.branch_symbol(b.from)),
            SortKey::SymbolTo => branch.map_or(Value::None, |b| self.context.branch_symbol(b.to)),
            SortKey::Mispredict => branch.and_then(|b| b.mispredicted).map_or(Value::None, Value::Flag),
            SortKey::InTx => branch.map_or(Value::None, |b| Value::Flag(b.in_tx)),
            SortKey::Abort => branch.map_or(Value::None, |b| Value::Flag(b.abort)),
            SortKey::Cycles => {
                branch.filter(|b| b.cycles > 0).map_or(Value::None, |b| Value::Number(i64::from(b.cycles)))
            }
            _ => Value::None,
        }
    }

    /// True the first time a row is met for the present cell.
    fn mark(&mut self, row: usize) -> bool {
        std::mem::replace(&mut self.seen[row], self.cell_number) != self.cell_number
    }

    /// The rows. A nameless caller that was never hit itself is shown where it was in the
    /// process, as perf does: its position in the file would say less about the call.
    fn finish(mut self) -> Vec<ReportRow> {
        for row in self.rows.iter_mut().filter(|row| row.own.iter().all(|sums| sums.count == 0)) {
            let Some(frame) = row.frame else { continue };
            for value in &mut row.values {
                if let Value::Symbol { symbol: None, addr, .. } = value {
                    *addr = self.context.profile.frames.of(frame).first_avma;
                }
            }
        }
        self.rows
    }
}

impl Context<'_> {
    /// (what it is grouped by, what is shown) for a key that depends on the frame.
    fn frame_value(&self, sort: &SortKey, entry: &ChainEntry, with_dso: bool) -> (Value, Value) {
        let profile = self.profile;
        let same = |value: Value| (value.clone(), value);
        let symbol = entry.symbol.map(|id| profile.symbols.of(id));
        match sort {
            SortKey::Dso => (Value::Dso(self.same_dso[entry.dso.index()]), Value::Dso(entry.dso)),
            SortKey::Symbol => {
                let addr = if symbol.is_some() { 0 } else { profile.shown_addr(entry.frame) };
                let shown = Value::Symbol { dso: entry.dso, symbol: entry.symbol, addr };
                let dso = match (symbol.is_some(), with_dso) {
                    (true, _) => entry.dso,
                    (false, true) => self.same_dso[entry.dso.index()],
                    (false, false) => DsoId(0),
                };
                (Value::Symbol { dso, symbol: entry.symbol, addr }, shown)
            }
            SortKey::SrcLine => same(match entry.line {
                Some((file, line)) => Value::Line { file, line },
                None => self.place_without_line(entry),
            }),
            SortKey::SrcFile => same(entry.line.map_or(Value::None, |(file, _)| Value::Text(file))),
            SortKey::SymbolSize => same(Value::Number(symbol.map_or(0, |s| s.size as i64))),
            _ => same(Value::None),
        }
    }

    /// A function or address in the place of a line that is not known.
    fn place_without_line(&self, entry: &ChainEntry) -> Value {
        let addr = self.profile.frames.of(entry.frame).addr;
        Value::Symbol { dso: entry.dso, symbol: entry.symbol, addr }
    }

    fn branch_dso(&self, frame: FrameId) -> Value {
        Value::Dso(self.same_dso[self.profile.frames.of(frame).dso.index()])
    }

    fn branch_symbol(&self, frame: FrameId) -> Value {
        let own = self.expanded.own(frame);
        let addr = if own.symbol.is_some() { 0 } else { self.profile.shown_addr(frame) };
        Value::Symbol { dso: own.dso, symbol: own.symbol, addr }
    }
}

fn mode_index(mode: Mode) -> usize {
    match mode {
        Mode::Kernel => 0,
        Mode::User | Mode::Hypervisor => 1,
        Mode::GuestKernel => 2,
        Mode::GuestUser => 3,
    }
}

impl Section {
    /// Does this section have a column for `field`?
    #[must_use]
    pub fn has_column(&self, field: &Field) -> bool {
        self.columns.contains(field)
    }
}
