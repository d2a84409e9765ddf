//! Names of the user functions of a wait, from which its purpose is found.

use crate::machine::language_runtime::runtime_of;
use crate::off_cpu::known_lock::TAKE_GIL;
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

/// User functions of a path, leaf first, each with whether it is in a shared library.
///
/// CPython waits on conditions for its own lock only; locks of programs are semaphores. So the function of a stripped
/// interpreter that calls a condition's wait has the name that it has in others.
pub(crate) fn wait_names(profile: &Profile, callsite: CallsiteId) -> Vec<(&str, bool)> {
    let mut named: Vec<(&str, bool)> = Vec::new();
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
    }
    named
}

/// The name of a stripped interpreter's function that calls `callee`.
fn in_interpreter(name: &str, dso: &str, callee: &str) -> Option<&'static str> {
    let is_unnamed = name == UNNAMED || dso::is_unnamed_function(name);
    let waits = CONDITION_WAITS.iter().any(|begin| callee.starts_with(begin));
    (is_unnamed && waits && runtime_of(dso) == Some("python")).then_some(TAKE_GIL)
}

#[cfg(test)]
mod tests {
    use super::*;

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
