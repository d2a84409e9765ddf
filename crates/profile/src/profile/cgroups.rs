//! Names of the cgroups that samples ran in.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{ExtraDimensions, Profile};
use crate::table::StringId;

/// Characters of a container's id that are shown, as container managers do.
const SHOWN_ID: usize = 12;

/// A cgroup by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupNames {
    /// Path below the hierarchy's mount.
    pub path: StringId,
    /// The container that it belongs to: its name where that is known, else the beginning of its id; or
    /// `[no container]`.
    pub container: StringId,
}

impl Profile {
    /// Takes in the path of a cgroup.
    pub fn name_cgroup(&mut self, id: u64, path: &str) {
        let container = dso::container_of_cgroup(path).unwrap_or("[no container]");
        let is_id = container.len() > 4 * SHOWN_ID;
        let shown = container.get(..SHOWN_ID).filter(|_| is_id).unwrap_or(container);
        let names = CgroupNames { path: self.strings.intern(path), container: self.strings.intern(shown) };
        self.cgroups.insert(id, names);
    }

    /// Gives the waits of a process before its first sample with a cgroup that one.
    pub(crate) fn complete_cgroups(&mut self) {
        let mut first = FxHashMap::default();
        for (key, _) in self.cells() {
            if let Some(id) = self.extra(key.extra).cgroup {
                first.entry(self.task(key.task).process).or_insert(id);
            }
        }
        if !first.is_empty() {
            self.change_extras(|task, extra| ExtraDimensions {
                cgroup: extra.cgroup.or_else(|| first.get(&task.process).copied()),
                ..extra.clone()
            });
        }
    }

    /// Replaces the ids of containers by their names, which are given by whole id.
    pub fn name_containers(&mut self, names: &BTreeMap<String, String>) {
        for known in self.cgroups.values_mut() {
            let name = dso::container_of_cgroup(self.strings.of(known.path)).and_then(|id| names.get(id));
            if let Some(name) = name.cloned() {
                known.container = self.strings.intern(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CellKey, ExtraId, Sums, Task, TaskId};
    use crate::table::CallsiteId;

    /// A cell of one period, of the process that `task` belongs to.
    fn add(profile: &mut Profile, task: TaskId, cgroup: Option<u64>) {
        let extra = profile.intern_extra(ExtraDimensions { cgroup, ..ExtraDimensions::default() });
        let key = CellKey { event: 0, task, cpu: -1, callsite: CallsiteId::from_index(0), extra };
        profile.add(key, Sums { period: 1, ..Sums::default() });
    }

    #[test]
    fn waits_before_the_first_sample_are_in_the_cgroup_of_the_process() {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("x");
        let [one, other] = [1, 2].map(|process| {
            let pid = i32::try_from(process).expect("small");
            profile.intern_task(Task { pid, tid: pid, process, comm })
        });
        for (task, cgroup) in [(one, None), (other, None), (one, Some(7)), (one, Some(8)), (one, Some(7))] {
            add(&mut profile, task, cgroup);
        }
        profile.complete_cgroups();
        let cells = profile.cells().iter();
        let cells: Vec<_> =
            cells.map(|(key, sums)| (key.task, profile.extra(key.extra).cgroup, sums.period)).collect();
        assert_eq!(cells, [(one, Some(7), 3), (other, None, 1), (one, Some(8), 1)]);
        assert_eq!(profile.cells()[1].0.extra, ExtraId::NONE);
    }

    #[test]
    fn a_cgroup_inside_a_container_has_its_short_id_or_its_name() {
        let id = "0123456789abcdef".repeat(4);
        let mut profile = Profile::default();
        profile.name_cgroup(7, &format!("/system.slice/docker-{id}.scope/init"));
        profile.name_cgroup(8, "/init.scope");
        let container =
            |profile: &Profile, group: u64| profile.strings.of(profile.cgroups[&group].container).to_owned();
        assert_eq!(container(&profile, 7), "0123456789ab");
        assert_eq!(container(&profile, 8), "[no container]");
        profile.name_containers(&BTreeMap::from([(id, "web".to_owned())]));
        assert_eq!(container(&profile, 7), "web");
    }
}
