//! Names of threads that ended waits and aren't in the recording: a waker has one only where its stack was taken, too.

use super::Wait;
use crate::table::{StringId, StringTable};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Gives wakers without a name the one that another wait has for the same thread.
pub(crate) fn name_others(waits: &mut [Wait], strings: &StringTable, recorded: &BTreeMap<i32, StringId>) {
    let mut names: FxHashMap<u32, StringId> = FxHashMap::default();
    let others = waits.iter().filter_map(|wait| wait.other).filter(|other| other.tid != 0);
    for other in others.filter(|other| !strings.of(other.comm).is_empty()) {
        names.insert(other.tid, other.comm);
    }
    for other in waits.iter_mut().filter_map(|wait| wait.other.as_mut()) {
        let is_recorded = i32::try_from(other.tid).is_ok_and(|tid| recorded.contains_key(&tid));
        if let Some(&name) = names.get(&other.tid).filter(|_| !is_recorded) {
            other.comm = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::RelatedThread;
    use crate::profile::TaskId;

    #[test]
    fn a_waker_without_name_has_that_of_another_wait() {
        let mut strings = StringTable::default();
        let (none, curl) = (strings.intern(""), strings.intern("curl"));
        let by = |tid, comm| Wait {
            other: Some(RelatedThread { pid: tid, tid, comm, callsite: None }),
            ..Wait::of(TaskId::from_index(0))
        };
        let mut waits = [by(5, none), by(5, curl), by(6, none), by(7, curl), by(7, none)];
        let recorded = BTreeMap::from([(7, curl)]);
        name_others(&mut waits, &strings, &recorded);
        let names: Vec<&str> =
            waits.iter().filter_map(|wait| wait.other).map(|other| strings.of(other.comm)).collect();
        assert_eq!(names, ["curl", "curl", "", "curl", ""]);
    }
}
