//! The code that runs most, as a next command can show it.

use crate::grow::{Grow as _, GrownSum as _, ratio};
use crate::profile::Profile;
use crate::table::{CallsiteId, DsoKind, FrameId, InlineFrame};
use crate::view::hot_functions::program_code::is_own;
use crate::view::hot_functions::{MOST_FUNCTIONS, hot_functions, main_event};
use crate::view::ranking::RankRows as _;
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
    /// The same with the functions that it calls.
    pub total: f64,
    /// It is the program's own, and most of its time is in libraries, a runtime or the kernel.
    pub calls_most: bool,
    /// The nearest caller that a reader knows, if most of the time is below one such caller. For a function without a
    /// symbol: a caller in its file that has one. For a library's function: a function of the program itself.
    pub named_caller: Option<NamedCaller>,
    /// Where it has [`Self::calls_most`]: functions that it calls, with their shares of the samples' time, largest first.
    pub calls: Vec<(String, f64)>,
}

/// A caller by which a reader knows a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedCaller {
    /// Share of the function's time that passes below it, 0 to 1.
    pub share: f64,
    /// Name.
    pub name: String,
    /// Line of the call with most time, `parse.c:14`, if the debug information has it.
    pub at: Option<String>,
}

impl HotFunction {
    /// A good part of all time: so much more is below a function than in another, or in itself.
    pub(super) const MORE: f64 = 0.2;
    /// A function that calls all others doesn't show where the time goes.
    const NEARLY_ALL: f64 = 0.95;

    /// [`Self::at`] is a line of it.
    pub(super) fn has_lines(&self) -> bool {
        self.at.is_some() && !dso::is_unnamed_function(&self.name)
    }

    /// It is a library's, and one function of the program has most of it.
    pub(super) fn is_called_from_program(&self) -> bool {
        self.named_caller.is_some() && !dso::is_unnamed_function(&self.name)
    }

    /// Most of what passes in it is in functions that it calls.
    pub(super) fn calls_much(&self) -> bool {
        self.total > self.share + Self::MORE
    }

    /// The first row of the table of functions that is not the kernel's: one screen has both. And the function below
    /// which a good part more passes: the program's own that calls libraries, or the last of the hot path.
    pub(crate) fn of(profile: &Profile) -> (Option<Self>, Option<Self>) {
        let hot = hot_functions(profile, main_event(profile), MOST_FUNCTIONS);
        let Some(row) = hot.functions.iter().find(|row| row.dso != "[kernel]") else { return (None, None) };
        let is_unnamed = dso::is_unnamed_function(&row.name);
        let at = if is_unnamed { Some(row.dso.clone()) } else { row.line() };
        let own = hot.functions.iter().find(|row| row.calls_most);
        let (mut callers, mut calls) =
            (NamedCallers::of(&row.name), MainCalls::of(own.map(|of| of.name.as_str())));
        let event = main_event(profile);
        for (key, cell) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
            callers.add(profile, key.callsite, cell.period);
            calls.add(profile, key.callsite, cell.period);
        }
        let hottest = Self {
            name: row.name.clone(),
            at,
            share: row.own,
            total: row.total,
            named_caller: callers.most(profile),
            ..Self::default()
        };
        let own = own.map(|row| Self {
            name: row.name.clone(),
            at: row.line(),
            share: row.total,
            total: row.total,
            calls_most: true,
            calls: calls.most(),
            ..Self::default()
        });
        // Nearly all of a compiler's time is below its `toplev::main`: that leads nowhere.
        let last = hot.trunk_end.filter(|(_, share)| *share < Self::NEARLY_ALL).map(|(name, share)| Self {
            name,
            share,
            total: share,
            ..Self::default()
        });
        let below = own
            .or(last)
            .filter(|below| below.name != hottest.name && below.share > hottest.share + Self::MORE);
        (Some(hottest), below)
    }
}

/// Nearest callers of one function that a reader knows, with the time below each.
struct NamedCallers<'p> {
    function: &'p str,
    is_unnamed: bool,
    /// The function is the program's own: it needs no caller.
    is_own: bool,
    all: u64,
    sums: BTreeMap<&'p str, BTreeMap<FrameId, u64>>,
}

impl<'p> NamedCallers<'p> {
    fn of(function: &'p str) -> Self {
        let is_unnamed = dso::is_unnamed_function(function);
        Self { function, is_unnamed, is_own: false, all: 0, sums: BTreeMap::new() }
    }

    fn add(&mut self, profile: &'p Profile, callsite: CallsiteId, period: u64) {
        let mut frames = profile.callsites.leaf_first(callsite);
        let Some(leaf) = frames.next().filter(|&leaf| name_of(profile, leaf) == Some(self.function)) else {
            return;
        };
        self.all.grow(period);
        self.is_own |= !self.is_unnamed && is_own(profile, leaf);
        let is_named =
            |&frame: &FrameId| name_of(profile, frame).is_some_and(|name| !dso::is_unnamed_function(name));
        let dso = |frame: FrameId| profile.frames.of(frame).dso;
        let caller = match self.is_unnamed {
            true => frames.find(is_named).filter(|&caller| dso(caller) == dso(leaf)),
            false => frames.find(|frame| is_named(frame) && is_own(profile, *frame)),
        };
        if let Some((name, caller)) = caller.and_then(|caller| Some((name_of(profile, caller)?, caller))) {
            self.sums.entry(name).or_default().entry(caller).or_default().grow(period);
        }
    }

    /// The one of [`HotFunction::named_caller`], below which the function spends more than half of its time.
    fn most(self, profile: &Profile) -> Option<NamedCaller> {
        let sum = |calls: &BTreeMap<FrameId, u64>| calls.values().copied().grown_sum();
        let (name, calls) = self.sums.into_iter().max_by_key(|(_, calls)| sum(calls))?;
        let at = calls.iter().max_by_key(|(_, ns)| **ns).and_then(|(call, _)| line_of(profile, *call));
        let is_most = sum(&calls) > self.all / 2 && !self.is_own;
        is_most.then(|| NamedCaller { share: ratio(sum(&calls), self.all), name: name.to_owned(), at })
    }
}

/// Functions that one function calls, with the time of each; of none without such a function.
struct MainCalls<'p> {
    function: Option<&'p str>,
    all: u64,
    sums: BTreeMap<&'p str, u64>,
}

impl<'p> MainCalls<'p> {
    fn of(function: Option<&'p str>) -> Self {
        Self { function, all: 0, sums: BTreeMap::new() }
    }

    fn add(&mut self, profile: &'p Profile, callsite: CallsiteId, period: u64) {
        let Some(function) = self.function else { return };
        self.all.grow(period);
        let frames = profile.callsites.leaf_first(callsite);
        if let Some(call) = call_of(frames.filter_map(|frame| name_of(profile, frame)), function) {
            self.sums.entry(call).or_default().grow(period);
        }
    }

    /// Those with most, each with at least a twentieth of all time.
    fn most(self) -> Vec<(String, f64)> {
        const LEAST: f64 = 0.05;
        const MOST_CALLS: usize = 3;
        let all = self.all.max(1) as f64;
        let share = |(name, sum): (&str, u64)| (name.to_owned(), sum as f64 / all);
        let mut calls: Vec<(String, f64)> =
            self.sums.into_iter().map(share).filter(|(_, share)| *share >= LEAST).collect();
        calls.rank_by(|a, b| b.1.total_cmp(&a.1));
        calls.truncate(MOST_CALLS);
        calls
    }
}

/// The function that `function` has called in a stack of `names`, leaf first: the first that a reader knows below its
/// innermost call.
fn call_of<'n>(names: impl Iterator<Item = &'n str>, function: &str) -> Option<&'n str> {
    let mut nearest = None;
    for name in names {
        if name == function {
            return nearest;
        }
        nearest = known_call(name).or(nearest);
    }
    None
}

/// The name without a runtime's prefix; `None` for code without a name, and for steps between JavaScript and C++.
fn known_call(name: &str) -> Option<&str> {
    const STEPS: [&str; 6] =
        ["CEntry_", "AdaptorWithBuiltinExitFrame", "Call", "Construct", "InterpreterEntry", "JSEntry"];
    let of_builtin = name.strip_prefix("Builtins_").or_else(|| name.strip_prefix("v8::internal::Builtin_"));
    match of_builtin {
        Some(builtin) => (!STEPS.iter().any(|step| builtin.starts_with(step))).then_some(builtin),
        None => (!name.starts_with('[') && !dso::is_unnamed_function(name)).then_some(name),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_the_first_known_function_below_the_innermost_call() {
        let parse =
            ["grow", "v8::internal::Builtin_JsonParse", "Builtins_CEntry_Return1", "JS:f a.js:1", "main"];
        let call = |names: &[&'static str], function| call_of(names.iter().copied(), function);
        assert_eq!(call(&parse, "JS:f a.js:1"), Some("JsonParse"));
        assert_eq!(call(&["memset", "clear", "clear", "main"], "clear"), Some("memset"));
        assert_eq!(call(&["clear", "main"], "clear"), None);
        assert_eq!(call(&["[node]", "function 0x10", "clear"], "clear"), None);
        assert_eq!(call(&["memset", "main"], "clear"), None);
    }
}
