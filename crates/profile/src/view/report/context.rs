//! State shared by all sections of a report: matched names, filters, formats of values.

use super::ReportOpts;
use super::expand::Expanded;
use super::field::SortKey;
use super::row::{ChainEntry, SortValue};
use crate::machine::Mode;
use crate::profile::{CellKey, Profile, Task, TaskId};
use crate::table::{DsoId, FrameId};
use crate::view::wall::is_called;
use regex_lite::Regex;
use rustc_hash::FxHashMap;

/// perf's `--parent` when none is given.
const DEFAULT_PARENT: &str = "^sys_|^do_page_fault";

/// State shared by all sections.
pub(super) struct Context<'a> {
    pub(super) profile: &'a Profile,
    pub(super) opts: &'a ReportOpts,
    pub(super) keys: Vec<SortKey>,
    pub(super) expanded: Expanded,
    /// By entry: is it a parent (`--parent`), does it hide its callees?
    pub(super) parents: Option<Vec<bool>>,
    cuts: Option<Vec<bool>>,
    /// Rows are of places in the code, not of functions.
    pub(super) has_places: bool,
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
        let tasks = profile.tasks().iter().enumerate();
        let task_passes =
            tasks.map(|(at, task)| task_passes(profile, TaskId::from_index(at), task, opts)).collect();
        let is_place = |key: &SortKey| matches!(key, SortKey::SrcLine | SortKey::SrcFile | SortKey::Addr);
        let has_places = keys.iter().any(is_place);
        let same_dso = same_dsos(profile);
        Self { profile, opts, keys, parents, cuts, has_places, same_dso, task_passes, expanded }
    }

    /// By entry: true if it represents all its callees.
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
        if !filter.is_by_code() {
            return true;
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
        dso_passes && symbol_passes && contains
    }

    /// Position in [`super::ReportRow::by_mode`] of samples at a frame.
    pub(super) fn mode_index(&self, leaf: FrameId) -> u8 {
        match self.profile.mode_of(self.expanded.own(leaf).dso) {
            Mode::Kernel => 0,
            Mode::User | Mode::Hypervisor => 1,
            Mode::GuestKernel => 2,
            Mode::GuestUser => 3,
        }
    }

    /// Is this cell not even in the totals? As perf, for samples of code without a name.
    pub(super) fn is_left_out(&self, key: &CellKey) -> bool {
        let leaf = || self.profile.callsites.of(key.callsite).frame;
        self.opts.hide_unresolved && self.expanded.own(leaf()).symbol.is_none()
    }
}

impl Context<'_> {
    /// The pair (grouped value, shown value) for a key that depends on the frame.
    pub(super) fn frame_value(
        &self,
        sort: &SortKey,
        entry: &ChainEntry,
        with_dso: bool,
    ) -> (SortValue, SortValue) {
        let profile = self.profile;
        let same = |value: SortValue| (value.clone(), value);
        let symbol = entry.symbol.map(|id| profile.symbols.of(id));
        match sort {
            SortKey::Dso => (SortValue::Dso(self.same_dso[entry.dso.index()]), SortValue::Dso(entry.dso)),
            SortKey::Symbol => {
                let addr = if symbol.is_some() { 0 } else { profile.shown_addr(entry.frame) };
                let shown = SortValue::Symbol { dso: entry.dso, symbol: entry.symbol, addr };
                let dso = match (symbol.is_some(), with_dso) {
                    (true, _) => entry.dso,
                    (false, true) => self.same_dso[entry.dso.index()],
                    (false, false) => DsoId(0),
                };
                (SortValue::Symbol { dso, symbol: entry.symbol, addr }, shown)
            }
            SortKey::SrcLine => same(self.line_of(entry)),
            SortKey::Addr => same(SortValue::Address(profile.frames.of(entry.frame).first_avma)),
            SortKey::SrcFile => same(entry.line.map_or(SortValue::None, |(file, _)| SortValue::Text(file))),
            SortKey::SymbolSize => same(symbol.map_or(SortValue::None, |s| SortValue::Number(s.size as i64))),
            _ => same(SortValue::None),
        }
    }

    /// The line; a function or address in the place of one that is not known.
    fn line_of(&self, entry: &ChainEntry) -> SortValue {
        if let Some((file, line)) = entry.line {
            return SortValue::Line { file, line };
        }
        let addr = self.profile.frames.of(entry.frame).addr;
        SortValue::Symbol { dso: entry.dso, symbol: entry.symbol, addr }
    }

    pub(super) fn branch_dso(&self, frame: FrameId) -> SortValue {
        SortValue::Dso(self.same_dso[self.profile.frames.of(frame).dso.index()])
    }

    /// The very address, with its function if that has a name.
    pub(super) fn branch_place(&self, frame: FrameId) -> SortValue {
        let own = self.expanded.own(frame);
        let addr = match own.symbol {
            Some(_) => self.profile.frames.of(frame).addr,
            None => self.profile.shown_addr(frame),
        };
        SortValue::Symbol { dso: own.dso, symbol: own.symbol, addr }
    }

    pub(super) fn branch_line(&self, frame: FrameId) -> SortValue {
        self.line_of(self.expanded.own(frame))
    }

    pub(super) fn branch_symbol(&self, frame: FrameId) -> SortValue {
        let own = self.expanded.own(frame);
        let addr = if own.symbol.is_some() { 0 } else { self.profile.shown_addr(frame) };
        SortValue::Symbol { dso: own.dso, symbol: own.symbol, addr }
    }
}

fn name_matches(profile: &Profile, entry: &ChainEntry, regex: &Regex) -> bool {
    entry.symbol.is_some_and(|id| regex.is_match(profile.strings.of(profile.symbols.of(id).name)))
}

fn task_passes(profile: &Profile, id: TaskId, task: &Task, opts: &ReportOpts) -> bool {
    let filter = &opts.filter;
    let comm = profile.strings.of(task.comm);
    (filter.comms.is_empty() || filter.comms.iter().any(|want| want == comm))
        && (filter.pids.is_empty() || filter.pids.contains(&task.pid))
        && (filter.tids.is_empty() || filter.tids.contains(&task.tid))
        && filter.thread.as_ref().is_none_or(|wanted| is_called(profile, id, wanted))
}

fn same_dsos(profile: &Profile) -> Vec<DsoId> {
    let mut first: FxHashMap<&str, DsoId> = FxHashMap::default();
    profile.dsos.iter().map(|(id, dso)| *first.entry(dso.short_name.as_str()).or_insert(id)).collect()
}
