//! Frames to source-level entries, once per view: inline frames unrolled, equal functions one.

use super::row::ChainEntry;
use super::{FunctionUnit, GraphKey, ReportOpts};
use crate::profile::Profile;
use crate::table::{CallsiteId, DsoId, DsoKind, FrameId, StringId, SymbolId};
use rustc_hash::FxHashMap;

/// Identity of an entry: frames with equal keys share one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum EntryKey {
    Symbol(SymbolId),
    Addr(DsoId, u64),
    Line(StringId, u32),
}

/// Entries of one frame, most often one alone.
#[derive(Clone, Copy)]
enum EntriesOfFrame {
    One(u32),
    /// `flat[from..to]`.
    Many(u32, u32),
}

/// The entries of each frame.
pub(super) struct Expanded {
    /// All distinct entries.
    pub entries: Vec<ChainEntry>,
    ids: FxHashMap<EntryKey, u32>,
    /// By frame: its entries, innermost first.
    by_frame: Vec<EntriesOfFrame>,
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
            let entries = if opts.inlines && profile.frame_names(frame).len() > 1 {
                this.push_inlines(profile, frame, key, &units)
            } else {
                EntriesOfFrame::One(this.id_of(own, key, profile))
            };
            this.by_frame.push(entries);
            this.own.push(own);
        }
        this
    }

    fn push_inlines(
        &mut self,
        profile: &Profile,
        frame: FrameId,
        key: GraphKey,
        units: &Units,
    ) -> EntriesOfFrame {
        let from = self.flat.len() as u32;
        let base = own_entry(profile, frame, units);
        for inline in profile.frame_names(frame) {
            let line = inline.file.map(|file| (file, inline.line));
            let entry = ChainEntry { symbol: Some(units.unit_of(inline.symbol)), line, ..base };
            let id = self.id_of(entry, key, profile);
            self.flat.push(id);
        }
        EntriesOfFrame::Many(from, self.flat.len() as u32)
    }

    /// The id of an entry, new or known.
    fn id_of(&mut self, entry: ChainEntry, key: GraphKey, profile: &Profile) -> u32 {
        let function = entry.symbol.map(EntryKey::Symbol);
        let addr = EntryKey::Addr(entry.dso, profile.frames.of(entry.frame).addr);
        let key = match key {
            GraphKey::Function => function,
            GraphKey::Address => None,
            GraphKey::SrcLine => entry.line.map(|(file, line)| EntryKey::Line(file, line)).or(function),
        };
        let entries = &mut self.entries;
        *self.ids.entry(key.unwrap_or(addr)).or_insert_with(|| {
            entries.push(entry);
            (entries.len() - 1) as u32
        })
    }

    /// The entries of a frame, innermost first.
    pub fn of_frame(&self, frame: FrameId) -> &[u32] {
        match &self.by_frame[frame.index()] {
            EntriesOfFrame::One(entry) => std::slice::from_ref(entry),
            EntriesOfFrame::Many(from, to) => &self.flat[*from as usize..*to as usize],
        }
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
            let is_shown =
                |entry: u32| !opts.hide_unresolved || self.entries[entry as usize].symbol.is_some();
            match *entries {
                [entry] if is_shown(entry) => path.push(entry),
                _ => path.extend(entries.iter().copied().filter(|&entry| is_shown(entry))),
            }
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
    /// By symbol: the representative of all symbols with its file and name.
    first: Vec<SymbolId>,
}

impl Units {
    fn of(profile: &Profile, unit: FunctionUnit) -> Self {
        let mut by_name: FxHashMap<(DsoId, StringId), SymbolId> = FxHashMap::default();
        let ids = || (0..profile.symbols.len()).map(SymbolId::from_index);
        let key = |id: SymbolId| (profile.symbols.of(id).dso, profile.symbols.of(id).name);
        // A copy that is a function of its own represents the inlined ones.
        let (inlined, own): (Vec<_>, Vec<_>) = ids().partition(|&id| profile.symbols.of(id).inlined);
        for id in own.into_iter().chain(inlined) {
            by_name.entry(key(id)).or_insert(id);
        }
        // A JIT compiler makes the code of a function several times; in files, equal names are different functions.
        let is_one = |id| {
            let dso = profile.dsos.of(profile.symbols.of(id).dso);
            unit == FunctionUnit::Inlined || matches!(dso.kind, DsoKind::PerfMap { .. })
        };
        let first = ids().map(|id| if is_one(id) { by_name[&key(id)] } else { id }).collect();
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
