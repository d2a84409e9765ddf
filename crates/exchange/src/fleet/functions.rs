//! Functions of a merged profile by time, and waits by where they happened.

use profile::Profile;
use profile::grow::Grow as _;
use profile::table::{DsoKind, FrameId};
use profile::view::ranking::RankRows as _;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// A function with its sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSum {
    /// Name.
    pub name: String,
    /// The file that contains it, short.
    pub file: String,
    /// Its own value, in the event's unit.
    pub own: u64,
    /// The same with what it calls.
    pub total: u64,
}

/// All functions of an event, by own value, largest first. Inlined functions count for themselves.
#[must_use]
pub fn functions(profile: &Profile, event: usize) -> Vec<FunctionSum> {
    let mut sums: FxHashMap<(String, String), (u64, u64)> = FxHashMap::default();
    for (key, cell) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
        let mut seen = FxHashSet::default();
        for (at, function) in path(profile, key.callsite).into_iter().enumerate() {
            let sum = sums.entry(function.clone()).or_default();
            if at == 0 {
                sum.0.grow(cell.period);
            }
            if seen.insert(function) {
                sum.1.grow(cell.period);
            }
        }
    }
    let rows = sums.into_iter().map(|((name, file), (own, total))| FunctionSum { name, file, own, total });
    let mut rows: Vec<FunctionSum> = rows.collect();
    rows.rank_by(|a, b| (Reverse((a.own, a.total)), &a.name).cmp(&(Reverse((b.own, b.total)), &b.name)));
    rows
}

/// Waits of one kind in one function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitSum {
    /// The kind: `futex`.
    pub state: String,
    /// The innermost function outside of the kernel and the C library; empty if there is none.
    pub function: String,
    /// How long, ns.
    pub ns: u64,
}

/// The waits of event number `event` (the wall clock), longest first. Running time is left out.
#[must_use]
pub fn waits(profile: &Profile, event: usize) -> Vec<WaitSum> {
    let mut sums: FxHashMap<(String, String), u64> = FxHashMap::default();
    for (key, cell) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
        let frames = profile.callsites.path(key.callsite);
        let Some(state) = state_of(profile, frames[0]) else { continue };
        let function = frames[1..].iter().find(|&&frame| is_of_a_program(profile, frame));
        let function = function.map_or_else(String::new, |&frame| names(profile, frame)[0].0.clone());
        sums.entry((state, function)).or_default().grow(cell.period);
    }
    let mut rows: Vec<WaitSum> =
        sums.into_iter().map(|((state, function), ns)| WaitSum { state, function, ns }).collect();
    rows.rank_by(|a, b| (Reverse(a.ns), &a.state, &a.function).cmp(&(Reverse(b.ns), &b.state, &b.function)));
    rows
}

/// The state at the end of a path: a name in brackets in no file.
fn state_of(profile: &Profile, frame: FrameId) -> Option<String> {
    let is_nowhere = profile.dsos.of(profile.frames.of(frame).dso).kind == DsoKind::Unknown;
    let (name, _) = names(profile, frame).into_iter().next()?;
    let state = name.strip_prefix('[')?.strip_suffix(']')?;
    (is_nowhere && state != "no sample").then(|| state.to_owned())
}

fn is_of_a_program(profile: &Profile, frame: FrameId) -> bool {
    let dso = profile.dsos.of(profile.frames.of(frame).dso);
    let is_library =
        ["libc.so", "libc-", "libpthread", "ld-linux"].iter().any(|name| dso.short_name.starts_with(name));
    !dso.kind.is_kernel() && !is_library
}

fn path(profile: &Profile, callsite: profile::table::CallsiteId) -> Vec<(String, String)> {
    profile.callsites.leaf_first(callsite).flat_map(|frame| names(profile, frame)).collect()
}

/// Functions of a frame with their file, innermost first; the file in brackets if it has no name.
fn names(profile: &Profile, frame: FrameId) -> Vec<(String, String)> {
    let dso = profile.dsos.of(profile.frames.of(frame).dso);
    let lines = profile.frame_names(frame);
    if lines.is_empty() {
        return vec![(dso.bracketed_name(), dso.short_name.clone())];
    }
    let name = |line: &profile::table::InlineFrame| {
        profile.strings.of(profile.symbols.of(line.symbol).name).to_owned()
    };
    lines.iter().map(|line| (name(line), dso.short_name.clone())).collect()
}
