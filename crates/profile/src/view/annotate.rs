//! Annotation: samples by address within functions.
//!
//! Only the hit address itself counts, callers do not. This view has numbers and names. The renderer finds the code and
//! source lines at the addresses.

use crate::grow::Grow as _;
use crate::profile::{Profile, Sums};
use crate::table::{DsoId, DsoKind, FrameId, InlineFrame, StringId, SymbolId, SymbolRange};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Names that a wanted one is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameMatch {
    /// Those of functions in the symbol tables.
    #[default]
    Own,
    /// Those of inlined functions as well (needs [`crate::source::Want::Lines`]): of the functions that hold them the
    /// samples that hit them.
    Inlined,
    /// The same without template arguments and the suffixes of parts, as [`dso::brief`] has them.
    Brief,
}

/// Function and samples to annotate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotateOpts {
    /// Only these files, by short name or path; empty is all.
    pub dsos: Vec<String>,
    /// Only functions of these names, or ending in `::NAME`; empty is all. Those of other languages also without file,
    /// types and class.
    pub symbols: Vec<String>,
    /// Text that these names are compared with.
    pub names: NameMatch,
}

/// One function, or the nameless code of one DSO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotateFunction {
    /// The file that contains it.
    pub dso: DsoId,
    /// Name; `None` gathers all hits of the DSO that have none.
    pub name: Option<StringId>,
    /// First address, in the space of the DSO's frames; 0 without a name.
    pub start: u64,
    /// Length in bytes; 0 if unknown.
    pub size: u64,
    /// By event.
    pub totals: Vec<Sums>,
    /// Samples by address.
    pub addresses: Vec<AnnotateAddress>,
}

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotateAddress {
    /// In the space of the DSO's frames.
    pub addr: u64,
    /// By event.
    pub sums: Vec<Sums>,
}

/// Identity of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionKey {
    dso: DsoId,
    /// `None`: code without a symbol.
    named: Option<FunctionRange>,
}

/// Name and place of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionRange {
    name: StringId,
    start: u64,
    size: u64,
}

/// All functions hit that `opts` lets through, the hottest (by period, over all events, as shares of
/// each event's total) first.
#[must_use]
pub fn annotate(profile: &Profile, opts: &AnnotateOpts) -> Vec<AnnotateFunction> {
    let events = profile.events.len();
    let mut by_frame: FxHashMap<FrameId, Vec<Sums>> = FxHashMap::default();
    for (key, sums) in profile.cells() {
        let frame = profile.callsites.of(key.callsite).frame;
        by_frame.entry(frame).or_insert_with(|| vec![Sums::default(); events])[key.event as usize].add(*sums);
    }
    let mut functions: FxHashMap<FunctionKey, AnnotateFunction> = FxHashMap::default();
    for (frame, sums) in by_frame {
        let key = key_of(profile, frame);
        if !is_wanted(profile, frame, opts) {
            continue;
        }
        let function = functions.entry(key).or_insert_with(|| empty(key, events));
        function.totals.iter_mut().zip(&sums).for_each(|(total, sums)| total.add(*sums));
        function.addresses.push(AnnotateAddress { addr: profile.frames.of(frame).addr, sums });
    }
    let mut functions: Vec<_> = functions.into_values().collect();
    functions.iter_mut().for_each(gather);
    let totals: Vec<u64> = (0..events).map(|event| profile.total(event).period.max(1)).collect();
    sort(profile, &mut functions, &totals);
    functions
}

fn key_of(profile: &Profile, frame: FrameId) -> FunctionKey {
    let dso = profile.frames.of(frame).dso;
    let named = profile.frame_names(frame).last().map(|inline| profile.symbols.of(inline.symbol));
    let range =
        |symbol: &SymbolRange| FunctionRange { name: symbol.name, start: symbol.start, size: symbol.size };
    FunctionKey { dso, named: named.map(range) }
}

fn is_wanted(profile: &Profile, frame: FrameId, opts: &AnnotateOpts) -> bool {
    let dso = profile.dsos.of(profile.frames.of(frame).dso);
    let in_dso = opts.dsos.is_empty() || opts.dsos.iter().any(|d| *d == dso.short_name || *d == dso.path);
    let functions = profile.frame_names(frame);
    let own_from = if opts.names == NameMatch::Own { functions.len().saturating_sub(1) } else { 0 };
    let mut symbols = functions[own_from..].iter().map(|inline| inline.symbol);
    in_dso && (opts.symbols.is_empty() || symbols.any(|symbol| is_named(profile, symbol, opts)))
}

/// Has the function one of the names that `opts` lets through?
pub(super) fn is_named(profile: &Profile, symbol: SymbolId, opts: &AnnotateOpts) -> bool {
    let range = profile.symbols.of(symbol);
    let name = profile.strings.of(range.name);
    let kind = profile.dsos.of(range.dso).kind;
    if matches!(kind, DsoKind::Python | DsoKind::PerfMap { .. }) {
        return opts.symbols.iter().any(|wanted| is_of_language(name, wanted));
    }
    let name = if opts.names == NameMatch::Brief { dso::brief(name) } else { name.into() };
    let is = |wanted: &String| {
        name == *wanted || name.strip_suffix(wanted.as_str()).is_some_and(|s| s.ends_with("::"))
    };
    opts.symbols.iter().any(is)
}

/// Is it the function `Shop.price (shop.py)`, `int Shop.price(int)` or `JS:*Shop.price /srv/shop.js:2:9` that `wanted`
/// names: as it is, without types and file, or by its last part?
fn is_of_language(name: &str, wanted: &str) -> bool {
    let brief = dso::brief(name);
    let own = match dso::v8_function(name) {
        Some(function) => function.name,
        None => brief.split('(').next().unwrap_or_default().trim_end(),
    };
    name == wanted || brief == wanted || own == wanted || own.rsplit('.').next() == Some(wanted)
}

/// The function of the symbol table that holds most of the samples of the function `symbol`: itself, or one that it was
/// inlined into. `None` if no sample ends in it.
#[must_use]
pub fn function_holding(profile: &Profile, symbol: SymbolId) -> Option<SymbolId> {
    let wanted = *profile.symbols.of(symbol);
    let is_it = |inline: &InlineFrame| {
        let own = profile.symbols.of(inline.symbol);
        (own.dso, own.name) == (wanted.dso, wanted.name)
    };
    let mut holders: BTreeMap<SymbolId, u64> = BTreeMap::new();
    for (key, sums) in profile.cells() {
        let functions = profile.frame_names(profile.callsites.of(key.callsite).frame);
        if let Some(holder) = functions.last().filter(|_| functions.iter().any(is_it)) {
            holders.entry(holder.symbol).or_default().grow(sums.period);
        }
    }
    holders.into_iter().max_by_key(|(_, period)| *period).map(|(holder, _)| holder)
}

fn empty(key: FunctionKey, events: usize) -> AnnotateFunction {
    let (start, size) = key.named.map_or((0, 0), |range| (range.start, range.size));
    let totals = vec![Sums::default(); events];
    AnnotateFunction {
        dso: key.dso,
        name: key.named.map(|range| range.name),
        start,
        size,
        totals,
        addresses: Vec::new(),
    }
}

/// Sorts by address; an address that was hit and returned to is one.
fn gather(function: &mut AnnotateFunction) {
    function.addresses.rank_by_key(|a| a.addr);
    function.addresses.dedup_by(|later, first| {
        let same = later.addr == first.addr;
        if same {
            first.sums.iter_mut().zip(&later.sums).for_each(|(sum, more)| sum.add(*more));
        }
        same
    });
}

fn sort(profile: &Profile, functions: &mut [AnnotateFunction], totals: &[u64]) {
    let heat = |f: &AnnotateFunction| -> u128 {
        // Shares in parts of 2^64, so that events of different units can be added exactly.
        f.totals
            .iter()
            .zip(totals)
            .map(|(sums, total)| (u128::from(sums.period) << 64) / u128::from(*total).max(1))
            .fold(0, u128::saturating_add)
    };
    functions.rank_by(|a, b| {
        let by_name = || {
            let text = |f: &AnnotateFunction| f.name.map(|name| profile.strings.of(name).to_owned());
            (text(a), a.dso.index(), a.start).cmp(&(text(b), b.dso.index(), b.start))
        };
        heat(b).cmp(&heat(a)).then_with(by_name)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CellKey, EventInfo, ExtraId, Task};
    use crate::table::{Dso, Frame};

    /// A profile of one file whose nameless frames were hit at these addresses, under these callers.
    fn profile(hits: &[(u64, Option<u64>, u64)]) -> Profile {
        let mut profile = Profile::default();
        profile.events.push(EventInfo::default());
        let dso = Dso {
            kind: DsoKind::File,
            path: "/bin/app".into(),
            short_name: "app".into(),
            build_id: None,
            level: '.',
            start_avma: 0,
        };
        let dso = profile.dsos.intern(dso);
        let comm = profile.strings.intern("app");
        let task = profile.intern_task(Task { pid: 1, tid: 1, process: 0, comm });
        let extra = profile.intern_extra(crate::profile::ExtraDimensions::default());
        assert_eq!(extra, ExtraId(0));
        for &(addr, caller, count) in hits {
            let mut frame = |addr| profile.frames.intern(Frame { dso, addr, lookup: addr, first_avma: addr });
            let (leaf, caller) = (frame(addr), caller.map(&mut frame));
            let chain: Vec<_> = [Some(leaf), caller].into_iter().flatten().collect();
            let callsite = profile.callsites.intern_leaf_first(&chain).expect("a frame");
            let key = CellKey { event: 0, task, cpu: -1, callsite, extra };
            profile.add(key, Sums { count, period: count * 10, weight: 0, ..Sums::default() });
        }
        profile
    }

    #[test]
    fn only_the_address_hit_counts_whatever_the_callers() {
        let profile = profile(&[(0x30, Some(0x10), 2), (0x30, Some(0x20), 3), (0x10, None, 1)]);
        let functions = annotate(&profile, &AnnotateOpts::default());
        assert_eq!(functions.len(), 1, "nameless code of one file is one row");
        let hits: Vec<(u64, u64)> =
            functions[0].addresses.iter().map(|a| (a.addr, a.sums[0].count)).collect();
        assert_eq!(hits, [(0x10, 1), (0x30, 5)]);
        assert_eq!(functions[0].totals[0], Sums { count: 6, period: 60, weight: 0, ..Sums::default() });
    }

    #[test]
    fn functions_of_languages_are_found_without_file_types_and_class() {
        for name in ["Shop.price (shop.py)", "int Shop.price(int)", "JS:*Shop.price /srv/shop.js:2:9"] {
            let found = |wanted: &str| is_of_language(name, wanted);
            assert_eq!(
                [name, "Shop.price", "price", "shop.py", "rice", "Shop"].map(found),
                [true, true, true, false, false, false],
                "{name}"
            );
        }
    }

    #[test]
    fn other_files_and_nameless_code_are_filtered_out() {
        let profile = profile(&[(0x30, None, 2)]);
        let with = |dsos: &[&str], symbols: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
            annotate(
                &profile,
                &AnnotateOpts { dsos: own(dsos), symbols: own(symbols), names: NameMatch::Own },
            )
            .len()
        };
        assert_eq!(
            [with(&["app"], &[]), with(&["/bin/app"], &[]), with(&["other"], &[]), with(&[], &["f"])],
            [1, 1, 0, 0]
        );
    }
}
