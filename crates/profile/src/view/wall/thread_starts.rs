//! Names for threads that share one: by the function in which each began.

use super::idle::is_plumbing;
use super::own_code::own_code;
use super::{Classes, ThreadRow, is_c_library, is_kernel, is_thread_start, name_of, place_names};
use crate::grow::Grow as _;
use crate::machine::c_library::{THREAD_STARTS, is_unnamed_part};
use crate::machine::language_runtime::{leads_to_program, runtime_of};
use crate::profile::{Profile, TaskId};
use crate::table::{CallsiteId, FrameId};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;

/// The function of Go's thread that watches the others.
const GO_WATCHER: &str = "runtime.sysmon";

/// How Java's main thread begins.
const JAVA_PLUMBING: [&str; 5] = ["ThreadJavaMain", "JavaMain", "Interpreter", "call_stub", "StubRoutines"];

/// Finds the first function of threads that have the name of another one of their process. The first thread of a
/// process needs none: it runs the program's `main`.
pub(super) fn name_by_start(profile: &Profile, classes: &Classes, rows: &mut [ThreadRow]) {
    let mut shared: FxHashMap<(i32, &str), u32> = FxHashMap::default();
    for row in rows.iter() {
        *shared.entry((row.pid, row.comm.as_str())).or_default() += 1;
    }
    let is_alike = |row: &ThreadRow| row.tid != row.pid && shared[&(row.pid, row.comm.as_str())] > 1;
    let alike = rows.iter().enumerate().filter(|(_, row)| is_alike(row));
    let row_of: FxHashMap<TaskId, usize> =
        alike.flat_map(|(at, row)| row.tasks.iter().map(move |&task| (task, at))).collect();
    if row_of.is_empty() {
        return;
    }
    let mut starts: Vec<String> = Vec::new();
    let mut known: FxHashMap<CallsiteId, Option<usize>> = FxHashMap::default();
    let mut weights: FxHashMap<(usize, usize), u64> = FxHashMap::default();
    for class in classes.iter(profile) {
        let (Some(&at), Some(callsite)) = (row_of.get(&class.wait.task), class.wait.callsite) else {
            continue;
        };
        let start = known.entry(callsite).or_insert_with(|| {
            let name = start_function(profile, callsite)?;
            Some(starts.iter().position(|known| *known == name).unwrap_or_else(|| {
                starts.push(name);
                starts.len() - 1
            }))
        });
        if let Some(start) = *start {
            weights.entry((at, start)).or_default().grow(class.wait.weight_ns);
        }
    }
    // A runtime's own work before the given function is short.
    let mut by_weight: Vec<((usize, usize), u64)> = weights.into_iter().collect();
    by_weight.rank_by_key(|&((at, start), ns)| (at, ns, start));
    for ((at, start), _) in by_weight {
        rows[at].start = Some(starts[start].clone());
    }
}

/// Number of functions, outermost first, in which a C library without symbols begins a thread: two, or 0 if the stack
/// begins otherwise.
pub(crate) fn unnamed_starts(profile: &Profile, root_first: &[FrameId]) -> usize {
    let is_one = |frame: &FrameId| {
        let dso = profile.dsos.of(profile.frames.of(*frame).dso);
        match name_of(profile, *frame) {
            Some(name) => is_unnamed_part(name, &dso.short_name),
            None => is_c_library(&dso.short_name),
        }
    };
    let begins = root_first.get(..THREAD_STARTS).is_some_and(|frames| frames.iter().all(is_one));
    if begins { THREAD_STARTS } else { 0 }
}

/// The program's first function of a thread's stack; `None` if the stack doesn't reach the thread's start.
fn start_function(profile: &Profile, callsite: CallsiteId) -> Option<String> {
    let leaf_first = profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame));
    let mut frames: Vec<FrameId> = leaf_first.collect();
    frames.reverse();
    let is_start = |&frame: &FrameId| name_of(profile, frame).is_some_and(is_thread_start);
    if !frames.first().is_some_and(is_start) && unnamed_starts(profile, &frames) == 0 {
        return None;
    }
    let of_interpreter =
        |frame: FrameId| runtime_of(&profile.dsos.of(profile.frames.of(frame).dso).short_name).is_some();
    frames.retain(|&frame| !of_interpreter(frame));
    let names = own_code(profile, &frames).flat_map(|&frame| {
        let mut names: Vec<&str> = place_names(profile, frame).collect();
        names.reverse();
        names
    });
    first_own(names)
}

/// The first of these names, outermost first, that is a program's own.
fn first_own<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<String> {
    // Python's names end with their file.
    let without_file = |name: &'n str| match name.split_once(" (") {
        Some((function, _)) if name.ends_with(".py)") => function,
        _ => name,
    };
    let is_own = |name: &&str| {
        let is_start = is_thread_start(name) || is_plumbing(name) || leads_to_program(name);
        let is_start = is_start || JAVA_PLUMBING.iter().any(|begin| name.starts_with(begin));
        !is_start && !dso::is_unnamed_function(name)
    };
    let first = names.find(is_own).map(without_file)?;
    // All of Go's threads begin in its scheduler; only the one that watches the others does nothing else.
    if first.starts_with("runtime.") && first != GO_WATCHER {
        return None;
    }
    Some(
        given_closure(first)
            .unwrap_or_else(|| first.strip_suffix("::operator()").unwrap_or(first).to_owned()),
    )
}

/// The function that gave a Rust thread its closure, from a name without scopes, as programs with line tables only have
/// them: `{closure#1}<app::pool::start::{closure_env#0}, ()>` is std's function that calls it.
fn given_closure(name: &str) -> Option<String> {
    let (_, arguments) = name.strip_prefix("{closure#")?.split_once('<')?;
    let (path, _) = arguments.split_once("::{closure_env#")?;
    let parts = path.split("::").filter(|part| !part.starts_with("{impl#"));
    Some(parts.collect::<Vec<_>>().join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_after_the_function_it_was_given() {
        let name = |names: &[&'static str]| first_own(names.iter().copied());
        let named = |name: &str| Some(name.to_owned());
        let python = ["Thread._bootstrap_inner (threading.py)", "run (threading.py)", "feeder (jobs.py)"];
        assert_eq!(name(&python), named("feeder"));
        let member = ["std::thread::_State_impl<…>::_M_run", "Pool::worker", "poll"];
        assert_eq!(name(&member), named("Pool::worker"));
        let closure = "{closure#1}<app::pool::{impl#2}::start::{closure_env#0}, ()>";
        assert_eq!(name(&["std::thread::_Invoker", closure]), named("app::pool::start"));
        let lambda = ["std::thread::_Invoker", "main::{lambda#1}::operator()", "serve"];
        assert_eq!(name(&lambda), named("main::{lambda#1}"));
        let rust = ["std::sys::thread::unix::Thread::new::thread_start", "app::serve"];
        assert_eq!(name(&rust), named("app::serve"));
        assert_eq!(name(&["ThreadJavaMain", "Interpreter", "App.main"]), named("App.main"));
        let go = ["runtime/cgo(.text)", "runtime.mstart.abi0", "runtime.mstart1"];
        assert_eq!(name(&[&go[..], &["runtime.sysmon", "runtime.usleep"]].concat()), named("runtime.sysmon"));
        assert_eq!(name(&[&go[..], &["runtime.schedule", "runtime.stopm"]].concat()), None);
        assert_eq!(name(&["posix", "step"]), named("posix"));
        assert_eq!(name(&["std::thread::_Invoker"]), None);
    }
}
