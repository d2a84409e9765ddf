//! Frames to source-level entries, once per view: inline frames unrolled, equal functions one.

use super::row::ChainEntry;
use super::{FunctionUnit, GraphKey, ReportOpts};
use crate::profile::Profile;
use crate::table::{CallsiteId, DsoId, FrameId, StringId, SymbolId};
use rustc_hash::FxHashMap;

/// Identity of an entry: frames with equal keys share one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum EntryKey {
    Symbol(SymbolId),
    Addr(DsoId, u64),
    Line(StringId, u32),
}

/// The entries of each frame.
pub(super) struct Expanded {
    /// All distinct entries.
    pub entries: Vec<ChainEntry>,
    ids: FxHashMap<EntryKey, u32>,
    /// By frame: its entries, innermost first.
    by_frame: Vec<(u32, u32)>,
    flat: Vec<u32>,
    /// By frame: the entry of a sample's own row.
    own: Vec<ChainEntry>,
}

impl Expanded {
    /// Expands all frames of a profile.
    pub fn new(profile: &Profile, opts: &ReportOpts) -> Self {
        let key = opts.graph.map_or(GraphKey::Function, |graph| graph.key);
        let mut this = Self {
            entries: Vec::new(),
            ids: FxHashMap::default(),
            by_frame: Vec::new(),
            flat: Vec::new(),
            own: Vec::new(),
        };
        let units = Units::of(profile, opts.unit);
        for index in 0..profile.frames.len() {
            let frame = FrameId::from_index(index);
            let own = own_entry(profile, frame, &units);
            let from = this.flat.len();
            if opts.inlines && profile.frame_names(frame).len() > 1 {
                this.push_inlines(profile, frame, key, &units);
            } else {
                this.push(own, key, profile);
            }
            let (from, to) = (from as u32, this.flat.len() as u32);
            this.by_frame.push((from, to));
            this.own.push(own);
        }
        this
    }

    fn push_inlines(&mut self, profile: &Profile, frame: FrameId, key: GraphKey, units: &Units) {
        let base = own_entry(profile, frame, units);
        for inline in profile.frame_names(frame) {
            let line = inline.file.map(|file| (file, inline.line));
            self.push(ChainEntry { symbol: Some(units.unit_of(inline.symbol)), line, ..base }, key, profile);
        }
    }

    fn push(&mut self, entry: ChainEntry, key: GraphKey, profile: &Profile) {
        let function = entry.symbol.map(EntryKey::Symbol);
        let addr = EntryKey::Addr(entry.dso, profile.frames.of(entry.frame).addr);
        let key = match key {
            GraphKey::Function => function,
            GraphKey::Address => None,
            GraphKey::SrcLine => entry.line.map(|(file, line)| EntryKey::Line(file, line)).or(function),
        };
        let entries = &mut self.entries;
        let id = *self.ids.entry(key.unwrap_or(addr)).or_insert_with(|| {
            entries.push(entry);
            (entries.len() - 1) as u32
        });
        self.flat.push(id);
    }

    /// The entries of a frame, innermost first.
    pub fn of_frame(&self, frame: FrameId) -> &[u32] {
        let (from, to) = self.by_frame[frame.index()];
        &self.flat[from as usize..to as usize]
    }

    /// The entry of a sample's own row at `frame`.
    pub fn own(&self, frame: FrameId) -> &ChainEntry {
        &self.own[frame.index()]
    }

    /// The entries of a path into `path`, **leaf first**.
    pub fn path(&self, profile: &Profile, callsite: CallsiteId, opts: &PathOpts<'_>, path: &mut Vec<u32>) {
        path.clear();
        for &frame in profile.callsites.path(callsite).iter().take(opts.max_stack) {
            let entries = self.of_frame(frame);
            if opts.cuts.is_some_and(|cuts| entries.iter().any(|&e| cuts[e as usize])) {
                path.clear();
            }
            path.extend(
                entries
                    .iter()
                    .filter(|&&e| !opts.hide_unresolved || self.entries[e as usize].symbol.is_some()),
            );
        }
    }
}

/// Rules for leaving entries out of paths.
pub(super) struct PathOpts<'a> {
    pub max_stack: usize,
    /// By entry: true if it represents all its callees.
    pub cuts: Option<&'a [bool]>,
    pub hide_unresolved: bool,
}

/// Representative symbol of each symbol.
struct Units {
    unit: FunctionUnit,
    /// By symbol, with [`FunctionUnit::Inlined`]: the representative of all symbols with its file and name.
    first: Vec<SymbolId>,
}

impl Units {
    fn of(profile: &Profile, unit: FunctionUnit) -> Self {
        if unit == FunctionUnit::Symbol {
            return Self { unit, first: Vec::new() };
        }
        let mut by_name: FxHashMap<(DsoId, StringId), SymbolId> = FxHashMap::default();
        let ids = || (0..profile.symbols.len()).map(SymbolId::from_index);
        let key = |id: SymbolId| (profile.symbols.of(id).dso, profile.symbols.of(id).name);
        // A copy that is a function of its own represents the inlined ones.
        let (inlined, own): (Vec<_>, Vec<_>) = ids().partition(|&id| profile.symbols.of(id).inlined);
        for id in own.into_iter().chain(inlined) {
            by_name.entry(key(id)).or_insert(id);
        }
        let first = ids().map(|id| by_name[&key(id)]).collect();
        Self { unit, first }
    }

    fn unit_of(&self, symbol: SymbolId) -> SymbolId {
        self.first.get(symbol.index()).copied().unwrap_or(symbol)
    }
}

fn own_entry(profile: &Profile, id: FrameId, units: &Units) -> ChainEntry {
    let frame = profile.frames.of(id);
    let names = profile.frame_names(id);
    let own = match units.unit {
        FunctionUnit::Symbol => names.last(),
        FunctionUnit::Inlined => names.first(),
    };
    ChainEntry {
        dso: frame.dso,
        symbol: own.map(|name| units.unit_of(name.symbol)),
        avma: frame.first_avma,
        frame: id,
        line: names.first().and_then(|name| Some((name.file?, name.line))),
    }
}
