//! Python's global lock: which functions wait for it, and which run Python meanwhile.

use super::called;
use super::hot_stacks::most_first;
use crate::grow::Grow as _;
use crate::machine::language_runtime::leads_to_program;
use crate::off_cpu::WaitReason;
use crate::off_cpu::wait_names::wait_names;
use crate::off_cpu::work_waits::is_in_gil_code;
use crate::profile::Profile;
use crate::table::{CallsiteId, DsoKind, FrameId};
use crate::view::hot_functions::program_code::is_own;
use crate::view::wall::{Part, PlacedWait, name_of};
use std::collections::BTreeMap;

/// Python functions as in a sentence (`crunch() (work.py)`), with ns, most first. Empty without waits for the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GilFacts {
    /// Those that wait for the lock.
    pub waiters: Vec<(String, u64)>,
    /// Those that run, themselves or in what they call.
    pub runners: Vec<(String, u64)>,
}

impl GilFacts {
    /// From waits, and running time by path.
    pub(super) fn of(profile: &Profile, waits: &[PlacedWait], running: &[(CallsiteId, u64)]) -> Self {
        let for_gil = waits.iter().filter(|wait| wait.part == Part::Blocked(WaitReason::Gil));
        let waiters = sums(profile, for_gil.map(|wait| (wait.callsite, wait.ns)));
        if waiters.is_empty() {
            return Self::default();
        }
        let runs = running.iter().copied().filter(|(callsite, _)| {
            !is_in_gil_code(wait_names(profile, *callsite).into_iter().map(|(name, _)| name))
        });
        Self { waiters, runners: sums(profile, runs) }
    }

    /// `threads that wait are most often in a() (x.py), the running one in b() (x.py)`; empty where that is not known.
    pub(super) fn words(&self) -> String {
        match (most_often(&self.waiters), most_often(&self.runners)) {
            (Some(waits), Some(runs)) if waits == runs => {
                format!("the threads that wait and the running one are most often in {waits}")
            }
            (Some(waits), Some(runs)) => {
                format!("threads that wait are most often in {waits}, the running one in {runs}")
            }
            _ => String::new(),
        }
    }
}

/// The first, or the first two where they are nearly equal: `a() or b()`.
fn most_often(functions: &[(String, u64)]) -> Option<String> {
    let (first, most) = functions.first()?;
    let nearly = |(_, ns): &&(String, u64)| ns.saturating_mul(5) >= most.saturating_mul(4);
    Some(match functions.get(1).filter(nearly) {
        Some((second, _)) => format!("{} or {}", first.min(second), first.max(second)),
        None => first.clone(),
    })
}

fn sums(profile: &Profile, paths: impl Iterator<Item = (CallsiteId, u64)>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (callsite, ns) in paths {
        if let Some(function) = python_function(profile, callsite) {
            sums.entry(function).or_default().grow(ns);
        }
    }
    most_first(sums)
}

/// The innermost Python function of a path: of the program's own files if there is one, else of a library rather than of
/// what starts a thread.
fn python_function(profile: &Profile, callsite: CallsiteId) -> Option<String> {
    let is_python = |&frame: &_| profile.dsos.of(profile.frames.of(frame).dso).kind == DsoKind::Python;
    let frames: Vec<FrameId> = profile.callsites.leaf_first(callsite).filter(is_python).collect();
    let is_own = |&&frame: &&FrameId| is_own(profile, frame);
    if let Some(name) = frames.iter().find(is_own).and_then(|&frame| name_of(profile, frame)) {
        return Some(in_sentence(name));
    }
    let frames = frames.into_iter();
    let names: Vec<&str> = frames.filter_map(|frame| name_of(profile, frame)).collect();
    let of_program = names.iter().find(|name| !leads_to_program(name));
    of_program.or_else(|| names.first()).map(|name| in_sentence(name))
}

/// `crunch() (work.py)` of `crunch (work.py)`.
pub(super) fn in_sentence(name: &str) -> String {
    match name.rsplit_once(" (") {
        Some((_, file)) if file.ends_with(".py)") && !name.starts_with('<') => {
            format!("{} ({file}", called(name))
        }
        _ => called(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_function_keeps_its_file_in_a_sentence() {
        let names = ["Shop.price (shop.py)", "<module> (shop.py)", "parse"].map(in_sentence);
        assert_eq!(names, ["Shop.price() (shop.py)", "<module> (shop.py)", "parse()"]);
    }

    #[test]
    fn waiter_and_runner_are_named_where_both_are_known() {
        let of = |waiters: &[&str], runners: &[&str]| {
            let halved = (0..).map(|at| 100 >> at);
            let list =
                |names: &[&str]| names.iter().map(|name| (*name).to_owned()).zip(halved.clone()).collect();
            GilFacts { waiters: list(waiters), runners: list(runners) }.words()
        };
        assert_eq!(
            of(&["a()"], &["b()", "c()"]),
            "threads that wait are most often in a(), the running one in b()"
        );
        assert_eq!(of(&["a()"], &["a()"]), "the threads that wait and the running one are most often in a()");
        assert_eq!(of(&["a()"], &[]), "");
        let list = |all: [u64; 3]| ["b()", "a()", "c()"].map(str::to_owned).into_iter().zip(all).collect();
        let (waiters, runners) = (list([40, 39, 21]), list([50, 10, 1]));
        assert_eq!(
            GilFacts { waiters, runners }.words(),
            "threads that wait are most often in a() or b(), the running one in b()"
        );
    }
}
