//! Names of the user functions of a wait, from which its purpose is found.

use crate::machine::c_library::{THREAD_STARTS, is_c_library, is_thread_start};
use crate::machine::language_runtime::runtime_of;
use crate::off_cpu::known_lock::TAKE_GIL;
use crate::off_cpu::work_waits::{WAITS_FOR_TEAM, is_locking};
use crate::profile::Profile;
use crate::table::CallsiteId;

/// A function of a stripped file, or of one that is gone.
pub(crate) const UNNAMED: &str = "[no name]";

/// The ways to wait on a condition.
const CONDITION_WAITS: &[&str] = &[
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_cond_clockwait",
    "__pthread_cond_",
    "___pthread_cond_",
];

/// The name given to functions of a stripped C library between a wait and the first function with a name: with them its
/// locks, conditions and semaphores call the kernel.
const CALLS_KERNEL: &str = "__internal_syscall_cancel";
/// The same where the program calls them, by no function of the library with a name: semaphores and joins of threads,
/// whose functions end in a jump to the one that waits.
const AWAITS: &str = "__new_sem_wait_slow64";
/// Functions of OpenMP's libraries (GCC's libgomp, LLVM's and Intel's libomp) that wait for all threads of a team, by how
/// their names begin.
const TEAM_CALLS: &[&str] = &[
    "GOMP_parallel",
    "GOMP_barrier",
    "GOMP_loop_end",
    "GOMP_sections_end",
    "GOMP_taskwait",
    "__kmpc_barrier",
    "__kmpc_cancel_barrier",
    "__kmpc_fork_call",
    "__kmpc_reduce",
    "__kmpc_end_reduce",
    "__kmpc_omp_taskwait",
    "__kmpc_end_taskgroup",
];
/// The name given to the outermost functions of a stripped C library: it begins threads in two functions.
const STARTS_THREAD: &str = "start_thread";
/// The function of the library that calls `main`.
const CALLS_MAIN: &str = "__libc_start_call_main";

/// User functions of a path, leaf first, each with whether it is in a shared library.
///
/// A C library without symbols of its own, as most systems have it, gets names where its part is known: in front of a
/// wait, and where threads begin. CPython waits on conditions for its own lock only; locks of programs are semaphores.
/// So the function of a stripped interpreter that calls a condition's wait has the name that it has in others.
pub(crate) fn wait_names(profile: &Profile, callsite: CallsiteId) -> Vec<(&str, bool)> {
    let mut named: Vec<(&str, bool)> = Vec::new();
    let (mut in_libc, mut in_openmp) = (Vec::new(), Vec::new());
    for frame in profile.callsites.leaf_first(callsite) {
        let dso = profile.dsos.of(profile.frames.of(frame).dso);
        if dso.kind.is_kernel() {
            continue;
        }
        let symbol = profile.frame_names(frame).last().map(|function| function.symbol);
        let name = symbol.map_or(UNNAMED, |symbol| profile.strings.of(profile.symbols.of(symbol).name));
        let callee = named.last().map_or("", |(name, _)| name);
        let name = in_interpreter(name, &dso.short_name, callee).unwrap_or(name);
        named.push((name, dso.short_name.contains(".so")));
        in_libc.push(is_c_library(&dso.short_name));
        in_openmp.push(is_openmp(&dso.short_name));
    }
    name_ends(&mut named, &in_libc);
    name_team_waits(&mut named, &in_openmp);
    named
}

/// Names the innermost and the outermost functions of a C library that have none, and the one that calls `main`.
fn name_ends(named: &mut [(&str, bool)], in_libc: &[bool]) {
    let unnamed_in_libc: Vec<bool> =
        named.iter().zip(in_libc).map(|((name, _), in_libc)| *in_libc && is_unnamed(name)).collect();
    let run = |flags: &mut dyn Iterator<Item = &bool>| flags.take_while(|is| **is).count();
    let inner = run(&mut unnamed_in_libc.iter());
    let outer = run(&mut unnamed_in_libc.iter().rev()).min(THREAD_STARTS).min(named.len() - inner);
    let how = if in_libc.get(inner) == Some(&false) { AWAITS } else { CALLS_KERNEL };
    named[..inner].iter_mut().for_each(|(name, _)| *name = how);
    named.iter_mut().rev().take(outer).for_each(|(name, _)| *name = STARTS_THREAD);
    let start = named.iter().rposition(|(name, _)| name.starts_with("__libc_start_main"));
    if let Some(at) = start.and_then(|start| start.checked_sub(1)).filter(|&at| unnamed_in_libc[at]) {
        named[at].0 = CALLS_MAIN;
    }
}

/// True for a library of OpenMP, by its short name.
fn is_openmp(short_name: &str) -> bool {
    let of_llvm = |rest: &str| rest.starts_with(['.', '-', '5']);
    short_name.starts_with("libgomp.so")
        || ["libomp", "libiomp"].iter().any(|begin| short_name.strip_prefix(begin).is_some_and(of_llvm))
}

/// True for a function of such a library in which a program waits for the other threads of a team.
pub(crate) fn is_call_of_openmp(name: &str) -> bool {
    name == WAITS_FOR_TEAM || TEAM_CALLS.iter().any(|call| name.starts_with(call))
}

/// Names the functions in which threads of OpenMP wait for their team, or for the next parallel part: those inside of the
/// library's thread function, or of one that the program calls for it. LLVM's library waits on a condition.
fn name_team_waits(named: &mut [(&str, bool)], in_openmp: &[bool]) {
    let is_how = |(at, is): (usize, &bool)| !is && is_locking(named[at].0);
    let first = in_openmp.iter().enumerate().take_while(|&of| is_how(of)).count();
    let Some(last) = in_openmp[first..].iter().take_while(|is| **is).count().checked_sub(1) else { return };
    let outermost = first + last;
    let is_of_thread = named.get(outermost + 1).is_none_or(|(name, _)| is_thread_start(name));
    if is_of_thread || is_call_of_openmp(named[outermost].0) {
        named[first..outermost.max(first + 1)].iter_mut().for_each(|(name, _)| *name = WAITS_FOR_TEAM);
    }
}

fn is_unnamed(name: &str) -> bool {
    name == UNNAMED || dso::is_unnamed_function(name)
}

/// The name of a stripped interpreter's function that calls `callee`.
fn in_interpreter(name: &str, dso: &str, callee: &str) -> Option<&'static str> {
    let waits = CONDITION_WAITS.iter().any(|begin| callee.starts_with(begin));
    (is_unnamed(name) && waits && runtime_of(dso) == Some("python")).then_some(TAKE_GIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripped_c_library_has_names_before_a_wait_and_where_threads_begin() {
        let library = [true, true, true, false, true, true];
        let mut named =
            ["function 0x1", UNNAMED, "pthread_cond_wait", "take", "function 0x2", "function 0x3"]
                .map(|name| (name, true));
        name_ends(&mut named, &library);
        let names = named.map(|(name, _)| name);
        assert_eq!(
            names,
            [CALLS_KERNEL, CALLS_KERNEL, "pthread_cond_wait", "take", STARTS_THREAD, STARTS_THREAD]
        );
        assert!(crate::off_cpu::work_waits::waits_for_work(names).is_some());
        // A join has no function with a name in the library, a lock of the library's own has one that isn't a lock's.
        let inner_name = |callee: &'static str, in_library| {
            let mut named = ["function 0x1", callee].map(|name| (name, true));
            name_ends(&mut named, &[true, in_library]);
            named[0].0
        };
        assert_eq!((inner_name("main", false), inner_name("random", true)), (AWAITS, CALLS_KERNEL));
        let joins = [AWAITS, "main", CALLS_MAIN, "__libc_start_main", "_start"];
        assert!(crate::off_cpu::work_waits::waits_for_work(joins).is_some());
        // A stack that was cut off inside of the library has no outermost function.
        let mut cut = [("function 0x1", true)];
        name_ends(&mut cut, &[true]);
        assert_eq!(cut[0].0, CALLS_KERNEL);
        name_ends(&mut [], &[]);
        let mut main = ["poll", "main", "function 0x1", "__libc_start_main@@GLIBC_2.34", "_start"]
            .map(|name| (name, true));
        name_ends(&mut main, &[true, false, true, true, false]);
        assert_eq!(main[2].0, CALLS_MAIN);
    }

    #[test]
    fn threads_of_openmp_wait_for_their_team_unless_the_program_takes_a_lock() {
        let of = |names: &[&'static str], openmp: usize| {
            let mut named: Vec<(&str, bool)> = names.iter().map(|name| (*name, true)).collect();
            let in_openmp: Vec<bool> = (0..named.len()).map(|at| at < openmp).collect();
            name_team_waits(&mut named, &in_openmp);
            named[0].0
        };
        let worker = ["function 0x1", "function 0x2", "start_thread", "clone3"];
        assert_eq!(of(&worker, 2), WAITS_FOR_TEAM);
        assert_eq!(of(&["function 0x1", "GOMP_parallel_end", "main"], 2), WAITS_FOR_TEAM);
        assert_eq!(of(&["function 0x1", "main._omp_fn.1", "GOMP_parallel"], 1), "function 0x1");
        assert_eq!(of(&["poll", "main"], 0), "poll");
        let of_llvm = |names: [&'static str; 4]| {
            let mut named = names.map(|name| (name, true));
            name_team_waits(&mut named, &[false, true, true, false]);
            named.map(|(name, _)| name)
        };
        let barrier = ["pthread_cond_wait", "function 0x1", "__kmpc_barrier", ".omp_outlined."];
        assert_eq!(of_llvm(barrier), [barrier[0], WAITS_FOR_TEAM, barrier[2], barrier[3]]);
        let next_part = ["pthread_cond_wait", "function 0x1", "function 0x2", "start_thread"];
        assert_eq!(of_llvm(next_part)[1], WAITS_FOR_TEAM);
        let critical = ["pthread_cond_wait", "function 0x1", "__kmpc_critical", ".omp_outlined."];
        assert_eq!(of_llvm(critical), critical);
        let files = ["libomp.so.5", "libomp-14.so.5", "libiomp5.so", "libgomp.so.1.0.0", "libompd.so"];
        assert_eq!(files.map(is_openmp), [true, true, true, true, false]);
        let waits = [WAITS_FOR_TEAM, "function 0x2", "start_thread", "clone3"];
        assert_eq!(crate::off_cpu::work_waits::waits_for_work(waits), Some(0));
    }

    #[test]
    fn a_stripped_interpreter_waits_on_a_condition_for_its_own_lock() {
        let timed = "pthread_cond_timedwait@@GLIBC_2.3.2";
        assert_eq!(in_interpreter("function 0x4f92c0", "python3.11", timed), Some(TAKE_GIL));
        assert_eq!(in_interpreter(UNNAMED, "libpython3.11.so.1.0", timed), Some(TAKE_GIL));
        // A lock of the program, an interpreter with symbols, and a library that Python loaded.
        assert_eq!(in_interpreter("function 0x57cdc0", "python3.11", "__new_sem_wait_slow64"), None);
        assert_eq!(in_interpreter("take_gil", "python3.11", timed), None);
        assert_eq!(in_interpreter("function 0x1000", "_zmq.so", timed), None);
    }
}
