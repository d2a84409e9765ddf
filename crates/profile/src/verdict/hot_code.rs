//! The code that runs most, as a next command can show it.

use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::table::{DsoKind, FrameId, InlineFrame};
use crate::view::hot_functions::{MOST_FUNCTIONS, hot_functions, main_event};
use crate::view::wall::{Wall, is_kernel, name_of, place_names, running_paths};
use std::collections::BTreeMap;

/// Code in user space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotCode {
    /// A function of a file, by its name in the symbol table, as annotate takes it.
    Function(String),
    /// Code that a JIT compiler made: no file has it.
    Jit,
}

impl HotCode {
    /// The one with most own running time, functions without a name left out.
    pub(super) fn of(profile: &Profile, wall: &Wall) -> Option<Self> {
        let mut sums: BTreeMap<(Self, &str), u64> = BTreeMap::new();
        for (callsite, ns) in running_paths(profile, wall) {
            let frame = profile.callsites.of(callsite).frame;
            if let Some(code) = at(profile, frame).filter(|_| !is_kernel(profile, frame)) {
                sums.entry(code).or_default().grow(ns);
            }
        }
        sums.into_iter().max_by_key(|(_, ns)| *ns).map(|((code, _), _)| code)
    }
}

/// The function of user code with most running time of its own, inlined functions counted separately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotFunction {
    /// Name; the file in brackets for code without names.
    pub name: String,
    /// Line with most time, `parse.c:14`; for a function without a symbol the file it is in.
    pub at: Option<String>,
    /// Share of the samples' time, 0 to 1.
    pub share: f64,
}

impl HotFunction {
    /// The first row of the table of functions that is not the kernel's: one screen has both. And the function below
    /// which a good part more passes: the program's own that calls libraries, or the last of the hot path.
    pub(super) fn of(profile: &Profile) -> (Option<Self>, Option<Self>) {
        /// More of all time than in the function itself.
        const MORE: f64 = 0.2;
        let hot = hot_functions(profile, main_event(profile), MOST_FUNCTIONS);
        let Some(row) = hot.functions.iter().find(|row| row.dso != "[kernel]") else { return (None, None) };
        let at = if dso::is_unnamed_function(&row.name) { Some(row.dso.clone()) } else { row.line() };
        let hottest = Self { name: row.name.clone(), at, share: row.own };
        let own = hot.functions.iter().find(|row| row.calls_most);
        let own = own.map(|row| Self { name: row.name.clone(), at: row.line(), share: row.total });
        let last = hot.trunk_end.map(|(name, share)| Self { name, at: None, share });
        let below =
            own.or(last).filter(|below| below.name != hottest.name && below.share > hottest.share + MORE);
        (Some(hottest), below)
    }
}

/// The line of a frame's innermost function that [`place_names`] names, `parse.c:14`.
pub(super) fn line_of(profile: &Profile, frame: FrameId) -> Option<String> {
    let functions = profile.frame_names(frame);
    let named = place_names(profile, frame).count();
    line_text(profile, functions.get(functions.len().checked_sub(named)?)?)
}

/// The line in the frame's function of this name, itself or inlined; `None` if there is none.
pub(super) fn line_of_named(profile: &Profile, frame: FrameId, name: &str) -> Option<String> {
    let is_it = |of: &&InlineFrame| profile.strings.of(profile.symbols.of(of.symbol).name) == name;
    line_text(profile, profile.frame_names(frame).iter().find(is_it)?)
}

fn line_text(profile: &Profile, of: &InlineFrame) -> Option<String> {
    let file = profile.strings.of(of.file.filter(|_| of.line != 0)?);
    Some(format!("{}:{}", crate::machine::file_name(file), of.line))
}

/// The code of a frame, with the text that distinguishes functions of JIT code.
fn at(profile: &Profile, frame: FrameId) -> Option<(HotCode, &str)> {
    let name = name_of(profile, frame)?;
    let is_jit = matches!(profile.dsos.of(profile.frames.of(frame).dso).kind, DsoKind::PerfMap { .. });
    Some(if is_jit { (HotCode::Jit, name) } else { (HotCode::Function(name.to_owned()), "") })
}
